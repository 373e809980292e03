"""Upper bounds of a cover that one more point raises by at most 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Floats, Ints
from privod.compiling import njit


@njit(cache=True, nogil=True)
def slide(ordered: Floats, chosen: Ints, width: float, enough: int) -> int:
    """The most chosen values (ascending) in one closed interval of this width, or `enough`."""
    best, start, count = 0, 0, 0
    kept = np.empty(ordered.size)
    for i in range(ordered.size):
        if chosen[i] == 0:
            continue
        kept[count] = ordered[i]
        count += 1
        while kept[count - 1] - kept[start] > width:
            start += 1
        best = max(best, count - start)
        if best >= enough:
            return enough
    return best


@njit(cache=True, nogil=True)
def around_vertices_of_plane(
    points: Floats, spacing: float, radius: float, extent: int, enough: int
) -> int:
    """The same as `around_vertices` in the plane, where all vertices have a place of their own.

    No coordinate of a vertex that is reached passes `extent`, in spacings.
    """
    counts = np.zeros((2 * extent + 1, 2 * extent + 1), np.int32)
    best = 0
    square = radius * radius
    for i in range(points.shape[0]):
        x, y = points[i, 0], points[i, 1]
        first = np.int64(np.ceil((y - radius) / spacing)) - 1
        last = np.int64(np.floor((y + radius) / spacing)) + 1
        for row in range(
            np.int64(np.ceil((x - radius) / spacing)) - 1,
            np.int64(np.floor((x + radius) / spacing)) + 2,
        ):
            gap = x - spacing * row
            rest = square - gap * gap
            if rest < 0.0:
                continue
            for column in range(first, last + 1):
                gap = y - spacing * column
                if gap * gap <= rest:
                    counts[row + extent, column + extent] += 1
                    best = max(best, counts[row + extent, column + extent])
        if best >= enough:
            return enough
    return best


def around_vertices(points: Floats, spacing: float, radius: float, enough: int) -> int:
    """The most points within the radius of one vertex of the lattice spacing * integers.

    Counting stops at `enough`. Vertices are counted block by block, so that the memory taken
    follows from the number of points alone, not from how many vertices they reach.
    """
    side = 1 << (int(2 * radius / spacing) + 4).bit_length()  # a ball never spans three blocks
    homes = (np.ceil((points - radius) / spacing).astype(np.int64) - 1) // side
    order = np.lexsort(homes.T)
    points, homes = points[order], homes[order]
    begins = np.flatnonzero((homes[1:] != homes[:-1]).any(axis=1)) + 1
    starts = np.concatenate(([0], begins, [len(points)]))
    runs = homes[starts[:-1]]
    return int(_busiest_vertex(points, runs, starts, spacing, radius, side, enough))


@njit(cache=True, nogil=True)
def _busiest_vertex(
    points: Floats, homes: Ints, starts: Ints, spacing: float, radius: float, side: int, enough: int
) -> int:
    """The same of points in the order of their homes: the blocks that their lowest vertices lie in.

    A point reaches vertices of its home and of blocks one further along some axes. Each such block
    is looked at once: from the first home, in the order of corners, that has points.
    """
    runs, d = homes.shape
    counts = np.zeros(side**d, np.int32)
    block, wanted = np.empty(d, np.int64), np.empty(d, np.int64)
    around = np.empty(1 << d, np.int64)
    best = 0
    for run in range(runs):
        for corner in range(1 << d):
            for j in range(d):
                block[j] = homes[run, j] + ((corner >> j) & 1)
            total, is_first = 0, True
            for other in range(1 << d):
                for j in range(d):
                    wanted[j] = block[j] - ((other >> j) & 1)
                around[other] = run if other == corner else _run_at(homes, wanted)
                if around[other] >= 0:
                    is_first &= other >= corner
                    total += starts[around[other] + 1] - starts[around[other]]
            if not is_first or total <= best:  # no vertex can have more than all
                continue
            for change in (1, -1):  # count, then clear what was counted
                for home in around:
                    if home < 0:
                        continue
                    for i in range(starts[home], starts[home + 1]):
                        most = _counted(points[i], block, spacing, radius, side, counts, change)
                        best = max(best, most)
                        if best >= enough:
                            return enough
    return best


@njit(cache=True, nogil=True)
def _run_at(homes: Ints, wanted: Ints) -> np.int64:
    """Which run of points has this home, by halving; -1 if none has. The last axis comes first."""
    low, high = np.int64(0), np.int64(homes.shape[0])
    while low < high:
        middle = (low + high) // 2
        order = 0
        for j in range(wanted.size - 1, -1, -1):
            if homes[middle, j] != wanted[j]:
                order = -1 if homes[middle, j] < wanted[j] else 1
                break
        if order == 0:
            return middle
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _counted(
    point: Floats, block: Ints, spacing: float, radius: float, side: int, counts: Ints, change: int
) -> int:
    """Change the counts of the vertices of a block around a point; the largest, if that is up."""
    d = point.size
    at, last = np.empty(d, np.int64), np.empty(d, np.int64)
    rest = np.empty(d + 1)  # of the square radius, after the coordinates so far
    rest[0] = radius * radius
    best = 0
    j = _enter(point, 0, spacing, rest, at, last, block, side)
    while j >= 0:
        if at[j] > last[j]:  # all done here: back to the coordinate before
            j -= 1
            if j >= 0:
                at[j] += 1
            continue
        gap = point[j] - spacing * at[j]
        rest[j + 1] = rest[j] - gap * gap
        if rest[j + 1] < 0.0:
            at[j] += 1
            continue
        if j + 1 < d:
            j = _enter(point, j + 1, spacing, rest, at, last, block, side)
            continue
        place = 0
        for k in range(d):
            place = place * side + (at[k] - block[k] * side)
        counts[place] += change
        if change > 0:
            best = max(best, counts[place])
        at[j] += 1
    return best


@njit(cache=True, nogil=True)
def _enter(
    point: Floats,
    j: int,
    spacing: float,
    rest: Floats,
    at: Ints,
    last: Ints,
    block: Ints,
    side: int,
) -> int:
    """Set the range of one coordinate of a block's vertices within what is left of the square."""
    reach = np.sqrt(rest[j])
    low = np.int64(np.ceil((point[j] - reach) / spacing)) - 1
    high = np.int64(np.floor((point[j] + reach) / spacing)) + 1
    at[j] = max(low, block[j] * side)
    last[j] = min(high, block[j] * side + side - 1)
    return j


