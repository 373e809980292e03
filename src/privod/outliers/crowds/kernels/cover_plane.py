"""The most points of the plane in one disk: places for its center, halved where they promise most.

A box of centers cannot do better than all points within the radius of any part of it. Boxes that
promise more than the best disk found are cut into four, until few points are left in doubt: then
every disk through two of them is looked at, since a best disk can be moved until it has two points
on its border. All of it is exact: see `cover_disk`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from privod.outliers.crowds.kernels.cover_disk import MARGIN, best_disk
from privod.outliers.crowds.kernels.tree import Floats, Ints

_FEW = 8  # points in doubt below which looking at all their disks beats cutting the box
_SMALLEST = 2.0**-12  # side of a box that is not cut any more


@njit(cache=True, nogil=True)
def gather(
    x: Ints, y: Ints, chosen: Ints, begins: Ints, ends: Ints
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    """The different chosen points with their multiplicities, and the ranges among them.

    Points are sorted so that equal ones follow each other; ranges never part equal points. The last
    array holds how many chosen points each line of ranges has.
    """
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
    return places_x[: last + 1], places_y[: last + 1], weight[: last + 1], first, end, total


@njit(cache=True, nogil=True)
def densest(
    x: Ints,
    y: Ints,
    weight: Ints,
    corners: Ints,
    first: Ints,
    end: Ints,
    total: Ints,
    order: Ints,
    radius: int,
    enough: int,
) -> int:
    """The most points in one closed disk, or `enough`.

    Centers are looked for cell by cell, `order` by falling totals; a cell of side 2 * radius has
    its low corner in `corners` and all points within the radius of it in its ranges.
    """
    best = 1 if weight.size else 0
    for i in range(weight.size):
        best = max(best, weight[i])
    near_x, near_y = np.empty(1024), np.empty(1024)
    near_weight = np.empty(1024, np.int64)
    for cell in order:
        if best >= enough or total[cell] <= best:
            break
        size = 0
        for k in range(first.shape[1]):
            size += end[cell, k] - first[cell, k]
        if size > near_x.size:
            near_x, near_y = np.empty(2 * size), np.empty(2 * size)
            near_weight = np.empty(2 * size, np.int64)
        size = 0
        for k in range(first.shape[1]):
            for i in range(first[cell, k], end[cell, k]):
                near_x[size], near_y[size] = x[i] - corners[cell, 0], y[i] - corners[cell, 1]
                near_weight[size] = weight[i]
                size += 1
        best = _densest_in(near_x, near_y, near_weight, size, 2.0 * radius, radius, best, enough)
    return min(best, enough)


@njit(cache=True, nogil=True)
def _densest_in(
    x: Floats, y: Floats, weight: Ints, size: int, side: float, radius: int, best: int, enough: int
) -> int:
    """The same, if more than `best`, with the center in the box from 0 to `side`."""
    sure, maybe = (radius - MARGIN) ** 2, (radius + MARGIN) ** 2
    pool = np.empty(4 * size + 64, np.int64)
    pool[:size] = np.arange(size)
    stack = np.empty((256, 3))  # low corner and side of a box ...
    held = np.empty((256, 4), np.int64)  # ... its promise, its parent's base and range of the pool
    promise = weight[:size].sum()
    stack[0, 0], stack[0, 1], stack[0, 2] = 0.0, 0.0, side
    held[0, 0], held[0, 1], held[0, 2], held[0, 3] = promise, 0, 0, size
    top = 1
    promises, turns = np.empty(4, np.int64), np.empty(4, np.int64)
    while top > 0:
        top -= 1
        low_x, low_y, side = stack[top, 0], stack[top, 1], stack[top, 2]
        if held[top, 0] <= best:
            continue
        base, begin, stop = held[top, 1], held[top, 2], held[top, 3]
        if 2 * stop - begin > pool.size:
            pool = np.concatenate((pool, np.empty(pool.size + stop, np.int64)))
        finish, middle = stop, 0
        center_x, center_y, half = low_x + side / 2, low_y + side / 2, side / 2
        for place in range(begin, stop):
            i = pool[place]
            dx, dy = abs(x[i] - center_x), abs(y[i] - center_y)
            if _square(max(dx - half, 0.0), max(dy - half, 0.0)) > maybe:
                continue
            if _square(dx + half, dy + half) <= sure:
                base += weight[i]
                continue
            if _square(dx, dy) <= sure:
                middle += weight[i]
            pool[finish] = i
            finish += 1
        best = max(best, base + middle)
        if best >= enough:
            return best
        if finish - stop <= _FEW or side <= _SMALLEST:
            some = pool[stop:finish]
            best = best_disk(x, y, weight, some, low_x, low_y, side, radius, base, best)
            if best >= enough:
                return best
            continue
        for child in range(4):
            promises[child], turns[child] = base, child
            child_x, child_y = center_x - half * (child & 1), center_y - half * (child >> 1)
            for place in range(stop, finish):
                i = pool[place]
                dx = max(abs(x[i] - child_x - half / 2) - half / 2, 0.0)
                dy = max(abs(y[i] - child_y - half / 2) - half / 2, 0.0)
                if _square(dx, dy) <= maybe:
                    promises[child] += weight[i]
        _by_promise(promises, turns)
        for corner in turns:
            if promises[corner] > best:
                stack[top, 0] = center_x - half * (corner & 1)
                stack[top, 1] = center_y - half * (corner >> 1)
                stack[top, 2] = half
                held[top, 0], held[top, 1] = promises[corner], base
                held[top, 2], held[top, 3] = stop, finish
                top += 1
    return best


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
