"""How rare is a record, column by column? By its cells, and by how far outside the ranges it lies.

A cell is half as rare as its density says [HBOS, Goldstein 2012], and half as the share of records
that lie farther out [ECOD, Li 2022].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privod.data import Numeric
from privod.questions.private_detector.layout import Layout
from privod.questions.private_detector.shares import Shares

__all__ = ["Rarity"]

Floats = NDArray[np.float64]

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

    def sums(self, rows: Floats) -> Floats:
        """What the cells add up to, then what lies outside: in this order, whatever is missing."""
        if len(self.layout.numeric) < len(self.layout.columns) or np.isnan(rows).any():
            found = _row_sums(self._of_cells(rows))
        else:
            tables = np.array([table[:-1] for table in self.tables])
            found = self.layout.grid.sums(tables[None], rows)[0]
        if self.layout.numeric and (overshoot := self._outside(rows)) is not None:
            found += _row_sums(overshoot)
        return np.asarray(found)

    def by_column(self, rows: Floats) -> Floats:
        """What every column adds for every record."""
        found = self._of_cells(rows)
        if self.layout.numeric and (overshoot := self._outside(rows)) is not None:
            found[:, self.layout.numeric] += overshoot
        return found

    def _of_cells(self, rows: Floats) -> Floats:
        numeric = self.layout.numeric
        found = np.empty(rows.shape)
        missing = np.isnan(rows)
        filled = np.where(missing, 0.0, rows)
        if numeric:
            cells = self.layout.grid.cells_of(np.ascontiguousarray(filled[:, numeric]))
        for place, table in enumerate(self.tables):
            if place in numeric:
                own = cells[:, numeric.index(place)].astype(np.int64)
            else:
                own = np.clip(filled[:, place], 0, len(table) - 2).astype(np.int64)
            found[:, place] = table[np.where(missing[:, place], len(table) - 1, own)]
        return found

    def _outside(self, rows: Floats) -> Floats | None:
        """What values outside the ranges add, by the step outside that they lie on."""
        points = rows[:, self.layout.numeric]
        lows, highs = np.array(self.layout.ranges).T
        beyond = np.fmax(np.fmax(points - highs, lows - points), 0.0)
        if not beyond.any():
            return None
        beyond = np.minimum(np.floor(beyond / (highs - lows) * STEPS) / STEPS, FARTHEST)
        return np.asarray(OUTSIDE * np.log1p(beyond))


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


def _row_sums(parts: Floats) -> Floats:
    """Sums of rows, column after column: in one order, however many rows there are."""
    sums = np.zeros(len(parts))
    for column in parts.T:
        sums += column
    return sums
