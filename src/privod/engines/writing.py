"""Write rows as partitions, in one pass over their source and in bounded memory.

Whoever calls reads the source; meanwhile other threads take batches in, a bounded number at a time
and in order. How persons are capped is said in docs/engines.md.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privod.data.domain import Domain
from privod.data.intake import Intake, Portion
from privod.data.kernels.persons import set_bits
from privod.data.persons import first_rows, hashed, new_key, numbered
from privod.data.views import COMPLETE
from privod.engines.in_place import KEPT, ROW, Place
from privod.engines.manifest import Manifest
from privod.engines.opening import SOURCES
from privod.engines.sealed_file import SealedWriter
from privod.engines.size import ROWS_IN_PARTITION, SizeClass
from privod.engines.source import Engine
from privod.engines.spark_table import refer_to_table
from privod.engines.stored import STRETCH, partition_path
from privod.progress import report, track
from privod.threads import ahead, thread_pool

BATCH = 1 << 16  # rows that are capped and split at a time
PERSON = "\0person"  # no column is called so
SPILLED = "spilled"

Columns = Mapping[str, pa.Array]


def write_rows(
    folder: Path, salt: bytes, intake: Intake, source: Iterable[Columns], size: SizeClass
) -> Manifest:
    """Write the complete records of a source into a private folder, the first of each person.

    The folder holds no rows so far. More records than the size class allows are refused.
    """
    writer = _Writer(folder, salt, intake, size)
    if intake.domain.person is None:
        writer.write_stretches(_batches(source))
    else:
        writer.write_persons(_batches(source))
    return writer.manifest()


def refer_to_rows(
    folder: Path,
    salt: bytes,
    intake: Intake,
    place: Place,
    size: SizeClass,
    engine: Engine | None = None,
) -> Manifest:
    """Seal rows where they lie and write which of them are kept; nothing else is copied.

    The parameters are those of `write_rows`; `place` says where the rows are, and `engine` who
    reads a table without files.
    """
    about = {
        **place.about,
        "kind": place.kind,
        "table": place.table,
        "domain": intake.domain.to_json(),
        "marks": intake.marks,
    }
    if place.kind == "spark":
        return refer_to_table(salt, intake, about, size, engine)
    kind = SOURCES[place.kind]
    found = Manifest(size, (), (), place=about)
    source = kind(folder, salt, found)
    found = replace(found, seals=source.sealed())
    marker = _Marker(folder, salt, intake, size, about["rows"])
    portions = _batches(source.portions())
    if intake.domain.person is None:
        marker.mark(portions)
    else:
        marker.write_persons(portions)
    manifest = kind.finished(folder, salt, marker.manifest_of(found))
    kind(folder, salt, manifest).identity()  # or it changed meanwhile
    return manifest


class _Writer:
    def __init__(self, folder: Path, salt: bytes, intake: Intake, size: SizeClass) -> None:
        self._folder, self._salt, self._intake, self._size = folder, salt, intake, size
        self._n_partitions = size.partitions(len(intake.domain.columns))
        self._most = intake.domain.max_rows_per_person
        self._key = new_key()
        self._schema = _schema(intake.domain)
        # partition to its rows, those of them that are complete, and its seal
        self._sealed: dict[int, tuple[int, int, str]] = {}

    def manifest(self) -> Manifest:
        """What was written; partitions that got no rows are written first, where they are public.

        How many partitions a class in memory has is nobody's to see: there they end with the rows.
        """
        n_partitions = 1 if self._size.in_memory else self._n_partitions
        for number in range(n_partitions):
            if number not in self._sealed:
                self._write(number, [self._schema.empty_table()])
        sealed = [self._sealed[number] for number in sorted(self._sealed)]
        rows, complete, seals = zip(*sealed, strict=True)
        if sum(rows) > self._size.most_records:
            self._size.refuse_more()
        kinds = {one.name: np.dtype(one.type.to_pandas_dtype()).str for one in self._schema}
        return Manifest(self._size, rows, seals, complete=sum(complete), columns=kinds)

    def write_stretches(self, batches: Iterator[list[Columns]]) -> None:
        """One stretch of the source after the other."""
        rows_each = -(-self._size.most_records // self._n_partitions)
        taken = (rows for rows in ahead(self._taken, batches) if len(rows))
        rest = next(taken, None)
        number = 0

        def stretch() -> Iterator[pa.Table]:
            nonlocal rest
            left = rows_each
            while rest is not None and left:
                some = rest.slice(0, left)
                left -= len(some)
                rest = rest.slice(len(some)) if len(some) < len(rest) else next(taken, None)
                yield some

        while rest is not None:
            if number == self._n_partitions:
                self._size.refuse_more()
            self._write(number, stretch())
            number += 1

    def write_persons(self, batches: Iterator[list[Columns]]) -> None:
        """Persons by their hash; rows that fit into one partition need none."""
        held: list[pa.Table] = []
        n_held = 0
        capped = self._counted(ahead(self._capped, batches))
        for rows in capped:
            held.append(rows)
            n_held += len(rows)
            if not self._size.in_memory or n_held > ROWS_IN_PARTITION:
                break
        else:
            if held:
                self._finish(0, pa.concat_tables(held))
            return
        spilled = self._folder / SPILLED
        spilled.mkdir(mode=0o700)
        self._spill(spilled, held, capped)
        with thread_pool() as pool:

            def finish(number: int) -> None:
                path = spilled / f"{number:04d}"
                with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
                    rows = stream.read_all()
                path.unlink()
                self._finish(number, rows)

            numbers = range(self._n_partitions)
            for _ in track(pool.map(finish, numbers), "partitions", total=self._n_partitions):
                pass
        shutil.rmtree(spilled)

    def _spill(self, spilled: Path, held: list[pa.Table], capped: Iterator[pa.Table]) -> None:
        """Send every row to the file of its person's partition, in order."""
        schema = self._schema.append(pa.field(PERSON, pa.large_binary()))

        def rest() -> Iterator[pa.Table]:
            while held:
                yield held.pop(0)
            yield from capped

        with ExitStack() as stack:
            writers = []
            for number in range(self._n_partitions):
                file = stack.enter_context((spilled / f"{number:04d}").open("xb"))
                writers.append(stack.enter_context(pa.ipc.new_stream(file, schema)))
            for rows, ends in map(self._split, rest()):
                for writer, start, end in zip(writers, [0, *ends], ends, strict=False):
                    if end > start:
                        writer.write_batch(rows.slice(start, end - start))

    def _split(self, rows: pa.Table) -> tuple[pa.RecordBatch, list[int]]:
        """Rows by partition, in order within each, and where each partition ends."""
        batch = pa.RecordBatch.from_arrays(
            [column.combine_chunks() for column in rows.columns], schema=rows.schema
        )
        places = hashed(batch.column(PERSON), self._key) % np.uint64(self._n_partitions)
        order = np.argsort(places.astype(np.uint16), kind="stable")  # of 16 bits: by counting
        n_rows = np.bincount(places.astype(np.int64), minlength=self._n_partitions)
        return batch.take(pa.array(order)), np.cumsum(n_rows).tolist()

    def _taken(self, batch: list[Columns]) -> pa.Table:
        """Complete records inside their domain."""
        portions = [self._intake.take(columns) for columns in batch]
        return pa.concat_tables([_as_arrow(portion, self._schema) for portion in portions])

    def _capped(self, batch: list[Columns]) -> pa.Table:
        """The same, of each person no more than are kept."""
        rows = self._taken(batch)
        keep = self._first(rows)
        return rows if keep.all() else rows.filter(pa.array(keep))

    def _counted(self, capped: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """The rows as they come, until more persons came than records were declared."""
        seen, fresh, n_fresh = np.empty(0, np.uint64), [], 0
        for rows in capped:
            if self._size.in_memory:
                fresh.append(hashed(rows.column(PERSON).combine_chunks(), self._key))
                n_fresh += len(rows)
            if len(seen) + n_fresh > self._size.most_records and 4 * n_fresh >= len(seen):
                seen, fresh, n_fresh = np.unique(np.concatenate([seen, *fresh])), [], 0
                if len(seen) > self._size.most_records:
                    self._size.refuse_more()
            yield rows

    def _first(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Which rows are the first of their person."""
        persons = rows.column(PERSON).combine_chunks()
        complete = rows.column(COMPLETE).to_numpy() > 0
        return first_rows(numbered(persons, hashed(persons, self._key)), self._most, complete)

    def _finish(self, number: int, rows: pa.Table) -> None:
        """Write a partition of the rows that are its persons' first."""
        keep = self._first(rows)
        rows = rows.select(self._schema.names)

        def kept() -> Iterator[pa.Table]:
            for start in range(0, len(rows), STRETCH):
                some = slice(start, start + STRETCH)
                yield rows.slice(start, STRETCH).filter(pa.array(keep[some]))

        self._write(number, kept())

    def _write(self, number: int, tables: Iterable[pa.Table]) -> None:
        n_rows = n_complete = 0
        with SealedWriter(partition_path(self._folder, number), self._salt, number) as sealed:
            for table in _stretches(tables):
                for column in table.columns:
                    sealed.write(column.to_numpy())
                n_rows += len(table)
                n_complete += int(table.column(COMPLETE).to_numpy().sum())
        self._sealed[number] = n_rows, n_complete, sealed.seal


def _stretches(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows, so many at a time as a stretch has, the last ones excepted."""
    rest: list[pa.Table] = []
    for table in tables:
        rest = [pa.concat_tables([*rest, table])]
        while len(rest[0]) >= STRETCH:
            yield rest[0].slice(0, STRETCH)
            rest = [rest[0].slice(STRETCH)]
    yield from filter(len, rest)


def _schema(domain: Domain) -> pa.Schema:
    """Numbers as they are, codes (-1 for none) in as few bytes as their lists need."""
    numbers = [pa.field(name, pa.float64(), nullable=False) for name in domain.numeric_names]
    codes = [
        pa.field(
            column.name,
            pa.from_numpy_dtype(np.min_scalar_type(-len(column.values))),
            nullable=False,
        )
        for column in domain.categorical()
    ]
    return pa.schema([*numbers, *codes, pa.field(COMPLETE, pa.int8(), nullable=False)])


def _batches(source: Iterable[Columns]) -> Iterator[list[Columns]]:
    """Portions of a source, together of at least `BATCH` records, the last ones excepted."""
    waiting: list[Columns] = []
    n_waiting = n_read = 0
    for columns in source:
        waiting.append(columns)
        n_waiting += len(next(iter(columns.values())))
        if n_waiting >= BATCH:
            n_read += n_waiting
            report("records", n_read)
            yield waiting
            waiting, n_waiting = [], 0
    if waiting:
        report("records", n_read + n_waiting)
        yield waiting


def _as_arrow(portion: Portion, schema: pa.Schema) -> pa.Table:
    columns: list[Any] = [pa.array(values) for values in portion.numbers.values()]
    columns += [
        pa.array(places.astype(schema.field(name).type.to_pandas_dtype()))
        for name, places in portion.codes.items()
    ]
    columns.append(pa.array(portion.complete.astype(np.int8)))
    if portion.persons is not None:
        columns.append(portion.persons)
        schema = schema.append(pa.field(PERSON, pa.large_binary()))
    return pa.Table.from_arrays(columns, schema=schema)


class _Marker(_Writer):
    """Marks the rows that are kept of a source in place, instead of writing them."""

    def __init__(
        self, folder: Path, salt: bytes, intake: Intake, size: SizeClass, n_rows: int
    ) -> None:
        super().__init__(folder, salt, intake, size)
        self._schema = pa.schema(
            [pa.field(ROW, pa.int64(), nullable=False), pa.field(COMPLETE, pa.int8(), False)]
        )
        self._bits = np.zeros((2, -(-n_rows // 8)), np.uint8)
        self._marking = Lock()

    def mark(self, batches: Iterator[list[Columns]]) -> None:
        """All records, since they are nobody's in particular."""
        for rows in ahead(self._taken, batches):
            self._write(0, [rows])

    def manifest_of(self, found: Manifest) -> Manifest:
        """What was found, with the bits of all rows, which are written here."""
        parts = (np.array_split(bits, 64) for bits in self._bits)  # counting needs room
        stored, complete = (sum(int(np.bitwise_count(one).sum()) for one in of) for of in parts)
        if stored > self._size.most_records:
            self._size.refuse_more()
        with SealedWriter(self._folder / KEPT, self._salt, 0) as sealed:
            sealed.write(self._bits.reshape(-1))
        return replace(
            found, rows=(stored,), seals=(sealed.seal, *found.seals[1:]), complete=complete
        )

    def _taken(self, batch: list[Columns]) -> pa.Table:
        return pa.concat_tables([self._placed(columns) for columns in batch])

    def _placed(self, columns: Columns) -> pa.Table:
        portion, schema = self._intake.take(columns), self._schema
        rows = columns[ROW].to_numpy()[portion.somebody]
        found: list[Any] = [pa.array(rows), pa.array(portion.complete.astype(np.int8))]
        if portion.persons is not None:
            found.append(portion.persons)
            schema = schema.append(pa.field(PERSON, pa.large_binary()))
        return pa.Table.from_arrays(found, schema=schema)

    def _write(self, _number: int, tables: Iterable[pa.Table]) -> None:
        for table in tables:
            rows, complete = (table.column(name).to_numpy() for name in (ROW, COMPLETE))
            with self._marking:
                set_bits(self._bits[0], rows)
                set_bits(self._bits[1], rows[complete > 0])
