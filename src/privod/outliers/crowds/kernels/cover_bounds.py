"""Upper bounds of a cover that one more point raises by at most 1."""

from __future__ import annotations

import numpy as np
from numba import njit

from privod.outliers.crowds.kernels.tree import Floats, Ints


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


@njit(cache=True, nogil=True)
def around_vertices(points: Floats, spacing: float, radius: float, enough: int) -> int:
    """The most points within the radius of one vertex of the lattice spacing * integers.

    Counting stops at `enough`.
    Vertices are kept with their full coordinates, so that no two are ever taken for one.
    """
    n, d = points.shape
    size = 1024
    used = 0
    keys = np.zeros((size, d), np.int64)
    counts = np.zeros(size, np.int64)
    at = np.empty(d, np.int64)
    last = np.empty(d, np.int64)
    rest = np.empty(d + 1)  # of the square radius, after the coordinates so far
    rest[0] = radius * radius
    best = 0
    for i in range(n):
        j = _enter(points[i], 0, spacing, rest, at, last)
        while j >= 0:
            if at[j] > last[j]:  # all done here: back to the coordinate before
                j -= 1
                if j >= 0:
                    at[j] += 1
                continue
            gap = points[i, j] - spacing * at[j]
            rest[j + 1] = rest[j] - gap * gap
            if rest[j + 1] < 0.0:
                at[j] += 1
                continue
            if j + 1 < d:
                j = _enter(points[i], j + 1, spacing, rest, at, last)
                continue
            if 2 * used >= size:
                keys, counts, size = _doubled(keys, counts)
            place = _place(keys, counts, at)
            if counts[place] == 0:
                keys[place] = at
                used += 1
            counts[place] += 1
            best = max(best, counts[place])
            if best >= enough:
                return enough
            at[j] += 1
    return best


@njit(cache=True, nogil=True)
def _enter(point: Floats, j: int, spacing: float, rest: Floats, at: Ints, last: Ints) -> int:
    """Set the range of one coordinate of the vertices within what is left of the square radius."""
    reach = np.sqrt(rest[j])
    at[j] = np.int64(np.ceil((point[j] - reach) / spacing)) - 1
    last[j] = np.int64(np.floor((point[j] + reach) / spacing)) + 1
    return j


@njit(cache=True, nogil=True)
def _place(keys: Ints, counts: Ints, at: Ints) -> np.int64:
    """Where a vertex is, or may be put."""
    mixed = np.uint64(1469598103934665603)
    for j in range(at.size):
        mixed = (mixed ^ np.uint64(at[j])) * np.uint64(1099511628211)
        mixed ^= mixed >> np.uint64(29)
    mask = np.uint64(counts.size - 1)
    place = np.int64(mixed & mask)
    while counts[place] != 0:
        same = True
        for j in range(at.size):
            if keys[place, j] != at[j]:
                same = False
                break
        if same:
            break
        place = (place + 1) % counts.size
    return place


@njit(cache=True, nogil=True)
def _doubled(keys: Ints, counts: Ints) -> tuple[Ints, Ints, int]:
    size = 2 * counts.size
    wider = np.zeros((size, keys.shape[1]), np.int64)
    moved = np.zeros(size, np.int64)
    for i in range(counts.size):
        if counts[i] != 0:
            place = _place(wider, moved, keys[i])
            wider[place] = keys[i]
            moved[place] = counts[i]
    return wider, moved, size
