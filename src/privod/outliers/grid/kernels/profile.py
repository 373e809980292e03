"""Cells, octaves and scores of records, column by column: the passes of a profile.

Every record is read by itself, column after column, so that nothing about it depends on the records
before it, not even how a float is rounded.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privod.compiling import njit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CHUNK = 256  # records at a time, so that loops over one column run in the processor's registers
EXPONENT_BIAS = 1023  # of a 64-bit float ...
QUARTER_BITS = 2  # ... that tell apart the quarters of an octave ...
MAGNITUDE, INFINITE = np.uint64(2**63 - 1), np.uint64(0x7FF << 52)  # ... and all its other bits


@njit(cache=True, nogil=True)
def count_octaves(
    words: NDArray[np.uint64], places: Ints, lowest: int, octaves: int, counts: Ints
) -> None:
    """Add each value to the count of its sign and octave; what is not a number has the last cell.

    By the bits of a float. `octaves` cells for each sign, from 2^lowest on, the last without an
    end; what is nearer to zero has one cell in the middle. Cells ascend.
    """
    for row in range(words.shape[0]):
        for at in range(places.size):
            word = words[row, places[at]]
            if word & MAGNITUDE > INFINITE:  # not a number
                counts[at, 2 * octaves + 1] += 1
                continue
            exponent = int((word >> np.uint64(52)) & np.uint64(0x7FF)) - EXPONENT_BIAS
            step: int = min(max(exponent - lowest + 1, 0), octaves)
            counts[at, octaves - step if word >> np.uint64(63) else octaves + step] += 1


@njit(cache=True, nogil=True)
def count_cells(
    rows: Floats, origins: Floats, scales: Floats, tops: Ints, starts: Ints, counts: Ints
) -> None:
    """Add each value to the count of its cell; what is not a number lies in a column's last one."""
    for row in range(rows.shape[0]):
        for column in range(rows.shape[1]):
            value, top = rows[row, column], tops[column]
            cell = top + 1
            if value == value:
                along = (value - origins[column]) * scales[column]
                cell = np.int64(min(max(along, 0.0), np.float64(top)))
            counts[starts[column] + cell] += 1


@njit(cache=True, nogil=True)
def cells_of_rows(
    rows: Floats, origins: Floats, scales: Floats, tops: Ints, cells: NDArray[np.int64]
) -> None:
    """The cell of each value in its column."""
    for row in range(rows.shape[0]):
        for column in range(rows.shape[1]):
            value, top = rows[row, column], tops[column]
            cells[row, column] = top + 1
            if value == value:
                along = (value - origins[column]) * scales[column]
                cells[row, column] = np.int64(min(max(along, 0.0), np.float64(top)))


@njit(cache=True, nogil=True)
def lattice_points(
    rows: Floats,
    centers: Floats,
    inverse: Floats,
    farthest: float,
    radius: float,
    unit: float,
    points: Floats,
) -> None:
    """Records in scales from the centers, in a ball, on its lattice toward zero.

    `inverse` is one over each scale.
    A record whose squares are not known to sum to at most unit^2, as of one with a place that is
    no number, counts as the zero vector: what is proved rests on this line alone.
    """
    n_axes = rows.shape[1]
    for row in range(rows.shape[0]):
        length = 0.0
        for axis in range(n_axes):
            away = (rows[row, axis] - centers[axis]) * inverse[axis]
            away = min(max(away, -farthest), farthest) if away == away else 0.0
            points[row, axis] = away
            length += away * away
        shrink = unit / max(np.sqrt(length), radius)
        squares = 0.0  # of whole numbers up to unit: exact, or no number where a place is none
        for axis in range(n_axes):
            place = np.trunc(points[row, axis] * shrink)
            points[row, axis] = place
            squares += place * place
        if not (squares <= unit * unit):
            for axis in range(n_axes):
                points[row, axis] = 0.0


