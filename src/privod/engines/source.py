"""Where registered rows lie, and how they are added up there, whoever reads them.

Every byte or row that a `Source` hands out was checked against what was registered. How many pieces
there are follows from the declared size, so that progress and tasks tell nothing about rows.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from privod.arrays import Floats
from privod.data.domain import Domain
from privod.data.folding import Block, Fold, Sweep, one_block, swept
from privod.data.table import RowsInMemory
from privod.data.views import SeenRows, View
from privod.engines.manifest import Manifest
from privod.engines.size import SizeClass
from privod.engines.spilling import SpilledParts
from privod.progress import track
from privod.threads import available_threads, thread_pool

AT_ONCE = 1 << 15  # rows in a block: few enough for the cache, enough to call Python for
State = TypeVar("State")


class Source(Protocol):
    """Where rows lie, in pieces."""

    @property
    def pieces(self) -> int:
        """How many pieces there are; of a class that is not held in memory, this is public."""

    def read(self, piece: int, numbers: Sequence[str], codes: Sequence[str]) -> Iterator[Block]:
        """The rows of a piece as they are stored, in order, a bounded number at a time.

        Raises `InvalidData` before its end if they are not the registered ones.
        """

    def identity(self) -> None:
        """Raise `InvalidData` if the rows can be seen not to be the registered ones; cheap."""

    def sealed_again(self) -> bool:
        """Whether all of it is what was registered; reads everything."""


class Engine(Protocol):
    """Who adds up over partitions, if not the threads of this process."""

    @property
    def address(self) -> str | None:
        """Where another process finds it; None if it serves this one alone."""

    def check(self, rows: RegisteredRows) -> None:
        """Raise `Unavailable` unless it can add up these rows."""

    def close(self) -> None:
        """Let go of it."""

    def fold(self, rows: RegisteredRows, fold: Fold[State]) -> State | None:
        """Add up over all rows; None if that did not come about, whatever the reason."""

    def sweep(self, rows: RegisteredRows, sweep: Sweep[State]) -> State | None:
        """Add up over parts that each look at all rows; None if that did not come about."""


def versions() -> tuple[str, ...]:
    """What must be the same here and at an engine for counts to be."""
    packages = [version(name) for name in ("privod", "numpy", "pyarrow", "numba")]
    return (*platform.python_version_tuple()[:2], *packages)


class RegisteredRows:
    """Rows in pieces, wherever they lie; of the columns asked for, a block at a time is in memory.

    The folder is private: the manifest lies there, and what spills. Without an engine, or when it
    fails, the threads of this process add up.
    """

    held_in_memory = False

    def __init__(
        self,
        source: Source,
        manifest: Manifest,
        folder: Path,
        seal: str,
        engine: Engine | None = None,
    ) -> None:
        self.source, self.folder, self.seal = source, folder, seal
        self._manifest, self._engine = manifest, engine

    def __len__(self) -> int:
        return sum(self._manifest.rows)

    def __repr__(self) -> str:
        return f"RegisteredRows({self.size}, rows private)"

    @property
    def size(self) -> SizeClass:
        """The most records, as the owner declared."""
        return self._manifest.size

    @property
    def most_records(self) -> int:
        return self.size.most_records

    @property
    def as_stored(self) -> RegisteredRows:
        """Itself: these are all rows, with their gaps."""
        return self

    def seen(self, domain: Domain) -> SeenRows:
        """The rows as questions see them: complete, clipped and filled."""
        return SeenRows(self, View(domain), self._manifest.complete)

    def check_engine(self) -> None:
        """Raise `Unavailable` unless who adds up can do so; before anything is charged."""
        if self._engine is not None and not self.size.in_memory:
            self._engine.check(self)

    def fold(self, fold: Fold[State]) -> State:
        if self._engine is not None:
            found = self._engine.fold(self, fold)
            if found is not None:
                return found
        return self.fold_here(fold, range(self.source.pieces))

    def sweep(self, sweep: Sweep[State]) -> State:
        if self._engine is not None:
            found = self._engine.sweep(self, sweep)
            if found is not None:
                return found
        return self.sweep_here(sweep, range(sweep.n_parts))

    def fold_here(
        self, fold: Fold[State], pieces: Sequence[int], threads: int | None = None
    ) -> State:
        """Add up some pieces in the threads of this process, by default in all it may use."""
        states: list[State] = []  # one for each thread that has had a piece

        def add(piece: int) -> None:
            try:
                state = states.pop()
            except IndexError:
                state = fold.start()
            for block in self.source.read(piece, fold.numbers, fold.codes):
                state = fold.add(state, block)
            states.append(state)

        with thread_pool(min(threads or available_threads(), len(pieces) or 1)) as pool:
            for _ in track(pool.map(add, pieces), "partitions", total=len(pieces)):
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
        pieces = self.source.pieces

        def spread(piece: int) -> None:
            for block in self.source.read(piece, sweep.numbers, sweep.codes):
                for part, points in sweep.spread(block):
                    spilled.add(part, points)

        with thread_pool(min(threads, pieces)) as pool:
            for _ in track(pool.map(spread, range(pieces)), "partitions", total=pieces):
                pass
        spilled.finish()

    def _read_again(self, sweep: Sweep[Any], part: int) -> Iterator[Floats]:
        for block in self.in_order(sweep.numbers, sweep.codes):
            yield from (points for number, points in sweep.spread(block) if number == part)

    def gathered(self, numbers: Sequence[str], codes: Sequence[str]) -> Block:
        """All rows of some columns, piece by piece; who asks was held to the size class."""
        return one_block(self.in_order(numbers, codes), len(self), (len(numbers), len(codes)))

    def in_order(self, numbers: Sequence[str], codes: Sequence[str]) -> Iterator[Block]:
        for piece in range(self.source.pieces):
            yield from self.source.read(piece, numbers, codes)

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
