"""The stages of a fit: what is added up over records, given what was released before.

The number of records, the ranges (`ranges`), a histogram of every column, sums of products of the
numeric ones, and the records by their scores under what was released so far. Which stages there are
follows from public declarations and noisy sums. Proof: docs/proofs/detector_profile.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TypeAlias

import numpy as np

from privod.arrays import Floats, Ints
from privod.data import Column, Numeric
from privod.errors import InvalidParameter
from privod.mechanisms.merged import MergedNoise
from privod.outliers.grid.kernels.profile import count_quarters
from privod.privacy import Guarantee
from privod.query.count_query import MOST_BINS, TOTAL_SHARE, CountNoise, bins_for
from privod.query.moments import product_sums, products_change, squared_products_change
from privod.query.score_counts import COARSE_EDGES, EDGES, SCORE_SHARE, score_unit, scoring_pays
from privod.query.stages import Stage, Stages, count_rows
from privod.questions.detector_profile.layout import Axes, Layout, Reading, axes_of
from privod.questions.detector_profile.ranges import (
    DOUBT,
    N_OCTAVE_CELLS,
    Found,
    Spread,
    fallen,
    first_ranges,
    found_in_bins,
    found_in_octaves,
    octave_counts,
    unknown,
    within,
)
from privod.questions.detector_profile.release import FEWEST_RECORDS, NoisyProfile

Sums: TypeAlias = Callable[[Floats], Ints]

NONE = np.zeros(0, dtype=np.int64)
LOWEST = -3  # octave of scores, half of the least unit, from which on quarters are told apart
ALL_EDGES: Floats = np.append(
    0.0, np.outer(2.0 ** np.arange(LOWEST, 26), [1, 1.25, 1.5, 1.75]).ravel()
)
"""Where the bins of scores may begin, coarse ones and fine ones of any unit."""

RANGE_SHARES = (Fraction(3, 20), Fraction(3, 10), Fraction(9, 20))  # the more, the less noise shows
MOST_ZOOMS = 3
ZOOM_BINS = 17  # odd: records about the middle of a range lie in one bin, not in two
LONG_ZOOM_BINS = ZOOM_BINS**MOST_ZOOMS  # all zooms at once, where noise is next to nothing
ZOOMING_PAYS = 6.0  # records to a deviation of the noise of a zoom, below which it shows nothing
LONG_ZOOM_PAYS = 3000.0
MOST_MORE = 6  # zooms on columns of which one or two bins held all
MORE_BINS = 33
MORE_PAYS = 10.0
MORE_DOUBT = 2.0  # deviations of noise that may hide more outside a window of these
MOMENT_SHARE = Fraction(3, 10)  # of what is left, for products, where they pay
MOMENTS_COST = 2.0  # noise of products grows so fast with the columns: their square, and a spectrum
COARSE_SHARE = SCORE_SHARE / 4  # to find the unit of scores
CERTAIN = 2.0  # deviations below the noisy number that there surely are records for what is bought


@dataclass(frozen=True)
class Terms:
    """What is known before any row is looked at.

    A record changes `changed` cells of a histogram by one each: 1 under AddRemove, 2 under Replace.
    `noise_of` gives the noise of sums from a loss and what one record changes (absolute, squared),
    `drawn` the noise that they really have, where parties draw it in shares.
    """

    columns: tuple[Column, ...]
    budget: Fraction
    changed: int
    noise_of: Callable[[Fraction, int, int], CountNoise]
    drawn: Callable[[CountNoise], MergedNoise]
    guarantee: Guarantee
    seeded: bool
    gaps: bool
    given: Layout | None = None

    @property
    def numeric(self) -> tuple[Numeric, ...]:
        """The numeric columns."""
        return tuple(column for column in self.columns if isinstance(column, Numeric))

    @property
    def places(self) -> Ints:
        """Where they are."""
        return np.flatnonzero([isinstance(column, Numeric) for column in self.columns])

    def noise(self, stage: Stage) -> MergedNoise:
        """The noise that a stage's sums really have."""
        return self.drawn(stage.noise)

    def of_cells(self, name: str, size: int, sums: Sums, n: int, loss: Fraction) -> Stage:
        """A stage where a record lies in one cell of each of `n` histograms."""
        changed = self.changed * n
        return Stage(name, size, sums, changed, changed, self.noise_of(loss, changed, changed))

    def noise_of_cells(self, n: int, loss: Fraction) -> MergedNoise:
        """The noise of such a stage, before it is known what it counts."""
        return self.drawn(self.noise_of(loss, self.changed * n, self.changed * n))

    def of_products(self, sums: Sums, loss: Fraction) -> Stage:
        """The stage of sums of products."""
        n_numeric = len(self.places)
        absolute = self.changed * products_change(n_numeric)
        squared = self.changed * squared_products_change()
        size = n_numeric * (n_numeric + 1) // 2
        noise = self.noise_of(loss, absolute, squared)
        return Stage("products", size, sums, absolute, squared, noise)


