"""The most points of the plane in one disk: a sweep of angles around every point.

A disk that holds the most points can be moved until one of them lies on its border. So look at
the disks with point p on the border: q is in those whose center direction lies on an arc, and the
deepest place of the arcs tells how many fit. Angles are rounded; every arc is swept twice, a
little too long and a little too short, and where both agree the count is exact.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from privod.outliers.kernels.crowds_tree import Floats, Ints

_ANGLE_SLACK = 1e-12  # far above the rounding of atan2 and acos, but for acos near 1 ...
_STEEP_SLACK = 1e-6  # ... where two points lie almost a diameter apart


@njit(cache=True, nogil=True)
def _deepest(starts: Floats, ends: Floats, count: int) -> int:
    """The most arcs [start, end] over one angle; all within (-3 pi, 3 pi), copied by a turn."""
    first = np.sort(starts[:count])
    last = np.sort(ends[:count])
    depth, best, j = 0, 0, 0
    for i in range(count):
        while last[j] < first[i]:
            depth -= 1
            j += 1
        depth += 1
        best = max(best, depth)
    return best


@njit(cache=True, nogil=True)
def sweep(
    points: Floats, cell_rows: Ints, cell_columns: Ints, radius: float, enough: int
) -> tuple[Ints, Ints]:
    """At least and at most how many points the best disk with each point on its border holds.

    Points are sorted by cell (row, then column) of a grid of side 2 * radius. The sweep ends at
    the first disk that surely holds `enough`; points that cannot matter are left at 1.
    """
    n = points.shape[0]
    least = np.ones(n, np.int64)
    most = np.ones(n, np.int64)
    starts = np.empty((2, 2 * n + 4))
    ends = np.empty((2, 2 * n + 4))
    turn = 2.0 * math.pi
    best = 0
    used = np.zeros(2, np.int64)
    for i in range(n):
        if _neighbors(points, cell_rows, cell_columns, i, radius) <= best:
            continue  # even all of them together are no more than what was found already
        here = 1
        used[:] = 0
        for row in range(cell_rows[i] - 1, cell_rows[i] + 2):
            begin = _first_at(cell_rows, cell_columns, row, cell_columns[i] - 1)
            finish = _first_at(cell_rows, cell_columns, row, cell_columns[i] + 2)
            for j in range(begin, finish):
                if j == i:
                    continue
                x, y = points[j, 0] - points[i, 0], points[j, 1] - points[i, 1]
                if x == 0.0 and y == 0.0:
                    here += 1
                    continue
                share = math.hypot(x, y) / (2.0 * radius)
                if share > 1.0 + 1e-12:
                    continue
                steep = share > 1.0 - 1e-9
                half = math.acos(min(share, 1.0))
                slack = _STEEP_SLACK if steep else _ANGLE_SLACK + 1e-14 / math.sin(half)
                middle = math.atan2(y, x)
                for side in range(2):
                    reach = half + slack if side == 1 else half - slack
                    if reach < 0.0 or (side == 0 and share > 1.0 - 1e-12):
                        continue
                    for lap in range(2):
                        shift = turn * lap
                        starts[side, used[side]] = middle - reach + shift
                        ends[side, used[side]] = middle + reach + shift
                        used[side] += 1
        least[i] = here + _deepest(starts[0], ends[0], used[0])
        most[i] = here + _deepest(starts[1], ends[1], used[1])
        best = max(best, least[i])
        if best >= enough:
            break
    return least, most


@njit(cache=True, nogil=True)
def _neighbors(points: Floats, cell_rows: Ints, cell_columns: Ints, i: int, radius: float) -> int:
    """How many points, itself included, lie within a diameter, or hardly more, of point i."""
    square = 4.0 * radius * radius * (1.0 + 1e-9)
    count = 0
    for row in range(cell_rows[i] - 1, cell_rows[i] + 2):
        begin = _first_at(cell_rows, cell_columns, row, cell_columns[i] - 1)
        finish = _first_at(cell_rows, cell_columns, row, cell_columns[i] + 2)
        for j in range(begin, finish):
            x, y = points[j, 0] - points[i, 0], points[j, 1] - points[i, 1]
            count += x * x + y * y <= square
    return count


@njit(cache=True, nogil=True)
def _first_at(rows: Ints, columns: Ints, row: int, column: int) -> int:
    """The first place whose cell is at or after (row, column)."""
    low, high = 0, rows.size
    while low < high:
        middle = (low + high) // 2
        if rows[middle] < row or (rows[middle] == row and columns[middle] < column):
            low = middle + 1
        else:
            high = middle
    return low
