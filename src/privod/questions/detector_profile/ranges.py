"""Where do the records of each column lie? Found by noisy counts, from coarse to fine.

What a column cannot show above its noise, all columns together may: their counts are added up, and
the columns that show nothing take what these sums show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from privod.arrays import Floats, Ints
from privod.data import Column, Date, Numeric
from privod.data.columns import SECONDS
from privod.data.fineness import rounded
from privod.outliers.grid.kernels.profile import count_octaves
from privod.query.count_query import MOST_BINS
from privod.questions.detector_profile.layout import Reading

Range = tuple[float, float]

LOWEST, OCTAVES = -30, 94  # of the octaves that are told apart: up to 2^64
N_OCTAVE_CELLS = 2 * OCTAVES + 2  # both signs, nearly zero, and missing
USUAL = (-1024.0, 1024.0)  # where a column is looked for that shows nothing at all
LOW_SHARE = 0.1  # of the records lie below the unit of a column that is read in octaves ...
MANY_OCTAVES = 5  # ... if so many lie that far below where its records end
SPREAD_DOUBT = 1.0  # deviations of noise by which these must be more
HIDDEN = 64.0  # units to the range from about zero of a column whose records noise hides ...
MANY_RECORDS = 700.0  # ... where there are so many
SIGN_DOUBT = 0.5  # deviations of noise that records of one sign must exceed to be believed
NEAR_ZERO = 3  # octaves that a range reaches down: zero is as near then
OUTSIDE = 0.03  # of the records may lie outside a window ...
OUTSIDE_TOGETHER = 0.02  # ... or outside the one of all columns
DOUBT = 0.0  # deviations of noise that may hide more outside a window of bins ...
OCTAVE_DOUBT = 0.5  # ... or of octaves, where an end cut off is made good by zooms
SHOWN = 1.0  # deviations past the largest noise of as many cells that a window must exceed
MARGIN = 1.0  # bins that a range reaches past its window at both ends
KEPT = 0.75  # of a range's length: one that is hardly shorter is not worth its cut-off ends
SPREAD_PAYS = 1e5  # records to a deviation of noise from which on bins show a column's spread
FINEST = 1e-9  # of a number's size: no range is shorter
FINEST_SIZE = 2.0**-60
NEAR_NOTHING = 1e-6  # length of a range about zero that need not be shorter
FEW_STEPS = 16.0  # of dates, which a histogram tells apart anyway
CENTURY = 100 * 365 * 86_400  # seconds


class Spread(NamedTuple):
    """About the means and deviations of the numeric columns."""

    centers: tuple[float, ...]
    scales: tuple[float, ...]


class Found(NamedTuple):
    """How every numeric column is read, its range so far, and whether its own counts showed it.

    And their spread, where bins were fine enough and noise small enough to show it.
    """

    ranges: tuple[Range, ...]
    shown: tuple[bool, ...]
    reading: Reading
    spread: Spread | None = None

    def of(self, some: list[int]) -> Found:
        """The same of some columns."""
        units = Reading(tuple(self.reading.units[at] for at in some))
        ranges = tuple(self.ranges[at] for at in some)
        return Found(ranges, tuple(self.shown[at] for at in some), units)


def unknown(column: Column) -> bool:
    """Whether a column's range was left open."""
    return isinstance(column, Numeric) and column.is_open


def vague(column: Column) -> bool:
    """Whether a column's range says next to nothing: left open, or a century of dates."""
    if isinstance(column, Date):
        return (column.high - column.low) * SECONDS[column.step] >= CENTURY
    return unknown(column)


def is_fine(column: Column, span: Range) -> bool:
    """Whether a range is so short that whatever lies in it is taken for alike."""
    low, high = span
    if isinstance(column, Date):
        return high - low <= FEW_STEPS
    hair = 4 * FINEST * max(abs(low), abs(high), FINEST_SIZE)
    return high - low <= (NEAR_NOTHING if low <= 0 <= high else hair)


def fallen(columns: Sequence[Numeric], before: Found, after: Found, bins: int) -> list[bool]:
    """Which vague ranges became as short as bins let them: finer ones would show more."""
    found = []
    every = zip(columns, before.ranges, after.ranges, after.shown, strict=True)
    for at, (column, (low, high), (left, right), shown) in enumerate(every):
        shortest = max(2 + 2 * MARGIN, bins / 10) * (high - low) / bins
        fell = right - left <= shortest * (1 + FINEST)
        ends = after.reading.number(at, left), after.reading.number(at, right)
        found.append(shown and fell and vague(column) and not is_fine(column, ends))
    return found


