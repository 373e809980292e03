"""Release all that a good detector needs, at one price: histograms of columns, and their products.

What is released, in which order and for which part of the budget, is said in `stages`. Everything
else, scores, thresholds, explanations, is post-processing (`NoisyProfile`). Proof in
docs/proofs/detector_profile.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np

from privod.arrays import Floats, Ints
from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteGaussian, DiscreteLaplace, Randomness
from privod.mechanisms.merged import MergedNoise
from privod.privacy import AddRemove, Adjacency, Cost, Guarantee, Loss, Number, Zcdp, positive
from privod.privacy.zcdp import epsilon_of_rho, rho_of_loss
from privod.query.checks import ExactNumber, checked_description, column_names, dp_adjacency
from privod.query.conditional import Conditional
from privod.query.count_query import (
    COUNTS_CHANGED,
    FEWEST_BINS,
    MOST_BINS,
    TOTAL_SHARE,
    CountNoise,
    chance,
    loss_of,
    told_of_epsilon,
)
from privod.query.moments import products_change, squared_products_change
from privod.query.preview import Preview, of_counts
from privod.query.query import Release
from privod.query.score_counts import EDGES, SCORE_SHARE, TOLD_SHARE, told_before
from privod.query.scores import filled
from privod.query.stages import Stage, Stages, count_rows, go_through
from privod.questions.detector_profile.health import threshold_told
from privod.questions.detector_profile.layout import LARGEST_END, Layout
from privod.questions.detector_profile.ranges import N_OCTAVE_CELLS, unknown
from privod.questions.detector_profile.release import MOST_DRAWN, NoisyProfile
from privod.questions.detector_profile.stages import (
    COARSE_SHARE,
    MOMENT_SHARE,
    RANGE_SHARES,
    ExactSums,
    Terms,
    stages_of,
)

USUAL_DELTA = Fraction(1, 10**6)
PARTS = "the parts it is divided into for numbers, ranges, histograms, products and scores"


@dataclass(frozen=True, kw_only=True)
class DetectorProfile(Conditional[NoisyProfile]):
    """A noisy summary of what is ordinary: it scores as many new records as you like and says why.

    Guarantee
    ---------
    Every record is protected (AddRemove), or what every record says (Replace). The number of
    records, the ranges, the histograms, the products and the counts of scores get noise once each.
    Together they lose at most epsilon and delta, and scoring new records costs nothing.

    Parameters
    ----------
    columns : tuple of str
        The columns, numeric or categorical. A range that nobody knows is declared from -2^64 to
        2^64, and found with a part of epsilon.
    epsilon : number
        The privacy loss of everything together, greater than 0.
    layout : str, optional
        The cells of an earlier release (`value.layout.text`), for one that adds up with it. None:
        chosen anew.
    delta : number, optional
        A probability that is added to the bound of epsilon. 0: pure, by Laplace noise. More:
        Gaussian noise, which is smaller for many columns. None: at most 1e-6 and a tenth of what
        the budget allows, or 0 where it allows none.
    adjacency : AddRemove or Replace
        Which two data sets must look alike.
    """

    name: ClassVar[str] = "detector-profile"
    question: ClassVar[str] = "How unusual is a new record, and why?"
    goal: ClassVar[str] = "score"

    columns: tuple[str, ...]
    epsilon: ExactNumber = ExactNumber(positive)
    layout: str | None = None
    delta: Number | None = None
    adjacency: Adjacency = AddRemove()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_names(self.columns))
        object.__setattr__(self, "adjacency", dp_adjacency(self.adjacency))
        if self.delta is not None:
            object.__setattr__(self, "delta", chance(self.delta, "delta"))
        if self.layout is not None:
            self._given_layout()
        with told_of_epsilon(self.epsilon, PARTS):
            self.guarantee()

    def within(self, accounting: str, delta: Fraction = Fraction(0)) -> Self:  # noqa: ARG002 - the delta decides
        """Where a budget allows a delta, an open one becomes a part of it."""
        if self.delta is not None:
            return self
        return replace(self, delta=min(USUAL_DELTA, delta / 10))

    @property
    def chance(self) -> Fraction:
        """The delta: 0 while it is open."""
        return Fraction(0) if self.delta is None else Fraction(self.delta)

    @cached_property
    def budget(self) -> Fraction:
        """What is divided into parts: epsilon, or for Gaussian noise the rho that it is worth."""
        return rho_of_loss(self.epsilon, self.chance) if self.chance else self.epsilon

    def noise_of(self, loss: Fraction, absolute: int, squared: int) -> CountNoise:
        """The noise that loses so much, for changes whose sizes and squares add up to these."""
        if self.chance:
            return DiscreteGaussian.for_rho(loss, squared)
        return DiscreteLaplace.for_loss(loss, absolute)

    def guarantee(self) -> Guarantee:
        """Each part's loss is that of its noise; whichever are bought, they add up to the same."""
        lost = self._lost
        if not self.chance:
            return Guarantee(Loss(lost), self.adjacency)
        worth = self.epsilon if lost <= self.budget else epsilon_of_rho(lost, self.chance)
        return Guarantee(Loss(worth, self.chance), self.adjacency)

    def cost(self) -> Cost:
        loss = self.guarantee().loss
        return Cost(loss, Zcdp(self._lost)) if self.chance else Cost.of_loss(loss)

    def preview(self, domain: Domain) -> Preview:
        """Of the largest noise that counts may get: less where something else does not pay."""
        loss, given = self.budget * (1 - TOTAL_SHARE), self._given_layout()
        columns = [domain[name] for name in self.columns]
        if given is None or given.score_unit:
            loss -= self.budget * SCORE_SHARE
        if given is None and any(isinstance(column, Numeric) for column in columns):
            loss -= self.budget * RANGE_SHARES[-1 if any(map(unknown, columns)) else 0]
            loss *= 1 - MOMENT_SHARE
        elif given is not None and given.centers:
            loss *= 1 - MOMENT_SHARE
        about = f"each count of the {len(self.columns)} columns"
        shown = of_counts(self._noise_of_counts(loss), 2, about)
        words = shown.sentence()
        if given is None or given.score_unit:
            words += told_before(self._noise_of_scores, EDGES)
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
        changed = COUNTS_CHANGED[self.adjacency]
        with told_of_epsilon(self.epsilon, PARTS):
            self._noise_of_scores  # noqa: B018
            self.noise_of(self.budget * COARSE_SHARE, changed, changed)
            if n_numeric:
                cells = changed * n_numeric
                self.noise_of(self.budget * RANGE_SHARES[0] / 4, cells, cells)
            if given is not None and given.centers:
                absolute = changed * products_change(n_numeric)
                squared = changed * squared_products_change()
                self.noise_of(self.budget * MOMENT_SHARE / 3, absolute, squared)

    def n_numbers(self, domain: Domain) -> int:
        n_columns = len(self.columns)
        values = sum(len(column.values) + 1 for column in domain.categorical())
        cells = MOST_BINS + 3 + N_OCTAVE_CELLS
        return cells * n_columns + values + n_columns * (n_columns + 1) // 2

    def most_bytes(self, domain: Domain, records: int) -> int:
        # Thresholds are found on values that are drawn, held eight times while they are scored.
        drawn = max(MOST_DRAWN, 1000 * len(self.columns))
        return super().most_bytes(domain, records) + 8 * 8 * drawn

    def held_per_record(self, domain: Domain) -> int:  # noqa: ARG002
        return 0

    def answer(self, table: Table, randomness: Randomness) -> Release[NoisyProfile]:
        sums = ExactSums(partial(table.sums, self.columns))

        def noisy_sums(stage: Stage) -> Ints:
            known = stage.sums is count_rows
            return stage.noise.add_to(np.array([len(table)]) if known else sums(stage), randomness)

        stages = self.stages(table.domain, seeded=randomness.seeded)
        return self.release(go_through(stages, noisy_sums), randomness)

    def answer_rows(
        self, domain: Domain, rows: Floats, randomness: Randomness
    ) -> Release[NoisyProfile]:
        """Answer for rows in the order of the columns, categories as their places, NaN missing.

        What a column declares as its fill stands in for what is missing there.
        """
        rows = filled(np.asarray(rows, np.float64), tuple(domain[name] for name in self.columns))
        stages = self.stages(domain, gaps=True, seeded=randomness.seeded)
        sums = ExactSums(lambda work: work(rows))
        noisy = go_through(stages, lambda stage: stage.noise.add_to(sums(stage), randomness))
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
        terms = Terms(
            tuple(domain[name] for name in self.columns),
            self.budget,
            COUNTS_CHANGED[self.adjacency],
            self.noise_of,
            drawn,
            self.guarantee(),
            seeded,
            gaps,
            self._given_layout(),
        )
        stages = stages_of(terms)
        stage, lost = next(stages), Fraction(0)
        while True:
            lost += stage.loss
            if lost > self._lost:
                raise AssertionError("The stages lose more than was promised.")
            try:
                stage = stages.send((yield stage))
            except StopIteration as end:
                value: NoisyProfile = end.value
                return value

    def sentence(self, value: NoisyProfile) -> str:
        n, told = len(value.layout.numeric), threshold_told(value, TOLD_SHARE).words
        products = f" and the correlations of {n} of them" if len(value.products) else ""
        return (
            f"A private detector over {len(value.layout.columns)} columns{products}, from about"
            f" {round(value.records):,} records. Each cell count has a margin of ±"
            f" {value.noise_of_counts.quantile(0.95):,} (95 % confidence). {told} Scoring new"
            " records against it, with reasons, costs nothing more."
        )

    def table(self, value: NoisyProfile) -> dict[str, list[Any]]:
        """The cells of every column: what lies below its bins and above them has an open end."""
        layout, ranges = value.layout, iter(value.layout.ranges)
        rows: list[tuple[str, str | None, float | None, float | None, int]] = []
        for place, (start, column) in enumerate(zip(layout.starts, layout.columns, strict=False)):
            if isinstance(column, Numeric):
                cuts = np.linspace(*next(ranges), layout.bins + 1).tolist()
                cuts = [layout.number(place, cut) for cut in cuts]
                ends = zip([None, *cuts], [*cuts, None], strict=True)
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
        total, changed = self.noise_of(self.budget * TOTAL_SHARE, 1, 1), self._cells_changed
        counts = self._noise_of_counts(self.budget * (1 - TOTAL_SHARE))
        return loss_of(total, 1, 1) + loss_of(counts, changed, changed)

    @property
    def _cells_changed(self) -> int:
        return COUNTS_CHANGED[self.adjacency] * len(self.columns)

    def _noise_of_counts(self, loss: Fraction) -> CountNoise:
        """The noise of every cell, at this loss: a record lies in one cell of each column."""
        return self.noise_of(loss, self._cells_changed, self._cells_changed)

    @property
    def _noise_of_scores(self) -> CountNoise:
        """The noise of the counts of scores where nothing finds their unit: a record has one."""
        changed = COUNTS_CHANGED[self.adjacency]
        return self.noise_of(self.budget * (SCORE_SHARE - COARSE_SHARE), changed, changed)

    def _given_layout(self) -> Layout | None:
        if self.layout is None:
            return None
        return checked_description(self.layout, "layout", "the cells", Layout.from_json)
