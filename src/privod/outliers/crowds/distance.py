"""Who is outlying by distance: at most `max_crowd` records, itself included, within `radius`.

The predicate of Asif's (beta, r)-anomalies, Okada's distance-based outliers and Raval's
DB(p, d)-outliers. Two points are within the radius when the float64 sum of squared differences,
first column first, is at most radius * radius: the ball is closed, and that sum is decided
exactly, ties included, whatever path the search takes.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Floats, Ints
from privod.errors import InvalidData
from privod.outliers.crowds.kernels.nearest import walk_to_cap
from privod.outliers.crowds.kernels.tree import (
    Tiles,
    Tree,
    average,
    frames,
    grow,
    lay_tiles,
    plant,
    split,
)
from privod.outliers.crowds.kernels.walk import walk
from privod.threads import available_threads, in_threads

LEAF_SIZE = 128  # measured best from 4 to 200 dimensions
FLAT_LEAF_SIZE = 64  # measured best up to 3 dimensions
FRAME_REACH = 16.0  # radii from a frame's middle beyond which float32 would leave pairs open
ASKED_AT_ONCE = 64  # query points that walk the tree together
LARGE_CAP = 256  # a cap past one in so many points saves too little: count in full and cut ...
LARGE_CAP_ELSEWHERE = 16  # and where other points are asked for, each pair is looked at anyway
ALONE_BELOW = 2_000_000  # pairs below which a second thread costs more than it brings ...
ALONE_BELOW_POINTS = 20_000  # and points
TINY, HUGE = 1e-140, 1e140  # radii outside are decided in float64 alone: their squares round away


class CrowdIndex:
    """Points arranged once, to count their crowds at any radius; duplicates are records too."""

    def __init__(self, points: NDArray[Any], *, threads: int | None = None) -> None:
        self.points = as_points(points)
        self.threads = threads or available_threads()
        self.size, self.dimensions = self.points.shape
        self._leaf_size = FLAT_LEAF_SIZE if self.dimensions <= 3 else LEAF_SIZE
        self._tiles: Tiles | None = None
        if self.size:
            self._order, self._tree = _grown(self.points, self._leaf_size, self.threads)

    def __repr__(self) -> str:
        return f"CrowdIndex({self.dimensions} columns)"

    def crowds(
        self, radius: float, *, at: NDArray[Any] | None = None, cap: int | None = None
    ) -> Ints:
        """How many points lie within the radius of each point, or of each point of `at`.

        A point counts itself. With a cap, counting stops there: the answer is min(crowd, cap).
        """
        asked = self.points if at is None else as_points(at, self.dimensions)
        if len(asked) == 0 or self.size == 0:
            return np.zeros(len(asked), np.int64)
        workers = self.threads if len(asked) * self.size >= ALONE_BELOW else 1
        order, queries, block = self._in_blocks(asked, at is None)
        task: Any = partial(walk, queries, block, at is None)
        share = LARGE_CAP if at is None else LARGE_CAP_ELSEWHERE
        if cap is not None and cap * share <= self.size:
            task = partial(walk_to_cap, queries, block, cap)
        tiles = self._laid_for(float(radius))
        parts = in_threads(lambda w: task(self._tree, tiles, w, workers), workers, workers)
        result = np.empty(len(asked), np.int64)
        result[order] = sum(parts[1:], parts[0])
        return result if cap is None else np.minimum(result, cap)

    def _in_blocks(self, asked: Floats, own: bool) -> tuple[Ints, Floats, int]:
        """An order that brings near points together, the points in it, and how many go at once."""
        if own:
            return self._order, self._tree.ordered, self._leaf_size
        if len(asked) <= ASKED_AT_ONCE:
            return np.arange(len(asked)), asked, ASKED_AT_ONCE
        order, tree = _grown(asked, ASKED_AT_ONCE, self.threads)
        return order, tree.ordered, ASKED_AT_ONCE

    def _laid_for(self, radius: float) -> Tiles:
        """The points as the walks need them for a radius; the last radius is kept."""
        tiles = self._tiles  # another thread may bring in those of another radius at any time
        if tiles is None or tiles.radius != radius:
            usable = TINY < radius < HUGE
            scale = 2.0 ** -math.floor(math.log2(radius)) if usable else 0.0
            frame = frames(self._tree, FRAME_REACH * radius)
            laid = lay_tiles(self._tree, frame, scale)
            tiles = self._tiles = Tiles(frame, *laid, radius, radius * radius, scale)
        return tiles


def crowds(
    points: NDArray[Any],
    radius: float,
    *,
    at: NDArray[Any] | None = None,
    cap: int | None = None,
    threads: int | None = None,
) -> Ints:
    """How many of the points lie within the radius of each point, or of each point of `at`."""
    return CrowdIndex(points, threads=threads).crowds(radius, at=at, cap=cap)


def as_points(points: NDArray[Any], dimensions: int | None = None) -> Floats:
    """Float64 rows, C-contiguous and finite, or an error."""
    array = np.ascontiguousarray(points, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] < 1:
        raise InvalidData("points must form a table of rows with at least one column.")
    if dimensions is not None and array.shape[1] != dimensions:
        raise InvalidData(
            f"query points must have {dimensions} columns like the index, not {array.shape[1]}."
        )
    if not np.isfinite(array).all():
        raise InvalidData("points must be finite numbers.")
    return array


def _grown(points: Floats, leaf_size: int, workers: int) -> tuple[Ints, Tree]:
    """An order that brings near points together, and the tree over them in that order."""
    nodes: Any = plant(points, leaf_size)
    roots = [0]
    while len(roots) < min(workers, len(points) // ALONE_BELOW_POINTS):
        node = roots.pop(0)  # the first levels one by one, then a tree for each thread
        split(points, leaf_size, nodes, node)
        roots += [node + 1, nodes.right[node]]
    in_threads(lambda w: grow(points, leaf_size, nodes, roots[w]), len(roots), workers)
    average(points, leaf_size, nodes)
    return nodes.order, Tree(
        points[nodes.order],
        nodes.first,
        nodes.end,
        nodes.right,
        nodes.low,
        nodes.high,
        nodes.mean,
        leaf_size,
    )
