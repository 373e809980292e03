"""How many of some points can one closed ball of a given radius contain, wherever its center?

Exactly on the line, and from 2 dimensions on an upper bound f that still suits smooth
sensitivity: (a) f is at least the cover, (b) f never falls when points are added, (c) one more
point raises f by at most 1. Which bounds are taken depends on the dimension and on the public
extent alone, never on the points, and their work is bounded by the number of points. Proofs:
docs/proofs/outlier_count.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Floats
from privod.outliers.crowds.distance import as_points
from privod.outliers.crowds.kernels.cover_bounds import (
    around_vertices,
    around_vertices_of_plane,
    largest_core,
    near_pairs,
    slide,
)
from privod.outliers.crowds.kernels.cover_plane import densest, gather

SLACK = 2.0**-20  # balls are taken this much larger: it covers rounding, and breaks lattice ties
PLANE_FINENESS = 0.25  # vertex balls reach (1 + this) radii in pairs of columns ...
SPACE_FINENESS = {3: 0.5, 4: 1.0}  # ... and in the whole space, where that is affordable
LARGEST_EXTENT = 1e8  # in radii; beyond it lattice vertices would round
LARGEST_LATTICE = 1000  # vertices on each side of 0 that are counted in a table
LATTICE = 2**20  # steps of the plane's lattice in a radius
CELL = 2 * LATTICE  # a cell of the plane, which is cut into boxes of one center each ...
HALVINGS = 8  # ... by so many cuts of its side in two
TO_A_CENTER = math.ceil(CELL / 2**HALVINGS / math.sqrt(2))  # at most, from any place
REACH = LATTICE + 1 + TO_A_CENTER  # points move by less than a step to get onto the lattice
STEPS_PER_POINT = 17_000  # at most, for a cover: the proof counts 16,933
CELLS_PER_ROW = 2**29  # more than there are within the extent
ROWS = (-1, 0, 1)


class Cover:
    """The cover, or its bound, of any subset of some points.

    `extent` is a public bound of the coordinates' absolute values. With `cores`, which public
    numbers decide, pairs of points are compared too, above the plane.
    """

    def __init__(
        self, points: NDArray[Any], radius: float, extent: float, *, cores: bool = False
    ) -> None:
        self._points = as_points(points)
        self._radius = float(radius) * (1 + SLACK)
        self._extent = extent
        self._fine = radius > 0 and extent <= LARGEST_EXTENT * radius
        self._plane = None
        self._near = None
        if cores and self._points.shape[1] > 2:  # two points of a ball are within two radii
            self._near = near_pairs(self._points, 2 * self._radius * (1 + SLACK))
        if self._fine and self._points.shape[1] == 2:
            self._plane = _Plane(self._points, float(radius))
        else:
            self._orders = np.argsort(self._points, axis=0, kind="stable")
            self._columns = np.take_along_axis(self._points, self._orders, axis=0)

    def of(self, chosen: NDArray[np.bool_], enough: int | None = None) -> int:
        """At least the most chosen points in one ball; exactly that on the line.

        More than `enough` is not told apart from `enough`, which saves time.
        """
        best = len(chosen) if enough is None else min(enough, len(chosen))
        best = min(best, int(chosen.sum()))
        d = self._points.shape[1]
        if best <= 0:
            return max(best, 0)
        if self._radius == 0:
            return min(
                best, int(np.unique(self._points[chosen], axis=0, return_counts=True)[1].max())
            )
        if self._plane is not None:
            return self._plane.cover(chosen, best)
        for column in range(d):
            order = np.ascontiguousarray(chosen[self._orders[:, column]], dtype=np.int64)
            values = np.ascontiguousarray(self._columns[:, column])
            best = int(slide(values, order, 2 * self._radius, best))
        if d > 2 and self._fine:
            for column in range(d):
                best = self._around_vertices((column, (column + 1) % d), chosen, best)
            if d in SPACE_FINENESS:
                best = self._around_vertices(tuple(range(d)), chosen, best)
        if self._near is not None:
            best = int(largest_core(self._near, np.flatnonzero(chosen), best))
        return best

    def _around_vertices(
        self, columns: tuple[int, ...], chosen: NDArray[np.bool_], enough: int
    ) -> int:
        """Every ball center has a lattice vertex within fineness * radius of it."""
        d = len(columns)
        fineness = PLANE_FINENESS if d == 2 else SPACE_FINENESS[d]
        spacing = 2 * fineness * self._radius / math.sqrt(d)
        reach = self._radius * (1 + fineness) * (1 + SLACK)
        farthest = math.ceil((self._extent + reach) / spacing) + 2
        some = np.ascontiguousarray(self._points[:, columns][chosen])
        if d == 2 and farthest <= LARGEST_LATTICE:
            return int(around_vertices_of_plane(some, spacing, reach, farthest, enough))
        return int(around_vertices(some, spacing, reach, enough))


def cover(points: NDArray[Any], radius: float, extent: float | None = None) -> int:
    """At least the most points in one closed ball; exactly that on the line."""
    array = as_points(points)
    if len(array) == 0:
        return 0
    known = float(np.abs(array).max()) if extent is None else extent
    return Cover(array, radius, known).of(np.ones(len(array), dtype=bool))


class _Plane:
    """Points of the plane, moved to multiples of a millionth of the radius, in order of cells.

    A fixed lattice, so that moving one point moves no other. Centers of disks are tried on a
    coarser fixed lattice, and the disks are enough larger to hold whatever any disk held before.
    """

    def __init__(self, points: Floats, radius: float) -> None:
        whole = np.rint(points / (radius / LATTICE)).astype(np.int64)
        cells = whole // CELL
        keys = _key(cells[:, 0], cells[:, 1])
        self._order = np.lexsort((whole[:, 1], whole[:, 0], keys))
        ordered, keys = whole[self._order], keys[self._order]
        self._x, self._y = np.ascontiguousarray(ordered[:, 0]), np.ascontiguousarray(ordered[:, 1])
        occupied = np.unique(keys)
        around = [_key(row, column) for row in (-1, 0, 1) for column in (-1, 0, 1)]
        centers = np.unique(np.concatenate([occupied + shift for shift in around]))
        rows = (centers + CELLS_PER_ROW // 2) // CELLS_PER_ROW
        columns = centers - rows * CELLS_PER_ROW
        self._corners = np.column_stack([rows, columns]) * CELL
        beside = [(_key(rows + row, columns - 1), _key(rows + row, columns + 1)) for row in ROWS]
        self._begins = np.column_stack([np.searchsorted(keys, low) for low, _ in beside])
        self._ends = np.column_stack([np.searchsorted(keys, high, "right") for _, high in beside])

    def cover(self, chosen: NDArray[np.bool_], enough: int) -> int:
        """The most chosen points within reach of one center, or `enough` if more."""
        return self.counted_cover(chosen, enough)[0]

    def counted_cover(self, chosen: NDArray[np.bool_], enough: int) -> tuple[int, int]:
        """The same, and how many steps it took: at most STEPS_PER_POINT a point."""
        marks = chosen[self._order].astype(np.int64)
        points: Any = gather(self._x, self._y, marks, self._begins, self._ends)
        order = np.argsort(-points.total, kind="stable")
        found: Any = densest(points, self._corners, order, CELL, HALVINGS, REACH, enough)
        return int(found[0]), int(found[1])


def _key(rows: Any, columns: Any) -> Any:
    """One number for a cell, in the order of rows and then columns."""
    return rows * CELLS_PER_ROW + columns
