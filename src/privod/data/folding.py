"""What can be added up over rows, in any grouping and any order, exactly?

Counts can, and sums of whole numbers; sums of floats cannot. So what a question counts is written
as a fold: a start, how a block of rows is added, how two parts are merged. Whoever holds the rows
decides how they are grouped: in threads, partition by partition, or on other machines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Floats, Ints
from privod.data.binning import Binning, Codes
from privod.threads import available_threads, in_threads

State = TypeVar("State")

ROWS_WORTH_A_THREAD = 200_000
MOST_LOOKED_AT = 1 << 14  # rows that stand for all where only time depends on it


@dataclass(frozen=True)
class Block:
    """Some rows: numbers of shape (n, d) and codes of shape (n, c), in the order asked for."""

    numbers: Floats
    codes: Ints

    def __len__(self) -> int:
        return len(self.numbers)

    def __repr__(self) -> str:
        return "Block(rows private)"


def side_by_side(columns: list[NDArray[Any]], length: int, kind: Any) -> NDArray[Any]:
    """Columns as one array of shape (length, columns), each column in one piece of memory."""
    rows = np.empty((len(columns), length), kind)
    for place, column in enumerate(columns):
        rows[place] = column
    return rows.T


def one_block(blocks: Iterable[Block], length: int, width: tuple[int, int]) -> Block:
    """Blocks of so many rows in all as one, without holding them twice."""
    rows = Block(np.empty((length, width[0])), np.empty((length, width[1]), dtype=np.int64))
    at = 0
    for block in blocks:
        rows.numbers[at : at + len(block)] = block.numbers
        rows.codes[at : at + len(block)] = block.codes
        at += len(block)
    return rows


class Adding(Protocol[State]):
    """Something that adds up; merged parts are equal however rows were grouped."""

    @property
    def numbers(self) -> tuple[str, ...]:
        """The numeric columns of the blocks."""

    @property
    def codes(self) -> tuple[str, ...]:
        """The categorical columns of the blocks."""

    def start(self) -> State:
        """What nothing adds up to."""

    def merge(self, left: State, right: State) -> State:
        """Add two parts; both may be changed."""


class Fold(Adding[State], Protocol[State]):
    """Something that adds up over rows."""

    def add(self, state: State, block: Block) -> State:
        """Add a block of rows; the state given may be changed."""


class Sweep(Adding[State], Protocol[State]):
    """Something that adds up over parts, each of which looks at points of its own and of others.

    Rows are made points of, and sent to parts, in one pass over them.
    """

    @property
    def n_parts(self) -> int:
        """How many parts there are, whatever the rows."""

    def spread(self, block: Block) -> Iterable[tuple[int, Floats]]:
        """The points of a block of rows, an array of shape (n, d) for each part that has some."""

    def part(self, number: int, read: Callable[[int], Iterable[Floats]]) -> State:
        """One part; `read` reads the points of any part, as often as it is called."""


class Rows(Protocol):
    """Where the rows of a table are, and how they are added up there."""

    def __len__(self) -> int:
        """How many there are, which is private."""

    @property
    def most_records(self) -> int | None:
        """How many there may be, as declared; None where nothing was declared."""

    @property
    def held_in_memory(self) -> bool:
        """Whether all rows are held in memory, so that they may be indexed."""

    @property
    def as_stored(self) -> Rows:
        """The same rows as they are stored: with gaps, and marks of what lies outside."""

    def fold(self, fold: Fold[State]) -> State:
        """Add up over all rows."""

    def sweep(self, sweep: Sweep[State]) -> State:
        """Add up over parts that each look at others too."""

    def gathered(self, numbers: Sequence[str], codes: Sequence[str]) -> Block:
        """All rows of some columns at once, in a fixed order."""

    def in_order(self, numbers: Sequence[str], codes: Sequence[str]) -> Iterator[Block]:
        """The same, a bounded number at a time."""


def swept(sweep: Sweep[State], parts: Iterable[State]) -> State:
    """Add up parts."""
    total = sweep.start()
    for part in parts:
        total = sweep.merge(total, part)
    return total


def folded(fold: Fold[State], blocks: Iterable[Block]) -> State:
    """Add up blocks of rows."""
    state = fold.start()
    for block in blocks:
        state = fold.add(state, block)
    return state


def folded_in_threads(
    fold: Fold[State], length: int, between: Callable[[int, int], Iterable[Block]]
) -> State:
    """Add up so many rows, in a band for each thread where it is worth one."""
    bands = min(available_threads(), max(1, length // ROWS_WORTH_A_THREAD))
    cuts = [length * band // bands for band in range(bands + 1)]
    parts = in_threads(lambda band: folded(fold, between(cuts[band], cuts[band + 1])), bands)
    total = parts[0]
    for part in parts[1:]:
        total = fold.merge(total, part)
    return total


@dataclass(frozen=True)
class CellCounts:
    """How many rows lie in each cell that bins of some columns span.

    Columns with `Codes` are categorical. A row that lies in no bin of one axis is counted nowhere.
    """

    axes: tuple[tuple[str, Binning], ...]

    @property
    def numbers(self) -> tuple[str, ...]:
        """The axes that are cut into bins."""
        return tuple(name for name, binning in self.axes if not isinstance(binning, Codes))

    @property
    def codes(self) -> tuple[str, ...]:
        """The axes that have a bin for each value."""
        return tuple(name for name, binning in self.axes if isinstance(binning, Codes))

    @property
    def shape(self) -> tuple[int, ...]:
        """How many bins each axis has."""
        return tuple(binning.size for _, binning in self.axes)

    def start(self) -> Ints:
        return np.zeros(self.shape, dtype=np.int64)

    def add(self, state: Ints, block: Block) -> Ints:
        numbers, codes = iter(block.numbers.T), iter(block.codes.T)
        cells = np.zeros(len(block), dtype=np.int64)
        inside = np.ones(len(block), dtype=bool)
        for _, binning in self.axes:
            values = next(codes) if isinstance(binning, Codes) else next(numbers)
            places = binning.places(values)
            inside &= places >= 0
            cells *= binning.size
            cells += places
        counted = np.bincount(cells[inside], minlength=math.prod(self.shape))
        state += counted.reshape(self.shape)
        return state

    def merge(self, left: Ints, right: Ints) -> Ints:
        left += right
        return left


@dataclass(frozen=True)
class RowSums:
    """Whole numbers that a function makes of some rows, added up over all.

    It is given rows of shape (n, columns), in any grouping: numbers, or positions in lists of
    values. To be added up on another machine it must be one that can be pickled.
    """

    columns: tuple[str, ...]
    numbers: tuple[str, ...]
    work: Callable[[Floats], Ints]

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(name for name in self.columns if name not in self.numbers)

    def start(self) -> Ints:
        return self.work(np.empty((0, len(self.columns))))

    def add(self, state: Ints, block: Block) -> Ints:
        return self.merge(state, self.work(self._rows(block)))

    def merge(self, left: Ints, right: Ints) -> Ints:
        left += right
        return left

    def _rows(self, block: Block) -> Floats:
        if self.columns == self.numbers:
            return block.numbers
        numbers, codes = iter(block.numbers.T), iter(block.codes.T)
        columns = [next(numbers if name in self.numbers else codes) for name in self.columns]
        return side_by_side(columns, len(block), np.float64)


@dataclass(frozen=True)
class SomeRows:
    """A few rows out of many, as points that `place` makes of each, whatever the order of rows."""

    numbers: tuple[str, ...]
    codes: tuple[str, ...]
    place: Callable[[Block], Floats]

    def start(self) -> Floats:
        nothing = Block(np.empty((0, len(self.numbers))), np.empty((0, len(self.codes)), np.int64))
        return self.place(nothing)

    def add(self, state: Floats, block: Block) -> Floats:
        """Keep those whose mixed numbers are the lowest."""
        return self.merge(state, self.place(block))

    def merge(self, left: Floats, right: Floats) -> Floats:
        both = np.concatenate([left, right])
        if len(both) <= MOST_LOOKED_AT:
            return both
        return both[np.argpartition(mixed(both), MOST_LOOKED_AT)[:MOST_LOOKED_AT]]


def mixed(rows: Floats) -> NDArray[np.uint64]:
    """A number for each row, equal for equal rows."""
    keys = np.full(len(rows), 1469598103934665603, np.uint64)
    for column in (rows + 0.0).T:  # -0.0 equals 0.0, so it must have its bits too
        keys = (keys ^ np.ascontiguousarray(column).view(np.uint64)) * np.uint64(1099511628211)
        keys ^= keys >> np.uint64(29)
    return keys
