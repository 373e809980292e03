"""Count within one leaf: the predicate, the float32 thresholds around it, tiles, open pairs."""

from __future__ import annotations

import numpy as np
from numba import njit

from privod.outliers.kernels.crowds_tile import (
    POINTS,
    QUERIES,
    count_tile,
    count_tile_both_ways,
    fused,
)
from privod.outliers.kernels.crowds_tree import Floats, Ints, Singles, Smalls

_UNIT = 2.0**-24  # unit roundoff of float32
_UNIT64 = 2.0**-53


@njit(cache=True, nogil=True)
def within(a: Floats, b: Floats, square: float) -> bool:
    """The predicate: the sum of squared differences, first coordinate first, against r*r."""
    total = 0.0
    for j in range(a.size):
        gap = a[j] - b[j]
        total += gap * gap
    return total <= square


@njit(cache=True, nogil=True)
def scan(points: Floats, asked: Floats, square: float) -> Ints:
    """The crowds of a few asked points, each compared with every point."""
    counts = np.zeros(asked.shape[0], np.int64)
    for i in range(points.shape[0]):
        for a in range(asked.shape[0]):
            if within(asked[a], points[i], square):
                counts[a] += 1
    return counts


@njit(cache=True, nogil=True)
def thresholds(norm: float, longest: float, radius: float, depth: int) -> tuple[float, float, bool]:
    """`sure` and `maybe` of a query of length `norm` against points of at most `longest`.

    With u = 2^-24: the rounded vectors stray from the true ones by at most u (norm + longest),
    so the true distance and the distance of the rounded vectors differ by at most `stray`;
    h + <q, x> is computed within (depth + 2) u (longest^2 / 2 + longest norm). Both are
    taken 2 % larger than needed, which also covers float64 rounding and the predicate's own.
    The third value says whether the bounds are of use at all.
    """
    stray = 1.02 * _UNIT * (norm + longest) + 1e-30
    slack = 1.02 * (depth + 3) * _UNIT * (0.5 * longest * longest + longest * norm) + 1e-30
    inner = radius * (1.0 - (depth + 8) * _UNIT64) - stray
    outer = radius * (1.0 + (depth + 8) * _UNIT64) + stray
    sure = 0.5 * (norm * norm - inner * inner) + slack
    maybe = 0.5 * (norm * norm - outer * outer) - slack
    margin = 4.0 * _UNIT * (norm * norm + outer * outer)  # rounding of the thresholds themselves
    return sure + margin, maybe - margin, stray <= 0.25 * radius


@njit(cache=True, nogil=True)
def enter_frame(
    queries: Floats,
    count: int,
    low: Floats,
    high: Floats,
    longest: float,
    scale: float,
    radius: float,
    moved: Singles,
    sure: Singles,
    maybe: Singles,
) -> bool:
    """Move the queries into a frame; False where float32 cannot decide anything."""
    d = queries.shape[1]
    useful = scale > 0.0
    for i in range(count):
        square = 0.0
        for j in range(d):
            center = 0.5 * low[j] + 0.5 * high[j]
            value = np.float32((queries[i, j] - center) * scale)
            moved[i, j] = value
            square += np.float64(value) * np.float64(value)
        a, b, fine = thresholds(np.sqrt(square), longest, radius * scale, d)
        sure[i], maybe[i] = np.float32(a), np.float32(b)
        useful = useful and fine
    return useful


@njit(cache=True, nogil=True)
def resolve(
    queries: Floats,
    moved: Singles,
    sure: Singles,
    maybe: Singles,
    query: int,
    ordered: Floats,
    laid: Singles,
    norms: Singles,
    start: int,
    stop: int,
    square: float,
    credit: Ints,
    both_ways: bool,
) -> int:
    """Decide in float64 the pairs of one query that the tiles left open."""
    found = 0
    d = queries.shape[1]
    for i in range(start, stop):
        tile, lane = i // POINTS, i % POINTS
        value = norms[tile, lane]
        for j in range(d):
            value = fused(laid[tile, j, lane], moved[query, j], value)
        if (
            value < sure[query]
            and value >= maybe[query]
            and within(queries[query], ordered[i], square)
        ):
            found += 1
            if both_ways:
                credit[i] += 1
    return found


