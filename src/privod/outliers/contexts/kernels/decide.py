"""Does one value stand out in a population, seen from that value: Grubbs, LOF and histogram.

Every rule takes sums over the population, or the members nearest to the value, and depends on the
multiset of values alone: neither on the order of rows nor on the path that led to the population.
None fails because of values: a division by zero is infinite or no number, and stands out or not.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from privod.arrays import Floats, Ints
from privod.compiling import njit

EVERYTHING, GRUBBS, LOCAL_OUTLIER_FACTOR, HISTOGRAM = 0, 1, 2, 3


ROUNDED = 1e-9  # more than sums of a few hundred floats are off by
EMPTY_REACH = 1e-10  # scikit-learn adds it to a mean reach of 0, so that duplicates have a density


class Rule(NamedTuple):
    """A detector as numbers."""

    kind: int
    value: float
    n_neighbors: int
    bound: float
    """The least factor that is normal still, or the share that fills a bin."""
    critical: Floats
    reach: int
    """How many members on each side of the value the rule may look at."""


class Population(NamedTuple):
    """What a rule may know of a population: sums of deviations from the value, and its ends."""

    size: int
    total: float
    squares: float
    low: float
    high: float
    n_below: int
    """How many members `Near` holds on this side of the value."""
    n_above: int


class Near(NamedTuple):
    """The members nearest to the value, nearest first, and room to work on them."""

    below: Floats
    above: Floats
    line: Floats
    starts: Ints
    far: Floats
    total: Floats


@njit(cache=True, nogil=True)
def room_for(rule: Rule) -> Near:
    """Room for the members that a rule may look at; made once for many populations."""
    side, both = rule.reach + 1, 2 * rule.reach + 1
    line, starts = np.empty(both), np.empty(both, np.int64)
    return Near(np.empty(side), np.empty(side), line, starts, np.empty(both), np.empty(both + 1))


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def grubbs_stands_out(size: int, total: float, squares: float, critical: Floats) -> bool:
    """Grubbs' two-sided test at the value, from sums of deviations from that very value.

    `critical[n]` is the squared critical value for n members; below 3 members nothing stands out.
    """
    if size < 3:
        return False
    spread = squares - total * total / size  # (n - 1) times the variance
    distance = total / size  # the mean, seen from the value
    return distance * distance * (size - 1) > critical[size] * spread and spread > 0.0


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _first_neighbor(values: Floats, place: int, count: int, k: int, start: int) -> int:
    """Where the k nearest others of a sorted value begin; they and it are k + 1 in a row."""
    start = min(max(start, place - k), count - 1 - k)
    value = values[place]
    while (
        start < place
        and start + k + 1 < count
        and values[start + k + 1] - value < value - values[start]
    ):
        start += 1
    return start


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _neighborhoods(
    values: Floats, middle: int, count: int, k: int, starts: Ints, far: Floats
) -> tuple[int, int, int]:
    """Where the neighbors of the middle begin; the ends of these and their own neighbors.

    Writes of each of them where its neighbors begin, and how far its farthest one is.
    """
    lowest = _first_neighbor(values, middle, count, k, 0)
    start = 0
    first = place = _first_neighbor(values, lowest, count, k, 0)
    last = count - 1
    while place <= last:
        start = _first_neighbor(values, place, count, k, start)
        starts[place] = start
        far[place] = max(values[place] - values[start], values[start + k] - values[place])
        if place == lowest + k:
            last = start + k  # nobody beyond is a neighbor of a neighbor
        place += 1
    return lowest, first, last


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _density(values: Floats, place: int, k: int, start: int, far: Floats) -> float:
    """How near a member's neighbors are: one by the mean of their reaches."""
    value = values[place]
    reach = 0.0
    for other in range(start, place):
        reach += max(value - values[other], far[other])
    for other in range(place + 1, start + k + 1):
        reach += max(values[other] - value, far[other])
    return 1.0 / (reach / k + EMPTY_REACH)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _factor(values: Floats, middle: int, lowest: int, k: int, starts: Ints, far: Floats) -> float:
    around = 0.0
    for place in range(lowest, lowest + k + 1):
        if place != middle:
            around += _density(values, place, k, starts[place], far)
    return around / k / _density(values, middle, k, lowest, far)


@njit(cache=True, nogil=True, error_model="numpy")
def local_outlier_factor(
    values: Floats, middle: int, count: int, n_neighbors: int, starts: Ints, far: Floats
) -> float:
    """The factor of values[middle], all in ascending order [Breunig 2000].

    `values[:count]` must hold the whole population, or at least the 3 * n_neighbors members on
    either side of the middle. A member's neighbors are its n_neighbors nearest others; if two lie
    equally far and only one fits, the lower one does. `starts` and `far` are room to work in.
    """
    lowest, _, _ = _neighborhoods(values, middle, count, n_neighbors, starts, far)
    return _factor(values, middle, lowest, n_neighbors, starts, far)


