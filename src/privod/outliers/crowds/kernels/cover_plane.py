"""The most points of the plane within reach of one center, of centers on a fixed lattice.

Boxes of centers that promise more than the best center found are cut into four. The work is bounded
by the number of points (docs/proofs/outlier_count.md, "The cover"). All numbers are whole and below
2^53: exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privod.arrays import Floats, Ints
from privod.compiling import njit


class Gathered(NamedTuple):
    """The different chosen points, and which of them are near each cell of centers."""

    x: Ints
    y: Ints
    weight: Ints
    """How often each point was chosen."""
    first: Ints
    end: Ints
    """The ranges of points near each cell, one line a cell."""
    total: Ints
    """How many chosen points each line of ranges has."""


class Near(NamedTuple):
    """The points near one cell of centers, with its low corner at (0, 0)."""

    x: Floats
    y: Floats
    weight: Ints


@njit(cache=True, nogil=True)
def gather(x: Ints, y: Ints, chosen: Ints, begins: Ints, ends: Ints) -> Gathered:
    """The different chosen points with their multiplicities, and the ranges among them."""
    n = x.size
    places_x, places_y = np.empty(n, np.int64), np.empty(n, np.int64)
    weight = np.empty(n, np.int64)
    different, many = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    last = -1
    for i in range(n):
        if chosen[i] != 0:
            if last < 0 or x[i] != places_x[last] or y[i] != places_y[last]:
                last += 1
                places_x[last], places_y[last], weight[last] = x[i], y[i], 0
            weight[last] += 1
        different[i + 1] = last + 1
        many[i + 1] = many[i] + (chosen[i] != 0)
    lines, width = begins.shape
    first, end = np.empty_like(begins), np.empty_like(ends)
    total = np.zeros(lines, np.int64)
    for line in range(lines):
        for k in range(width):
            first[line, k] = different[begins[line, k]]
            end[line, k] = different[ends[line, k]]
            total[line] += many[ends[line, k]] - many[begins[line, k]]
    size = last + 1
    return Gathered(places_x[:size], places_y[:size], weight[:size], first, end, total)


@njit(cache=True, nogil=True)
def densest(
    points: Gathered, corners: Ints, order: Ints, side: int, halvings: int, reach: int, enough: int
) -> tuple[int, int]:
    """The most points within reach of one center, or `enough`; and the steps it took.

    Centers are the middles of the boxes that `halvings` cuts make of the cells, looked for cell by
    cell, `order` by falling totals; `corners` holds the cells' low corners.
    """
    best, steps = 0, 0
    for cell in order:
        if best >= enough or points.total[cell] <= best:
            break
        size = 0
        for k in range(points.first.shape[1]):
            size += points.end[cell, k] - points.first[cell, k]
        near = Near(np.empty(size), np.empty(size), np.empty(size, np.int64))
        size = 0
        for k in range(points.first.shape[1]):
            for i in range(points.first[cell, k], points.end[cell, k]):
                near.x[size] = points.x[i] - corners[cell, 0]
                near.y[size] = points.y[i] - corners[cell, 1]
                near.weight[size] = points.weight[i]
                size += 1
        best, taken = _densest_in(near, side, halvings, reach, best, enough)
        steps += taken
    return min(best, enough), steps


@njit(cache=True, nogil=True)
def _densest_in(
    near: Near, side: int, halvings: int, reach: int, best: int, enough: int
) -> tuple[int, int]:
    """The same, if more than `best`, with the center in one cell."""
    size = near.x.size
    square = float(reach) * float(reach)
    smallest = side / 2**halvings
    pool = np.empty(4 * size + 64, np.int64)
    for i in range(size):
        pool[i] = i
    corners = np.empty((4 * halvings + 4, 3))  # low corner and side of a box that waits ...
    promised = np.empty(4 * halvings + 4, np.int64)  # ... at most how many a center of it reaches
    sure = np.empty(4 * halvings + 4, np.int64)  # ... how many all centers of its parent reach
    begins = np.empty(4 * halvings + 4, np.int64)  # ... and which points the parent left in doubt
    ends = np.empty(4 * halvings + 4, np.int64)
    corners[0, 0], corners[0, 1], corners[0, 2] = 0.0, 0.0, side
    promised[0], sure[0], begins[0], ends[0] = near.weight.sum(), 0, 0, size
    waiting, steps = 1, 0
    promises, turns = np.empty(4, np.int64), np.empty(4, np.int64)
    while waiting > 0:
        waiting -= 1
        if promised[waiting] <= best:
            continue
        half, base = corners[waiting, 2] / 2, sure[waiting]
        center_x, center_y = corners[waiting, 0] + half, corners[waiting, 1] + half
        begin, stop = begins[waiting], ends[waiting]
        if 2 * stop - begin > pool.size:
            pool = np.concatenate((pool, np.empty(pool.size + stop, np.int64)))
        finish, middle = stop, 0
        steps += stop - begin
        for place in range(begin, stop):
            i = pool[place]
            dx, dy = abs(near.x[i] - center_x), abs(near.y[i] - center_y)
            if _square(max(dx - half, 0.0), max(dy - half, 0.0)) > square:
                continue
            if _square(dx + half, dy + half) <= square:
                base += near.weight[i]
                continue
            if _square(dx, dy) <= square:
                middle += near.weight[i]
            pool[finish] = i
            finish += 1
        if 2 * half <= smallest:
            best = max(best, base + middle)
            if best >= enough:
                return best, steps
            continue
        steps += 4 * (finish - stop)
        for child in range(4):
            promises[child], turns[child] = base, child
            child_x, child_y = center_x - half * (child & 1), center_y - half * (child >> 1)
            for place in range(stop, finish):
                i = pool[place]
                dx = max(abs(near.x[i] - child_x - half / 2) - half / 2, 0.0)
                dy = max(abs(near.y[i] - child_y - half / 2) - half / 2, 0.0)
                if _square(dx, dy) <= square:
                    promises[child] += near.weight[i]
        _by_promise(promises, turns)
        for corner in turns:
            if promises[corner] > best:
                corners[waiting, 0] = center_x - half * (corner & 1)
                corners[waiting, 1] = center_y - half * (corner >> 1)
                corners[waiting, 2] = half
                promised[waiting], sure[waiting] = promises[corner], base
                begins[waiting], ends[waiting] = stop, finish
                waiting += 1
    return best, steps


@njit(cache=True, nogil=True)
def _square(x: float, y: float) -> float:
    return x * x + y * y


@njit(cache=True, nogil=True)
def _by_promise(promises: Ints, turns: Ints) -> None:
    """Sort four places so that the largest promise comes last, to be taken up first."""
    for i in range(1, 4):
        place = turns[i]
        j = i
        while j > 0 and promises[turns[j - 1]] > promises[place]:
            turns[j] = turns[j - 1]
            j -= 1
        turns[j] = place
