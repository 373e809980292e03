"""Release noisy histograms of single columns that score new records, for many columns.

No grid survives thirty columns: its cells are too many to hold a crowd. One histogram a column
does, and the detectors built on such histograms, HBOS [Goldstein 2012] and ECOD [Li 2022], are as
good as k-NN on many real sets. Here the histograms get noise once under one budget; both scores
are post-processing. Proof in docs/proofs/marginals.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from privod.data import Domain, Table
from privod.errors import InvalidParameter
from privod.mechanisms import Randomness
from privod.mechanisms.merged import MergedNoise
from privod.outliers.grid.grid import MOST_CELLS_PER_AXIS, Grid
from privod.privacy import AddRemove, Adjacency, positive
from privod.queries.checks import ExactNumber, whole_number
from privod.queries.count_query import CountQuery, NoiseName, chance, uniform_cells
from privod.queries.marginals.release import MarginalScores, NoisyMarginals
from privod.queries.preview import Preview, of_counts
from privod.queries.query import Release

__all__ = ["MarginalHistograms", "MarginalScores", "NoisyMarginals"]

MOST_AUTOMATIC_BINS = 100
MOST_BINS = 10_000_000


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
        Into how many equal intervals each column's range is cut, at least 2. None: chosen from
        `expected_records`, `epsilon` and the number of columns.
    expected_records : int
        A public guess of the number of records, at least 1.
    noise : str
        One of laplace, gaussian, auto; auto takes the smaller one, by the other parameters alone.
    delta : number
        The probability that the guarantee may fail; 0 allows laplace noise only.
    adjacency : AddRemove or Replace
        Which two data sets must look alike.
    """

    name: ClassVar[str] = "marginals-1"
    question: ClassVar[str] = "How rare are the values of a new record, column by column?"

    columns: tuple[str, ...]
    epsilon: ExactNumber = ExactNumber(positive)
    bins: int | None = None
    expected_records: int = 1000
    noise: NoiseName = "laplace"
    delta: ExactNumber = ExactNumber(chance, Fraction(0))
    adjacency: Adjacency = AddRemove()

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number(self.expected_records, "expected_records", at_least=1)
        if self.bins is not None:
            whole_number(self.bins, "bins", at_least=2)
        self.guarantee()

    @property
    def n_histograms(self) -> int:
        return len(self.columns)

    def preview(self, domain: Domain) -> Preview:  # noqa: ARG002
        bins = self.bins or self._automatic_bins()
        shown = of_counts(self.count_noise, bins * len(self.columns))
        return replace(shown, typical_share=1 / bins)

    def check(self, domain: Domain) -> None:
        domain.numeric(self.columns)
        if (self.bins or 0) * len(self.columns) > MOST_BINS:
            rule = f"must give at most {MOST_BINS} bins in all"
            raise InvalidParameter("bins", rule, self.bins, "Try 20.")
        if (self.bins or 0) > MOST_CELLS_PER_AXIS:
            rule = f"must be at most {MOST_CELLS_PER_AXIS}"
            raise InvalidParameter("bins", rule, self.bins, "Try 20.")

    def held_per_record(self, domain: Domain) -> int:  # noqa: ARG002
        return 0

    def answer(self, table: Table, randomness: Randomness) -> Release[NoisyMarginals]:
        columns = table.domain.numeric(self.columns)
        bins = self.bins or self._automatic_bins()
        counts = np.zeros((len(columns), bins), dtype=np.int64)
        for place, column in enumerate(columns):
            counts[place] = table.fold(Grid((column,), bins).counting())
        noisy = self.count_noise.add_to(counts, randomness)
        promise = self.guarantee()
        noise = MergedNoise.of(self.count_noise)
        value = NoisyMarginals(columns, noisy, noise, promise, randomness.seeded)
        return self.release(value, randomness)

    def sentence(self, value: NoisyMarginals) -> str:
        n_columns, bins = value.counts.shape
        return (
            f"Histograms of {n_columns} columns, {bins} bins each, stand for about"
            f" {max(0, round(value.counts.sum() / n_columns))} records, each count right to within"
            f" {value.noise.quantile(0.95)} with 95 % certainty. New records can now be scored"
            " against them without further loss."
        )

    def value_to_json(self, value: NoisyMarginals) -> Any:
        return value.to_json()

    def value_from_json(self, data: Any) -> NoisyMarginals:
        return NoisyMarginals.from_json(data)

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns = domain.numeric_names[:8]
        return (cls(columns=columns, epsilon=1),) if columns else ()

    def _automatic_bins(self) -> int:
        share = float(self.epsilon) / len(self.columns)  # the loss of one column
        return int(min(MOST_AUTOMATIC_BINS, max(2, uniform_cells(self.expected_records, share, 1))))
