"""Release noisy histograms of single columns that score new records, for many columns.

No grid survives thirty columns: its cells are too many to hold a crowd. One histogram a column
does, and the detectors built on such histograms, HBOS [Goldstein 2012] and ECOD [Li 2022], are as
good as k-NN on many real sets. Here the histograms get noise once under one budget; both scores
are post-processing. Columns that go together make many rare values at once far more usual than
single histograms can tell, so a tenth of epsilon counts the records by their scores under what was
released, and thresholds follow these counts. Proof in docs/proofs/marginals.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteLaplace, Randomness
from privod.mechanisms.merged import MergedNoise
from privod.outliers.grid.grid import MOST_CELLS_PER_AXIS, Grid
from privod.privacy import AddRemove, Adjacency, Cost, Guarantee, Loss, Statement, Zcdp, positive
from privod.query.checks import ExactNumber, whole_number
from privod.query.count_query import (
    COUNTS_CHANGED,
    FEWEST_BINS,
    MOST_BINS,
    MOST_EXPECTED,
    TOTAL_SHARE,
    CountQuery,
    NoiseName,
    NoisyTotal,
    bins_for,
    chance,
    told_of_epsilon,
)
from privod.query.frames import bins_of
from privod.query.preview import Preview, of_counts
from privod.query.query import Release
from privod.query.score_counts import (
    FAR_EDGES,
    SCORE_SHARE,
    ScoreCounts,
    counts_of_scores,
    told_before,
    told_of_threshold,
)
from privod.questions.marginals.release import TABLES, NoisyMarginals, ScoreName

__all__ = ["Marginals", "NoisyMarginals"]

MOST_BINS_IN_ALL = 10_000_000
PARTS = "the parts of it that count all records and their scores"


@dataclass(frozen=True, kw_only=True)
class Marginals(CountQuery[NoisyMarginals]):
    """Noisy histograms of single columns, to score new records by how rare their values are.

    Guarantee
    ---------
    Every record is protected (AddRemove), or what every record says (Replace). Each count, empty
    bins included, gets noise once; the loss covers all columns and the counts of scores together,
    and scoring costs nothing.

    Parameters
    ----------
    columns : tuple of str
        The numeric columns; one histogram each.
    epsilon : number
        The privacy loss of everything together, greater than 0.
    bins : int, optional
        Into how many equal intervals each column's range is cut, at least 2. None: from 4 to 64, by
        the number of records and the noise of a count.
    expected_records : int, optional
        The number of records where it is public, or a public guess, at least 1. None: a fiftieth of
        epsilon buys it, where `bins` are to be chosen by it.
    noise : str
        One of laplace, gaussian, auto; auto takes the smaller one, by the other parameters alone,
        and in a budget that is counted by zcdp the one that is smaller for the same rho.
    delta : number
        The probability that the guarantee may fail; 0 allows laplace noise only.
    adjacency : AddRemove or Replace
        Which two data sets must look alike.
    score_by : str
        One of density, tail: the score that records are counted by, so that its threshold flags
        the share it is asked for. How empty the bins are [HBOS], or how few lie farther out [ECOD].
    """

    name: ClassVar[str] = "marginals"
    column_kinds: ClassVar[dict[str, Any]] = {"columns": Numeric}
    question: ClassVar[str] = "How rare are the values of a new record, column by column?"

    columns: tuple[str, ...]
    epsilon: ExactNumber = ExactNumber(positive)
    bins: int | None = None
    expected_records: int | None = None
    noise: NoiseName = "laplace"
    delta: ExactNumber = ExactNumber(chance, Fraction(0))
    adjacency: Adjacency = AddRemove()
    score_by: ScoreName = "density"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.expected_records is not None:
            whole_number(self.expected_records, "expected_records", at_least=1)
        if self.bins is not None:
            whole_number(self.bins, "bins", at_least=2)
        if self.score_by not in TABLES:
            rule = "must be one of density, tail"
            raise InvalidParameter("score_by", rule, self.score_by, "Try 'density'.")
        with told_of_epsilon(self.epsilon, PARTS):
            self.guarantee()

    @property
    def n_histograms(self) -> int:
        return len(self.columns)

    @property
    def buys_total(self) -> bool:
        """Whether the number of records is bought: where bins hang on it and nobody says it."""
        return self.bins is None and self.expected_records is None

    @property
    def counts_epsilon(self) -> Fraction:
        total = TOTAL_SHARE if self.buys_total else 0
        return self.epsilon * (1 - SCORE_SHARE - total)

    @cached_property
    def noise_of_total(self) -> DiscreteLaplace:
        """The noise of the bought number of records, which one record changes by one."""
        return DiscreteLaplace.for_loss(self.epsilon * TOTAL_SHARE, 1)

    @cached_property
    def noise_of_scores(self) -> DiscreteLaplace:
        """The noise of the counts of scores: a record has one score."""
        return DiscreteLaplace.for_loss(self.epsilon * SCORE_SHARE, COUNTS_CHANGED[self.adjacency])

    def guarantee(self) -> Guarantee:
        return self._promise

    @cached_property
    def _promise(self) -> Guarantee:
        lost = self._lost_beside_counts(COUNTS_CHANGED[self.adjacency])
        return super().guarantee() + Guarantee(lost, self.adjacency)

    def cost(self) -> Cost:
        counts, loss = super().cost(), self.guarantee().loss
        if self.chosen_noise == "laplace":
            return Cost.of_loss(loss)
        return Cost(loss, counts.zcdp + self._zcdp_beside_counts(COUNTS_CHANGED[self.adjacency]))

    def also(self, domain: Domain) -> tuple[Statement, ...]:
        changed = COUNTS_CHANGED[AddRemove()]
        return tuple(
            Statement(
                Cost.of_loss(each.cost.loss + self._lost_beside_counts(changed))
                if self.chosen_noise == "laplace"
                else Cost(each.cost.loss, each.cost.zcdp + self._zcdp_beside_counts(changed)),
                each.adjacency,
            )
            for each in super().also(domain)  # of Gaussian noise, with the whole answer's loss
        )

    def _lost_beside_counts(self, scores_changed: int) -> Loss:
        """What the counts of scores lose, and the number of records where it is bought."""
        return sum((noise.loss(by) for noise, by in self._beside(scores_changed)), Loss(0))

    def _zcdp_beside_counts(self, scores_changed: int) -> Zcdp:
        each = (Zcdp.of_loss(noise.loss(by)) for noise, by in self._beside(scores_changed))
        return sum(each, Zcdp(Fraction(0)))

    def _beside(self, scores_changed: int) -> list[tuple[DiscreteLaplace, int]]:
        scores = (self.noise_of_scores, scores_changed)
        return [scores, (self.noise_of_total, 1)] if self.buys_total else [scores]

    def preview(self, domain: Domain) -> Preview:  # noqa: ARG002
        if self.buys_total:
            shown = of_counts(self.count_noise, 2, f"each count of the {len(self.columns)} columns")
            shown = replace(shown, typical_share=1 / FEWEST_BINS)
        else:
            bins = self.bins or self._bins(self.expected_records or 1)
            shown = of_counts(self.count_noise, bins * len(self.columns))
            shown = replace(shown, typical_share=1 / bins)
        return replace(shown, words=shown.sentence() + told_before(self.noise_of_scores, FAR_EDGES))

    def check(self, domain: Domain) -> None:
        domain.numeric(self.columns)
        if (self.bins or 0) * len(self.columns) > MOST_BINS_IN_ALL:
            rule = f"must give at most {MOST_BINS_IN_ALL} bins in all"
            raise InvalidParameter("bins", rule, self.bins, "Try 20.")
        if (self.bins or 0) > MOST_CELLS_PER_AXIS:
            rule = f"must be at most {MOST_CELLS_PER_AXIS}"
            raise InvalidParameter("bins", rule, self.bins, "Try 20.")

    def n_numbers(self, domain: Domain) -> int:  # noqa: ARG002 - every bin has a count
        return (self.bins or MOST_BINS) * len(self.columns) + len(FAR_EDGES)

    def held_per_record(self, domain: Domain) -> int:  # noqa: ARG002
        return 0

    def answer(self, table: Table, randomness: Randomness) -> Release[NoisyMarginals]:
        records = None
        if self.buys_total:
            noisy = self.noise_of_total.add_to(np.array([len(table)]), randomness)
            records = NoisyTotal(int(noisy[0]), MergedNoise.of(self.noise_of_total))
        known = self.expected_records if records is None else max(records.count, 1)
        bins = self.bins or self._bins(known or 1)
        noise = self.count_noise
        counts = noise.add_to(self._counted(table, bins), randomness)
        promise, seeded = self.guarantee(), randomness.seeded
        value = self.value_of(table.domain, counts, MergedNoise.of(noise), promise, seeded=seeded)
        counting = partial(_by_score, value.ready())  # a public function of a record
        scored = self.noise_of_scores.add_to(table.sums(self.columns, counting), randomness)
        found = ScoreCounts(tuple(scored.tolist()), MergedNoise.of(self.noise_of_scores))
        return self.release(replace(value, records=records, scored=found), randomness)

    def counts_before_noise(self, table: Table) -> NDArray[np.int64]:
        """Of so many bins as were asked for; a number that is to be bought is nobody's yet."""
        if self.bins is None:
            rule = "must be given where the number of records is not bought"
            raise InvalidParameter("bins", rule, None, "Try 20.")
        return self._counted(table, self.bins)

    def value_of(
        self,
        domain: Domain,
        counts: NDArray[np.int64],
        noise: MergedNoise,
        promise: Guarantee,
        *,
        seeded: bool,
    ) -> NoisyMarginals:
        columns = domain.numeric(self.columns)
        return NoisyMarginals(columns, counts, noise, promise, seeded, score_by=self.score_by)

    def _counted(self, table: Table, bins: int) -> NDArray[np.int64]:
        columns = table.domain.numeric(self.columns)
        counts = np.zeros((len(columns), bins), dtype=np.int64)
        for place, column in enumerate(columns):
            counts[place] = table.fold(Grid((column,), bins).counting())
        return counts

    def sentence(self, value: NoisyMarginals) -> str:
        n_columns, bins = value.counts.shape
        told = told_of_threshold(
            value.threshold,
            value.share_beyond,
            scored=value.shows_scores,
        )
        return (
            f"Histograms of {n_columns} columns, {bins} bins each, stand for about"
            f" {max(0, value.total)} records, each count right to within"
            f" {value.noise.quantile(0.95)} with 95 % certainty.{told} New records can now be"
            " scored against them without further loss."
        )

    def table(self, value: NoisyMarginals) -> dict[str, list[Any]]:
        bins = [bins_of(column, value.counts.shape[1]) for column in value.columns]
        return {
            "column": [
                one.name for one, some in zip(value.columns, bins, strict=True) for _ in some
            ],
            "from": [low for some in bins for low, _ in some],
            "to": [high for some in bins for _, high in some],
            "noisy count": value.counts.ravel().tolist(),
        }

    def value_to_json(self, value: NoisyMarginals) -> Any:
        return value.to_json()

    def value_from_json(self, data: Any) -> NoisyMarginals:
        return NoisyMarginals.from_json(data)

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns = domain.numeric_names[:8]
        return (cls(columns=columns, epsilon=1),) if columns else ()

    def _bins(self, records: int) -> int:
        noise = self.count_noise
        return bins_for(min(records, MOST_EXPECTED), MergedNoise.of(noise).scale)


def _by_score(value: NoisyMarginals, rows: NDArray[np.float64]) -> NDArray[np.int64]:
    """How many rows have a score in each bin, by what is released already."""
    return counts_of_scores(value.scores_by(value.score_by, rows), value.score_edges)
