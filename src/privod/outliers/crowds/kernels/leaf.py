"""Count within one leaf: the predicate, the float32 thresholds around it, tiles, open pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privod.arrays import Floats, Ints, Smalls
from privod.compiling import njit
from privod.outliers.crowds.kernels.tile import (
    POINTS,
    QUERIES,
    count_tile,
    count_tile_both_ways,
    fused,
)
from privod.outliers.crowds.kernels.tree import Singles, Tiles, Tree

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
def thresholds(norm: float, longest: float, radius: float, depth: int) -> tuple[float, float]:
    """`sure` and `maybe` of a query of length `norm` against points of at most `longest`.

    With u = 2^-24: the rounded vectors stray from the true ones by at most u (norm + longest),
    so the true distance and the distance of the rounded vectors differ by at most `stray`;
    h + <q, x> is computed within (depth + 2) u (longest^2 / 2 + longest norm). Both are
    taken 2 % larger than needed, which also covers float64 rounding and the predicate's own.
    Where float32 is of no use, both are no numbers, which leaves every pair open.
    """
    stray = 1.02 * _UNIT * (norm + longest) + 1e-30
    slack = 1.02 * (depth + 3) * _UNIT * (0.5 * longest * longest + longest * norm) + 1e-30
    if not stray <= 0.25 * radius:
        return np.nan, np.nan
    inner = radius * (1.0 - (depth + 8) * _UNIT64) - stray
    outer = radius * (1.0 + (depth + 8) * _UNIT64) + stray
    sure = 0.5 * (norm * norm - inner * inner) + slack
    maybe = 0.5 * (norm * norm - outer * outer) - slack
    margin = 4.0 * _UNIT * (norm * norm + outer * outer)  # rounding of the thresholds themselves
    return sure + margin, maybe - margin


class Workspace(NamedTuple):
    """What a block of query points needs while it meets leaves."""

    counts: Ints
    entered: Ints  # the frame in which each query is at present, or -1
    moved: Singles  # the queries there, in float32
    sure: Singles
    maybe: Singles
    group: Singles  # four of them side by side, as the tiles want them
    group_sure: Singles
    group_maybe: Singles
    near: Smalls
    far: Smalls
    earned: Smalls


@njit(cache=True, nogil=True)
def make_workspace(block: int, dimensions: int, leaf_size: int) -> Workspace:
    """A work for blocks of up to `block` queries."""
    return Workspace(
        np.zeros(block, np.int64),
        np.full(block, -1, np.int64),
        np.empty((block, dimensions), np.float32),
        np.empty(block, np.float32),
        np.empty(block, np.float32),
        np.zeros((dimensions, QUERIES), np.float32),
        np.empty(QUERIES, np.float32),
        np.empty(QUERIES, np.float32),
        np.zeros((QUERIES, 4), np.int32),
        np.zeros(4, np.int32),
        np.zeros(leaf_size + POINTS, np.int32),
    )


@njit(cache=True, nogil=True)
def clear_workspace(work: Workspace) -> None:
    """Make ready for the next block."""
    work.counts[:] = 0
    work.entered[:] = -1


@njit(cache=True, nogil=True, inline="always")
def _enter_frame(
    queries: Floats, chosen: Ints, count: int, node: int, tree: Tree, tiles: Tiles, work: Workspace
) -> None:
    """Move the chosen queries into a frame, unless they are in it already."""
    for c in range(count):
        q = chosen[c]
        if work.entered[q] == node:
            continue
        work.entered[q] = node
        square = 0.0
        for j in range(queries.shape[1]):
            value = np.float32((queries[q, j] - tree.mean[node, j]) * tiles.scale)
            work.moved[q, j] = value
            square += np.float64(value) * np.float64(value)
        work.sure[q], work.maybe[q] = thresholds(
            np.sqrt(square), tiles.longest[node], tiles.radius * tiles.scale, queries.shape[1]
        )


@njit(cache=True, nogil=True, inline="always")
def meet_leaf(
    queries: Floats,
    chosen: Ints,
    count: int,
    leaf: int,
    tree: Tree,
    tiles: Tiles,
    work: Workspace,
    credit: Ints,
    both_ways: bool,
) -> None:
    """Count the points of a leaf that are near the chosen queries; both ways, credit them too.

    Four queries at a time; pairs that float32 leaves open are decided in float64. Inlined, because
    a call would count references to every array that it passes on.
    """
    _enter_frame(queries, chosen, count, tiles.frame[leaf], tree, tiles, work)
    depth = queries.shape[1]
    start = leaf * tree.leaf_size
    stop = min(start + tree.leaf_size, tree.ordered.shape[0])
    first, last = start // POINTS, (stop + POINTS - 1) // POINTS
    near, far, earned = work.near, work.far, work.earned
    to_group, to_sure, to_maybe = (
        work.group.ctypes.data,
        work.group_sure.ctypes.data,
        work.group_maybe.ctypes.data,
    )
    to_near, to_far, to_earned = near.ctypes.data, far.ctypes.data, earned.ctypes.data
    to_points, to_norms = tiles.laid.ctypes.data, tiles.norms.ctypes.data
    if both_ways:
        earned[:] = 0
    for c in range(0, count, QUERIES):
        members = min(QUERIES, count - c)
        for lane in range(QUERIES):
            if lane < members:
                q = chosen[c + lane]
                for j in range(depth):
                    work.group[j, lane] = work.moved[q, j]
                work.group_sure[lane], work.group_maybe[lane] = (work.sure[q], work.maybe[q])
            else:
                work.group_sure[lane], work.group_maybe[lane] = (np.nan, np.inf)  # nobody is near
        near[:] = 0
        far[:] = 0
        for tile in range(first, last):
            points, norms = to_points + tile * depth * POINTS * 4, to_norms + tile * POINTS * 4
            if both_ways:
                place = to_earned + (tile - first) * POINTS * 4
                count_tile_both_ways(
                    points, norms, to_group, to_sure, to_maybe, depth, to_near, to_far, place
                )
            else:
                count_tile(points, norms, to_group, to_sure, to_maybe, depth, to_near, to_far, 0)
        total = 0
        for lane in range(members):
            inside = near[lane, 0] + near[lane, 1] + near[lane, 2] + near[lane, 3]
            work.counts[chosen[c + lane]] += inside
            total += inside
        if total != far[0] + far[1] + far[2] + far[3]:
            for tile in range(first, last):
                near[:] = 0
                far[:] = 0
                points, norms = to_points + tile * depth * POINTS * 4, to_norms + tile * POINTS * 4
                count_tile(points, norms, to_group, to_sure, to_maybe, depth, to_near, to_far, 0)
                if near.sum() == far.sum():
                    continue  # the open pair is in another tile
                for lane in range(members):
                    q = chosen[c + lane]
                    work.counts[q] += _resolve(
                        queries[q], q, tile, stop, tree, tiles, work, credit, both_ways
                    )
    if both_ways:
        for i in range(start, stop):
            credit[i] += earned[i - start]


@njit(cache=True, nogil=True)
def _resolve(
    query: Floats,
    place: int,
    tile: int,
    stop: int,
    tree: Tree,
    tiles: Tiles,
    work: Workspace,
    credit: Ints,
    both_ways: bool,
) -> int:
    """Decide in float64 the pairs of one query and tile that float32 left open."""
    found = 0
    for i in range(tile * POINTS, min((tile + 1) * POINTS, stop)):
        value = tiles.norms[tile, i % POINTS]
        for j in range(query.size):
            value = fused(tiles.laid[tile, j, i % POINTS], work.moved[place, j], value)
        if value >= work.sure[place] or value < work.maybe[place]:
            continue
        if within(query, tree.ordered[i], tiles.square):
            found += 1
            if both_ways:
                credit[i] += 1
    return found