def octave_counts(places: Ints, rows: Floats) -> Ints:
    """How many values have each sign and octave, and how many are missing, column after column."""
    counts = np.zeros((len(places), N_OCTAVE_CELLS), dtype=np.int64)
    count_octaves(rows.view(np.uint64), places, LOWEST, OCTAVES, counts)
    return counts.reshape(-1)


def found_in_octaves(
    columns: Sequence[Numeric], noisy: Ints, records: float, deviation: float
) -> Found:
    """Where the records of open columns lie, or of all together, and how each column is read."""
    counts = noisy.reshape(-1, N_OCTAVE_CELLS).astype(np.float64)
    known = _known(counts, records, deviation)
    places = np.arange(len(columns))
    ends = np.array([(column.low, column.high) for column in columns]).T.copy()
    first, last = (octave_counts(places, end[None]).reshape(counts.shape).argmax(1) for end in ends)
    cells = np.arange(N_OCTAVE_CELLS - 1)
    counts[:, :-1] *= (first[:, None] <= cells) & (cells <= last[:, None])  # noise elsewhere
    signs = np.sqrt(1 + ((first < OCTAVES) & (last > OCTAVES)))
    own = _sized(counts, known, deviation * signs, OUTSIDE)
    some = np.flatnonzero([unknown(column) for column in columns])
    together, all_known = counts[some].sum(axis=0)[None], known[some].sum()[None]
    noise = deviation * np.sqrt([2 * len(some)])
    (pooled,) = _sized(together, all_known, noise, OUTSIDE_TOGETHER)
    return first_ranges(columns, records, own, pooled)


def first_ranges(
    columns: Sequence[Numeric], records: float, own: Sequence[Sized | None], pooled: Sized | None
) -> Found:
    """By what octaves show of each column, or of all together; a declared range stays as it is."""
    ranges, units, shown = list[Range](), list[float](), list[bool]()
    other = pooled or Sized(*USUAL, 0.0)
    many = records >= MANY_RECORDS
    for column, sized in zip(columns, own, strict=True):
        low, high, _ = (sized or other) if unknown(column) else (column.low, column.high, 0.0)
        near, far = sorted((abs(low), abs(high)))
        hidden = many and low * high >= 0 and near < far / HIDDEN
        unit = sized.unit if sized else far / HIDDEN if hidden else 0.0
        units.append(0.0 if isinstance(column, Date) else unit)
        ranges.append((low, high))
        shown.append(sized is not None or not unknown(column))
    reading = Reading(tuple(units))
    read = (reading.range_of(at, *span) for at, span in enumerate(ranges))
    return Found(tuple(read), tuple(shown), reading)


def _known(counts: Floats, records: float, deviation: float) -> Floats:
    """About how many records have a value; those that noise lets one tell are missing."""
    missing = np.where(counts[:, -1] > deviation, counts[:, -1], 0.0)
    return np.asarray(np.maximum(records - missing, 1.0))


class Sized(NamedTuple):
    """A range, and the number from which on its records are spread over octaves, or 0."""

    low: float
    high: float
    unit: float


def _sized(counts: Floats, records: Floats, noise: Floats, outside: float) -> list[Sized | None]:
    """Ranges by magnitude, of both signs unless all records have one; None if nothing shows."""
    below, above = counts[:, OCTAVES - 1 :: -1], counts[:, OCTAVES + 1 : -1]
    sizes = np.column_stack([counts[:, OCTAVES], below + above])
    found: list[Sized | None] = []
    windows = _windows(sizes, records, noise, outside, OCTAVE_DOUBT)
    every = zip(below, above, sizes, records, noise.tolist(), windows, strict=True)
    for left, right, either, known, deviation, window in every:
        if window is None:
            found.append(None)
            continue
        first, last = window  # of magnitudes: the first is all that is nearly zero
        some = slice(max(first - 1, 0), max(last - 1, 0))
        few = outside * float(known) + SIGN_DOUBT * deviation * math.sqrt((last - first) / 2)
        no_left, no_right = (float(side[some].sum()) <= few for side in (left, right))
        high = 2.0 ** (LOWEST + last - 1)
        low = 0.0 if first == 0 or last - first >= NEAR_ZERO else 2.0 ** (LOWEST + first - 1)
        upto = np.maximum.accumulate(either[1:][some].cumsum())
        sure = SPREAD_DOUBT * deviation * np.sqrt(np.arange(1, len(upto) + 1))
        start = some.start + int((upto < np.minimum(LOW_SHARE * upto[-1:] + sure, upto[-1:])).sum())
        small = either[1:][some][: max(last - 1 - MANY_OCTAVES - some.start, 0)]
        doubt = SPREAD_DOUBT * deviation * math.sqrt(len(small))
        spread = float(small.sum()) > LOW_SHARE * float(known) + doubt
        unit = 2.0 ** (LOWEST + start) if spread else 0.0
        least = -high if no_right or not no_left else low
        most = high if no_left or not no_right else -low
        found.append(Sized(least, most, unit))
    return found


