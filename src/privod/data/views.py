"""Which stored records does a question see, and as what?

Records are stored as they came: a number below or above its range as -inf or inf, a missing one as
NaN, a missing category as -1. A question sees complete records, clipped and filled, and with
conditions only those that meet them. A view does this block by block, each record by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Floats
from privod.data.columns import Numeric
from privod.data.conditions import NO_CONDITIONS, Conditions
from privod.data.domain import Domain
from privod.data.folding import Adding, Block, Fold, Rows, Sweep, one_block
from privod.data.kernels.ranges import settle

COMPLETE = "\0complete"  # a code of every stored record; no column is called so
State = TypeVar("State")


@dataclass(frozen=True)
class View:
    """What a question sees of stored records: those that meet some conditions.

    Where it settles, numbers are clipped, gaps filled and incomplete records left out.
    """

    domain: Domain
    where: Conditions = NO_CONDITIONS
    settles: bool = True

    def numbers(self, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """The numeric columns that must be read."""
        numeric = self.domain.numeric_names
        return _once(wanted, (name for name in self.where.columns if name in numeric))

    def codes(self, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """The categorical columns that must be read, and which records are complete."""
        numeric = self.domain.numeric_names
        needed = [name for name in self.where.columns if name not in numeric]
        gaps = self.settles and any(column.fill is None for column in self.domain.columns)
        return _once(wanted, [*needed, *([COMPLETE] if gaps else [])])

    def of(self, block: Block, numbers: tuple[str, ...], codes: tuple[str, ...]) -> Block:
        """The records of a block that are seen, in the columns wanted; its numbers are changed."""
        seen = np.ones(len(block), dtype=bool)
        held, read = self.numbers(numbers), self.codes(codes)
        if COMPLETE in read:
            seen &= block.codes[:, read.index(COMPLETE)] > 0
        for name in self.where.columns:
            seen &= self.where.met_by(self.domain[name], self._column(block, name, numbers, codes))
        if not seen.all():
            block = Block(block.numbers.T[:, seen].T, block.codes[seen])
        own = block.numbers
        if held != numbers:
            own = own.T[[held.index(name) for name in numbers]].T
        coded = block.codes[:, [read.index(name) for name in codes]]
        if not self.settles:
            return Block(own, coded)
        for place, name in enumerate(codes):
            coded[:, place] = self.settled(name, coded[:, place])
        return Block(settle(own.T, *self._ranges(numbers)).T, coded)

    def settled(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """A column's stored values as a question sees them."""
        column = self.domain[name]
        if not isinstance(column, Numeric):
            fill = None if column.fill is None else int(column.number(column.fill))
            return values if fill is None else np.where(values < 0, fill, values)
        return np.asarray(settle(np.array(values)[None], *self._ranges((name,)))[0])

    def _ranges(self, names: tuple[str, ...]) -> tuple[Floats, Floats]:
        """The ends of some columns' ranges, and their fills."""
        columns = self.domain.numeric(names) if names else ()
        ends = [column.low for column in columns], [column.high for column in columns]
        fills = [np.nan if column.fill is None else column.fill for column in columns]
        return np.array(ends, dtype=np.float64), np.array(fills, dtype=np.float64)

    def _column(
        self, block: Block, name: str, numbers: tuple[str, ...], codes: tuple[str, ...]
    ) -> NDArray[Any]:
        if name in self.domain.numeric_names:
            return self.settled(name, block.numbers[:, self.numbers(numbers).index(name)])
        return self.settled(name, block.codes[:, self.codes(codes).index(name)])


Inner = TypeVar("Inner", bound=Adding[Any])


@dataclass(frozen=True)
class _Seen(Generic[Inner]):
    """Something that adds up over what a view shows."""

    inner: Inner
    view: View

    @property
    def numbers(self) -> tuple[str, ...]:
        return self.view.numbers(self.inner.numbers)

    @property
    def codes(self) -> tuple[str, ...]:
        return self.view.codes(self.inner.codes)

    def start(self) -> Any:
        return self.inner.start()

    def merge(self, left: Any, right: Any) -> Any:
        return self.inner.merge(left, right)


class SeenFold(_Seen[Fold[Any]]):
    """A fold over what a view shows."""

    def add(self, state: Any, block: Block) -> Any:
        return self.inner.add(state, self.view.of(block, self.inner.numbers, self.inner.codes))


class SeenSweep(_Seen[Sweep[Any]]):
    """A sweep over what a view shows."""

    @property
    def n_parts(self) -> int:
        return self.inner.n_parts

    def spread(self, block: Block) -> Iterable[tuple[int, Floats]]:
        return self.inner.spread(self.view.of(block, self.inner.numbers, self.inner.codes))

    def part(self, number: int, read: Callable[[int], Iterable[Floats]]) -> Any:
        return self.inner.part(number, read)


@dataclass(frozen=True)
class Records:
    """How many rows there are."""

    numbers: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()

    def start(self) -> int:
        return 0

    def add(self, state: int, block: Block) -> int:
        return state + len(block)

    def merge(self, left: int, right: int) -> int:
        return left + right


def _once(wanted: tuple[str, ...], needed: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*wanted, *needed)))


class SeenRows:
    """Rows through a view; how many are seen is counted when asked for, unless it is known."""

    held_in_memory = False

    def __init__(self, base: Rows, view: View, length: int | None = None) -> None:
        self.base, self.view = base, view
        if length is not None:
            vars(self)["_length"] = length  # or it is counted when asked for

    def __len__(self) -> int:
        return self._length

    @cached_property
    def _length(self) -> int:
        return self.fold(Records())

    @property
    def as_stored(self) -> Rows:
        """The rows that meet the conditions, with their gaps."""
        if not self.view.where:
            return self.base.as_stored
        met = View(self.view.domain, self.view.where, settles=False)
        return SeenRows(self.base.as_stored, met)

    @property
    def most_records(self) -> int | None:
        return self.base.most_records

    def fold(self, fold: Fold[State]) -> State:
        found: State = self.base.fold(SeenFold(fold, self.view))
        return found

    def sweep(self, sweep: Sweep[State]) -> State:
        found: State = self.base.sweep(SeenSweep(sweep, self.view))
        return found

    def gathered(self, numbers: Sequence[str], codes: Sequence[str]) -> Block:
        shape = len(numbers), len(codes)
        return one_block(self.in_order(numbers, codes), len(self), shape)

    def in_order(self, numbers: Sequence[str], codes: Sequence[str]) -> Iterator[Block]:
        seen = SeenFold(Records(tuple(numbers), tuple(codes)), self.view)
        for block in self.base.in_order(seen.numbers, seen.codes):
            yield self.view.of(block, tuple(numbers), tuple(codes))