@njit(cache=True, nogil=True)
def leaf_exactly(
    queries: Floats,
    chosen: Ints,
    count: int,
    ordered: Floats,
    start: int,
    stop: int,
    square: float,
    counts: Ints,
    credit: Ints,
    both_ways: bool,
) -> None:
    """Chosen queries against one leaf, all in float64."""
    for c in range(count):
        q = chosen[c]
        for i in range(start, stop):
            if within(queries[q], ordered[i], square):
                counts[q] += 1
                if both_ways:
                    credit[i] += 1


@njit(cache=True, nogil=True)
def leaf_in_tiles(
    queries: Floats,
    moved: Singles,
    sure: Singles,
    maybe: Singles,
    chosen: Ints,
    count: int,
    ordered: Floats,
    laid: Singles,
    norms: Singles,
    start: int,
    stop: int,
    square: float,
    counts: Ints,
    credit: Ints,
    both_ways: bool,
    group: Singles,
    group_sure: Singles,
    group_maybe: Singles,
    near: Smalls,
    far: Smalls,
    earned: Smalls,
) -> None:
    """Chosen queries against one leaf, four at a time, with open pairs resolved in float64."""
    d = queries.shape[1]
    first, last = start // POINTS, (stop + POINTS - 1) // POINTS
    if both_ways:
        earned[: (last - first) * POINTS] = 0
    for c in range(0, count, QUERIES):
        members = min(QUERIES, count - c)
        for lane in range(QUERIES):
            if lane < members:
                q = chosen[c + lane]
                for j in range(d):
                    group[j, lane] = moved[q, j]
                group_sure[lane], group_maybe[lane] = sure[q], maybe[q]
            else:
                group_sure[lane], group_maybe[lane] = np.inf, np.inf
        near[:] = 0
        far[:] = 0
        for tile in range(first, last):
            x = laid.ctypes.data + tile * d * POINTS * 4
            h = norms.ctypes.data + tile * POINTS * 4
            if both_ways:
                count_tile_both_ways(
                    x,
                    h,
                    group.ctypes.data,
                    group_sure.ctypes.data,
                    group_maybe.ctypes.data,
                    d,
                    near.ctypes.data,
                    far.ctypes.data,
                    earned.ctypes.data + (tile - first) * POINTS * 4,
                )
            else:
                count_tile(
                    x,
                    h,
                    group.ctypes.data,
                    group_sure.ctypes.data,
                    group_maybe.ctypes.data,
                    d,
                    near.ctypes.data,
                    far.ctypes.data,
                    0,
                )
        total = 0
        for lane in range(members):
            inside = near[lane, 0] + near[lane, 1] + near[lane, 2] + near[lane, 3]
            counts[chosen[c + lane]] += inside
            total += inside
        if total != far[0] + far[1] + far[2] + far[3]:
            for tile in range(first, last):
                near[:] = 0
                far[:] = 0
                count_tile(
                    laid.ctypes.data + tile * d * POINTS * 4,
                    norms.ctypes.data + tile * POINTS * 4,
                    group.ctypes.data,
                    group_sure.ctypes.data,
                    group_maybe.ctypes.data,
                    d,
                    near.ctypes.data,
                    far.ctypes.data,
                    0,
                )
                if near.sum() == far.sum():
                    continue  # the open pair is in another tile
                for lane in range(members):
                    counts[chosen[c + lane]] += resolve(
                        queries,
                        moved,
                        sure,
                        maybe,
                        chosen[c + lane],
                        ordered,
                        laid,
                        norms,
                        tile * POINTS,
                        min((tile + 1) * POINTS, stop),
                        square,
                        credit,
                        both_ways,
                    )
    if both_ways:
        for i in range(start, stop):
            credit[i] += earned[i - start]
