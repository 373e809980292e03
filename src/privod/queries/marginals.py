"""Release blurred histograms of single columns that score new records, for many columns.

No grid survives thirty columns: its cells are too many to hold a crowd. One histogram a column
does, and the detectors built on such histograms, HBOS [Goldstein 2012] and ECOD [Li 2022], are as
good as k-NN on many real sets. Here the histograms are blurred once under one budget; both scores
are post-processing. Proof in docs/proofs/marginals.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms import Randomness
from privod.outliers.grid import MOST_CELLS_PER_AXIS, Grid
from privod.privacy import AddRemove, Adjacency, Guarantee, Number, exact
from privod.queries.count_query import CountQuery, uniform_cells
from privod.queries.noisy_grid import scored_points
from privod.queries.query import Release, whole_number

__all__ = ["MarginalHistograms", "MarginalScores", "NoisyMarginals"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_AUTOMATIC_BINS = 100
MOST_BINS = 10_000_000
RESOLUTION = 1024  # steps in which the sum of column scores is followed for a threshold


class MarginalScores(NamedTuple):
    """Two scores; higher is more outlying."""

    density: Floats
    """How empty the bins are that the record falls into, column by column [HBOS]."""

    tail: Floats
    """How few records lie farther out, column by column [ECOD]."""


@dataclass(frozen=True, eq=False)
class NoisyMarginals:
    """Blurred histograms of single columns, one row of counts for each.

    Guarantee
    ---------
    What `guarantee` says holds for all histograms together, and for whatever is computed of them.

    Parameters
    ----------
    columns : tuple of Numeric
        The columns with their ranges.
    counts : array of int, shape (columns, bins)
        The blurred counts.
    scale : Fraction
        The noise's scale, public: counts below it say nothing.
    guarantee : Guarantee
        The promise of the release.
    seeded : bool
        Whether the noise came from a test seed; such histograms protect nobody.
    """

    columns: tuple[Numeric, ...]
    counts: Ints
    scale: Fraction
    guarantee: Guarantee
    seeded: bool

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NoisyMarginals):
            return NotImplemented
        mine, theirs = ({**vars(part), "counts": None} for part in (self, other))
        return mine == theirs and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]

    def scores(self, points: ArrayLike) -> MarginalScores:
        """Score new records, with the columns in order; what lies outside a range is clipped."""
        asked = scored_points(points, len(self.columns))
        tables = np.stack([self._surprises, self._lefts, self._rights, self._skewed])
        density, *tails = Grid(self.columns, self.counts.shape[1]).sums(tables, asked)
        return MarginalScores(density, np.maximum.reduce(tails))

    def threshold(self, target_fraction: float) -> MarginalScores:
        """The scores beyond which about this share of the reference records lie.

        From the blurred histograms alone, as if the columns were independent. Free.
        """
        if not 0 < target_fraction < 1:
            rule = "must lie between 0 and 1"
            raise InvalidParameter("target_fraction", rule, target_fraction, "Try 0.1.")
        weights = np.maximum(self.counts, 0) + math.ulp(1.0)  # never nothing, even of no rows
        shares = weights / weights.sum(axis=1, keepdims=True)
        sides = (self._lefts, self._rights, self._skewed)
        tails = [_sum_quantile(part, shares, 1 - target_fraction) for part in sides]
        density = _sum_quantile(self._surprises, shares, 1 - target_fraction)
        return MarginalScores(np.array([density]), np.array([max(tails)]))

    def merge(self, *others: NoisyMarginals) -> NoisyMarginals:
        """Add up the histograms of disjoint records, of other holders or other batches; free."""
        parts = (self, *others)
        for part in others:
            same = (part.columns, part.counts.shape, part.guarantee.adjacency)
            if same != (self.columns, self.counts.shape, self.guarantee.adjacency):
                raise InvalidData(
                    "Histograms add up only with the same columns, ranges, bins and adjacency."
                    " Ask for them alike."
                )
        widest = max(parts, key=lambda part: part.guarantee.loss.epsilon)
        counts = np.stack([part.counts for part in parts]).sum(axis=0, dtype=np.int64)
        marked = any(part.seeded for part in parts)
        scale = max(part.scale for part in parts)
        return replace(self, counts=counts, guarantee=widest.guarantee, scale=scale, seeded=marked)

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "columns": [column.to_json() for column in self.columns],
            "counts": self.counts.tolist(),
            "scale": str(self.scale),
            "guarantee": self.guarantee.to_json(),
            "seeded": self.seeded,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> NoisyMarginals:
        """Read back what `to_json` wrote."""
        columns = tuple(Numeric(**column) for column in data["columns"])
        counts = np.asarray(data["counts"], dtype=np.int64)
        if counts.ndim != 2 or counts.shape[0] != len(columns) or counts.shape[1] < 2:
            raise InvalidData("The histograms are damaged: their counts do not fit their columns.")
        promise = Guarantee.from_json(data["guarantee"])
        return cls(columns, counts, exact(data["scale"], "scale"), promise, bool(data["seeded"]))

    @property
    def _floored(self) -> Floats:
        """The counts, none below the noise's scale: what is smaller cannot be told from nothing."""
        return np.maximum(self.counts.astype(np.float64), max(float(self.scale), 0.5))

    @property
    def _surprises(self) -> Floats:
        floored = self._floored
        return np.asarray(np.log(floored.sum(axis=1, keepdims=True) / floored), dtype=np.float64)

    @property
    def _below(self) -> Floats:
        """The share of records up to the middle of each bin, never falling along a column."""
        floored = self._floored
        upto = floored.cumsum(axis=1)
        return np.asarray((upto - floored / 2) / upto[:, -1:], dtype=np.float64)

    @property
    def _lefts(self) -> Floats:
        return -np.log(self._below)

    @property
    def _rights(self) -> Floats:
        return -np.log1p(-self._below)

    @property
    def _skewed(self) -> Floats:
        """The tail on the side that the column leans to."""
        shares = self._floored / self._floored.sum(axis=1, keepdims=True)
        places = np.arange(self.counts.shape[1], dtype=np.float64)
        offsets = places - (shares * places).sum(axis=1, keepdims=True)
        leans_right = (shares * offsets**3).sum(axis=1, keepdims=True) > 0
        return np.where(leans_right, self._rights, self._lefts)