@njit(cache=True, nogil=True)
def near_pairs(points: Floats, reach: float) -> NDArray[np.bool_]:
    """Which two points are within this reach of each other; a point is not near itself."""
    n = points.shape[0]
    near = np.zeros((n, n), np.bool_)
    square = reach * reach
    for i in range(n):
        for j in range(i):
            away = 0.0
            for axis in range(points.shape[1]):
                gap = points[i, axis] - points[j, axis]
                away += gap * gap
            near[i, j] = near[j, i] = away <= square
    return near


@njit(cache=True, nogil=True)
def largest_core(near: NDArray[np.bool_], chosen: Ints, enough: int) -> int:
    """The largest k for which some of the chosen points are each near k - 1 of these, or `enough`.

    The point that is near the fewest is taken away until none is left [Matula and Beck 1983].
    """
    size = chosen.size
    degrees = np.zeros(size, np.int64)
    for i in range(size):
        for j in range(size):
            degrees[i] += int(near[chosen[i], chosen[j]])
    left = np.ones(size, np.bool_)
    best = 0
    for _ in range(size):
        least = -1
        for i in range(size):
            if left[i] and (least < 0 or degrees[i] < degrees[least]):
                least = i
        best = max(best, degrees[least] + 1)
        if best >= enough:
            return enough
        left[least] = False
        for i in range(size):
            degrees[i] -= int(near[chosen[least], chosen[i]])
    return best
