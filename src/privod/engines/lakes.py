"""Which files make up a table that stays in place: Parquet, a Delta version, an Iceberg snapshot.

What rows live is said by the log of a table, which the package of its format reads. What files
alone do not tell is refused with a way out (docs/engines.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from privod.data.domain import Domain
from privod.data.sources import hive_values, parquet_files, told_of_file
from privod.engines.duckdb_table import look_up_table
from privod.engines.in_place import Place, about_file
from privod.engines.source import Engine
from privod.errors import InvalidData, InvalidParameter, PrivodError, Unavailable

COPY = "Or register a copy: leave out --in-place."
READER_FEATURES = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}  # rows are the files'
Files = list[tuple[Path, Mapping[str, Any]]]


@dataclass(frozen=True)
class InPlace:
    """Rows that are registered where they lie, without a copy.

    A Parquet file or a folder of them; "delta:FOLDER" or "delta:FOLDER@VERSION";
    "iceberg:FILE.metadata.json" or "iceberg:CATALOG/TABLE", each with "@SNAPSHOT" if it is not the
    current one; "duckdb:FILE#TABLE"; or "spark:TABLE" of the engine's catalog.
    """

    where: str

    def __post_init__(self) -> None:
        scheme = urlsplit(self.where).scheme
        if scheme.startswith("postgres"):
            rule = "must be a table that does not change under its readers"
            way_out = (
                "Every insert would change the rows, fail all answers and tell analysts so."
                " Register a copy with --sql and --from."
            )
            raise InvalidParameter("in_place", rule, f"{scheme}://...", way_out)
        if self.where.endswith((".csv", ".sqlite", ".sqlite3", ".db")):
            rule = "must be Parquet, Delta, Iceberg, DuckDB or Spark"
            raise InvalidParameter("in_place", rule, self.where, COPY)

    def look_up(self, domain: Domain, engine: Engine | None = None) -> Place:
        """Find the table and what reading it takes; no row is read."""
        kind, mark, rest = self.where.partition(":")
        if kind == "spark" and mark:
            from privod.engines.spark_cluster import look_up_spark

            return look_up_spark(rest, domain, engine)
        if not mark or kind not in _KINDS:
            kind, rest = "parquet", self.where
        return _KINDS[kind](rest, domain)


def _place(kind: str, table: str, files: Files, domain: Domain) -> Place:
    undeclared = {name for _, values in files for name in values} - set(domain.names)
    undeclared -= {domain.person}
    if undeclared:
        raise InvalidData(
            f"The folders of the table name columns that its domain does not declare:"
            f" {', '.join(sorted(undeclared))}. Folders of versions or of deleted rows would be"
            f" counted, too. Declare these columns. {COPY}"
        )
    found = []
    for path, values in files:
        with told_of_file(path):
            found.append(about_file(path, values, domain))
    if not found:
        raise InvalidData("The table has no files, so nothing can be registered.")
    n_rows = sum(rows for file in found for rows in file["rows"])
    return Place(kind, f"{kind}:{table}", {"files": found, "rows": n_rows})


def _parquet(where: str, domain: Domain) -> Place:
    path = Path(where)
    for sign, kind in (("_delta_log", "delta"), ("metadata/*.metadata.json", "iceberg")):
        if path.is_dir() and next(path.rglob(sign), None) is not None:
            raise InvalidData(
                f"The folder holds a table of {kind.title()}: its files hold rows that were"
                f" deleted or replaced. Write {kind}: and the table's place after --in-place."
            )
    files: Files = [
        (each, hive_values(each.relative_to(path)) if path.is_dir() else {})
        for each in parquet_files(path)
    ]
    return _place("parquet", str(path.resolve()), files, domain)


@contextmanager
def _told(kind: str, where: str) -> Iterator[None]:
    try:
        yield
    except PrivodError:
        raise
    except ImportError:
        package = kind.lower()
        raise Unavailable(f"Install privod[{package}] to read tables of {kind}.") from None
    except Exception:  # of whatever reader it is; its words may quote a value
        raise InvalidData(
            f"There is no table of {kind} at {where!r} that can be read, or not in this version."
            f" Check its place and version. {COPY}"
        ) from None


def _versioned(where: str) -> tuple[str, int | None]:
    place, mark, version = where.rpartition("@")
    return (place, int(version)) if mark and version.isdecimal() else (where, None)


def _refuse_hidden(kind: str, what: str, way_out: str) -> None:
    raise InvalidData(f"The table of {kind} has {what}, which its files do not tell. {way_out}")


def _delta(where: str, domain: Domain) -> Place:
    place, version = _versioned(where)
    with _told("Delta", where):
        from deltalake import DeltaTable

        table = DeltaTable(place, version=version)
        features = set(table.protocol().reader_features or ()) - READER_FEATURES
        if (
            features
            or table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none"
        ):
            _refuse_hidden(
                "Delta",
                "deletion vectors or mapped columns",
                f"Run REORG TABLE ... APPLY (PURGE) and drop the feature. {COPY}",
            )
        actions = table.get_add_actions(flatten=True)
        names = actions.schema.names
        columns = {name: actions.column(name).to_pylist() for name in names}
        values = {
            name.removeprefix("partition."): columns[name]
            for name in names
            if name.startswith("partition.")
        }
        files: Files = [
            (Path(place) / unquote(path), {name: _text(some[row]) for name, some in values.items()})
            for row, path in enumerate(columns["path"])
        ]
        files.sort(key=lambda file: file[0].parts)
        return _place("delta", str(table.metadata().id), files, domain)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _iceberg(where: str, domain: Domain) -> Place:
    place, snapshot = _versioned(where)
    with _told("Iceberg", where):
        from pyiceberg.catalog import load_catalog
        from pyiceberg.table import StaticTable

        table: Any
        if Path(place).exists():
            table = StaticTable.from_metadata(str(Path(place).resolve()))
        else:
            catalog, _, name = place.partition("/")
            table = load_catalog(catalog).load_table(name)
        fields = {
            (field.field_id, field.name) for each in table.metadata.schemas for field in each.fields
        }
        if len(fields) != len({key for key, _ in fields}) or len(fields) != len(
            {name for _, name in fields}
        ):
            _refuse_hidden("Iceberg", "columns that were renamed or added again", COPY)
        if snapshot is not None and table.snapshot_by_id(snapshot) is None:
            raise LookupError
        tasks = list(table.scan(snapshot_id=snapshot).plan_files())
        if any(task.delete_files for task in tasks):
            _refuse_hidden("Iceberg", "delete files", f"Compact it (rewrite_data_files). {COPY}")
        files: Files = sorted(
            (Path(unquote(urlsplit(task.file.file_path).path)), {}) for task in tasks
        )
        return _place("iceberg", str(table.metadata.table_uuid), files, domain)


_KINDS: dict[str, Callable[[str, Domain], Place]] = {
    "parquet": _parquet,
    "delta": _delta,
    "iceberg": _iceberg,
    "duckdb": look_up_table,
}
