"""A table of a DuckDB file, read where it lies.

DuckDB reads its file itself, so no byte can be checked on the way. Instead every column of every
piece has a sum of keyed hashes of its values, each with its row's number, and a reader adds it up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from privod.data.domain import Domain
from privod.data.folding import Block
from privod.data.kernels.keyed import lane_sum
from privod.data.sources import check_names
from privod.data.sql import connected, quoted
from privod.engines.in_place import Cells, Place, SourceInPlace
from privod.engines.manifest import Manifest
from privod.engines.sealed_file import CHANGED
from privod.engines.source import AT_ONCE
from privod.errors import InvalidData, InvalidParameter, PrivodError
from privod.threads import in_threads

HEADERS = 3 * 4096  # of a DuckDB file: they change with every checkpoint
IDLE: list[Any] = []  # connections to instances of DuckDB that hold nothing
ALL = 1 << 64


class DuckdbTable(SourceInPlace):
    """The rows of a table by their numbers in DuckDB, which a file that is not written to keeps."""

    def rows_of(self, piece: int) -> range:
        n = self._place["rows"]
        return range(n * piece // self.pieces, n * (piece + 1) // self.pieces)

    def raw(self, piece: int, names: Sequence[str]) -> Iterator[tuple[Any, Cells]]:
        rows = self.rows_of(piece)
        columns = ", ".join(["rowid", *map(quoted, names)])
        sql = (
            f"SELECT {columns} FROM {quoted(self._place['name'])}"  # noqa: S608 - the owner's own
            f" WHERE rowid >= {rows.start} AND rowid < {rows.stop}"
        )
        with _reading(self._place["path"]) as connection:
            for batch in connection.sql(sql).to_arrow_reader(AT_ONCE):
                ids = batch.column(0).to_numpy() - rows.start
                yield ids, dict(zip(names, batch.columns[1:], strict=True))

    def kept(
        self, piece: int, numbers: Sequence[str], codes: Sequence[str]
    ) -> Iterator[tuple[Any, Block]]:
        """The stored rows of a piece; raises at its end if they are not the registered ones."""
        found = {name: 0 for name in (*numbers, *codes) if name in self.domain.names}
        yield from self._summed(piece, numbers, codes, found)
        lanes = self._place["lanes"][piece]
        if any(lanes[name] != total for name, total in found.items()):
            raise InvalidData(CHANGED)

    def _summed(
        self, piece: int, numbers: Sequence[str], codes: Sequence[str], found: dict[str, int]
    ) -> Iterator[tuple[Any, Block]]:
        """The stored rows of a piece; their columns are added to what is found."""
        first = self.rows_of(piece).start
        key = np.frombuffer(hashlib.sha256(self._salt + b"lanes").digest()[:16], np.uint64)
        for at, block in super().kept(piece, numbers, codes):
            columns = *block.numbers.T, *block.codes.T
            read = dict(zip((*numbers, *codes), columns, strict=True))
            for name in found:
                kind = np.float64 if name in self.domain.numeric_names else np.int64
                words = np.ascontiguousarray(read[name], kind).view(np.uint64)
                found[name] += int(lane_sum(first + at[0][at[1]], words, key))
                found[name] %= ALL
            yield at, block

    def _lanes(self, piece: int) -> dict[str, int]:
        numbers, codes = self.domain.numeric_names, self.domain.categorical_names
        found = dict.fromkeys((*numbers, *codes), 0)
        for _ in self._summed(piece, numbers, codes, found):
            pass
        return found

    @classmethod
    def finished(cls, folder: Path, salt: bytes, manifest: Manifest) -> Manifest:
        """What was registered, with the sums of all columns."""
        source = cls(folder, salt, manifest)
        lanes = in_threads(source._lanes, source.pieces)
        return replace(manifest, place={**(manifest.place or {}), "lanes": lanes})

    def identity(self) -> None:
        """The file is as large as it was, its headers are the same and nothing waits beside it."""
        about = _about(Path(self._place["path"]))
        if about is None or any(self._place[name] != value for name, value in about.items()):
            raise InvalidData(CHANGED)

    def sealed_again(self) -> bool:
        return self.kept_again() and in_threads(self._lanes, self.pieces) == self._place["lanes"]


def _about(path: Path) -> dict[str, Any] | None:
    beside = path.with_name(f"{path.name}.wal")
    if not path.is_file() or (beside.exists() and beside.stat().st_size):
        return None
    with path.open("rb") as file:
        headers = hashlib.sha256(file.read(HEADERS)).hexdigest()
    return {"size": path.stat().st_size, "headers": headers}


@contextmanager
def _reading(path: str) -> Iterator[Any]:
    """A connection that changes nothing; what DuckDB says may quote a row, so nothing is told.

    The file is open no longer than that. To start DuckDB takes ten times as long as to open a file.
    """
    try:
        connection = IDLE.pop()
    except IndexError:  # ours are the threads, and each reads another piece
        connection = connected(":memory:", threads="1", memory_limit="100MB")
    try:
        connection.execute(f"ATTACH {quoted(path)} AS here (READ_ONLY); USE here")
        yield connection
    except PrivodError:
        raise
    except Exception:
        raise InvalidData(
            f"The table cannot be read from {path!r}. Check its name, and that nobody writes to it."
        ) from None
    finally:
        with suppress(Exception):
            connection.execute("USE memory; DETACH here")
            IDLE.append(connection)


def look_up_table(where: str, domain: Domain) -> Place:
    """Find a table, FILE#TABLE; of its rows only how many there are is read."""
    place, _, name = where.rpartition("#")
    if not place:
        way_out = "Write duckdb:FILE#TABLE."
        raise InvalidParameter("in_place", "must name a file and a table", where, way_out)
    path = Path(place).resolve()
    about = _about(path)
    if about is None:
        raise InvalidData(
            f"There is no file {place!r}, or changes wait beside it (.wal). Check the path, or run"
            " CHECKPOINT in DuckDB."
        )
    with _reading(str(path)) as connection:
        described = connection.execute(f"SELECT * FROM {quoted(name)} LIMIT 0").description  # noqa: S608
        names = [str(column[0]) for column in described or ()]
        check_names(names, domain)
        if "rowid" in map(str.lower, names):
            raise InvalidData(
                f"The table {name!r} has a column called rowid, which hides its row numbers."
                " Rename it, or register a copy: leave out --in-place."
            )
        last = connection.execute(f"SELECT max(rowid) FROM {quoted(name)}").fetchone()  # noqa: S608
        n_rows = 0 if last is None or last[0] is None else int(last[0]) + 1
    about |= {"path": str(path), "name": name, "rows": n_rows}
    return Place("duckdb", f"duckdb:{path}#{name.lower()}", about)  # DuckDB takes any case
