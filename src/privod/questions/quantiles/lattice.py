"""Where quantiles are looked for: the cells of a column, each cut into a few equal slots.

Many records may share one value, and then several quantiles are that value. So the records of a
cell are dealt out over its slots in a fixed order: the t-th record goes to slot `ORDER[t mod 8]`.
One record more puts one record into one slot and moves no other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privod.arrays import Ints
from privod.data import Date, Numeric, Ordinal, Table
from privod.data.binning import Equal

MOST_CELLS = 1 << 15
ORDER = np.array([0, 4, 2, 6, 1, 5, 3, 7])  # so that a few records lie far apart
SLOTS = len(ORDER)


@dataclass(frozen=True)
class Lattice:
    """The cells of one column; public. Dates and ordered values have one each, if not too many."""

    column: Numeric

    @property
    def exact(self) -> bool:
        """Whether each cell is one value."""
        whole = isinstance(self.column, Date | Ordinal)
        return whole and self.column.high - self.column.low < MOST_CELLS

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return int(self.column.high - self.column.low) + 1 if self.exact else MOST_CELLS

    @property
    def slots(self) -> int:
        """How many places a quantile may have."""
        return self.cells * SLOTS

    def counts(self, table: Table) -> Ints:
        """How many records lie in each slot; not private."""
        low, high = self.column.low, self.column.high
        ends = (low - 0.5, high + 0.5) if self.exact else (low, high)
        held = table.counts([(self.column.name, Equal(*ends, self.cells))])
        dealt = held[:, None] // SLOTS + (np.argsort(ORDER) < held[:, None] % SLOTS)
        return np.asarray(dealt.reshape(-1), np.int64)

    def value(self, slot: int) -> float:
        """The value that stands for a slot: its cell's, or its cell's middle."""
        cell = min(slot // SLOTS, self.cells - 1)
        if self.exact:
            return self.column.low + cell
        return self.column.low + (cell + 0.5) * self._width

    def ends(self, low: int, high: int) -> tuple[float, float]:
        """Values between which everything in the slots from low to below high lies."""
        first, last = low // SLOTS, min(math.ceil(high / SLOTS), self.cells)
        if self.exact:
            return self.column.low + first, self.column.low + max(last - 1, first)
        return self.column.low + first * self._width, self.column.low + last * self._width

    @property
    def _width(self) -> float:
        return (self.column.high - self.column.low) / self.cells
