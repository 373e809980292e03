"""Cells of a grid counted block by block: all of them, or those that hold a row."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Ints, Words
from privod.data.folding import Block
from privod.outliers.grid.kernels.counts import count_dense, count_runs, pack_rows

MOST_KEY = 2**64 - 1
WAITING = 1 << 22  # rows whose cells are kept one by one before they are sorted


class OccupiedCells(NamedTuple):
    """Some cells, one row each, in ascending order, with their counts."""

    cells: NDArray[np.int32]
    counts: Ints


@dataclass(frozen=True)
class _Cells:
    """Columns that span a grid: where each begins, and how many cells it has to a unit."""

    numbers: tuple[str, ...]
    lows: tuple[float, ...]
    scales: tuple[float, ...]
    cells_per_axis: int

    @property
    def codes(self) -> tuple[str, ...]:
        """No categorical column spans a grid."""
        return ()


class AllCells(_Cells):
    """How many rows each cell holds, by cell index."""

    def start(self) -> Ints:
        return np.zeros(self.cells_per_axis ** len(self.numbers), dtype=np.int64)

    def add(self, state: Ints, block: Block) -> Ints:
        points = np.ascontiguousarray(block.numbers)
        count_dense(points, self.lows, self.scales, np.uint32(self.cells_per_axis), state)
        return state

    def merge(self, left: Ints, right: Ints) -> Ints:
        left += right
        return left


@dataclass
class PackedCells:
    """Cells as keys, ascending and counted, and the keys of rows that wait to be."""

    keys: Words
    counts: Ints
    waiting: list[Words] = field(default_factory=list)
    n_waiting: int = 0


class SomeCells(_Cells):
    """The cells that hold a row, and how many rows: a key of 64-bit words for each."""

    @cached_property
    def _bits(self) -> int:
        return max(1, (self.cells_per_axis - 1).bit_length())

    @property
    def n_words(self) -> int:
        return -(-len(self.numbers) // (64 // self._bits))

    def start(self) -> PackedCells:
        return PackedCells(np.empty((0, self.n_words), np.uint64), np.empty(0, np.int64))

    def add(self, state: PackedCells, block: Block) -> PackedCells:
        """Keep the rows' keys, and count those that wait once they are many."""
        words = self.keys_of(block.numbers)
        state.waiting.append(words)
        state.n_waiting += len(words)
        if state.n_waiting >= max(WAITING, len(state.keys)):
            return self._counted(state)
        return state

    def keys_of(self, points: NDArray[np.float64]) -> Words:
        """The key of each row that is listed."""
        words = np.empty((len(points), self.n_words), dtype=np.uint64)
        lows, scales = np.array(self.lows), np.array(self.scales)
        pack_rows(points, lows, scales, self.cells_per_axis, self._bits, words)
        return words

    def ranges(self, points: NDArray[np.float64], n_ranges: int) -> list[CellsBetween]:
        """The same in parts, ascending, each with about as many cells as these points have."""
        first_words = np.sort(self.keys_of(points)[:, 0])
        places = len(first_words) * np.arange(1, n_ranges) // n_ranges
        cuts = first_words[places].tolist() if len(first_words) else [0] * (n_ranges - 1)
        axes = (self.numbers, self.lows, self.scales, self.cells_per_axis)
        return [CellsBetween(*axes, low, high) for low, high in pairwise([0, *cuts, MOST_KEY + 1])]

    def merge(self, left: PackedCells, right: PackedCells) -> PackedCells:
        left, right = self._counted(left), self._counted(right)
        keys = np.concatenate([left.keys, right.keys])
        return PackedCells(*_summed(keys, np.concatenate([left.counts, right.counts])))

    def cells(self, state: PackedCells) -> OccupiedCells:
        state = self._counted(state)
        n_axes, per_word = len(self.numbers), 64 // self._bits
        cells = np.empty((len(state.keys), n_axes), dtype=np.int32)
        for axis in range(n_axes):
            word = axis // per_word
            behind = min((word + 1) * per_word, n_axes) - 1 - axis  # axes to the right in its word
            own = state.keys[:, word] >> np.uint64(self._bits * behind)
            cells[:, axis] = own & np.uint64(2**self._bits - 1)
        return OccupiedCells(cells, state.counts)

    def _counted(self, state: PackedCells) -> PackedCells:
        if not state.waiting:
            return state
        fresh = np.concatenate(state.waiting)
        state.waiting.clear()
        keys, counts = _summed(fresh, None)
        if len(state.keys):
            keys = np.concatenate([state.keys, keys])
            keys, counts = _summed(keys, np.concatenate([state.counts, counts]))
        return PackedCells(keys, counts)


@dataclass(frozen=True)
class CellsBetween(SomeCells):
    """Those of the cells whose key's first word lies from `begin` to below `end`."""

    begin: int
    end: int

    def keys_of(self, points: NDArray[np.float64]) -> Words:
        words = super().keys_of(points)
        first = words[:, 0]
        inside = first >= np.uint64(self.begin)
        if self.end <= MOST_KEY:
            inside &= first < np.uint64(self.end)
        return words[inside]


def _summed(keys: Words, counts: Ints | None) -> tuple[Words, Ints]:
    """Different keys, ascending, and the sum of what each counts; one each if nothing is said."""
    if keys.shape[1] == 1 and counts is None:  # numbers alone sort several times as fast
        found, times = np.unique(keys[:, 0], return_counts=True)
        return found[:, None], times.astype(np.int64)
    order = np.lexsort(keys.T[::-1])
    starts, lengths = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    n_runs = count_runs(keys, order, starts, lengths)
    lengths = lengths[:n_runs]
    if counts is None or not n_runs:
        return keys[starts[:n_runs]], lengths.copy()
    firsts = np.cumsum(lengths) - lengths
    return keys[starts[:n_runs]], np.add.reduceat(counts[order], firsts)
