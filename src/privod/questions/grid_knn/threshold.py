"""Where do the reference records lie, as far as a noisy grid shows it?

A threshold is a quantile of scores, each place weighted by the records there. Most cells of a grid
hold few records or none, and their noisy counts are noise; but cells that lie side by side hold
alike. So the cells are ordered by what lies around them, which their own noise does not touch, and
taken together, fullest surroundings first, until a group holds more than its noise explains. Within
a group each count is replaced by its expectation (`expected_counts`). What is left at the end is
believed as far as it exceeds its noise. All of it is post-processing of public numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privod.mechanisms import seeded
from privod.mechanisms.merged import MergedNoise
from privod.outliers.grid.grid import Grid, WalkScores
from privod.query.denoising import expected_counts
from privod.query.scores import limit

__all__ = ["Places", "limit", "limits", "limits_of_walks", "places_of_all", "places_of_kept"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Cells = NDArray[np.int32]

N_PLACES = 5000  # enough that a share of a hundredth is met to a seventh
MOST_COMPARED = 50_000_000  # pairs of a place and a kept cell
FEWEST_PLACES = 200
SPREAD = 0.5  # the weight of a cell one step away in what lies around a cell; two steps: its square
FIRST_GROUP = 50  # cells, or a two-thousandth of all
GROWTH = 1.5  # from group to group
SIGNIFICANT_AT_FIRST = 4.5  # deviations of its noise that the first group must hold,
SIGNIFICANT = 3.0  # and the others: a grid of nobody gets many chances to look like somebody
MOST_WALKED = 2000  # cells in a walk, unless the limit depends on longer ones
MOST_WALKED_ON = 100_000  # cells in those
MOST_LONG_WALKS = 100
WHOLE = 1 - 1e-9  # of the last cell was needed, or the walk was cut
TRIES = 20  # cells drawn for one that was not kept
MOST_TRIES = 20_000
MOVES = 1.5  # axes along which a record in a dropped cell lies off a kept one
MOSTLY_SEEN = 0.5  # of the records in kept cells, from which on the others lie beside these
FALSE_SHARE = 0.01  # of what is seen, from which on a single count is believed


_NOBODY: Ints = np.empty(0, dtype=np.int64)


class Places(NamedTuple):
    """Points that stand for the same number of reference records each."""

    points: Floats
    hidden_share: float
    """About which share of the records cannot be placed: their cells cannot be told from noise."""


def places_of_all(grid: Grid, counts: Ints, noise: MergedNoise) -> Places:
    """Places of the records of a grid that holds all cells."""
    records = np.zeros(len(counts))
    groups = _by_surroundings(grid, counts)
    sums = np.array([counts[group].sum() for group in groups])
    begin = 0
    for end in range(1, len(groups) + 1):
        size = sum(len(group) for group in groups[begin:end])
        needed = SIGNIFICANT if begin else SIGNIFICANT_AT_FIRST
        if sums[begin:end].sum() >= needed * noise.deviation * math.sqrt(size):
            together = np.concatenate(groups[begin:end])
            records[together] = expected_counts(counts[together], noise)
            begin = end
    rest = np.concatenate([_NOBODY, *groups[begin:]])
    alone = counts[rest] >= _believed_alone(counts, noise)
    records[rest[alone]] = counts[rest[alone]]
    believed = records.sum()
    others = rest[~alone]
    left = _beyond_noise(int(counts[others].sum()), noise.deviation * math.sqrt(len(others)))
    if left > 0:
        expected = expected_counts(counts[others], noise)
        records[others] = expected * (left / max(expected.sum(), math.ulp(1.0)))
    total = records.sum()
    if total == 0:  # nobody, as far as can be seen: every cell is as good a place
        return Places(_spread(grid, grid.cells_at(_systematic(np.ones(len(counts))))), 1.0)
    cells = grid.cells_at(_systematic(records))
    return Places(_spread(grid, cells), float(1 - believed / total))


def places_of_kept(
    grid: Grid,
    cells: Cells,
    counts: Ints,
    noise: MergedNoise,
    total: int,
    deviation: float,
) -> Places:
    """Places of the records of a grid that dropped the cells below a threshold.

    A kept count is believed less the share of false ones among those as large. Where fewer records
    are kept than there are by the noisy `total`, beyond what its `deviation` explains, the others
    are in dropped cells, nobody knows which: they are placed beside the kept ones, or, if most are
    not kept, anywhere.
    """
    alike = np.sort(counts)
    as_large = len(counts) - np.searchsorted(alike, counts)
    false = np.zeros(len(counts))
    for scale, times in noise.parts:
        rate = 1 / float(scale)  # P(noise >= c) = q^c / (1 + q), q = e^-rate
        false += times * np.exp(
            math.log(grid.n_cells) - math.log1p(math.exp(-rate)) - rate * counts
        )
    truth = np.maximum(0.0, 1 - false / np.maximum(as_large, 1))
    records: Floats = counts.astype(np.float64) * truth
    believed = float(records.sum())
    share = believed / (believed + _beyond_noise(total - believed, deviation)) if believed else 0.0
    size = int(np.clip(MOST_COMPARED // max(1, len(counts)), FEWEST_PLACES, N_PLACES))
    n_seen = round(size * share)
    seen = cells[_systematic(records, n_seen)]
    n_unseen = size - n_seen
    place = _beside if share >= MOSTLY_SEEN else _apart
    tried = place(grid, cells, records, min(TRIES * n_unseen, MOST_TRIES))
    unseen = _not_kept(tried, cells, n_unseen)
    return Places(_spread(grid, np.concatenate([seen, unseen])), 1 - share)


def _beside(grid: Grid, kept: Cells, records: Floats, size: int) -> Cells:
    """Cells a step or two from one that holds records, any of those alike.

    A kept cell that touches no other is left out if others do: most of those are false. Each axis
    is moved by one with a probability that makes `MOVES` of them in all.
    """
    bases = kept[_systematic((records > 0).astype(np.float64), size)]
    names, steps = _hashed(bases)[:, None], _factors(grid.n_axes)  # a step adds its factor
    around = np.concatenate([names + steps, names - steps], axis=1)
    touching = np.isin(around, _hashed(kept)).any(axis=1)
    bases = bases[touching] if touching.any() else bases
    luck = _uniform(bases.size, grid.n_axes).reshape(bases.shape)
    part = 0.5 * min(1.0, MOVES / grid.n_axes)
    moved = bases + (luck < part) - (luck > 1 - part)
    mixed: Cells = moved[np.argsort(_uniform(len(moved), 0))].astype(np.int32)
    return np.clip(mixed, 0, grid.cells_per_axis - 1)


def _apart(grid: Grid, kept: Cells, records: Floats, size: int) -> Cells:
    """Cells as if the columns were independent, each as the kept ones have it, a little wider."""
    chosen = np.empty((size, grid.n_axes), dtype=np.int32)
    for axis in range(grid.n_axes):
        along: Floats = np.bincount(kept[:, axis], records, grid.cells_per_axis).astype(np.float64)
        wider = np.convolve(along, [SPREAD, 1.0, SPREAD], mode="same")
        unknown = max(1.0, records.max(initial=0.0)) / grid.cells_per_axis
        drawn = _systematic(wider + unknown, size)
        chosen[:, axis] = drawn[np.argsort(_uniform(size, axis))]
    return chosen


def _not_kept(chosen: Cells, kept: Cells, size: int) -> Cells:
    """So many of some cells that were not kept; if all of them were kept, of those."""
    free = chosen[~np.isin(_hashed(chosen), _hashed(kept))]
    source = free if len(free) else chosen
    return source[np.arange(size) % max(1, len(source))]


def _hashed(cells: Cells) -> NDArray[np.uint64]:
    """A number of 64 bits for each cell; one cell taken for another by chance does no harm."""
    return np.asarray((cells.astype(np.uint64) * _factors(cells.shape[1])).sum(axis=1))


def _factors(n_axes: int) -> NDArray[np.uint64]:
    return seeded(n_axes).words(n_axes) | np.uint64(1)


def limits(scores: WalkScores, weights: Floats, target_fraction: float) -> WalkScores:
    """The same for each score of a walk."""
    return WalkScores(*(limit(part, weights, target_fraction) for part in scores))


def limits_of_walks(
    grid: Grid,
    points: Floats,
    walked: Callable[[Floats, Fraction | None], WalkScores],
    depth: Fraction | None,
    target_fraction: float,
) -> WalkScores:
    """The limits of scores that come from walks of a depth over all cells.

    A walk through noise can be as long as the grid is large, so walks are cut short at first. Where
    those that were cut make up the share asked for, some of them are walked on.
    """
    scores = walked(points, _depth_within(grid, MOST_WALKED, depth))
    filled = (scores.graded - scores.basic) * grid.cells_per_axis
    cut = np.flatnonzero(filled >= WHOLE)
    if len(cut) < target_fraction * len(points):
        return limits(scores, np.ones(len(points)), target_fraction)
    some = cut[:: -(-len(cut) // MOST_LONG_WALKS)]
    longer = walked(points[some], _depth_within(grid, MOST_WALKED_ON, depth))
    others = np.setdiff1d(np.arange(len(points)), cut)
    both = zip((part[others] for part in scores), longer, strict=True)
    weights = np.repeat([1.0, len(cut) / len(some)], [len(others), len(some)])
    return limits(WalkScores(*map(np.concatenate, both)), weights, target_fraction)


def _depth_within(grid: Grid, most_cells: int, depth: Fraction | None) -> Fraction:
    near = Fraction(grid.steps_within(most_cells), grid.cells_per_axis)
    return near if depth is None else min(near, depth)


def _by_surroundings(grid: Grid, counts: Ints) -> list[Ints]:
    """Groups of cells, those with the fullest surroundings first; groups grow."""
    empty = counts - _surroundings(grid, counts)
    ends: list[int] = []
    end = size = float(max(FIRST_GROUP, len(counts) // 2000))
    while end < len(counts):
        ends.append(int(end))
        size *= GROWTH
        end += size
    borders = np.partition(empty, ends)[ends] if ends else np.empty(0)
    group = np.searchsorted(borders, empty, side="right").astype(np.uint8)
    order = np.argsort(group, kind="stable")
    return np.split(order, np.bincount(group, minlength=len(ends) + 1).cumsum()[:-1])


def _surroundings(grid: Grid, counts: Ints) -> Floats:
    """The noisy counts around each cell, its own included with weight one."""
    around = counts.astype(np.float64)
    for axis in range(grid.n_axes):
        lines = around.reshape(grid.cells_per_axis**axis, grid.cells_per_axis, -1)
        grown = lines.copy()
        grown[:, 1:] += SPREAD * lines[:, :-1]
        grown[:, :-1] += SPREAD * lines[:, 1:]
        around = grown
    return around.reshape(-1)


def _believed_alone(counts: Ints, noise: MergedNoise) -> float:
    """The count from which on noise makes up about a hundredth of what is surely seen, or less."""
    seen = _beyond_noise(int(counts.sum()), noise.deviation * math.sqrt(len(counts)))
    cells_per_record = len(counts) / max(1.0, seen)
    return max(1.0, noise.scale * math.log(max(1.0, cells_per_record / FALSE_SHARE)))


def _beyond_noise(found: float, deviation: float) -> float:
    """What is found, shrunk by the share of its square that noise explains [James 1961]."""
    return found * max(0.0, 1 - (deviation / found) ** 2) if found > 0 else 0.0


def _systematic(weights: Floats, size: int = N_PLACES) -> Ints:
    """Indices in proportion to their weights, in equal steps along the sum."""
    upto = weights.cumsum()
    steps = (np.arange(size) + 0.5) / max(size, 1) * upto[-1] if size else np.empty(0)
    return np.minimum(np.searchsorted(upto, steps), len(weights) - 1)


def _spread(grid: Grid, cells: Cells) -> Floats:
    """A point anywhere in each of the cells."""
    offsets = _uniform(cells.size, grid.n_axes).reshape(cells.shape) - 0.5
    widths = np.array([column.high - column.low for column in grid.columns])
    return grid.centers_of(cells) + offsets * (widths / grid.cells_per_axis)


def _uniform(n: int, seed: int) -> Floats:
    """Numbers in (0, 1) that look random and are always the same; no promise rests on them."""
    return (seeded(seed).words(n) >> np.uint64(11)).astype(np.float64) * 2.0**-53
