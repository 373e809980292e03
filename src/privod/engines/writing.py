"""Write rows as partitions, in one pass over their source and in bounded memory.

Without a person column, partitions are stretches of the source. With one, a keyed hash sends every
row of a person to one partition, and there persons are compared by their texts and capped. They are
capped within each batch before: "the first k" of the first k is the same, and nobody who owns most
of the rows can fill a partition. Once capped, no question uses persons: they are not kept.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
from numpy.typing import NDArray

from privod.data.cells import bytes_of
from privod.data.domain import Domain
from privod.data.intake import Portion
from privod.data.persons import first_rows, numbered
from privod.engines.kernels.keyed import keyed_hashes
from privod.engines.sealed_file import SealedWriter
from privod.engines.size import ROWS_IN_PARTITION, SizeClass
from privod.engines.stored import Manifest, partition_path
from privod.errors import InvalidData
from privod.progress import report, track
from privod.threads import thread_pool

__all__ = ["write_rows"]

BATCH = 1 << 18  # rows that are capped and split at a time
ROW_GROUP = 1 << 17
PERSON = "\0person"  # no column is called so
SPILLED = "spilled"


def write_rows(
    folder: Path, salt: bytes, domain: Domain, portions: Iterable[Portion], size: SizeClass
) -> Manifest:
    """Write complete records into a private folder, the first of each person.

    Parameters
    ----------
    folder : Path
        A folder for its owner alone, without rows so far.
    salt : bytes
        Secret; seals are made with it.
    domain : Domain
        What is public.
    portions : iterable of Portion
        The records, inside their domain, in order.
    size : SizeClass
        The most records; more are refused.
    """
    writer = _Writer(folder, salt, domain, size)
    batches = _batches(portions, domain)
    if domain.person is None:
        writer.write_stretches(batches)
    else:
        writer.write_persons(batches, domain.max_rows_per_person)
    return writer.manifest()


class _Writer:
    def __init__(self, folder: Path, salt: bytes, domain: Domain, size: SizeClass) -> None:
        self._folder, self._salt, self._size = folder, salt, size
        self._n_partitions = size.partitions(len(domain.columns))
        self._coded = list(domain.categorical_names)
        self._schema = _schema(domain)
        self._sealed: dict[int, tuple[int, str]] = {}  # partition to its rows and its seal

    def manifest(self) -> Manifest:
        """What was written; partitions that got no rows are written first, where they are public.

        How many partitions a class in memory has is nobody's to see: there they end with the rows.
        """
        n_partitions = 1 if self._size.in_memory else self._n_partitions
        for number in range(n_partitions):
            if number not in self._sealed:
                self._write(number, [self._schema.empty_table()])
        rows, seals = zip(*(self._sealed[number] for number in sorted(self._sealed)), strict=True)
        if sum(rows) > self._size.most_records:
            self._refuse()
        return Manifest(self._size, rows, seals)

    def write_stretches(self, batches: Iterator[pa.Table]) -> None:
        """One stretch of the source after the other."""
        rows_each = -(-self._size.most_records // self._n_partitions)
        rest = next(batches, None)
        number = 0

        def stretch() -> Iterator[pa.Table]:
            nonlocal rest
            left = rows_each
            while rest is not None and left:
                some = rest.slice(0, left)
                left -= len(some)
                rest = rest.slice(len(some)) if len(some) < len(rest) else next(batches, None)
                yield some

        while rest is not None:
            if number == self._n_partitions:
                self._refuse()
            self._write(number, stretch())
            number += 1

    def write_persons(self, batches: Iterator[pa.Table], most: int) -> None:
        """Persons by their hash; rows that fit into one partition need none."""
        held: list[pa.Table] = []
        n_held = 0
        for batch in batches:
            held.append(_capped(batch, most))
            n_held += len(held[-1])
            if not self._size.in_memory or n_held > ROWS_IN_PARTITION:
                break
        else:
            if held:
                self._write(0, [_capped(pa.concat_tables(held), most)])
            return
        spilled = self._folder / SPILLED
        spilled.mkdir(mode=0o700)
        self._spill(spilled, held, batches, most)
        with thread_pool() as pool:

            def finish(number: int) -> None:
                path = spilled / f"{number:04d}"
                with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
                    rows = _capped(stream.read_all(), most)
                path.unlink()
                self._write(number, [rows])

            numbers = range(self._n_partitions)
            for _ in track(pool.map(finish, numbers), "partitions", total=self._n_partitions):
                pass
        shutil.rmtree(spilled)

    def _spill(
        self, spilled: Path, held: list[pa.Table], batches: Iterator[pa.Table], most: int
    ) -> None:
        key = np.frombuffer(secrets.token_bytes(16), np.uint64)
        schema = self._schema.append(pa.field(PERSON, pa.large_binary()))
        with ExitStack() as stack:
            writers = []
            for number in range(self._n_partitions):
                file = stack.enter_context((spilled / f"{number:04d}").open("xb"))
                writers.append(stack.enter_context(pa.ipc.new_stream(file, schema)))

            def split(batch: pa.Table) -> None:
                data, offsets = bytes_of(batch.column(PERSON).combine_chunks())
                hashes = np.empty(len(batch), np.uint64)
                keyed_hashes(data, offsets, key, hashes)
                places = (hashes % np.uint64(self._n_partitions)).astype(np.uint16)
                order = np.argsort(places, kind="stable")  # of 16 bits: by counting
                rows = batch.take(pa.array(order))
                ends = np.cumsum(np.bincount(places, minlength=self._n_partitions)).tolist()
                for writer, start, end in zip(writers, [0, *ends], ends, strict=False):
                    if end > start:
                        writer.write_table(rows.slice(start, end - start))

            while held:
                split(held.pop(0))
            for batch in batches:
                split(_capped(batch, most))

    def _write(self, number: int, tables: Iterable[pa.Table]) -> None:
        n_rows = 0
        sealed = SealedWriter(partition_path(self._folder, number), self._salt, number)
        with (
            sealed,
            # LZ4 is read twice as fast as zstd; bounds of columns would help nobody here.
            pa_parquet.ParquetWriter(
                sealed,
                self._schema,
                compression="lz4",
                use_dictionary=self._coded,
                write_statistics=False,
            ) as file,
        ):
            for table in tables:
                file.write_table(table.select(self._schema.names), row_group_size=ROW_GROUP)
                n_rows += len(table)
        self._sealed[number] = n_rows, sealed.seal

    def _refuse(self) -> None:
        raise InvalidData(
            f"The source has more than the {self._size.most_records} records that were declared."
            " Nothing was registered. Declare more (--most-records)."
        )


def _schema(domain: Domain) -> pa.Schema:
    """Numbers as they are, codes in as few bytes as their lists need."""
    numbers = [pa.field(name, pa.float64(), nullable=False) for name in domain.numeric_names]
    codes = [
        pa.field(
            column.name,
            pa.from_numpy_dtype(np.min_scalar_type(len(column.values) - 1)),
            nullable=False,
        )
        for column in domain.categorical()
    ]
    return pa.schema([*numbers, *codes])


def _batches(portions: Iterable[Portion], domain: Domain) -> Iterator[pa.Table]:
    """The records as Arrow tables of at least `BATCH` rows, the last one excepted."""
    schema = _schema(domain)
    waiting: list[pa.Table] = []
    n_waiting = n_read = 0
    for portion in portions:
        waiting.append(_as_arrow(portion, schema))
        n_waiting += len(portion)
        n_read += len(portion)
        report("records", n_read)
        if n_waiting >= BATCH:
            yield pa.concat_tables(waiting)
            waiting, n_waiting = [], 0
    if n_waiting:
        yield pa.concat_tables(waiting)


def _as_arrow(portion: Portion, schema: pa.Schema) -> pa.Table:
    columns: list[Any] = [pa.array(values) for values in portion.numbers.values()]
    columns += [
        pa.array(places.astype(schema.field(name).type.to_pandas_dtype()))
        for name, places in portion.codes.items()
    ]
    if portion.persons is not None:
        columns.append(portion.persons)
        schema = schema.append(pa.field(PERSON, pa.large_binary()))
    return pa.Table.from_arrays(columns, schema=schema)


def _capped(rows: pa.Table, most: int) -> pa.Table:
    """The first rows of each person."""
    keep: NDArray[np.bool_] = first_rows(numbered(rows.column(PERSON)), most)
    return rows if keep.all() else rows.filter(pa.array(keep))