@njit(cache=True, nogil=True)
def score_rows(
    rows: Floats,
    origins: Floats,
    widths: Floats,
    tops: Ints,
    starts: Ints,
    table: Floats,
    ends: Floats,
    outside: Floats,
    law: Floats,
    laws_step: float,
    laws_slope: float,
    places: Ints,
    centers: Floats,
    inverse: Floats,
    steps: Floats,
    residual: Floats,
    far_law: Floats,
    far_step: float,
    far_slope: float,
    scores: Floats,
) -> None:
    """The score of each record: the mean surprise of its cells and of its distance.

    `widths` are cells to a unit, `ends` the ranges, `outside` is how fast surprise grows outside of
    them, how many steps there are to a range's length, and how many lengths matter. `inverse` is
    one over each scale, `steps` how far and how finely distances from the centers are told apart.
    Laws are tabulated at multiples of their step and go on with their slope. Without centers the
    score is that of the cells.
    """
    n_axes = places.size
    scaling = 1.0 / (steps[1] * steps[1])
    rare, beyond, far = np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK)
    away = np.empty((max(n_axes, 1), CHUNK))
    for first in range(0, rows.shape[0], CHUNK):
        size = min(CHUNK, rows.shape[0] - first)
        for at in range(size):
            rare[at], beyond[at], far[at] = 0.0, 0.0, 0.0
        for column in range(rows.shape[1]):
            top, start = np.float64(tops[column]), starts[column]
            low, high = ends[column, 0], ends[column, 1]
            for at in range(size):
                value = rows[first + at, column]
                if value == value:
                    along = (value - origins[column]) * widths[column]
                    rare[at] += table[start + np.int64(min(max(along, 0.0), top))]
                    if value > high or value < low:
                        over = max(value - high, low - value) / (high - low)
                        over = min(np.floor(over * outside[1]) / outside[1], outside[2])
                        beyond[at] += outside[0] * np.log1p(over)
                else:
                    rare[at] += table[start + tops[column] + 1]
        for axis in range(n_axes):
            for at in range(size):
                apart = (rows[first + at, places[axis]] - centers[axis]) * inverse[axis]
                apart = min(max(apart, -steps[0]), steps[0]) if apart == apart else 0.0
                away[axis, at] = np.rint(apart * steps[1])
        for one in range(n_axes):
            for other in range(one, n_axes):
                weight = residual[one, other] * scaling * (1.0 if one == other else 2.0)
                for at in range(size):
                    far[at] += weight * (away[one, at] * away[other, at])
        for at in range(size):
            scores[first + at] = _surprise(rare[at] + beyond[at], law, laws_step, laws_slope)
        for at in range(size if n_axes else 0):
            apart = _surprise(far[at], far_law, far_step, far_slope)
            scores[first + at] = 0.5 * (scores[first + at] + apart)


@njit(cache=True, nogil=True)
def _surprise(value: float, law: Floats, step: float, slope: float) -> float:
    along = max(value, 0.0) * (1.0 / step)
    last = law.size - 1
    if along < last:
        at = int(along)
        within: float = law[at] + (law[at + 1] - law[at]) * (along - at)
        return within
    past: float = law[last] + slope * (value - last * step)
    return past


@njit(cache=True, nogil=True)
def count_scores(scores: Floats, starts: Floats, counts: Ints) -> None:
    """Add each score to the count of its bin; bins begin at `starts`, the last has no end."""
    for row in range(scores.size):
        low, high = 0, starts.size
        while high - low > 1:
            middle = (low + high) // 2
            if scores[row] >= starts[middle]:
                low = middle
            else:
                high = middle
        counts[low] += 1


@njit(cache=True, nogil=True)
def count_quarters(words: NDArray[np.uint64], lowest: int, counts: Ints) -> None:
    """Add each number, none negative, to the count of its octave and quarter of it, by its bits.

    The first cell ends at 2^lowest, the last has no end.
    """
    first = ((EXPONENT_BIAS + lowest) << QUARTER_BITS) - 1
    for at in range(words.size):
        place = int(words[at] >> np.uint64(52 - QUARTER_BITS)) - first
        counts[min(max(place, 0), counts.size - 1)] += 1