@njit(cache=True, nogil=True, error_model="numpy")
def is_local_outlier(
    values: Floats,
    middle: int,
    count: int,
    n_neighbors: int,
    bound: float,
    starts: Ints,
    far: Floats,
    total: Floats,
) -> bool:
    """Whether the factor of values[middle] is above the bound; mostly without computing it.

    No reach is shorter than the neighbor's own farthest, so sums of these bound all densities.
    """
    k = n_neighbors
    lowest, first, last = _neighborhoods(values, middle, count, k, starts, far)
    total[first] = 0.0
    for place in range(first, last + 1):
        total[place + 1] = total[place] + far[place]
    rounded = ROUNDED * total[last + 1]
    most = 0.0
    for place in range(lowest, lowest + k + 1):
        start = starts[place]
        least = total[start + k + 1] - total[start] - far[place] - rounded
        if place != middle:
            most += 1.0 / (max(least, 0.0) / k + EMPTY_REACH)
    if most / k / _density(values, middle, k, lowest, far) * (1.0 + ROUNDED) <= bound:
        return False
    return _factor(values, middle, lowest, k, starts, far) > bound


class Bin(NamedTuple):
    """The value's bin, of ceil(sqrt(size)) between the ends of a population."""

    low: float
    scale: float
    last: int
    own: int
    full: float
    """So many members fill it: it is nearly empty with fewer."""


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _place(value: float, low: float, scale: float, last: int) -> int:
    return min(math.floor((value - low) * scale), last)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def own_bin(value: float, low: float, high: float, size: int, share: float) -> Bin:
    """The value's bin; one that is never empty enough where all bins are as good as filled."""
    if share * size <= 1.0 or not high > low:  # the value's bin holds the value
        return Bin(low, 0.0, 0, 0, 0.0)
    bins = math.ceil(math.sqrt(size))
    scale = bins / (high - low)
    return Bin(low, scale, bins - 1, _place(value, low, scale, bins - 1), share * size)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def is_inside(value: float, own: Bin) -> bool:
    """Whether a member lies in the bin."""
    return _place(value, own.low, own.scale, own.last) == own.own


@njit(cache=True, nogil=True, error_model="numpy")
def histogram_stands_out(
    value: float,
    low: float,
    high: float,
    size: int,
    share: float,
    below: Floats,
    n_below: int,
    above: Floats,
    n_above: int,
) -> bool:
    """Whether the value's bin is nearly empty.

    `below` and `above` hold the members nearest to the value, nearest first: all of them, or at
    least share * size on each side. Counting stops as soon as the bin is known to be full.
    """
    own = own_bin(value, low, high, size, share)
    held = 1
    for place in range(n_below):
        if held >= own.full or not is_inside(below[place], own):
            break
        held += 1
    for place in range(n_above):
        if held >= own.full or not is_inside(above[place], own):
            break
        held += 1
    return held < own.full


@njit(cache=True, nogil=True, error_model="numpy")
def members_needed(rule: Rule, size: int) -> int:
    """How many members on each side of the value decide, in a population of this size."""
    if rule.kind == HISTOGRAM:
        return min(rule.reach, int(rule.bound * size) + 1)  # by then the bin is full
    return rule.reach


@njit(cache=True, nogil=True, error_model="numpy")
def distance_needed(rule: Rule, size: int, low: float, high: float) -> float:
    """How far from the value a member may lie and decide, with so many members or more."""
    if rule.kind != HISTOGRAM:
        return math.inf
    width = (high - low) / math.sqrt(max(size, 1.0 / rule.bound))  # nothing stands out in fewer
    return 1.001 * width  # rounding puts nobody so far out into the value's bin


@njit(cache=True, nogil=True, error_model="numpy")
def stands_out(rule: Rule, population: Population, near: Near) -> bool:
    """Apply the rule to a population, given its sums and the members nearest to the value."""
    size, n_below, n_above = population.size, population.n_below, population.n_above
    if rule.kind == EVERYTHING:
        return True
    if rule.kind == GRUBBS:
        return grubbs_stands_out(size, population.total, population.squares, rule.critical)
    if rule.kind == LOCAL_OUTLIER_FACTOR:
        if size < 2:
            return False
        for place in range(n_below):
            near.line[n_below - 1 - place] = near.below[place]
        near.line[n_below] = rule.value
        for place in range(n_above):
            near.line[n_below + 1 + place] = near.above[place]
        k = min(rule.n_neighbors, size - 1)
        count = n_below + 1 + n_above
        return is_local_outlier(
            near.line, n_below, count, k, rule.bound, near.starts, near.far, near.total
        )
    return histogram_stands_out(
        rule.value, population.low, population.high, size, rule.bound,
        near.below, n_below, near.above, n_above,
    )  # fmt: skip
