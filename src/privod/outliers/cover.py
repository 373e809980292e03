"""How many of some points can one closed ball of a given radius contain, wherever its center?

Exactly in 1 and 2 dimensions, and from 3 on an upper bound f that still suits smooth
sensitivity: (a) f is at least the cover, (b) f never falls when points are added, (c) one more
point raises f by at most 1. Which bounds are taken depends on the dimension and on the public
extent alone, never on the points. Proofs: docs/proofs/outlier_count.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.outliers.distance import as_points
from privod.outliers.kernels.cover_bounds import around_vertices, slide
from privod.outliers.kernels.cover_sweep import sweep
from privod.outliers.kernels.crowds_tree import Floats

SLACK = 2.0**-20  # balls are taken this much larger: it covers rounding, and breaks lattice ties
PLANE_FINENESS = 0.5  # vertex balls reach (1 + this) radii in pairs of columns ...
SPACE_FINENESS = {3: 0.5, 4: 1.0}  # ... and in the whole space, where that is affordable
LARGEST_EXTENT = 1e8  # in radii; beyond it lattice vertices would round


class Cover:
    """The cover, or its bound, of any subset of some points.

    Parameters
    ----------
    points
        Array of shape (n, d).
    radius
        Of the ball.
    extent
        A public bound of the coordinates' absolute values.
    """

    def __init__(self, points: NDArray[Any], radius: float, extent: float) -> None:
        self._points = as_points(points)
        self._radius = float(radius) * (1 + SLACK)
        self._orders = np.argsort(self._points, axis=0, kind="stable")
        self._columns = np.take_along_axis(self._points, self._orders, axis=0)
        self._fine = extent <= LARGEST_EXTENT * radius

    def of(self, chosen: NDArray[np.bool_], enough: int | None = None) -> int:
        """At least the most chosen points in one ball; exactly that in 1 and 2 dimensions.

        More than `enough` is not told apart from `enough`, which saves time.
        """
        best = len(chosen) if enough is None else min(enough, len(chosen))
        best = min(best, int(chosen.sum()))
        d = self._points.shape[1]
        if best <= 0:
            return max(best, 0)
        if self._radius == 0:
            return min(best, most_copies(self._points[chosen]))
        if d == 2 and self._fine:
            return cover_in_the_plane(self._points[chosen], self._radius, best)
        for column in range(d):
            best = self._along(column, chosen, best)
        if d > 2 and self._fine:
            points = self._points[chosen]
            if d in SPACE_FINENESS:
                best = _around_vertices(points, self._radius, SPACE_FINENESS[d], best)
            for column in range(d):
                pair = points[:, [column, (column + 1) % d]]
                best = _around_vertices(pair, self._radius, PLANE_FINENESS, best)
        return best

    def _along(self, column: int, chosen: NDArray[np.bool_], enough: int) -> int:
        """The exact cover of the points' shadow on one axis."""
        order = np.ascontiguousarray(chosen[self._orders[:, column]], dtype=np.int64)
        values = np.ascontiguousarray(self._columns[:, column])
        return int(slide(values, order, 2 * self._radius, enough))


def cover(points: NDArray[Any], radius: float, extent: float | None = None) -> int:
    """At least the most points in one closed ball; exactly that in 1 and 2 dimensions."""
    array = as_points(points)
    if len(array) == 0:
        return 0
    known = float(np.abs(array).max()) if extent is None else extent
    return Cover(array, radius, known).of(np.ones(len(array), dtype=bool))


def most_copies(points: Floats) -> int:
    """The most equal rows: the cover at radius 0."""
    return int(np.unique(points, axis=0, return_counts=True)[1].max())


def _around_vertices(points: Floats, radius: float, fineness: float, enough: int) -> int:
    """Every ball center has a lattice vertex within fineness * radius of it."""
    d = points.shape[1]
    spacing = 2 * fineness * radius / math.sqrt(d)
    reach = radius * (1 + fineness) * (1 + SLACK)
    return int(around_vertices(np.ascontiguousarray(points), spacing, reach, enough))


def cover_in_the_plane(points: Floats, radius: float, enough: int | None = None) -> int:
    """The most points in one closed disk, exactly, or `enough` if more; radius > 0."""
    limit = len(points) if enough is None else enough
    cells = np.floor(points / (2 * radius)).astype(np.int64)
    order = np.lexsort((cells[:, 1], cells[:, 0]))
    ordered = np.ascontiguousarray(points[order])
    rows = np.ascontiguousarray(cells[order, 0])
    columns = np.ascontiguousarray(cells[order, 1])
    least, most = sweep(ordered, rows, columns, radius, limit)
    best = min(int(least.max()), limit)
    for place in np.argsort(-most, kind="stable"):
        if most[place] <= best or best >= limit:
            break
        best = max(best, _exactly_around(ordered, int(place), radius))
    return min(best, limit)


def _exactly_around(points: Floats, place: int, radius: float) -> int:
    """The best disk with this point on its border, in exact arithmetic (for near ties)."""
    near = np.abs(points - points[place]).max(axis=1) <= 2.01 * radius
    x0, y0 = (Fraction(value) for value in points[place].tolist())
    shifted = [(Fraction(x) - x0, Fraction(y) - y0) for x, y in points[near].tolist()]
    square = Fraction(radius) ** 2
    here = sum(1 for x, y in shifted if x == y == 0)
    others = [(x, y) for x, y in shifted if (x or y) and x * x + y * y <= 4 * square]
    best = here
    for a, b in set(others):
        lean = square / (a * a + b * b) - Fraction(1, 4)
        for side in (1, -1):
            inside = sum(_in_disk(x, y, a, b, side, lean) for x, y in others)
            best = max(best, here + inside)
    return best


def _in_disk(x: Fraction, y: Fraction, a: Fraction, b: Fraction, side: int, lean: Fraction) -> bool:
    """Whether (x, y) lies in the disk through 0 and (a, b) whose center is on the given side.

    The center is (a, b) / 2 + side * sqrt(lean) * (-b, a), so the question is the sign of
    straight + turned * sqrt(lean).
    """
    straight = x * x + y * y - (x * a + y * b)
    turned = -2 * side * (y * a - x * b)
    if straight <= 0 and turned <= 0:
        return True
    if straight > 0 and turned >= 0:
        return False
    if straight <= 0:
        return turned * turned * lean <= straight * straight
    return turned * turned * lean >= straight * straight
