"""Where do records come from? Files, frames, queries: portions of Arrow columns, in order.

Only declared columns are ever read. What a reader complains about is a file's form and its columns'
types; a cell that does not fit is a missing value, whoever's it is. In a CSV file an empty cell is
missing; "NA" or "null" is a text like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from privod.data.cells import PLAIN, Marks
from privod.data.csv_file import (
    SEPARATORS,
    CsvBytes,
    CsvDialect,
    CsvSource,
    LineTally,
    csv_batches,
    csv_header,
    other_reading,
)
from privod.data.domain import Domain
from privod.data.intake import Intake, IntakeReport, absent_columns, arrow_columns, wanted_of
from privod.data.sql import SqlQuery, sql_portions
from privod.data.table import Table
from privod.errors import InvalidData, InvalidParameter, Unavailable

__all__ = ["CsvDialect", "check_file", "check_named_once", "check_names", "hive_values"]
__all__ += ["parquet_files", "portions_of", "read", "read_with_report", "told_of_file"]
__all__ += ["write_parquet"]

ROWS_AT_ONCE = 1 << 16
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
Columns = Mapping[str, pa.Array]


def read(source: Any, domain: Domain, dialect: CsvDialect | None = None) -> Table:
    """Read the domain's columns from a source.

    Parameters
    ----------
    source : path, frame, query or mapping
        A path ending in .csv or .parquet, or of a folder of Parquet files, read in the order of
        their names; a frame of pandas, polars (lazy ones too) or pyarrow, or any stream of Arrow
        batches; a query in a database (`SqlQuery`); or a mapping of column names to arrays.
    domain : Domain
        What is public; columns it does not name are not read.
    dialect : CsvDialect, optional
        How a CSV file is written, if not with commas, points and in UTF-8. The number format is
        that of texts in other sources too.
    """
    return read_with_report(source, domain, dialect)[0]


def read_with_report(
    source: Any, domain: Domain, dialect: CsvDialect | None = None
) -> tuple[Table, IntakeReport]:
    """Read as `read` does, and say what became of the records: for the owner alone."""
    intake, lines = Intake(domain, dialect), LineTally()
    portions = [intake.take(columns) for columns in portions_of(source, domain, dialect, lines)]
    table = Table.of_portions(domain, portions)
    return table, intake.report(len(table), lines)


def write_parquet(table: Table, path: Path) -> None:
    """Write a table's rows so that `read` makes an equal table of them."""
    pa_parquet.write_table(pa.table(table.columns()), path, compression="zstd")


def portions_of(
    source: Any, domain: Domain, dialect: CsvDialect | None, lines: LineTally
) -> Iterator[Columns]:
    """The declared columns of a source as they are there, a bounded number of records at a time."""
    marks = PLAIN if dialect is None else dialect.marks
    if isinstance(source, str | Path):
        return _from_file(Path(source), domain, dialect or CsvDialect(), lines)
    if isinstance(source, CsvBytes):
        return _from_csv(source, domain, dialect or CsvDialect(), lines)
    if isinstance(source, SqlQuery):
        return sql_portions(source, domain, marks, ROWS_AT_ONCE, check_names)
    if isinstance(source, Table):
        if marks != PLAIN:
            raise InvalidParameter("dialect", "is not for a table", dialect, "Leave it out.")
        return iter([arrow_columns(source.columns(), domain)])
    if isinstance(source, Mapping):
        return iter([arrow_columns(source, domain, marks)])
    package = type(source).__module__.split(".")[0]  # neither is imported for it
    if package == "pandas" and hasattr(source, "iloc"):
        return _from_pandas(source, domain, marks)
    if package == "polars" and hasattr(source, "collect_schema"):
        return _from_polars(source, domain, marks)
    if isinstance(source, pa.RecordBatch):
        source = pa.table(source)
    if hasattr(source, "__arrow_c_stream__"):
        return _from_stream(source, domain)
    way_out = "Give a path to a .csv or .parquet file, a pandas, polars or Arrow frame, or a dict."
    raise InvalidParameter("source", "must be a file, a frame or a mapping", type(source), way_out)


