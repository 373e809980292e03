"""Release all that a good detector needs, at one price: histograms of columns, and their products.

Of epsilon a fiftieth buys the number of records. If it can show anything, three twentieths buy
ranges: noisy counts in public geometric bins, so that declared ranges may be far too wide. The
rest buys a histogram of every column (missing values have a cell of their own) and, where they are
worth their noise, the sums of products of the numeric columns, half each. Last, where it shows
anything, a tenth that was laid aside counts the records by their scores under what was released
so far, so that a threshold flags the share it is asked for. What is worth it depends on the bought
number, epsilon and the number of columns. Gaussian noise takes the same shares of rho. Everything
else, scores, thresholds, explanations, is post-processing (`NoisyProfile`). Proof in
docs/proofs/private_detector.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from privod.data import Column, Domain, Numeric, Table
from privod.data.fineness import rounded
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteGaussian, DiscreteLaplace, Randomness
from privod.mechanisms.merged import MergedNoise
from privod.privacy import AddRemove, Adjacency, Cost, Guarantee, Loss, Zcdp, positive
from privod.privacy.zcdp import epsilon_of_rho, rho_of_loss
from privod.query.checks import (
    ExactNumber,
    checked_description,
    column_names,
    dp_adjacency,
    whole_number,
)
from privod.query.count_query import (
    COUNTS_CHANGED,
    FEWEST_BINS,
    MOST_BINS,
    TOTAL_SHARE,
    CountNoise,
    bins_for,
    chance,
    loss_of,
    told_of_epsilon,
)
from privod.query.frames import bins_of
from privod.query.moments import (
    product_sums,
    products_change,
    squared_products_change,
)
from privod.query.preview import Preview, of_counts
from privod.query.query import Query, Release
from privod.query.score_counts import (
    EDGES,
    SCORE_SHARE,
    counts_of_scores,
    scoring_pays,
    told_before,
    told_of_threshold,
)
from privod.query.scores import filled
from privod.query.stages import Stage, Stages, count_rows, go_through
from privod.questions.private_detector.layout import (
    LARGEST_END,
    GeometricBins,
    Layout,
    moments_pay,
    sharpened,
    sharpening_pays,
)
from privod.questions.private_detector.release import FEWEST_RECORDS, MOST_DRAWN, NoisyProfile

__all__ = ["MOST_DECLARED", "DetectorProfile"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NONE = np.zeros(0, dtype=np.int64)
RANGE_SHARE = Fraction(3, 20)  # for the ranges, where they can be sharpened at all
MOMENT_SHARE = Fraction(1, 2)  # of what is left, for products, where they pay
MOST_OCTAVES = 1000
MOST_DECLARED = 20  # octaves past which nobody can call a range declared: it must be sharpened
CERTAIN = 2.0  # deviations below the bought number that there surely are records for what is bought
PARTS = "the parts it is divided into for numbers, ranges, histograms, products and scores"


@dataclass(frozen=True, kw_only=True)
class DetectorProfile(Query[NoisyProfile]):
    """What is ordinary in these columns, to score new records by how far they are from it.

    Guarantee
    ---------
    Every record is protected (AddRemove), or what every record says (Replace). The number of
    records, the ranges, the histograms, the products and the counts of scores get noise once each;
    their losses add up to epsilon, and scoring new records costs nothing.

    Parameters
    ----------
    columns : tuple of str
        The columns, numeric or categorical. Ranges may be rough: a hundred times too wide is fine.
    epsilon : number
        The privacy loss of everything together, greater than 0.
    octaves : int
        How often a declared range may be halved to find where the records are, at least 1.
    layout : str, optional
        The cells of an earlier release (`value.layout.text`), for one that adds up with it. None:
        chosen anew.
    noise : str
        One of laplace, gaussian: gaussian noise is smaller for many columns, and needs a delta.
    delta : number
        The probability that the guarantee may fail; 0 for laplace noise, more for gaussian.
    adjacency : AddRemove or Replace
        Which two data sets must look alike.
    """

    name: ClassVar[str] = "private-detector-1"
    question: ClassVar[str] = "How far from what is ordinary here is a new record, and why?"

    columns: tuple[str, ...]
    epsilon: ExactNumber = ExactNumber(positive)
    octaves: int = 14
    layout: str | None = None
    noise: Literal["laplace", "gaussian"] = "laplace"
    delta: ExactNumber = ExactNumber(chance, Fraction(0))
    adjacency: Adjacency = AddRemove()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_names(self.columns))
        object.__setattr__(self, "adjacency", dp_adjacency(self.adjacency))
        whole_number(self.octaves, "octaves", at_least=1, at_most=MOST_OCTAVES)
        if self.noise not in ("laplace", "gaussian"):
            rule = "must be one of laplace, gaussian"
            raise InvalidParameter("noise", rule, self.noise, "Try 'laplace'.")
        if (self.noise == "gaussian") != bool(self.delta):
            rule = "must be greater than 0 for gaussian noise, and 0 for laplace noise"
            raise InvalidParameter("delta", rule, str(self.delta), "Try gaussian with 1e-6.")
        if self.layout is not None:
            self._given_layout()
        with told_of_epsilon(self.epsilon, PARTS):
            self.guarantee()

    @property
    def budget(self) -> Fraction:
        """What is divided into parts: epsilon, or for Gaussian noise the rho that it is worth."""
        if self.noise == "laplace":
            return self.epsilon
        return rho_of_loss(self.epsilon, self.delta)

    @property
    def noise_of_total(self) -> CountNoise:
        """The noise of the number of records, which one record changes by one."""
        return self._noise(self.budget * TOTAL_SHARE, 1, 1)

    def noise_of_ranges(self, n_numeric: int) -> CountNoise:
        """The noise of every geometric bin: a record lies in one of each column."""
        changed = COUNTS_CHANGED[self.adjacency] * n_numeric
        return self._noise(self.budget * RANGE_SHARE, changed, changed)

    def noise_of_counts(self, loss: Fraction) -> CountNoise:
        """The noise of every cell, at this loss: a record lies in one cell of each column."""
        return self._noise(loss, self._cells_changed, self._cells_changed)

    def noise_of_products(self, loss: Fraction, n_numeric: int) -> CountNoise:
        """The noise of every sum of products, at this loss."""
        return self._noise(loss, *self._products_changed(n_numeric))

    @property
    def noise_of_scores(self) -> CountNoise:
        """The noise of the counts of scores: a record has one score."""
        changed = COUNTS_CHANGED[self.adjacency]
        return self._noise(self.budget * SCORE_SHARE, changed, changed)

    def guarantee(self) -> Guarantee:
        """Each part's loss is that of its noise; whichever are bought, they add up to the same."""
        lost = self._lost
        if self.noise == "laplace":
            return Guarantee(Loss(lost), self.adjacency)
        worth = self.epsilon if lost <= self.budget else epsilon_of_rho(lost, self.delta)
        return Guarantee(Loss(worth, self.delta), self.adjacency)

    def cost(self) -> Cost:
        loss = self.guarantee().loss
        return Cost.of_loss(loss) if self.noise == "laplace" else Cost(loss, Zcdp(self._lost))

    def parameters(self) -> dict[str, Any]:
        """Noise and delta are written where they are asked for: others read as they always did."""
        usual = {"noise": "laplace", "delta": "0"}
        written = super().parameters()
        return {key: value for key, value in written.items() if usual.get(key) != value}

    def preview(self, domain: Domain) -> Preview:
        """Of the largest noise that counts may get: less where something else does not pay."""
        loss, given = self.budget * (1 - TOTAL_SHARE), self._given_layout()
        if given is None or given.scored:
            loss -= self.budget * SCORE_SHARE
        numeric = any(isinstance(domain[name], Numeric) for name in self.columns)
        if given is None and numeric:
            loss -= self.budget * RANGE_SHARE
        if (given is None and numeric) or (given is not None and given.centers):
            loss *= 1 - MOMENT_SHARE
        about = f"each count of the {len(self.columns)} columns"
        shown = of_counts(self.noise_of_counts(loss), 2, about)
        words = shown.sentence()
        if given is None or given.scored:
            words += told_before(self.noise_of_scores, EDGES)
        return replace(shown, typical_share=1 / FEWEST_BINS, words=words)

    def check(self, domain: Domain) -> None:
        columns = tuple(domain[name] for name in self.columns)
        for column in Domain(columns).numeric():
            if max(-column.low, column.high) > LARGEST_END:
                rule = f"must lie within {LARGEST_END:g} of zero"
                wide = column.low, column.high
                raise InvalidParameter(f"the range of {column.name!r}", rule, wide, "Narrow it.")
        given = self._given_layout()
        if given is not None and given.columns != columns:
            rule = "must be of the columns as they are declared"
            raise InvalidParameter("layout", rule, given.columns, "Leave it out.")
        n_numeric = sum(isinstance(column, Numeric) for column in columns)
        with told_of_epsilon(self.epsilon, PARTS):
            if n_numeric:
                self.noise_of_ranges(n_numeric)
            if n_numeric and (given is None or given.centers):
                self.noise_of_products(self.budget * MOMENT_SHARE / 2, n_numeric)
            self.noise_of_scores  # noqa: B018

    def n_numbers(self, domain: Domain) -> int:
        n_columns = len(self.columns)
        values = sum(len(column.values) + 1 for column in domain.categorical())
        return (MOST_BINS + 3) * n_columns + values + n_columns * (n_columns + 1) // 2

    def most_bytes(self, domain: Domain, records: int) -> int:
        # Thresholds are found on values that are drawn, held eight times while they are scored.
        drawn = max(MOST_DRAWN, 1000 * len(self.columns))
        return super().most_bytes(domain, records) + 8 * 8 * drawn

    def held_per_record(self, domain: Domain) -> int:  # noqa: ARG002
        return 0

    def answer(self, table: Table, randomness: Randomness) -> Release[NoisyProfile]:
        def noisy_sums(stage: Stage) -> Ints:
            known = stage.sums is count_rows
            exact = np.array([len(table)]) if known else table.sums(self.columns, stage.sums)
            return stage.noise.add_to(exact, randomness)

        stages = self.stages(table.domain, seeded=randomness.seeded)
        return self.release(go_through(stages, noisy_sums), randomness)

    def answer_rows(
        self, domain: Domain, rows: Floats, randomness: Randomness
    ) -> Release[NoisyProfile]:
        """Answer for rows in the order of the columns, categories as their places, NaN missing.

        What a column declares as its fill stands in for what is missing there.
        """
        rows = filled(rows, tuple(domain[name] for name in self.columns))
        stages = self.stages(domain, gaps=True, seeded=randomness.seeded)
        noisy = go_through(stages, lambda stage: stage.noise.add_to(stage.sums(rows), randomness))
        return self.release(noisy, randomness)

    def stages(
        self,
        domain: Domain,
        *,
        gaps: bool = False,
        seeded: bool = False,
        drawn: Callable[[CountNoise], MergedNoise] = MergedNoise.of,
    ) -> Stages[NoisyProfile]:
        """Everything that is added up of records, one stage after the other.

        `drawn` says which noise the sums of a stage really have, where parties draw it in shares.
        """
        columns = tuple(domain[name] for name in self.columns)
        noise_of_total = self.noise_of_total
        (total,) = (yield Stage("records", 1, count_rows, 1, 1, noise_of_total)).tolist()
        records = max(float(total), FEWEST_RECORDS)
        surely = total - CERTAIN * drawn(noise_of_total).deviation
        given, spent = self._given_layout(), Fraction(0)
        numeric = [at for at, column in enumerate(columns) if isinstance(column, Numeric)]
        scored = self._scoring(given, surely, drawn)
        rest = self.budget * (1 - TOTAL_SHARE - (SCORE_SHARE if scored else 0))
        if given is None:
            ranges, spent = yield from self._ranges(columns, records, surely, drawn)
            rest -= spent
            product_loss = self._product_loss(rest, surely, len(numeric))
            counts_noise = self.noise_of_counts(rest - product_loss)
            # Odd: a crowd in the middle of its range is not cut in two by the border of a bin.
            bins = bins_for(records, drawn(counts_noise).scale)
            bins = min(bins, MOST_BINS - 1) | 1
            layout = Layout(columns, ranges, bins, gaps=gaps)
        else:
            layout = replace(given, scored=False, gaps=gaps)
            product_loss = rest * MOMENT_SHARE if layout.centers else Fraction(0)
            counts_noise = self.noise_of_counts(rest - product_loss)
        changed = self._cells_changed
        counts = yield Stage(
            "counts", layout.starts[-1], layout.counts, changed, changed, counts_noise
        )
        value = NoisyProfile(
            layout=replace(layout, centers=(), scales=()),
            total=total,
            counts=counts,
            products=NONE,
            scored=NONE,
            noise_of_total=drawn(noise_of_total),
            noise_of_counts=drawn(counts_noise),
            noise_of_products=None,
            noise_of_scores=None,
            range_loss=spent,
            guarantee=self.guarantee(),
            seeded=seeded,
        )
        if product_loss:
            if not layout.centers:
                centers, scales = value.spread
                layout = replace(layout, centers=centers, scales=scales)
            noise = self.noise_of_products(product_loss, len(numeric))
            size = len(numeric) * (len(numeric) + 1) // 2
            multiplying = partial(_products, numeric, layout.centers, layout.scales)
            changes = self._products_changed(len(numeric))
            products = yield Stage("products", size, multiplying, *changes, noise)
            value = replace(value, layout=layout, products=products, noise_of_products=drawn(noise))
        if scored:  # scores by what is released so far: public functions of a record
            noise, changed = self.noise_of_scores, COUNTS_CHANGED[self.adjacency]
            scoring = partial(_by_score, value.ready())
            found = yield Stage("scores", len(EDGES), scoring, changed, changed, noise)
            value = replace(
                value,
                layout=replace(layout, scored=True),
                scored=found,
                noise_of_scores=drawn(noise),
            )
        return value

    def sentence(self, value: NoisyProfile) -> str:
        products = (
            f" and of how the {len(value.layout.numeric)} numeric ones go together"
            if len(value.products)
            else ""
        )
        told = told_of_threshold(
            value.threshold, value.share_beyond, scored=value.noise_of_scores is not None
        )
        return (
            f"A profile of {len(value.layout.columns)} columns{products} stands for about"
            f" {round(value.records)} records, each cell's count right to within"
            f" {value.noise_of_counts.quantile(0.95)} with 95 % certainty.{told}"
            " New records can now be scored against it, and their scores explained, without"
            " further loss."
        )

    def table(self, value: NoisyProfile) -> dict[str, list[Any]]:
        """The cells of every column: what lies below its bins and above them has an open end."""
        layout, ranges = value.layout, iter(value.layout.ranges)
        rows: list[tuple[str, str | None, float | None, float | None, int]] = []
        for start, column in zip(layout.starts, layout.columns, strict=False):
            if isinstance(column, Numeric):
                low, high = next(ranges)
                inner = bins_of(Numeric(column.name, low, high), layout.bins)
                ends = [(None, low), *inner, (high, None)]
                rows += [(column.name, None, *pair, start + at) for at, pair in enumerate(ends)]
            else:
                values = enumerate(column.values)
                rows += [(column.name, str(one), None, None, start + at) for at, one in values]
            if layout.gaps:
                rows.append((column.name, "(missing)", None, None, rows[-1][-1] + 1))
        names, categories, lows, highs, places = map(list, zip(*rows, strict=True))
        counts = value.counts[places].tolist()
        told = {"column": names, "category": categories, "from": lows, "to": highs}
        return {**told, "noisy count": counts}

    def value_to_json(self, value: NoisyProfile) -> Any:
        return value.to_json()

    def value_from_json(self, data: Any) -> NoisyProfile:
        return NoisyProfile.from_json(data)

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        return (cls(columns=domain.names[:30], epsilon=1),)

    @property
    def _lost(self) -> Fraction:
        """Epsilon, or rho, of the number of records and of the counts where these have the rest."""
        counts, changed = self.noise_of_counts(self.budget * (1 - TOTAL_SHARE)), self._cells_changed
        return loss_of(self.noise_of_total, 1, 1) + loss_of(counts, changed, changed)

    @property
    def _cells_changed(self) -> int:
        return COUNTS_CHANGED[self.adjacency] * len(self.columns)

    def _products_changed(self, n_numeric: int) -> tuple[int, int]:
        """By how much one change of the table changes the products: in total, and squared."""
        times = COUNTS_CHANGED[self.adjacency]
        return times * products_change(n_numeric), times * squared_products_change()

    def _noise(self, loss: Fraction, absolute: int, squared: int) -> CountNoise:
        """The noise that loses so much, for changes whose sizes and squares add up to these."""
        if self.noise == "laplace":
            return DiscreteLaplace.for_loss(loss, absolute)
        return DiscreteGaussian.for_rho(loss, squared)

    def _scoring(
        self, given: Layout | None, surely: float, drawn: Callable[[CountNoise], MergedNoise]
    ) -> bool:
        """Whether the records are counted by their scores: as the first did, or where it pays."""
        if given is not None:
            return given.scored
        return scoring_pays(surely, drawn(self.noise_of_scores).scale)

    def _product_loss(self, rest: Fraction, surely: float, n_numeric: int) -> Fraction:
        share = rest * MOMENT_SHARE
        worth = float(share)  # epsilon; of rho, that of Laplace noise that varies as much
        if self.noise == "gaussian":
            worth = (n_numeric + 1) * math.sqrt(worth / COUNTS_CHANGED[self.adjacency])
        return share if moments_pay(surely, worth, n_numeric) else Fraction(0)

    def _ranges(
        self,
        columns: tuple[Column, ...],
        records: float,
        surely: float,
        drawn: Callable[[CountNoise], MergedNoise],
    ) -> Stages[tuple[tuple[tuple[float, float], ...], Fraction]]:
        """Sharpened ranges and what they cost, or the declared ones for nothing."""
        numeric = Domain(columns).numeric()
        declared = tuple((column.low, column.high) for column in numeric)
        if not numeric:
            return (), Fraction(0)
        noise = self.noise_of_ranges(len(numeric))
        scale = drawn(noise).scale
        declared_at_all = self.octaves <= MOST_DECLARED
        if declared_at_all and not sharpening_pays(surely, scale):
            return declared, Fraction(0)
        bins = [GeometricBins(low, high, self.octaves) for low, high in declared]
        places = [at for at, column in enumerate(columns) if isinstance(column, Numeric)]
        ends = np.cumsum([len(own.steps) for own in bins])
        changed = COUNTS_CHANGED[self.adjacency] * len(numeric)
        counting = partial(_by_bin, places, bins)
        counts = yield Stage("ranges", int(ends[-1]), counting, changed, changed, noise)
        found = sharpened(bins, np.split(counts, ends[:-1]), records, scale)
        ranges = tuple(
            (float(rounded(low)), float(rounded(high))) if rounded(low) < rounded(high) else wide
            for (low, high), wide in zip(found, declared, strict=True)
        )
        return ranges, self.budget * RANGE_SHARE

    def _given_layout(self) -> Layout | None:
        if self.layout is None:
            return None
        return checked_description(self.layout, "layout", "the cells", Layout.from_json)


def _by_bin(places: list[int], bins: list[GeometricBins], rows: Floats) -> Ints:
    """How many rows lie in each geometric bin, column after column."""
    counted = [
        own.counts(np.ascontiguousarray(rows[:, place]))
        for place, own in zip(places, bins, strict=True)
    ]
    return np.concatenate(counted)


def _products(
    places: list[int], centers: tuple[float, ...], scales: tuple[float, ...], rows: Floats
) -> Ints:
    """The sums of products of the numeric columns, in a ball as wide as there are columns."""
    return product_sums(
        rows[:, places], np.array(centers), np.array(scales), math.sqrt(len(places))
    )


def _by_score(value: NoisyProfile, rows: Floats) -> Ints:
    """How many rows have a score in each bin, by what is released already."""
    return counts_of_scores(value.scores_of(rows))
