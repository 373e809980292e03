"""Cells, octaves and scores of records, column by column: the passes of a profile.

Every record is read by itself, column after column, so that nothing about it depends on the records
before it, not even how a float is rounded.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Floats, Ints
from privod.compiling import njit

CHUNK = 256  # records at a time, so that loops over one column run in the processor's registers
FEW = 64  # products of places of 12 bits, whose sum has 32
EXPONENT_BIAS = 1023  # of a 64-bit float ...
QUARTER_BITS = 2  # ... that tell apart the quarters of an octave ...
MAGNITUDE, INFINITE = np.uint64(2**63 - 1), np.uint64(0x7FF << 52)  # ... and all its other bits
BITS_OF_ONE, LAST_BIT = 1023 << 52, 2.0**-52


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
def put_in_octaves(rows: Floats, places: Ints, inverse: Floats) -> None:
    """Replace values of some columns by how many octaves they lie from zero, with their sign.

    One octave up to the unit, of which `inverse` is one over, straight between the next ones: by
    the bits of a float. What is not a number stays so.
    """
    for row in range(rows.shape[0]):
        for at in range(places.size):
            value = rows[row, places[at]]
            word = np.float64(abs(value) * inverse[at] + 1.0).view(np.int64)
            octaves = (word - BITS_OF_ONE) * LAST_BIT
            octaves = octaves if value >= 0.0 else -octaves
            rows[row, places[at]] = octaves if value == value else value


@njit(cache=True, nogil=True)
def _cell(value: float, origin: float, width: float, top: float) -> np.int32:
    """The cell of a value; what is not a number lies in the one after the last."""
    along = (value - origin) * width
    along = along if along > 0.0 else 0.0
    cell = np.int32(along if along < top else top)
    return cell if value == value else np.int32(top + 1.0)


@njit(cache=True, nogil=True)
def _apart(value: float, center: float, inverse: float, farthest: float) -> float:
    """How far from the center, in scales, cut; 0 for what is not a number."""
    apart = (value - center) * inverse
    near: float = apart if apart > -farthest else -farthest
    near = near if near < farthest else farthest
    return near if apart == apart else 0.0


@njit(cache=True, nogil=True)
def count_cells(
    rows: Floats, origins: Floats, scales: Floats, tops: Ints, starts: Ints, counts: Ints
) -> None:
    """Add each value to the count of its cell; what is not a number lies in a column's last one."""
    columns, cells = rows.T, np.empty(CHUNK, np.int32)
    for column in range(columns.shape[0]):
        origin, scale, top = origins[column], scales[column], np.float64(tops[column])
        own = counts[starts[column] : starts[column + 1]]
        for first in range(0, columns.shape[1], CHUNK):
            some = columns[column, first : first + CHUNK]
            for at in range(some.size):
                cells[at] = _cell(some[at], origin, scale, top)
            for at in range(some.size):
                own[np.uint32(cells[at])] += 1


