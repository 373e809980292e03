"""At most how many of some public points can one ball contain? Quickly, whatever the points.

The places where a ball's center can be are halved again and again, the most promising box first,
until no box could beat a ball already found, or a fixed amount of work is done: then the most that
an open box promises is still a bound. The points are public, so both may depend on them.
"""

from __future__ import annotations

import heapq
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Floats
from privod.outliers.crowds.distance import CrowdIndex, as_points

SLACK = 2.0**-20  # balls are taken this much larger, far beyond any rounding
TINY_RADIUS = 1e-150  # below, squares of differences vanish, and points count as near by that
FEW = 64  # points that are counted sooner than kernels for many are loaded, or even compiled
MOST_PAIRS = 2e9  # numbers compared at most to count crowds in full
MOST_SPREADS = 1e8  # numbers compared at most to see how far apart points are on average
LARGE_CROWD = 256  # where that is too many, crowds are counted up to here
MOST_LOOKS = 3e7  # numbers compared at most while boxes are halved ...
MOST_BOXES = 20_000  # ... and boxes looked at


def most_in_one_ball(points: NDArray[Any], radius: float) -> int:
    """At least the most points in one closed ball of the radius, wherever its center is."""
    array = as_points(points)
    n, d = len(array), array.shape[1]
    if n <= 1:
        return n
    reach = max(radius, TINY_RADIUS) * (1 + SLACK)
    cap = n if n * n * d <= MOST_PAIRS else LARGE_CROWD
    crowds = partial(_crowds_of_few, array) if n <= FEW else CrowdIndex(array).crowds
    around = crowds(2 * reach, cap=cap)  # all of a ball lie within a diameter of each other
    bound = int(around.max()) if int(around.max()) < cap else n
    found = int(crowds(reach, cap=cap).max())  # a ball around one of them
    if found < bound and n * n * d <= MOST_SPREADS:
        bound = min(bound, _by_spread(array, reach))
    if found >= bound:
        return bound
    could_hold_more = around >= min(found + 1, cap)
    return min(bound, _by_halving(array[could_hold_more], reach, found))


def _by_spread(points: Floats, reach: float) -> int:
    """At most so many points lie in one ball, by how far apart points are on average.

    The squared distances between all ordered pairs of m points are m times twice their sum from
    the mean, and no place has a smaller sum than the mean: in a ball they come to 2 m^2 r^2 at
    most. So one of the m has squared distances of at most 2 m r^2 to the others, all within 2 r.
    """
    best = 1
    for point in points:
        squares = np.sort(_gaps(points, point, point))  # itself first, at 0
        near = np.cumsum(squares[squares <= (2 * reach) ** 2])
        sizes = np.arange(1, len(near) + 1)
        fits = np.flatnonzero(near <= 2 * sizes * reach**2 * (1 + SLACK))
        best = max(best, int(sizes[fits[-1]]))
    return best


def _crowds_of_few(points: Floats, radius: float, *, cap: int) -> NDArray[np.int64]:
    """How many points lie within the radius of each; the slack covers how this sum rounds."""
    near = [np.count_nonzero(_gaps(points, point, point) <= radius * radius) for point in points]
    return np.minimum(near, cap)


def _by_halving(points: Floats, reach: float, found: int) -> int:
    """The most points within reach of one place, given that `found` of them are."""
    order = count()
    low, high = points.min(axis=0), points.max(axis=0)  # no center need lie beyond
    open_boxes = [(-len(points), next(order), low, high, np.arange(len(points), dtype=np.int32))]
    looks, boxes = 0, 0
    while open_boxes and -open_boxes[0][0] > found:
        if looks > MOST_LOOKS or boxes > MOST_BOXES:
            return -open_boxes[0][0]
        _, _, low, high, near = heapq.heappop(open_boxes)
        side = int(np.argmax(high - low))
        middle = low[side] + (high[side] - low[side]) / 2
        if not low[side] < middle < high[side]:  # as small as floats go: no center is left out
            found = len(near)
            continue
        for first in (True, False):
            lower, upper = low.copy(), high.copy()
            (upper if first else lower)[side] = middle
            some = points[near]
            inside = near[_gaps(some, lower, upper) <= reach * reach]
            looks, boxes = looks + some.size, boxes + 1
            if len(inside) > found:
                center = lower + (upper - lower) / 2
                held = _gaps(points[inside], center, center) <= (reach * (1 + SLACK)) ** 2
                found = max(found, int(held.sum()))
                heapq.heappush(open_boxes, (-len(inside), next(order), lower, upper, inside))
    return found


def _gaps(points: Floats, low: Floats, high: Floats) -> Floats:
    """The squared distance of each point from a box."""
    with np.errstate(over="ignore"):  # farther than floats go is far
        beyond = np.maximum(np.maximum(low - points, points - high), 0.0)
        return np.asarray(np.einsum("ij,ij->i", beyond, beyond))
