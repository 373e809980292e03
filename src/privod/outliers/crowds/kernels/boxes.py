"""Distances to boxes, by the float64 operations of the predicate, so that no slack is needed.

Rounding is monotone: the rounded distance to a box bounds the rounded distance to each point in it.
"""

from __future__ import annotations

from typing import NamedTuple

from privod.arrays import Floats, Ints
from privod.compiling import njit
from privod.outliers.crowds.kernels.tree import Tree


class Queries(NamedTuple):
    """A block of query points, and what a walk knows of them."""

    columns: Floats
    """Shape (dimensions, block): the first are the queries of now."""
    pool: Ints
    """Lists of queries that a node leaves open, one behind the other."""
    counts: Ints
    gaps: Floats
    reaches: Floats


@njit(cache=True, nogil=True)
def bound_box(points: Floats, low: Floats, high: Floats) -> None:
    """Write the bounding box of the points into low and high."""
    for j in range(points.shape[1]):
        low[j] = high[j] = points[0, j]
    for i in range(1, points.shape[0]):
        for j in range(points.shape[1]):
            low[j] = min(low[j], points[i, j])
            high[j] = max(high[j], points[i, j])


@njit(cache=True, nogil=True, inline="always")
def _larger(a: float, b: float) -> float:
    """The larger of two numbers; `max` would also ask whether they are numbers."""
    return a if a > b else b


@njit(cache=True, nogil=True)
def box_gap(low: Floats, high: Floats, lows: Floats, highs: Floats, node: int) -> float:
    """No point of a box and point of a node's box compute a smaller square distance.

    With the box's ends swapped, no point of it computes a larger one to the node's box.
    """
    total = 0.0
    for j in range(low.size):
        gap = _larger(_larger(lows[node, j] - high[j], low[j] - highs[node, j]), 0.0)
        total += gap * gap
    return total


@njit(cache=True, nogil=True)
def box_reach(low: Floats, high: Floats, lows: Floats, highs: Floats, node: int) -> float:
    """No point of a box and point of a node's box compute a larger square distance."""
    total = 0.0
    for j in range(low.size):
        reach = _larger(highs[node, j] - low[j], high[j] - lows[node, j])
        total += reach * reach
    return total


@njit(cache=True, nogil=True)
def measure_gaps(
    columns: Floats, count: int, lows: Floats, highs: Floats, node: int, gaps: Floats
) -> None:
    """Write the least square distance of the first queries to a node's box."""
    gaps[:count] = 0.0
    for j in range(columns.shape[0]):
        bottom, top = lows[node, j], highs[node, j]
        for i in range(count):
            value = columns[j, i]
            gap = _larger(_larger(bottom - value, value - top), 0.0)
            gaps[i] += gap * gap


@njit(cache=True, nogil=True)
def measure_reaches(
    columns: Floats, count: int, lows: Floats, highs: Floats, node: int, reaches: Floats
) -> None:
    """Write the largest square distance of the first queries to a node's box."""
    reaches[:count] = 0.0
    for j in range(columns.shape[0]):
        bottom, top = lows[node, j], highs[node, j]
        for i in range(count):
            value = columns[j, i]
            reach = _larger(top - value, value - bottom)
            reaches[i] += reach * reach


@njit(cache=True, nogil=True)
def sift(
    queries: Queries,
    m: int,
    tree: Tree,
    node: int,
    square: float,
    start: int,
    count: int,
    size: int,
) -> tuple[int, int]:
    """Split the queries pool[start : start + count] against a node's box of `size` points.

    Those it leaves open are written behind them; those that have all of it within are counted
    (unless size is 0: then they stay open). Returns how many are open and how many took it.
    """
    pool, gaps, reaches = queries.pool, queries.gaps, queries.reaches
    measure_gaps(queries.columns, m, tree.low, tree.high, node, gaps)
    measure_reaches(queries.columns, m, tree.low, tree.high, node, reaches)
    kept, took = 0, 0
    for c in range(start, start + count):
        q = pool[c]
        if gaps[q] > square:
            continue
        if size > 0 and reaches[q] <= square:
            queries.counts[q] += size
            took += 1
        else:
            pool[start + count + kept] = q
            kept += 1
    return kept, took
