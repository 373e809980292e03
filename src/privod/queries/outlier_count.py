"""Count the outliers of a subspace under differential privacy [Okada 2015].

A record is outlying when at most `max_crowd` records, itself included, lie within `radius` of it
(Euclidean, over the columns asked about). One record can change many records' status, so the noise
follows either the worst case over all data sets or a smooth bound of what is possible near this
one; proofs in docs/proofs/outlier_count.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteLaplace, Randomness
from privod.mechanisms.smooth import (
    SMALLEST_GROWTH,
    SmoothGaussian,
    SmoothHeavy,
    SmoothLaplace,
    SmoothNoise,
)
from privod.outliers.crowds.cover import Cover
from privod.outliers.crowds.distance import CrowdIndex
from privod.outliers.crowds.packing import packing_number
from privod.privacy import AddRemove, Adjacency, Guarantee, Loss, Replace, positive
from privod.privacy.loss import as_exact
from privod.queries.checks import (
    LARGEST_COUNT,
    ExactNumber,
    checked_radius,
    column_names,
    dp_adjacency,
    numeric_columns,
    pairs_work,
    typical_radius,
    whole_number,
)
from privod.queries.preview import Preview, of_counts
from privod.queries.query import Query, Release
from privod.threads import in_threads

__all__ = [
    "NOISES",
    "CountedOutliers",
    "OutlierCount",
    "count_sensitivity",
    "count_with_bound",
]

NOISES: tuple[str, ...] = ("auto", "global", "laplace", "heavy", "gaussian")
LARGEST_NOISE = 2**40  # the largest scale that discrete Laplace noise is drawn at
LARGEST_EPSILON = 10**9  # for a change of 1 it makes the smallest noise that is drawn
PAYS_OFF = 4  # smooth noise on real data is up to so many times its least, and tells no margin
ALONE_BELOW = 20_000  # records below which a second thread costs more than it brings


@dataclass(frozen=True)
class CountedOutliers:
    """A noisy count, and what is public and its noise depends on: columns, perhaps records."""

    count: int
    n_columns: int
    n_records: int | None = None


@dataclass(frozen=True, kw_only=True)
class OutlierCount(Query[CountedOutliers]):
    """How many records are outlying, in these columns?

    Guarantee
    ---------
    Every record is protected (AddRemove), or what every record says (Replace). The count is noisy
    once, by noise for the worst data set or by noise that follows a smooth bound of the local
    sensitivity; how large the second noise was is not told, because that depends on the rows.

    Parameters
    ----------
    radius : float
        How near records must be to count as neighbors: the Euclidean distance over the columns.
    max_crowd : int
        A record is outlying with at most this many records, itself included, within the radius.
    epsilon : number
        The privacy loss, greater than 0.
    delta : number
        The probability that the promise may fail; 0 allows the global and the heavy noise only.
    columns : tuple of str
        The numeric columns that distances are taken over; none named means all of them.
    noise : str
        One of auto, global, laplace, heavy, gaussian; auto chooses by the other parameters alone.
    adjacency : AddRemove or Replace
        Which two data sets must look alike.
    at_least_zero : bool
        Whether a negative noisy count is shown as 0.
    """

    name: ClassVar[str] = "outlier-count-1"
    question: ClassVar[str] = "How many outlying records are there in these columns?"

    radius: float
    max_crowd: int
    epsilon: ExactNumber = ExactNumber(positive)
    delta: ExactNumber = ExactNumber(as_exact, Fraction(0))
    columns: tuple[str, ...] = ()
    noise: Literal["auto", "global", "laplace", "heavy", "gaussian"] = "auto"
    adjacency: Adjacency = AddRemove()
    at_least_zero: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", checked_radius(self.radius))
        object.__setattr__(self, "columns", column_names(self.columns) if self.columns else ())
        object.__setattr__(self, "adjacency", dp_adjacency(self.adjacency))
        whole_number(self.max_crowd, "max_crowd", at_least=1, at_most=LARGEST_COUNT)
        if self.epsilon > LARGEST_EPSILON:
            raise InvalidParameter("epsilon", "must be at most 10^9", str(self.epsilon), "Try 1.")
        if self.noise not in NOISES:
            rule = f"must be one of {', '.join(NOISES)}"
            raise InvalidParameter("noise", rule, self.noise, "Try 'auto'.")
        if not 0 <= self.delta <= Fraction(1, 2):
            raise InvalidParameter("delta", "must lie between 0 and 1/2", self.delta, "Try 1e-6.")
        if self.noise in ("laplace", "gaussian") and not self.delta:
            rule = f"must be greater than 0 for {self.noise} noise"
            raise InvalidParameter("delta", rule, self.delta, "Try 1e-6, or noise 'heavy'.")
        if self.noise in ("laplace", "heavy", "gaussian"):
            self._smooth(self.noise).staircase  # noqa: B018 - refuses an epsilon that is too small
        self.guarantee()

    def guarantee(self) -> Guarantee:
        if self.noise == "auto":  # whichever it takes, loses no more than this
            return Guarantee(Loss(self.epsilon, self.delta), self.adjacency)
        if self.noise == "global":
            return Guarantee(Loss(self.epsilon), self.adjacency)
        return Guarantee(self._smooth(self.noise).loss(), self.adjacency)

    def preview(self, domain: Domain) -> Preview:
        n_columns = len(numeric_columns(domain, self.columns))
        chosen = self.chosen_noise(n_columns)
        if chosen == "global":
            return of_counts(DiscreteLaplace(self._global_scale(n_columns)), 1)
        least = self.least_deviations(n_columns)[chosen]
        return Preview("the count", least_deviation=least)

    def check(self, domain: Domain) -> None:
        columns = numeric_columns(domain, self.columns)
        too_wide = self._global_scale(len(columns)) > LARGEST_NOISE
        if too_wide and (self.noise == "global" or not self._smooth_kinds()):
            rule = "would need noise beyond 2^40 in so many columns"
            raise InvalidParameter("noise", rule, self.noise, "Try 'heavy', or fewer columns.")

    def work(self, domain: Domain, records: int) -> int:
        return pairs_work(records, len(numeric_columns(domain, self.columns)))

    def answer(self, table: Table, randomness: Randomness) -> Release[CountedOutliers]:
        columns = numeric_columns(table.domain, self.columns)
        points = table.numbers(columns)
        size = len(table) if self._size_is_public(table.domain) else None
        chosen = self.chosen_noise(len(columns), size)
        if chosen == "global":
            count = count_outliers(points, self.radius, self.max_crowd)
            noise = DiscreteLaplace(self._global_scale(len(columns), size))
            noisy = int(noise.add_to(np.array([count]), randomness)[0])
        else:
            smooth = self._smooth(chosen)
            count, rung = count_with_bound(
                points,
                self.radius,
                self.max_crowd,
                smooth,
                self.adjacency,
                extent(table.domain, columns),
                size,
            )
            noisy = count + smooth.draw(smooth.staircase.value(rung), randomness)
        shown = max(noisy, 0) if self.at_least_zero else noisy
        return self.release(CountedOutliers(shown, len(columns), size), randomness)

    def chosen_noise(self, dimensions: int, size: int | None = None) -> str:
        """The noise that is taken in so many columns; auto goes by what is public alone.

        That is the parameters and, where it is public, the number of records.
        """
        if self.noise != "auto":
            return self.noise
        deviations = self.least_deviations(dimensions, size)
        smooth = {kind: value for kind, value in deviations.items() if kind != "global"}
        if not smooth:
            return "global"
        best = min(smooth, key=lambda kind: smooth[kind])
        worth = PAYS_OFF * smooth[best] < deviations.get("global", math.inf)
        return best if worth else "global"

    def least_deviations(self, dimensions: int, size: int | None = None) -> dict[str, float]:
        """The smallest standard deviation that each noise can have on any data set."""
        sensitivity = count_sensitivity(self.max_crowd, dimensions, self.adjacency, size)
        found = {}
        scale = self._global_scale(dimensions, size)
        if scale <= LARGEST_NOISE:
            found["global"] = DiscreteLaplace(scale).deviation
        for kind in self._smooth_kinds():
            smooth = self._smooth(kind)
            stairs = smooth.staircase
            calm = stairs.smooth(
                lambda t: min(sensitivity, least_bound(t, self.adjacency)),
                stairs.farthest(lambda t: t + 1),
            )
            found[kind] = smooth.deviation(float(stairs.value(calm)))
        return found

    def sentence(self, value: CountedOutliers) -> str:
        where = f"in {', '.join(self.columns)}" if self.columns else "in all numeric columns"
        text = (
            f"About {value.count} records stand apart {where}: at most {self.max_crowd} records, "
        )
        text += f"themselves included, lie within {self.radius:g} of them"
        known = (value.n_columns, value.n_records)
        chosen = self.chosen_noise(*known)
        if chosen == "global":
            margin = DiscreteLaplace(self._global_scale(*known)).quantile(0.95)
            return f"{text}; the count is right to within {margin} with 95 % certainty."
        least = self.least_deviations(*known)[chosen]
        return (
            f"{text}; how far off the count may be depends on the data and is therefore not told,"
            f" but the noise has a standard deviation of at least {least:.3g}."
        )

    def value_to_json(self, value: CountedOutliers) -> Any:
        return asdict(value)

    def value_from_json(self, data: Any) -> CountedOutliers:
        size = data.get("n_records")
        size = None if size is None else int(size)
        return CountedOutliers(int(data["count"]), int(data["n_columns"]), size)

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns = domain.numeric_names[:2]
        if not columns:
            return ()
        radius = typical_radius(domain, columns)
        first = cls(radius=radius, max_crowd=3, epsilon=1, columns=columns)
        noisy = cls(
            radius=radius, max_crowd=3, epsilon=1, delta="1e-6", columns=columns, noise="laplace"
        )
        return (first, noisy)

    def _global_scale(self, dimensions: int, size: int | None = None) -> Fraction:
        sensitivity = count_sensitivity(self.max_crowd, dimensions, self.adjacency, size)
        return sensitivity / self.epsilon

    def _size_is_public(self, domain: Domain) -> bool:
        """Adjacent tables are of one size: rows are replaced, and none is dropped for what it says.

        A row that misses a value without a fill is dropped, so that replacing it changes the size.
        """
        return self.adjacency == Replace() and domain.keeps_every_row

    def _smooth_kinds(self) -> tuple[str, ...]:
        """The smooth noises that delta allows and epsilon is large enough for."""
        kinds = ("heavy", "laplace", "gaussian") if self.delta else ("heavy",)
        return tuple(k for k in kinds if self._smooth(k).growth >= 1 + SMALLEST_GROWTH)

    def _smooth(self, kind: str) -> SmoothNoise:
        if kind == "laplace":
            return SmoothLaplace.for_loss(self.epsilon, self.delta)
        if kind == "gaussian":
            return SmoothGaussian.for_loss(self.epsilon, self.delta)
        return SmoothHeavy.for_loss(self.epsilon)


def count_sensitivity(
    max_crowd: int, dimensions: int, adjacency: Adjacency, size: int | None = None
) -> int:
    """By how much one change can move the count, on any data set [Okada 2015, Theorem 4].

    A size may be given only where adjacent data sets have the same.
    """
    moved = max_crowd * packing_number(dimensions)
    most = moved + 1 if adjacency == Replace() else moved
    return most if size is None else max(1, min(most, size))


def least_bound(t: int, adjacency: Adjacency) -> int:
    """The bound U_t of a data set where no record is near the line."""
    return t + 1 if adjacency == Replace() else max(1, t)


def count_outliers(
    points: NDArray[np.float64], radius: float, max_crowd: int, threads: int | None = None
) -> int:
    """How many points are outlying."""
    crowds = CrowdIndex(points, threads=threads).crowds(radius, cap=max_crowd + 1)
    return int((crowds <= max_crowd).sum())


def count_with_bound(
    points: NDArray[np.float64],
    radius: float,
    max_crowd: int,
    noise: SmoothNoise,
    adjacency: Adjacency,
    extent: float,
    size: int | None = None,
) -> tuple[int, int]:
    """The count and the rung of its smooth bound [Okada 2015, Theorem 6 and Algorithm 2].

    U_t = max(cover(P_t(k)), cover(P_t(k - 1))) + t for AddRemove (at least 1), + 1 more for
    Replace, where P_t(j) holds the records whose number of others within the radius is j +- t.
    The number of points may be given as `size` where it is public.
    """
    stairs = noise.staircase
    sensitivity = count_sensitivity(max_crowd, points.shape[1], adjacency, size)
    n = len(points)
    farthest = stairs.farthest(lambda t: min(sensitivity, n + t + 1))
    crowds = CrowdIndex(points).crowds(radius, cap=max_crowd + farthest + 2)
    bound = local_bound(crowds, Cover(points, radius, extent), max_crowd, sensitivity, adjacency)
    return int((crowds <= max_crowd).sum()), stairs.smooth(bound, farthest)


def local_bound(
    crowds: NDArray[np.int64],
    covers: Cover,
    max_crowd: int,
    sensitivity: int,
    adjacency: Adjacency,
) -> Callable[[int], int]:
    """U_t as a function of t: by how much a change can move the count after t others."""
    others = crowds - 1

    def bound(t: int) -> int:
        alone = t + 1 if adjacency == Replace() else t
        enough = sensitivity - alone  # more cannot raise the bound any further

        def covered(line: int) -> int:
            return covers.of(np.abs(others - line) <= t, enough)

        lines = (max_crowd, max_crowd - 1)
        threads = 1 if len(others) < ALONE_BELOW else None
        most = max(in_threads(lambda place: covered(lines[place]), len(lines), threads))
        return min(sensitivity, max(1, most + alone))

    return bound


def extent(domain: Domain, columns: tuple[str, ...]) -> float:
    """A public bound of the absolute values in these columns."""
    limits = [domain[column] for column in columns]
    return max(max(abs(c.low), abs(c.high)) for c in limits if isinstance(c, Numeric))
