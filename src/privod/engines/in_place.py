"""Rows that stay where they lie: read there for every answer, checked, and never copied.

Registration runs the intake over them once and writes two sealed bits for each row of the source:
whether it is kept, and whether it is complete (docs/engines.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
from numpy.typing import NDArray

from privod.arrays import Bools
from privod.data.cells import MISSING, codes_of, numbers_of
from privod.data.columns import Numeric
from privod.data.domain import Domain
from privod.data.folding import Block
from privod.data.intake import wanted_of
from privod.data.kernels.ranges import mark
from privod.data.sources import check_names
from privod.data.views import COMPLETE
from privod.engines.manifest import Manifest
from privod.engines.sealed_file import CHANGED, Marks, SealedReader, seal_in_place, sealed_again
from privod.engines.source import AT_ONCE
from privod.errors import InvalidData
from privod.threads import in_threads

KEPT = "kept.bits"  # which rows are stored, then which are complete: a bit each
ROW = "\0row"  # where a record lies in its source; no column is called so
READ_WHOLE = 1 << 25  # bytes of a row group whose columns are read at once
READ_AHEAD = 1 << 20  # of a column at a time in larger ones
DECODED = 1 << 21  # values of all columns at a time
MOST_FOOTERS = 16
Cells = Mapping[str, pa.Array]


@dataclass(frozen=True)
class Place:
    """Where rows lie, looked up once at registration.

    The kind is parquet, delta or iceberg, which are files, or duckdb or spark. `table` tells the
    table from others, whatever its version; `about` is what reading it takes, as plain values.
    """

    kind: str
    table: str
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def parts(self) -> set[str]:
        """The table and its files: places that have one in common hold the same rows."""
        return {self.table, *(str(file["path"]) for file in self.about.get("files", ()))}


class SourceInPlace(ABC):
    """Rows elsewhere, in pieces whose number follows from the declared size.

    The bits that say which rows are kept lie in our own folder, sealed with the salt.
    """

    def __init__(self, folder: Path, salt: bytes, manifest: Manifest) -> None:
        place = manifest.place or {}
        self._folder, self._salt, self._seals, self._place = folder, salt, manifest.seals, place
        self._marks, self._own = Marks(salt), Marks()
        self.domain = Domain.from_json(place["domain"])
        self.pieces = manifest.size.partitions(len(self.domain.columns))

    def sealed(self) -> tuple[str, ...]:
        """Seal what lies there, before it is read; the first seal is that of the bits."""
        return ("",)

    @classmethod
    def finished(cls, _folder: Path, _salt: bytes, manifest: Manifest) -> Manifest:
        """What was registered, with what only a second look tells."""
        return manifest

    @abstractmethod
    def identity(self) -> None:
        """Raise `InvalidData` if the rows can be seen not to be the registered ones."""

    @abstractmethod
    def sealed_again(self) -> bool:
        """Whether all of it is what was registered."""

    @abstractmethod
    def rows_of(self, piece: int) -> range:
        """The places in the source at which the rows of a piece may lie."""

    @abstractmethod
    def raw(self, piece: int, names: Sequence[str]) -> Iterator[tuple[Any, Cells]]:
        """Cells of some columns as they are there, each time with their places in the piece."""

    def portions(self) -> Iterator[Cells]:
        """All records in order, with their places, for the intake."""
        for piece in range(self.pieces):
            first = self.rows_of(piece).start
            for at, cells in self.raw(piece, wanted_of(self.domain)):
                yield {**cells, ROW: pa.array(first + np.r_[at])}

    def read(self, piece: int, numbers: Sequence[str], codes: Sequence[str]) -> Iterator[Block]:
        """The stored rows of a piece, marked and coded."""
        return (block for _, block in self.kept(piece, numbers, codes))

    def kept(
        self, piece: int, numbers: Sequence[str], codes: Sequence[str]
    ) -> Iterator[tuple[Any, Block]]:
        """The stored rows of a piece, each time with where they are: some of these places."""
        names = [name for name in (*numbers, *codes) if name != COMPLETE]
        rows = self.rows_of(piece)
        if not rows:
            return
        stored, complete = self._bits(rows)
        found: Iterator[tuple[Any, Cells]] = self.raw(piece, names)
        if not names:
            found = ((slice(at, at + AT_ONCE), {}) for at in range(0, len(rows), AT_ONCE))
        decimal, thousands = self._place["marks"]
        marks = decimal, thousands
        for at, cells in found:
            kept = np.flatnonzero(stored[at])
            block = np.empty((len(numbers), len(kept)))
            coded = np.empty((len(codes), len(kept)), np.int64)
            columns: list[NDArray[Any]] = [*block, *coded]
            for own, name in zip(columns, (*numbers, *codes), strict=True):
                column = None if name == COMPLETE else self.domain[name]
                if column is None:
                    values = complete[at].astype(np.int64)
                elif isinstance(column, Numeric):
                    values = numbers_of(cells[name], column, marks)
                else:
                    places = codes_of(cells[name], column, marks)
                    values = np.maximum(places, MISSING)
                if len(kept) == len(values):
                    own[:] = values
                else:
                    np.take(values, kept, out=own, mode="clip")  # to check places takes a copy
                if isinstance(column, Numeric):
                    mark(own, column.low, column.high)
            yield (at, kept), Block(block.T, coded.T)

    def _bits(self, rows: range) -> tuple[Bools, Bools]:
        n_bytes = -(-self._place["rows"] // 8)
        first, last = rows.start // 8, -(-rows.stop // 8)
        with SealedReader(self._folder / KEPT, self._salt, 0, self._seals[0], self._own) as bits:
            found = []
            for start in (0, n_bytes):
                bits.seek(start + first)
                some = np.frombuffer(bits.read(last - first), np.uint8)
                spread = np.unpackbits(some, bitorder="little").view(np.bool_)
                found.append(spread[rows.start - 8 * first :][: len(rows)])
        return found[0], found[1]

    def kept_again(self) -> bool:
        """Whether the bits are those that were written."""
        return sealed_again(self._folder / KEPT, self._salt, 0) == self._seals[0]


def _seals(folder: Path, number: int) -> Path:
    return folder / f"file-{number:05d}.seals"


class FilesInPlace(SourceInPlace):
    """Parquet files: those of a folder, of a version of Delta or of a snapshot of Iceberg."""

    def __init__(self, folder: Path, salt: bytes, manifest: Manifest) -> None:
        super().__init__(folder, salt, manifest)
        self._footers: dict[int, pa_parquet.FileMetaData] = {}

    def sealed(self) -> tuple[str, ...]:
        """Seal the files where they lie; the seals of their pieces are kept in our folder."""

        def seal(place: int) -> str:
            path, seals = Path(self._place["files"][place]["path"]), _seals(self._folder, place + 1)
            return seal_in_place(path, self._salt, place + 1, seals, self._marks)

        self._seals = "", *in_threads(seal, len(self._place["files"]))
        return self._seals

    @cached_property
    def _groups(self) -> list[tuple[int, int, int, int]]:
        """File, row group, first row and number of rows of every row group, in order."""
        groups, first = [], 0
        for number, file in enumerate(self._place["files"]):
            for group, rows in enumerate(file["rows"]):
                groups.append((number, group, first, rows))
                first += rows
        return groups

    def _share(self, piece: int) -> list[tuple[int, int, int, int]]:
        n = len(self._groups)
        return self._groups[n * piece // self.pieces : n * (piece + 1) // self.pieces]

    def rows_of(self, piece: int) -> range:
        share = self._share(piece)
        return range(share[0][2], share[-1][2] + share[-1][3]) if share else range(0)

    def raw(self, piece: int, names: Sequence[str]) -> Iterator[tuple[Any, Cells]]:
        """What the files hold; every byte that is read is checked."""
        at, share = 0, self._share(piece)
        for number in dict.fromkeys(group[0] for group in share):
            groups = [group[1] for group in share if group[0] == number]
            around = self._place["files"][number]["values"]
            texts = {name: pa.scalar(around[name], pa.string()) for name in names if name in around}
            inside = [name for name in names if name not in texts]
            for batch in self._inside(number, groups, inside):
                for start in range(0, len(batch), AT_ONCE):
                    some = batch.slice(start, AT_ONCE)
                    repeated = {name: pa.repeat(text, len(some)) for name, text in texts.items()}
                    cells = dict(zip(inside, some.columns, strict=True)) | repeated
                    yield slice(at, at + len(some)), cells
                    at += len(some)

    def _inside(
        self, number: int, groups: Sequence[int], names: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """What some row groups of a file hold; the columns of small ones are read whole."""
        about, seal = self._place["files"][number], self._seals[number + 1]
        at = self._salt, number + 1, seal, self._marks, _seals(self._folder, number + 1)
        with SealedReader(Path(about["path"]), *at) as sealed:
            footer = self._footers.get(number)
            if footer is None:
                if len(self._footers) == MOST_FOOTERS:
                    self._footers.clear()
                footer = self._footers[number] = pa_parquet.read_metadata(sealed)
            own = [footer.row_group(group) for group in groups]
            size, rows = (max(map(attrgetter(of), own)) for of in ("total_byte_size", "num_rows"))
            plain = set(names) <= set(self.domain.numeric_names)  # texts may be long
            at_once = min(max(rows, AT_ONCE), DECODED // max(1, len(names))) if plain else AT_ONCE
            with pa_parquet.ParquetFile(
                sealed,
                metadata=footer,
                pre_buffer=False,
                buffer_size=0 if size <= READ_WHOLE else READ_AHEAD,
                read_dictionary=[name for name in about["texts"] if name in names],
            ) as file:
                yield from file.iter_batches(at_once, groups, names, use_threads=False)

    def identity(self) -> None:
        """All files are there and as large as they were; one that was touched is read whole."""
        for number, about in enumerate(self._place["files"], start=1):
            path = Path(about["path"])
            try:
                found = path.stat()
                same = found.st_size == about["size"]
                if same and found.st_mtime_ns != about["time"]:
                    same = self._as_sealed(path, number)
            except OSError:
                same = False
            if not same:
                raise InvalidData(CHANGED)

    def sealed_again(self) -> bool:
        files = enumerate(self._place["files"], start=1)
        return self.kept_again() and all(
            self._as_sealed(Path(about["path"]), number) for number, about in files
        )

    def _as_sealed(self, path: Path, number: int) -> bool:
        seals = _seals(self._folder, number)
        return sealed_again(path, self._salt, number, seals) == self._seals[number]


def about_file(path: Path, values: Mapping[str, str | None], domain: Domain) -> dict[str, Any]:
    """What reading a Parquet file in place takes; looks at its footer alone."""
    found = path.stat()
    with pa_parquet.ParquetFile(path, pre_buffer=False) as file:
        about, schema = file.metadata, file.schema
        names = file.schema_arrow.names
        check_names([*names, *(name for name in values if name not in names)], domain)
        texts = {
            schema.column(place).path
            for place in range(len(schema.names))
            if schema.column(place).physical_type == "BYTE_ARRAY"
        }
        return {
            "path": str(path.resolve()),
            "size": found.st_size,
            "time": found.st_mtime_ns,
            "rows": [about.row_group(group).num_rows for group in range(about.num_row_groups)],
            "values": {name: values[name] for name in values if name not in names},
            "texts": [column.name for column in domain.categorical() if column.name in texts],
        }