def stages_of(terms: Terms) -> Stages[NoisyProfile]:
    """Yield every stage, take its noisy sums, and return what was released."""
    noise = terms.noise_of(terms.budget * TOTAL_SHARE, 1, 1)
    (total,) = (yield Stage("records", 1, count_rows, 1, 1, noise)).tolist()
    noise_of_total = terms.drawn(noise)
    records = max(float(total), FEWEST_RECORDS)
    surely = total - CERTAIN * noise_of_total.deviation
    given, n_columns = terms.given, len(terms.columns)
    if given is not None:
        scored = bool(given.score_unit)  # as the first did
    else:
        noise_of_score = terms.noise_of_cells(1, terms.budget * SCORE_SHARE)
        scored = scoring_pays(surely, noise_of_score.scale)
    rest = terms.budget * (1 - TOTAL_SHARE - (SCORE_SHARE if scored else 0))
    spent = Fraction(0)
    if given is None:
        found, spent = yield from _ranges(terms, records, surely)
        rest -= spent
        product_loss = _product_loss(terms, rest, surely)
        scale = terms.noise_of_cells(n_columns, rest - product_loss).scale
        # Odd: a crowd in the middle of its range is not cut in two by the border of a bin.
        bins = min(bins_for(records, scale), MOST_BINS - 1) | 1
        units = found.reading.units if any(found.reading.units) else ()
        layout = Layout(terms.columns, found.ranges, bins, gaps=terms.gaps, units=units)
        shown, spread = found.shown, found.spread if product_loss else None
    else:
        layout = replace(given, score_unit=0.0, gaps=terms.gaps)
        product_loss = rest * MOMENT_SHARE if given.centers else Fraction(0)
        shown, spread = (), Spread(given.centers, given.scales) if given.centers else None
    axes, reading = layout.axes, layout.reading
    counting: Sums = partial(_read, reading, axes.counts)
    if spread is not None:  # known before the counts: one pass adds up both
        products = partial(_products, terms.places, spread)
        counting = Together(reading, axes.counts, products, axes.size, takes_first=True)
    stage = terms.of_cells("counts", axes.size, counting, n_columns, rest - product_loss)
    bare, counts = replace(layout, centers=(), scales=()), (yield stage)
    noises, seeded = (noise_of_total, terms.noise(stage), None, None), terms.seeded
    value = NoisyProfile(
        bare, total, counts, NONE, NONE, *noises, spent, shown, terms.guarantee, seeded
    )
    if product_loss:
        spread = spread or value.spread
        multiplying: Sums = partial(_read, reading, partial(_products, terms.places, spread))
        if isinstance(counting, Together):
            multiplying = replace(counting, takes_first=False)
        stage = terms.of_products(multiplying, product_loss)
        value = replace(
            value,
            layout=replace(layout, centers=spread.centers, scales=spread.scales),
            products=(yield stage),
            noise_of_products=terms.noise(stage),
        )
    if scored:  # scores by what is released so far: public functions of a record
        value = yield from _scores(terms, value.ready(), records)
    return value