def found_in_bins(
    before: Found, noisy: Ints, bins: int, records: float, deviation: float, doubt: float = DOUBT
) -> Found:
    """The ranges, narrowed to the bins that hold the records, or widened past a full end.

    Of every column the bins come ascending, between what lies below and above them; last comes
    what is missing.
    """
    counts = noisy.reshape(len(before.ranges), bins + 3).astype(np.float64)
    ranges, shown = [], []
    known_of, noise = _known(counts, records, deviation), np.full(len(counts), deviation)
    windows = _windows(counts[:, :-1], known_of, noise, OUTSIDE, doubt)
    for (low, high), known, window in zip(before.ranges, before.shown, windows, strict=True):
        shown.append(known or window is not None)
        if window is None:
            ranges.append((low, high))
            continue
        first, last = window
        width = (high - low) / bins
        left, right = low + (first - 1 - MARGIN) * width, low + (last - 1 + MARGIN) * width
        past_an_end = first == 0 or last == bins + 2
        narrower = right - left < KEPT * (high - low)
        ranges.append(_at_least_a_hair(left, right) if narrower or past_an_end else (low, high))
    exact = records >= SPREAD_PAYS * deviation
    spread = _spread_in(before.ranges, ranges, counts[:, :-1]) if exact else None
    return before._replace(ranges=tuple(ranges), shown=tuple(shown), spread=spread)


def spread_of(shares: Floats, low: float, width: float) -> tuple[float, float]:
    """The mean and deviation of what lies in bins from `low` on, by each bin's share."""
    middles = low + (np.arange(len(shares)) + 0.5) * width
    center = float((shares * middles).sum())
    return center, math.sqrt(float((shares * (middles - center) ** 2).sum()) + width**2 / 12)


def _spread_in(before: Sequence[Range], after: Sequence[Range], counts: Floats) -> Spread | None:
    """The spread by the bins that a range was narrowed to; None where those are few.

    What lies beyond its ends lies next to them.
    """
    found = []
    for (low, high), (left, right), column in zip(before, after, counts, strict=True):
        width = (high - low) / (len(column) - 2)
        first, last = (round((min(max(end, low), high) - low) / width) + 1 for end in (left, right))
        if last - first < MOST_BINS:
            return None
        beyond = column[:first].sum(), column[last:].sum()
        shares = np.maximum([beyond[0], *column[first:last], beyond[1]], 0.0)
        shares /= max(float(shares.sum()), 1.0)
        found.append(spread_of(shares, low + (first - 2) * width, width))
    centers, scales = zip(*found, strict=True)
    return Spread(centers, scales)


def within(found: Found, columns: Sequence[Numeric]) -> Found:
    """The ranges, no wider than declared, and on the lattice of all numbers."""
    ranges = []
    for at, ((low, high), column) in enumerate(zip(found.ranges, columns, strict=True)):
        least, most = found.reading.range_of(at, column.low, column.high)
        low, high = (float(rounded(min(max(end, least), most))) for end in (low, high))
        ranges.append((low, high) if low < high else (least, most))
    return found._replace(ranges=tuple(ranges))


def _at_least_a_hair(low: float, high: float) -> Range:
    hair = FINEST * max(abs(low), abs(high), FINEST_SIZE)
    return (low, high) if high - low >= hair else (low - hair, high + hair)


def _windows(
    counts: Floats, records: Floats, deviation: Floats, outside: float, doubt: float
) -> list[tuple[int, int] | None]:
    """Of each row, the fewest neighboring cells that hold all but a few; None if nothing shows."""
    n_rows, n_cells = counts.shape
    upto = np.concatenate([np.zeros((n_rows, 1)), counts.cumsum(axis=1)], axis=1)
    found: list[tuple[int, int] | None] = [None] * n_rows
    left = np.arange(n_rows)
    shown = SHOWN + math.sqrt(2 * math.log(n_cells))
    for size in range(1, n_cells + 1):
        sums = upto[left, size:] - upto[left, :-size]
        first = sums.argmax(axis=1)
        held = sums[np.arange(len(left)), first]
        noise, known = deviation[left] * math.sqrt(size), records[left]
        enough = known - held <= outside * known + doubt * noise
        for at in np.flatnonzero(enough & (held >= shown * noise)):
            found[left[at]] = (int(first[at]), int(first[at]) + size)
        left = left[~enough]
        if not len(left):
            break
    return found