@njit(cache=True, nogil=True)
def add_products(
    rows: Floats,
    centers: Floats,
    inverse: Floats,
    farthest: float,
    radius: float,
    unit: float,
    sums: Ints,
) -> None:
    """Add up products of places of records: in scales, in a ball, on its lattice toward zero.

    `inverse` is one over each scale, `unit` at most 2^12. A record whose squares are not known to
    sum to at most unit^2, as of one with a place that is no number, counts as the zero vector: what
    is proved rests on this line alone.
    """
    columns, n_axes = rows.T, rows.shape[1]
    away, places = np.empty((n_axes, CHUNK)), np.empty((n_axes, CHUNK), np.int16)
    shrink, squares = np.empty(CHUNK), np.empty(CHUNK)
    for first in range(0, columns.shape[1], CHUNK):
        size = min(CHUNK, columns.shape[1] - first)
        squares[:] = 0.0
        for axis in range(n_axes):
            some, own = columns[axis, first : first + size], away[axis]
            for at in range(size):
                own[at] = _apart(some[at], centers[axis], inverse[axis], farthest)
                squares[at] += own[at] * own[at]
        for at in range(size):
            length = np.sqrt(squares[at])
            shrink[at] = unit / (length if length > radius else radius)
        squares[:] = 0.0
        for axis in range(n_axes):
            own = away[axis]
            for at in range(size):  # whole numbers up to unit: exact, or no number where one is
                own[at] = np.trunc(own[at] * shrink[at])
                squares[at] += own[at] * own[at]
        for axis in range(n_axes):
            own, kept = away[axis], places[axis]
            for at in range(size):
                kept[at] = np.int32(own[at] if squares[at] <= unit * unit else 0.0)
        for start in range(0, size, FEW):
            for one in range(n_axes):
                left = places[one, start : min(start + FEW, size)]
                for other in range(one, n_axes):
                    right, total = places[other, start : start + FEW], np.int32(0)
                    for at in range(left.size):
                        total = np.int32(total + np.int32(left[at]) * np.int32(right[at]))
                    sums[one, other] += total


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
    metric: Floats,
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
    columns, n_axes, n_rows = rows.T, places.size, rows.shape[0]
    scaling = 1.0 / (steps[1] * steps[1])
    rare, beyond, far = np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK)
    away, cells = np.empty((max(n_axes, 1), CHUNK)), np.empty(CHUNK, np.int32)
    is_outside, which = np.empty(CHUNK, np.int32), np.empty(CHUNK, np.uint32)
    for first in range(0, n_rows, CHUNK):
        size = min(CHUNK, n_rows - first)
        rare[:], beyond[:], far[:] = 0.0, 0.0, 0.0
        for column in range(columns.shape[0]):
            some, own = columns[column, first : first + size], table[starts[column] :]
            origin, width, top = origins[column], widths[column], np.float64(tops[column])
            low, high = ends[column, 0], ends[column, 1]
            for at in range(size):
                cells[at] = _cell(some[at], origin, width, top)
                is_outside[at] = (some[at] > high) | (some[at] < low)
            n_outside = 0
            for at in range(size):  # without a branch
                rare[at] += own[np.uint32(cells[at])]
                which[n_outside] = at
                n_outside += is_outside[at]
            for place in range(n_outside):
                at = which[place]
                over = max(some[at] - high, low - some[at]) / (high - low)
                over = min(np.floor(over * outside[1]) / outside[1], outside[2])
                beyond[at] += outside[0] * np.log1p(over)
        for axis in range(n_axes):
            some, own = columns[places[axis], first : first + size], away[axis]
            for at in range(size):
                own[at] = np.rint(
                    _apart(some[at], centers[axis], inverse[axis], steps[0]) * steps[1]
                )
        for one in range(n_axes):
            for other in range(one, n_axes):
                weight = metric[one, other] * scaling * (1.0 if one == other else 2.0)
                left, right = away[one], away[other]
                for at in range(size):
                    far[at] += weight * (left[at] * right[at])
        found = scores[first : first + size]
        for at in range(size):
            found[at] = _surprise(rare[at] + beyond[at], law, laws_step, laws_slope)
        for at in range(size if n_axes else 0):
            found[at] = 0.5 * (found[at] + _surprise(far[at], far_law, far_step, far_slope))


@njit(cache=True, nogil=True)
def _surprise(value: float, law: Floats, step: float, slope: float) -> float:
    last = np.float64(law.size - 1)
    along = (value if value > 0.0 else 0.0) * (1.0 / step)
    at = np.int32(along if along < last else last - 1.0)
    within: float = law[np.uint32(at)] + (law[np.uint32(at) + 1] - law[np.uint32(at)]) * (
        along - at
    )
    past: float = law[law.size - 1] + slope * (value - last * step)
    return within if along < last else past


@njit(cache=True, nogil=True)
def count_quarters(words: NDArray[np.uint64], lowest: int, counts: Ints) -> None:
    """Add each number, none negative, to the count of its octave and quarter of it, by its bits.

    The first cell ends at 2^lowest, the last has no end.
    """
    first = ((EXPONENT_BIAS + lowest) << QUARTER_BITS) - 1
    for at in range(words.size):
        place = int(words[at] >> np.uint64(52 - QUARTER_BITS)) - first
        counts[min(max(place, 0), counts.size - 1)] += 1