def _ranges(terms: Terms, records: float, surely: float) -> Stages[tuple[Found, Fraction]]:
    """The ranges of the numeric columns, and what finding them cost."""
    numeric = terms.numeric
    known, every = not any(map(unknown, numeric)), list(range(len(numeric)))
    zooms, bins, share = _zooms(terms, len(numeric), known, surely)
    if not zooms and known:
        return first_ranges(numeric, records, [None] * len(numeric), None), Fraction(0)
    spent = loss = terms.budget * share / (zooms + 1)
    counting = partial(octave_counts, terms.places)
    size = N_OCTAVE_CELLS * len(numeric)
    stage = terms.of_cells("octaves", size, counting, len(numeric), loss)
    found = found_in_octaves(numeric, (yield stage), records, terms.noise(stage).deviation)
    falling = every
    for _ in range(zooms):
        found, falling = yield from _zoomed(terms, found, every, bins, loss, records)
        spent += loss
    loss = terms.budget * share / (MOST_ZOOMS + 1)
    for _ in range(MOST_MORE if zooms else 0):
        part = loss * len(falling) / len(numeric)  # for as much noise as three zooms have
        if not falling or surely < MORE_PAYS * terms.noise_of_cells(len(falling), part).deviation:
            break
        found, falling = yield from _zoomed(
            terms, found, falling, MORE_BINS, part, records, MORE_DOUBT
        )
        spent += part
    return found, spent


def _zoomed(
    terms: Terms,
    found: Found,
    some: list[int],
    bins: int,
    loss: Fraction,
    records: float,
    doubt: float = DOUBT,
) -> Stages[tuple[Found, list[int]]]:
    """The ranges after a zoom on some numeric columns, and of which a finer one shows more."""
    columns, before = [terms.numeric[at] for at in some], found.of(some)
    axes = axes_of(tuple(columns), before.ranges, bins)
    cells = partial(_cells, terms.places[some], before.reading, axes)
    stage = terms.of_cells("zoom", axes.size, cells, len(some), loss)
    noisy, deviation = (yield stage), terms.noise(stage).deviation
    after = within(found_in_bins(before, noisy, bins, records, deviation, doubt), columns)
    falling = [
        at for at, fell in zip(some, fallen(columns, before, after, bins), strict=True) if fell
    ]
    if len(some) == len(found.ranges):
        return after, falling
    ranges, shown = list(found.ranges), list(found.shown)
    for at, span, own in zip(some, after.ranges, after.shown, strict=True):
        ranges[at], shown[at] = span, own
    return Found(tuple(ranges), tuple(shown), found.reading), falling


def _zooms(terms: Terms, n_numeric: int, known: bool, surely: float) -> tuple[int, int, Fraction]:
    """How many zooms show anything, into how many bins, and which share they and octaves take."""
    for share in RANGE_SHARES[: 1 if known else None] if n_numeric else ():
        for zooms in range(MOST_ZOOMS, 0, -1):
            loss = terms.budget * share / (zooms + 1)
            deviation = terms.noise_of_cells(n_numeric, loss).deviation
            if surely >= LONG_ZOOM_PAYS * deviation:
                return 1, LONG_ZOOM_BINS, share
            if surely >= ZOOMING_PAYS * deviation:
                return zooms, ZOOM_BINS, share
    return 0, ZOOM_BINS, RANGE_SHARES[-1]


def _product_loss(terms: Terms, rest: Fraction, surely: float) -> Fraction:
    """What the sums of products take; nothing where they say no more than their noise."""
    n_numeric = len(terms.places)
    share = rest * MOMENT_SHARE
    if n_numeric < 2:
        return Fraction(0)
    try:
        noise = terms.noise(terms.of_products(count_rows, share))
    except InvalidParameter:  # more noise than is ever drawn, as of a thousand columns
        return Fraction(0)
    worth = products_change(n_numeric) / noise.scale  # as of Laplace noise that varies as much
    return share if n_numeric**MOMENTS_COST < surely * worth else Fraction(0)