@dataclass(frozen=True, kw_only=True)
class MarginalHistograms(CountQuery[NoisyMarginals]):
    """Blurred histograms of single columns, to score new records by how rare their values are.

    Guarantee
    ---------
    Protected is every record (AddRemove), or what every record says (Replace). Each count, empty
    bins included, is blurred once; the loss covers all columns together, and scoring costs nothing.

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
    adjacency : AddRemove or Replace
        Which two data sets must look alike.
    """

    name: ClassVar[str] = "marginals-1"
    question: ClassVar[str] = "How rare are the values of a new record, column by column?"

    columns: tuple[str, ...]
    epsilon: Number
    bins: int | None = None
    expected_records: int = 1000
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

    def check(self, domain: Domain) -> None:
        domain.numeric(self.columns)
        if (self.bins or 0) * len(self.columns) > MOST_BINS:
            rule = f"must give at most {MOST_BINS} bins in all"
            raise InvalidParameter("bins", rule, self.bins, "Try 20.")
        if (self.bins or 0) > MOST_CELLS_PER_AXIS:
            rule = f"must be at most {MOST_CELLS_PER_AXIS}"
            raise InvalidParameter("bins", rule, self.bins, "Try 20.")

    def answer(self, table: Table, randomness: Randomness) -> Release[NoisyMarginals]:
        columns = table.domain.numeric(self.columns)
        bins = self.bins or self._automatic_bins()
        counts = np.zeros((len(columns), bins), dtype=np.int64)
        for place, column in enumerate(columns):
            counts[place] = Grid((column,), bins).all_counts(table.numbers((column.name,)))
        blurred = self.noise.blur(counts, randomness)
        promise = self.guarantee()
        value = NoisyMarginals(columns, blurred, self.noise.scale, promise, randomness.seeded)
        return self.release(value, randomness)

    def sentence(self, value: NoisyMarginals) -> str:
        n_columns, bins = value.counts.shape
        return (
            f"Histograms of {n_columns} columns, {bins} bins each, stand for about"
            f" {max(0, round(value.counts.sum() / n_columns))} records, each count right to within"
            f" {self.noise.quantile(0.95)} with 95 % certainty. New records can now be scored"
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
        share = float(Fraction(self.epsilon)) / len(self.columns)  # the loss of one column
        return int(min(MOST_AUTOMATIC_BINS, max(2, uniform_cells(self.expected_records, share, 1))))


def _sum_quantile(scores: Floats, shares: Floats, share: float) -> float:
    """A quantile of the sum of independent column scores, followed in small steps."""
    step = max(float(scores.max(axis=1).sum()) / RESOLUTION, math.ulp(1.0))
    law = np.ones(1)
    for column_scores, column_shares in zip(scores, shares, strict=True):
        places = np.rint(column_scores / step).astype(np.int64)
        law = np.convolve(law, np.bincount(places, weights=column_shares))
    return float(np.searchsorted(law.cumsum(), share * law.sum()) * step)
