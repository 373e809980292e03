"""How rare is a record, column by column? By its cells, and by how far outside the ranges it lies.

A cell is half as rare as its density says [HBOS, Goldstein 2012], and half as the share of records
that lie farther out [ECOD, Li 2022].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privod.arrays import Floats
from privod.data import Numeric
from privod.questions.detector_profile.layout import Layout
from privod.questions.detector_profile.shares import Shares

HALF_TAIL = 0.5  # of a column's surprise; the rest is density
OUTSIDE = 2.0  # how fast surprise grows with the log of the distance outside a range
STEPS = 8  # to a range's length outside it: places
FARTHEST = 1e6  # range lengths outside past which farther makes no difference


@dataclass(frozen=True, eq=False)
class Rarity:
    """What each cell of each column adds to a record's rarity, nothing for the commonest."""

    layout: Layout
    tables: list[Floats]

    @classmethod
    def of(cls, layout: Layout, shares: Sequence[Shares]) -> Rarity:
        """From the shares of the records that lie in the cells."""
        pairs = zip(layout.columns, shares, strict=True)
        tables = [_table(each.likely, tails=isinstance(column, Numeric)) for column, each in pairs]
        return cls(layout, tables)

    @cached_property
    def table(self) -> Floats:
        """What every cell adds, column after column."""
        return np.concatenate(self.tables)

    @cached_property
    def ends(self) -> Floats:
        """The ranges of all columns, of shape (columns, 2); outside of categories lies nothing."""
        ends = np.tile([-np.inf, np.inf], (len(self.layout.columns), 1))
        if self.layout.ranges:
            ends[self.layout.numeric] = self.layout.ranges
        return np.asarray(ends)

    def by_column(self, rows: Floats) -> Floats:
        """What every column adds for every record as read: its cell, how far outside it lies."""
        cells = self.layout.axes.cells_of(rows) + self.layout.axes.starts[:-1]
        found = self.table[cells]
        numeric = self.layout.numeric
        if numeric:
            points = rows[:, numeric]
            lows, highs = np.array(self.layout.ranges).T
            beyond = np.fmax(np.fmax(points - highs, lows - points), 0.0) / (highs - lows)
            beyond = np.minimum(np.floor(beyond * STEPS) / STEPS, FARTHEST)
            found[:, numeric] += OUTSIDE * np.log1p(beyond)
        return np.asarray(found)


def _table(shares: Floats, *, tails: bool) -> Floats:
    density = -np.log(shares)
    density -= density.min()
    if not tails:
        return density
    inside = shares[:-1]
    below = inside.cumsum() - inside / 2
    above = inside[::-1].cumsum()[::-1] - inside / 2
    tail = np.append(-np.log(np.minimum(below, above)), density[-1])
    tail -= tail.min()
    return np.asarray((1 - HALF_TAIL) * density + HALF_TAIL * tail)
