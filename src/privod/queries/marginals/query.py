"""Release noisy histograms of single columns that score new records, for many columns.

No grid survives thirty columns: its cells are too many to hold a crowd. One histogram a column
does, and the detectors built on such histograms, HBOS [Goldstein 2012] and ECOD [Li 2022], are as
good as k-NN on many real sets. Here the histograms get noise once under one budget; both scores
are post-processing. Proof in docs/proofs/marginals.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteLaplace, Randomness
from privod.mechanisms.merged import MergedNoise
from privod.outliers.grid.grid import MOST_CELLS_PER_AXIS, Grid
from privod.privacy import AddRemove, Adjacency, Cost, Guarantee, Statement, Zcdp, positive
from privod.queries.checks import ExactNumber, whole_number
from privod.queries.count_query import (
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
from privod.queries.frames import bins_of
from privod.queries.marginals.release import MarginalScores, NoisyMarginals
from privod.queries.preview import Preview, of_counts
from privod.queries.query import Release

__all__ = ["MarginalHistograms", "MarginalScores", "NoisyMarginals"]

MOST_BINS_IN_ALL = 10_000_000


@dataclass(frozen=True, kw_only=True)
class MarginalHistograms(CountQuery[NoisyMarginals]):
    """Noisy histograms of single columns, to score new records by how rare their values are.

    Guarantee
    ---------
    Every record is protected (AddRemove), or what every record says (Replace). Each count, empty
    bins included, gets noise once; the loss covers all columns together, and scoring costs nothing.

    Parameters
    ----------
    columns : tuple of str
        The numeric columns; one histogram each.
    epsilon : number
        The privacy loss of all histograms together, greater than 0.
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
    """

    name: ClassVar[str] = "marginals-1"
    column_kinds: ClassVar[dict[str, Any]] = {"columns": Numeric}
    question: ClassVar[str] = "How rare are the values of a new record, column by column?"

    columns: tuple[str, ...]
    epsilon: ExactNumber = ExactNumber(positive)
    bins: int | None = None
    expected_records: int | None = None
    noise: NoiseName = "laplace"
    delta: ExactNumber = ExactNumber(chance, Fraction(0))
    adjacency: Adjacency = AddRemove()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.expected_records is not None:
            whole_number(self.expected_records, "expected_records", at_least=1)
        if self.bins is not None:
            whole_number(self.bins, "bins", at_least=2)
        with told_of_epsilon(self.epsilon, "the fiftieth of it that counts all records"):
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
        return self.epsilon * (1 - TOTAL_SHARE) if self.buys_total else self.epsilon

    @cached_property
    def noise_of_total(self) -> DiscreteLaplace:
        """The noise of the bought number of records, which one record changes by one."""
        return DiscreteLaplace.for_loss(self.epsilon * TOTAL_SHARE, 1)

    def guarantee(self) -> Guarantee:
        counts = super().guarantee()
        if not self.buys_total:
            return counts
        return counts + Guarantee(self.noise_of_total.loss(1), self.adjacency)

    def cost(self) -> Cost:
        counts = super().cost()
        if not self.buys_total or self.chosen_noise == "laplace":
            return counts
        return Cost(counts.loss, counts.zcdp + Zcdp.of_loss(self.noise_of_total.loss(1)))

    def also(self, domain: Domain) -> tuple[Statement, ...]:
        counts = super().also(domain)
        if not self.buys_total:
            return counts
        bought = self.noise_of_total.loss(1)
        return tuple(
            Statement(
                Cost.of_loss(each.cost.loss + bought)
                if self.chosen_noise == "laplace"
                else Cost(each.cost.loss, each.cost.zcdp + Zcdp.of_loss(bought)),
                each.adjacency,
            )
            for each in counts  # of Gaussian noise, the loss is that of the whole answer already
        )

    def preview(self, domain: Domain) -> Preview:  # noqa: ARG002
        if self.buys_total:
            shown = of_counts(self.count_noise, 2, f"each count of the {len(self.columns)} columns")
            return replace(shown, typical_share=1 / FEWEST_BINS)
        bins = self.bins or self._bins(self.expected_records or 1)
        shown = of_counts(self.count_noise, bins * len(self.columns))
        return replace(shown, typical_share=1 / bins)

    def check(self, domain: Domain) -> None:
        domain.numeric(self.columns)
        if (self.bins or 0) * len(self.columns) > MOST_BINS_IN_ALL:
            rule = f"must give at most {MOST_BINS_IN_ALL} bins in all"
            raise InvalidParameter("bins", rule, self.bins, "Try 20.")
        if (self.bins or 0) > MOST_CELLS_PER_AXIS:
            rule = f"must be at most {MOST_CELLS_PER_AXIS}"
            raise InvalidParameter("bins", rule, self.bins, "Try 20.")

    def n_numbers(self, domain: Domain) -> int:  # noqa: ARG002 - every bin has a count
        return (self.bins or MOST_BINS) * len(self.columns)

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
        return self.release(replace(value, records=records), randomness)

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
        return NoisyMarginals(domain.numeric(self.columns), counts, noise, promise, seeded, None)

    def _counted(self, table: Table, bins: int) -> NDArray[np.int64]:
        columns = table.domain.numeric(self.columns)
        counts = np.zeros((len(columns), bins), dtype=np.int64)
        for place, column in enumerate(columns):
            counts[place] = table.fold(Grid((column,), bins).counting())
        return counts

    def sentence(self, value: NoisyMarginals) -> str:
        n_columns, bins = value.counts.shape
        return (
            f"Histograms of {n_columns} columns, {bins} bins each, stand for about"
            f" {max(0, value.total)} records, each count right to within"
            f" {value.noise.quantile(0.95)} with 95 % certainty. New records can now be scored"
            " against them without further loss."
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