def _scores(terms: Terms, value: NoisyProfile, records: float) -> Stages[NoisyProfile]:
    """The same with the records counted by their scores: in which unit, and how many."""
    unit, loss = 1.0, terms.budget * SCORE_SHARE
    if terms.given is not None:
        unit = terms.given.score_unit
    else:
        loss -= terms.budget * COARSE_SHARE
        counting = ScoreSums(value, COARSE_EDGES)
        size, part = len(COARSE_EDGES), terms.budget * COARSE_SHARE
        stage = terms.of_cells("units", size, counting, 1, part)
        unit = score_unit((yield stage), terms.noise(stage).deviation, records)
        value = replace(value, search_loss=value.search_loss + part)
    counting = ScoreSums(value, EDGES * unit)
    stage = terms.of_cells("scores", len(EDGES), counting, 1, loss)
    return replace(
        value,
        layout=replace(value.layout, score_unit=unit),
        scored=(yield stage),
        noise_of_scores=terms.noise(stage),
    )


@dataclass(frozen=True, eq=False)
class Together:
    """One of two sums that one pass over the rows as read adds up."""

    reading: Reading
    first: Sums
    second: Sums
    size: int  # of the first
    takes_first: bool

    def __call__(self, rows: Floats) -> Ints:
        return (self.first if self.takes_first else self.second)(self.reading(rows))

    def both(self, rows: Floats) -> Ints:
        """The first and the second."""
        read = self.reading(rows)
        return np.concatenate([self.first(read), self.second(read)])

    def taken_from(self, both: Ints) -> Ints:
        """Its own."""
        return both[: self.size] if self.takes_first else both[self.size :]


@dataclass(frozen=True, eq=False)
class ScoreSums:
    """How many rows have a score in each bin, by what is released already.

    Coarse bins and fine bins of any unit end at `ALL_EDGES`: both counts come of one pass.
    """

    value: NoisyProfile
    starts: Floats

    def __call__(self, rows: Floats) -> Ints:
        bins = np.searchsorted(self.starts, self.value.scores_of(rows), side="right") - 1
        return np.bincount(np.maximum(bins, 0), minlength=len(self.starts))

    def finely(self, rows: Floats) -> Ints:
        """The same between all edges that a later stage may ask for."""
        counts = np.zeros(len(ALL_EDGES), dtype=np.int64)
        count_quarters(self.value.scores_of(rows).view(np.uint64), LOWEST, counts)
        return counts

    def taken_from(self, fine: Ints) -> Ints:
        """The counts of these bins, by those that `finely` gave."""
        return np.asarray(np.add.reduceat(fine, np.searchsorted(ALL_EDGES, self.starts)))

    @property
    def within_all(self) -> bool:
        """Whether the bins begin at edges that `finely` counts between."""
        return bool(np.isin(self.starts, ALL_EDGES).all())


class ExactSums:
    """The sums of stages over the same rows; what stages share is added up once.

    `add_up` adds up over all rows what a function makes of some of them.
    """

    def __init__(self, add_up: Callable[[Sums], Ints]) -> None:
        self._add_up = add_up
        self._both: Ints | None = None
        self._fine: Ints | None = None

    def __call__(self, stage: Stage) -> Ints:
        sums = stage.sums
        if isinstance(sums, Together):
            if self._both is None:
                self._both = self._add_up(sums.both)
            return sums.taken_from(self._both)
        if not isinstance(sums, ScoreSums) or not sums.within_all:
            return self._add_up(sums)
        if self._fine is None:
            self._fine = self._add_up(sums.finely)
        return sums.taken_from(self._fine)


def _read(reading: Reading, sums: Sums, rows: Floats) -> Ints:
    """Sums over rows as read."""
    return sums(reading(rows))


def _cells(places: Ints, reading: Reading, axes: Axes, rows: Floats) -> Ints:
    """Cells of some of the columns."""
    return axes.counts(reading(_chosen(rows, places)))


def _products(places: Ints, spread: Spread, rows: Floats) -> Ints:
    """Sums of products of the numeric columns, in a ball as wide as there are columns."""
    centers, scales = np.array(spread)
    return product_sums(_chosen(rows, places), centers, scales, math.sqrt(len(places)))


def _chosen(rows: Floats, places: Ints) -> Floats:
    """Some columns; the rows themselves where these are all."""
    return rows if len(places) == rows.shape[1] else np.ascontiguousarray(rows[:, places])
