"""Distances to boxes, by the float64 operations of the predicate, so that no slack is needed.

Rounding is monotone: the rounded distance to a box bounds the rounded distance to each point in it.
"""

from __future__ import annotations

from numba import njit

from privod.outliers.kernels.crowds_tree import Floats, Ints


@njit(cache=True, nogil=True)
def bound_box(points: Floats, low: Floats, high: Floats) -> None:
    """Write the bounding box of the points into low and high."""
    low[:] = points[0]
    high[:] = points[0]
    for i in range(1, points.shape[0]):
        for j in range(points.shape[1]):
            low[j] = min(low[j], points[i, j])
            high[j] = max(high[j], points[i, j])


@njit(cache=True, nogil=True)
def box_gap(low: Floats, high: Floats, box_low: Floats, box_high: Floats) -> float:
    """No two points of the boxes compute a smaller square distance."""
    total = 0.0
    for j in range(low.size):
        gap = max(box_low[j] - high[j], low[j] - box_high[j], 0.0)
        total += gap * gap
    return total


@njit(cache=True, nogil=True)
def box_reach(low: Floats, high: Floats, box_low: Floats, box_high: Floats) -> float:
    """No two points of the boxes compute a larger square distance."""
    total = 0.0
    for j in range(low.size):
        gap = max(box_high[j] - low[j], high[j] - box_low[j])
        total += gap * gap
    return total


@njit(cache=True, nogil=True)
def widest_gap(low: Floats, high: Floats, box_low: Floats, box_high: Floats) -> float:
    """No point of the first box is farther from the second, as `point_gap` computes it."""
    total = 0.0
    for j in range(low.size):
        gap = max(box_low[j] - low[j], high[j] - box_high[j], 0.0)
        total += gap * gap
    return total


@njit(cache=True, nogil=True)
def point_gap(point: Floats, low: Floats, high: Floats) -> float:
    """No point of the box computes a smaller square distance to this one."""
    total = 0.0
    for j in range(point.size):
        gap = max(low[j] - point[j], point[j] - high[j], 0.0)
        total += gap * gap
    return total


@njit(cache=True, nogil=True)
def measure_box(
    columns: Floats, count: int, low: Floats, high: Floats, gaps: Floats, reaches: Floats
) -> None:
    """Write the least and the largest square distance of the first queries to a box."""
    gaps[:count] = 0.0
    reaches[:count] = 0.0
    for j in range(columns.shape[0]):
        bottom, top = low[j], high[j]
        for i in range(count):
            value = columns[j, i]
            gap = max(max(bottom - value, value - top), 0.0)
            reach = max(top - value, value - bottom)
            gaps[i] += gap * gap
            reaches[i] += reach * reach


@njit(cache=True, nogil=True)
def sift(
    columns: Floats,
    m: int,
    low: Floats,
    high: Floats,
    square: float,
    pool: Ints,
    start: int,
    count: int,
    size: int,
    counts: Ints,
    gaps: Floats,
    reaches: Floats,
) -> tuple[int, int]:
    """Split the queries pool[start : start + count] against a box of `size` points.

    Those it leaves open are written behind them; those that have all of it within are counted
    (unless size is 0: then they stay open). Returns how many are open and how many took it.
    """
    measure_box(columns, m, low, high, gaps, reaches)
    kept, took = 0, 0
    for c in range(start, start + count):
        q = pool[c]
        if gaps[q] > square:
            continue
        if size > 0 and reaches[q] <= square:
            counts[q] += size
            took += 1
        else:
            pool[start + count + kept] = q
            kept += 1
    return kept, took
