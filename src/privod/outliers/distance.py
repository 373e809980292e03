"""Who is outlying by distance: at most `max_crowd` records, itself included, within `radius`.

The predicate of Asif's (beta, r)-anomalies, Okada's distance-based outliers and Raval's
DB(p, d)-outliers. Two points are within the radius when the float64 sum of squared differences,
first column first, is at most radius * radius: the ball is closed, and that sum is decided
exactly, ties included, whatever path the search takes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.errors import InvalidData, InvalidParameter
from privod.outliers.kernels.crowds_tree import Floats, Ints, frames, grow, lay_tiles
from privod.outliers.kernels.crowds_walk import walk_others, walk_own

LEAF_SIZE = 128  # measured best from 4 to 200 dimensions
FLAT_LEAF_SIZE = 64  # measured best up to 3 dimensions
FRAME_LEAVES = 64  # leaves that share one float32 frame, so that queries are rounded rarely ...
FRAME_REACH = 8.0  # and the diagonal, in radii, beyond which float32 would leave pairs open
ASKED_AT_ONCE = 32  # query points that walk the tree together
ALONE_BELOW = 2_000_000  # pairs below which a second thread costs more than it brings
TINY, HUGE = 1e-140, 1e140  # radii outside are decided in float64 alone: their squares round away


def available_threads() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, kw_only=True)
class DistanceOutliers:
    """The definition of an outlier by distance.

    Parameters
    ----------
    radius
        How near another record must be to count (Euclidean distance; exactly at it counts).
    max_crowd
        The largest crowd, itself included, of an outlying record.
    """

    radius: float
    max_crowd: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.radius) and self.radius >= 0):
            raise InvalidParameter(
                "radius", "must be a finite number from 0", self.radius, "Try 1."
            )
        if self.max_crowd < 1:
            raise InvalidParameter("max_crowd", "must be at least 1", self.max_crowd, "Try 5.")

    def outlying(self, points: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of the points are outlying among themselves."""
        crowds = CrowdIndex(points).crowds(self.radius, cap=self.max_crowd + 1)
        return np.asarray(crowds <= self.max_crowd)


class CrowdIndex:
    """Points arranged once, to count their crowds at any radius.

    Parameters
    ----------
    points
        Array of shape (n, d), finite; duplicates are separate records.
    """

    def __init__(self, points: NDArray[Any]) -> None:
        self.points = as_points(points)
        self.size, self.dimensions = self.points.shape
        self._leaf_size = FLAT_LEAF_SIZE if self.dimensions <= 3 else LEAF_SIZE
        self._laid: tuple[float, tuple[Any, ...]] | None = None
        if self.size:
            grown: Any = grow(self.points, self._leaf_size)
            self._order: Ints = grown[0]
            self._nodes: tuple[Any, ...] = grown[1:]
            self._ordered = self.points[self._order]

    def __repr__(self) -> str:
        return f"CrowdIndex({self.dimensions} columns)"

    def crowds(
        self,
        radius: float,
        *,
        at: NDArray[Any] | None = None,
        cap: int | None = None,
        threads: int | None = None,
    ) -> Ints:
        """How many points lie within the radius of each point, or of each point of `at`.

        A point counts itself. With a cap, counting stops there: the answer is min(crowd, cap).
        """
        asked = self.points if at is None else as_points(at, self.dimensions)
        if len(asked) == 0 or self.size == 0:
            return np.zeros(len(asked), np.int64)
        workers = threads or available_threads()
        if len(asked) * self.size < ALONE_BELOW:
            workers = 1
        arguments = self._arguments(float(radius))
        result = np.empty(len(asked), np.int64)
        if at is None and cap is None:
            own: Any = walk_own
            parts = _in_threads(workers, lambda w: own(*arguments, w, workers))
            result[self._order] = sum(parts[1:], parts[0])
            return result
        order, queries = self._in_leaves(asked, at is None)
        found = np.empty(len(asked), np.int64)
        limit = cap if cap is not None else self.size
        others: Any = walk_others
        _in_threads(
            workers,
            lambda w: others(queries, ASKED_AT_ONCE, limit, *arguments, w, workers, found),
        )
        result[order] = found
        return result

    def _in_leaves(self, asked: Floats, own: bool) -> tuple[Ints, Floats]:
        if own:
            return self._order, self._ordered
        order = grow(asked, ASKED_AT_ONCE)[0]
        return order, asked[order]

    def _arguments(self, radius: float) -> tuple[Any, ...]:
        """What the walks need for a radius; the last radius is kept."""
        kept = self._laid
        if kept is not None and kept[0] == radius:
            return kept[1]
        usable = TINY < radius < HUGE
        scale = 2.0 ** -math.floor(math.log2(radius)) if usable else 0.0
        first, end, _, low, high = self._nodes
        frame = frames(first, end, low, high, FRAME_LEAVES, FRAME_REACH * radius)
        tiles = lay_tiles(self._ordered, frame, low, high, self._leaf_size, scale)
        arguments = (self._ordered, *self._nodes, frame, *tiles, self._leaf_size, radius, scale)
        self._laid = (radius, arguments)
        return arguments


def crowds(
    points: NDArray[Any],
    radius: float,
    *,
    at: NDArray[Any] | None = None,
    cap: int | None = None,
    threads: int | None = None,
) -> Ints:
    """How many of the points lie within the radius of each point, or of each point of `at`."""
    return CrowdIndex(points).crowds(radius, at=at, cap=cap, threads=threads)


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


def _in_threads(workers: int, work: Callable[[int], Any]) -> list[Any]:
    if workers == 1:
        return [work(0)]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, range(workers)))