# ---- frames --------------------------------------------------------------------------------------


def _from_pandas(frame: Any, domain: Domain, marks: Marks) -> Iterator[Columns]:
    names = [str(name) for name in frame.columns]  # which pandas lets be numbers as well
    check_names(names, domain)
    places = {name: names.index(name) for name in wanted_of(domain)}
    for start in range(0, max(len(frame), 1), ROWS_AT_ONCE):
        some = frame.iloc[start : start + ROWS_AT_ONCE]
        columns = {name: some.iloc[:, place] for name, place in places.items()}
        yield arrow_columns(columns, domain, marks)


def _from_polars(frame: Any, domain: Domain, marks: Marks) -> Iterator[Columns]:
    check_names(frame.collect_schema().names(), domain)
    some = frame.select(wanted_of(domain))
    for part in _collected(some) if hasattr(some, "collect") else [some]:
        for few in part.iter_slices(ROWS_AT_ONCE):
            yield arrow_columns({name: few[name] for name in wanted_of(domain)}, domain, marks)


def _collected(lazy: Any) -> Iterator[Any]:
    """The rows of a lazy frame in their order, batch by batch where this polars can."""
    try:
        if hasattr(lazy, "collect_batches"):
            yield from lazy.collect_batches(maintain_order=True)
        else:
            yield lazy.collect(engine="streaming")
    except MemoryError:
        raise Unavailable("There is not enough memory to collect the lazy frame.") from None
    except Exception:  # its message may quote a row
        raise InvalidData(
            "The lazy frame cannot be collected. Collect it, and see what polars says."
        ) from None


def _from_stream(source: Any, domain: Domain) -> Iterator[Columns]:
    if isinstance(source, pa.Table):
        check_names(source.column_names, domain)
        source = source.select(wanted_of(domain))
    try:
        stream = pa.RecordBatchReader.from_stream(source)
        check_names(stream.schema.names, domain)
        yield from _cut(stream, domain)
    except MemoryError:
        raise Unavailable(
            "There is not enough memory to read the stream. Free some, or use a larger machine."
        ) from None
    except (pa.ArrowException, OSError):  # whose words may quote what the source stumbled over
        raise InvalidData(
            "The stream ended with an error of its source. Nothing was registered; look there."
        ) from None


def _cut(batches: Any, domain: Domain) -> Iterator[Columns]:
    for batch in batches:
        for start in range(0, len(batch), ROWS_AT_ONCE):
            some = batch.slice(start, ROWS_AT_ONCE)
            yield {name: some.column(name) for name in wanted_of(domain)}


# ---- files ---------------------------------------------------------------------------------------


def _from_file(
    path: Path, domain: Domain, dialect: CsvDialect, lines: LineTally
) -> Iterator[Columns]:
    if path.is_dir():
        for file in parquet_files(path):  # by name; folders `key=value` are columns too
            with told_of_file(file):
                yield from _from_parquet(file, domain, hive_values(file.relative_to(path)))
        return
    check_file(path)
    with told_of_file(path):
        if path.suffix.lower() == ".csv":
            yield from _from_csv(path, domain, dialect, lines)
        else:
            yield from _from_parquet(path, domain, {})


def parquet_files(path: Path) -> list[Path]:
    """A file, or every Parquet file in a folder and below, by name."""
    if not path.is_dir():
        check_file(path)
        return [path]
    files = sorted(path.rglob("*.parquet"), key=lambda each: each.relative_to(path).parts)
    if not files:
        raise InvalidData(f"There is no .parquet file in {str(path)!r}. Check the path.")
    return files


