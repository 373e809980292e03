"""Rows on disk, in partitions of Parquet that are read block by block, each piece sealed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import pyarrow.parquet as pa_parquet
from numpy.typing import NDArray

from privod.data.domain import Domain
from privod.data.folding import Block, Fold, Sweep, one_block, side_by_side, swept
from privod.data.table import RowsInMemory
from privod.data.views import SeenRows, View
from privod.engines.sealed_file import SealedReader, sealed_again
from privod.engines.size import SizeClass
from privod.engines.spilling import SpilledParts
from privod.errors import InvalidData
from privod.progress import track
from privod.threads import available_threads, thread_pool

MANIFEST, SALT = "manifest.json", "salt"
AT_ONCE = 1 << 16  # rows in a block
Floats = NDArray[np.float64]
State = TypeVar("State")


def partition_path(folder: Path, number: int) -> Path:
    """Where a partition lies."""
    return folder / f"rows-{number:04d}.parquet"


@dataclass(frozen=True)
class Manifest:
    """What lies in a folder of rows: private, all but the size class.

    Parameters
    ----------
    size : SizeClass
        The most records, as the owner declared.
    rows : tuple of int
        How many rows each partition has.
    seals : tuple of str
        The seal of each partition.
    complete : int
        How many rows miss nothing but what has a fill.
    report : str
        The seal of the owner's report.
    """

    size: SizeClass
    rows: tuple[int, ...]
    seals: tuple[str, ...]
    report: str = ""
    complete: int = 0

    def __repr__(self) -> str:
        return f"Manifest({self.size}, rows private)"

    def text(self) -> str:
        """What is written to disk."""
        content = {
            "version": 1,
            "most_records": self.size.most_records,
            "rows": self.rows,
            "seals": self.seals,
            "complete": self.complete,
            "report": self.report,
        }
        return json.dumps(content, sort_keys=True)

    @classmethod
    def read(cls, folder: Path, salt: bytes, seal: str) -> Self:
        """The manifest in a folder, if it is the one that was sealed."""
        text = (folder / MANIFEST).read_text(encoding="utf-8")
        if manifest_seal(text, salt) != seal:
            raise InvalidData("The rows on disk are not those that were registered.")
        content = json.loads(text)
        size = SizeClass(content["most_records"])
        rows, seals = tuple(content["rows"]), tuple(content["seals"])
        return cls(size, rows, seals, str(content["report"]), content["complete"])

    def seal(self, salt: bytes) -> str:
        """One seal for everything in the folder, for the ledger."""
        return manifest_seal(self.text(), salt)


def manifest_seal(text: str, salt: bytes) -> str:
    """What the ledger holds of a manifest."""
    return hashlib.sha256(salt + b"manifest" + text.encode()).hexdigest()


class Engine(Protocol):
    """Who adds up over partitions, if not the threads of this process."""

    @property
    def address(self) -> str | None:
        """Where another process finds it; None if it serves this one alone."""

    def check(self, rows: StoredRows) -> None:
        """Raise `Unavailable` unless it can add up these rows."""

    def close(self) -> None:
        """Let go of it."""

    def fold(self, rows: StoredRows, fold: Fold[State]) -> State | None:
        """Add up over all rows; None if that did not come about, whatever the reason."""

    def sweep(self, rows: StoredRows, sweep: Sweep[State]) -> State | None:
        """Add up over parts that each look at all rows; None if that did not come about."""


class StoredRows:
    """Rows in partitions on disk; of the columns asked for, a block at a time is in memory.

    Parameters
    ----------
    folder : Path
        Where they lie, with their salt and manifest.
    seal : str
        What the ledger holds of them.
    engine : Engine, optional
        Who adds up; without one, or when it fails, the threads of this process do.
    """

    def __init__(self, folder: Path, seal: str, engine: Engine | None = None) -> None:
        self.folder, self.seal = folder, seal
        self._salt = (folder / SALT).read_bytes()
        self._manifest = Manifest.read(folder, self._salt, seal)
        self._engine = engine

    def __len__(self) -> int:
        return sum(self._manifest.rows)

    def __repr__(self) -> str:
        return f"StoredRows({self.size}, rows private)"

    @property
    def size(self) -> SizeClass:
        """The most records, as the owner declared."""
        return self._manifest.size

    @property
    def n_partitions(self) -> int:
        """How many partitions there are; of a class that is not held in memory, this is public."""
        return len(self._manifest.rows)

    @property
    def held_in_memory(self) -> bool:
        """They are read from disk, portion by portion."""
        return False

    @property
    def most_records(self) -> int:
        """How many there may be, as declared."""
        return self.size.most_records

    def fold(self, fold: Fold[State]) -> State:
        """Add up partition by partition."""
        if self._engine is not None:
            found = self._engine.fold(self, fold)
            if found is not None:
                return found
        return self.fold_here(fold, range(self.n_partitions))

    def sweep(self, sweep: Sweep[State]) -> State:
        """Add up part by part."""
        if self._engine is not None:
            found = self._engine.sweep(self, sweep)
            if found is not None:
                return found
        return self.sweep_here(sweep, range(sweep.n_parts))

    @property
    def as_stored(self) -> StoredRows:
        """Itself: these are all rows, with their gaps."""
        return self

    def seen(self, domain: Domain) -> SeenRows:
        """The rows as questions see them: complete, clipped and filled."""
        return SeenRows(self, View(domain), self._manifest.complete)

    def check_engine(self) -> None:
        """Raise `Unavailable` unless who adds up can do so; before anything is charged."""
        if self._engine is not None:
            self._engine.check(self)

    def fold_here(
        self, fold: Fold[State], partitions: Sequence[int], threads: int | None = None
    ) -> State:
        """Add up some partitions in the threads of this process, by default in all it may use."""
        states: list[State] = []  # one for each thread that has had a partition

        def add(partition: int) -> None:
            try:
                state = states.pop()
            except IndexError:
                state = fold.start()
            for block in self.blocks(partition, fold.numbers, fold.codes):
                state = fold.add(state, block)
            states.append(state)

        with thread_pool(min(threads or available_threads(), len(partitions) or 1)) as pool:
            for _ in track(pool.map(add, partitions), "partitions", total=len(partitions)):
                pass
        total = fold.start()
        while states:
            total = fold.merge(total, states.pop())
        return total

    def sweep_here(
        self, sweep: Sweep[State], parts: Sequence[int], threads: int | None = None
    ) -> State:
        """Add up some parts in the threads of this process, by default in all it may use.

        The rows are read once and their points sorted into parts on disk; where that cannot be, for
        lack of room or of leave to write, they are read again for each part that is looked at.
        """
        n_threads = threads or available_threads()

        def added_up(read: Callable[[int], Iterable[Floats]]) -> State:
            with thread_pool(min(n_threads, len(parts) or 1)) as pool:
                found = pool.map(lambda part: sweep.part(part, read), parts)
                return swept(sweep, track(found, "parts of space", total=len(parts)))

        with suppress(OSError), SpilledParts(self.folder, sweep.n_parts) as spilled:
            self._spread(sweep, spilled, n_threads)
            return added_up(spilled.read)
        return added_up(partial(self._read_again, sweep))

    def _spread(self, sweep: Sweep[Any], spilled: SpilledParts, threads: int) -> None:
        def spread(partition: int) -> None:
            for block in self.blocks(partition, sweep.numbers, sweep.codes):
                for part, points in sweep.spread(block):
                    spilled.add(part, points)

        with thread_pool(min(threads, self.n_partitions)) as pool:
            found = pool.map(spread, range(self.n_partitions))
            for _ in track(found, "partitions", total=self.n_partitions):
                pass
        spilled.finish()

    def _read_again(self, sweep: Sweep[Any], part: int) -> Iterator[Floats]:
        for partition in range(self.n_partitions):
            for block in self.blocks(partition, sweep.numbers, sweep.codes):
                yield from (points for number, points in sweep.spread(block) if number == part)

    def blocks(
        self, partition: int, numbers: Sequence[str], codes: Sequence[str]
    ) -> Iterator[Block]:
        """The rows of a partition, in order, a bounded number at a time."""
        path, seal = partition_path(self.folder, partition), self._manifest.seals[partition]
        with (
            SealedReader(path, self._salt, partition, seal) as sealed,
            # Arrow would otherwise read the whole file ahead.
            pa_parquet.ParquetFile(sealed, pre_buffer=False) as file,
        ):
            wanted = list(dict.fromkeys((*numbers, *codes)))
            for batch in file.iter_batches(AT_ONCE, columns=wanted, use_threads=False):
                if not wanted:
                    yield Block(np.empty((len(batch), 0)), np.empty((len(batch), 0), np.int64))
                    continue
                cells = {name: np.from_dlpack(batch.column(name)) for name in wanted}
                yield Block(
                    side_by_side([cells[name] for name in numbers], len(batch), np.float64),
                    side_by_side([cells[name] for name in codes], len(batch), np.int64),
                )

    def gathered(self, numbers: Sequence[str], codes: Sequence[str]) -> Block:
        """All rows of some columns, partition by partition; who asks was held to the size class."""
        return one_block(self.in_order(numbers, codes), len(self), (len(numbers), len(codes)))

    def in_order(self, numbers: Sequence[str], codes: Sequence[str]) -> Iterator[Block]:
        """The same, block by block."""
        for partition in range(self.n_partitions):
            yield from self.blocks(partition, numbers, codes)

    def in_memory(self, domain: Domain) -> RowsInMemory:
        """The rows as questions see them, held in memory."""
        n = self._manifest.complete
        numbers = {name: np.empty(n) for name in domain.numeric_names}
        codes = {name: np.empty(n, dtype=np.int64) for name in domain.categorical_names}
        at = 0
        for block in self.seen(domain).in_order(tuple(numbers), tuple(codes)):
            for place, column in enumerate(numbers.values()):
                column[at : at + len(block)] = block.numbers[:, place]
            for place, coded in enumerate(codes.values()):
                coded[at : at + len(block)] = block.codes[:, place]
            at += len(block)
        return RowsInMemory(n, numbers, codes, self.most_records, self)

    def sealed_again(self) -> bool:
        """Whether every partition is, as a whole, the one that was written."""
        return all(
            sealed_again(partition_path(self.folder, number), self._salt, number) == seal
            for number, seal in enumerate(self._manifest.seals)
        )