def check_file(path: Path) -> None:
    """Refuse what is no file that can be read."""
    if not path.is_file():
        raise InvalidData(f"There is no file {str(path)!r}. Check the path.")
    if path.suffix.lower() not in (".csv", ".parquet"):
        rule, way_out = "must be .csv or .parquet", "Convert it to CSV or Parquet."
        raise InvalidParameter("the file's ending", rule, path.suffix, way_out)


def hive_values(path: Path) -> dict[str, str | None]:
    """The columns that folders called `key=value` give."""
    parts = (part.partition("=") for part in path.parts[:-1])
    return {
        unquote(key): None if value == HIVE_NULL else unquote(value)
        for key, mark, value in parts
        if mark
    }


@contextmanager
def told_of_file(path: Path) -> Iterator[None]:
    """Say what is wrong with a file in words of ours: Arrow quotes what it stumbled over."""
    try:
        yield
    except MemoryError:
        raise Unavailable(
            f"There is not enough memory to read {str(path)!r}. Free some, or use a larger machine."
        ) from None
    except (pa.ArrowException, OSError) as problem:
        if isinstance(problem, OSError) and problem.strerror:
            why, way_out = f"cannot be read ({problem.strerror})", "Check its permissions."
        else:
            kind = path.suffix[1:].upper()
            why, way_out = f"is not a readable {kind} file", "Export it again."
        raise InvalidData(f"The file {str(path)!r} {why}. {way_out}") from None


def _from_parquet(path: Path, domain: Domain, around: dict[str, str | None]) -> Iterator[Columns]:
    """A file's columns, and those that the names of the folders around it give."""
    with pa_parquet.ParquetFile(path, pre_buffer=False) as file:
        about, schema = file.metadata, file.schema
    stored = (schema.column(place) for place in range(len(schema.names)))
    binary = {column.path for column in stored if column.physical_type == "BYTE_ARRAY"}
    texts = [column.name for column in domain.categorical() if column.name in binary]
    with pa_parquet.ParquetFile(
        path, metadata=about, pre_buffer=False, read_dictionary=texts
    ) as file:
        names = file.schema_arrow.names
        check_names([*names, *(name for name in around if name not in names)], domain)
        inside = [name for name in wanted_of(domain) if name in names]
        # One thread reads: the others are busy with what was read before.
        for batch in file.iter_batches(ROWS_AT_ONCE, columns=inside, use_threads=False):
            for name in wanted_of(domain):
                if name not in names:
                    cells = pa.repeat(pa.scalar(around[name], pa.string()), len(batch))
                    batch = batch.append_column(name, cells)
            yield from _cut([batch], domain)


def _from_csv(
    path: CsvSource, domain: Domain, dialect: CsvDialect, lines: LineTally
) -> Iterator[Columns]:
    names = csv_header(path, dialect)
    try:
        check_names(names, domain)
    except InvalidData as problem:
        raise InvalidData(f"{problem}{_other_separator(path, domain, dialect)}") from None
    for batch in csv_batches(path, dialect, wanted_of(domain), lines):
        yield dict(zip(wanted_of(domain), batch.columns, strict=True))
    if lines.open_quotes or dialect.multiline:
        lines.readings = other_reading(path, dialect)


def _other_separator(path: CsvSource, domain: Domain, dialect: CsvDialect) -> str:
    """A word of help, from the header alone, if another separator would split it well."""
    for separator in SEPARATORS:
        names = csv_header(path, replace(dialect, separator=separator))
        if separator != dialect.separator and set(wanted_of(domain)) <= set(names):
            return f" Its header is separated by {separator!r}: declare that `separator`."
    return ""


def check_names(names: list[str], domain: Domain) -> None:
    """Refuse data that lacks a declared column, or has one twice."""
    check_named_once(names, wanted_of(domain))
    absent_columns(names, domain)


def check_named_once(names: list[str], wanted: list[str]) -> None:
    """Refuse data that has a wanted column twice."""
    repeated = sorted({name for name in wanted if names.count(name) > 1})
    if repeated:
        raise InvalidData(f"The data has several columns named {', '.join(repeated)}. Rename them.")
