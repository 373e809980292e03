"""Count the outliers of a subspace under differential privacy [Okada 2015].

One record can change many records' status, so the noise follows either the worst case over all data
sets or a smooth bound of what is possible near this one, which is bought with a share of epsilon
to state a margin. Proofs in docs/proofs/outlier_count.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np

from privod.data import Domain, Table
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteLaplace, Randomness
from privod.mechanisms.smooth import (
    GAUSSIAN_EPSILON,
    LEAST_GAUSSIAN_EPSILON,
    SmoothGaussian,
    SmoothHeavy,
    SmoothLaplace,
    SmoothNoise,
)
from privod.mechanisms.staircase import SMALLEST_GROWTH
from privod.privacy import AddRemove, Cost, Guarantee, Loss, Replace, Statement, positive
from privod.privacy.loss import as_exact
from privod.query.checks import LARGEST_COUNT, ExactNumber
from privod.query.crowd_bounds import (
    LEAST_DELTA,
    GroupedCover,
    count_credits,
    count_sensitivity,
    count_with_bound,
    least_bound,
)
from privod.query.crowd_count import CrowdCount, crowd_in_words
from privod.query.distances import EXAMPLE_RADIUS
from privod.query.memory import MOST_COMPARED, cover_bytes, crowd_bytes
from privod.query.preview import CERTAINTY, Preview, of_counts
from privod.query.query import Release

NOISES: tuple[str, ...] = ("auto", "global", "laplace", "heavy", "gaussian")
LARGEST_NOISE = 2**40  # the largest scale that discrete Laplace noise is drawn at
LEAST_SHARE = Fraction(1, 10**6)
LARGEST_EPSILON = 10**9  # for a change of 1 it makes the smallest noise that is drawn
USUAL_SHARE = Fraction(1, 3)  # of epsilon for the margin; less widens it, more widens the noise
DOUBTS = tuple(place / 1000 for place in range(5, 50, 5))  # of the bound; the rest of 5 % is noise


@dataclass(frozen=True)
class CountedOutliers:
    """A noisy count, and what is public of its noise.

    `n_records` is None where the number of records is not public, `rung` (the noisy rung of the
    smooth bound) for the global noise. `n_groups` combinations of categories can lie within the
    radius.
    """

    count: int
    n_columns: int
    n_records: int | None = None
    n_groups: int = 1
    noise: str = "global"
    rung: int | None = None


@dataclass(frozen=True, kw_only=True)
class OutlierCount(CrowdCount[CountedOutliers]):
    """One number with a margin of error: how many records are outliers in these columns.

    Guarantee
    ---------
    Every record is protected (AddRemove), or what every record says (Replace). The count is noisy
    once, by noise for the worst data set or by noise that follows a smooth bound of the local
    sensitivity; that bound is then released with noise of its own, out of the same epsilon.

    Parameters
    ----------
    delta : number
        A probability added to the bound of epsilon; 0 allows the global and the heavy noise only.
    noise : str
        One of auto, global, laplace, heavy, gaussian; auto chooses by the other parameters alone.
    at_least_zero : bool
        Whether a negative noisy count is shown as 0.
    margin_share : number
        The share of epsilon that buys the margin where the noise follows the rows, between 0 and 1.
    """

    name: ClassVar[str] = "outlier-count"
    value_class: ClassVar[Any] = CountedOutliers
    question: ClassVar[str] = "How many outliers are there in these columns?"
    goal: ClassVar[str] = "count"

    epsilon: ExactNumber = ExactNumber(positive)
    delta: ExactNumber = ExactNumber(as_exact, Fraction(0))
    noise: Literal["auto", "global", "laplace", "heavy", "gaussian"] = "auto"
    at_least_zero: bool = False
    margin_share: ExactNumber = ExactNumber(as_exact, USUAL_SHARE)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon > LARGEST_EPSILON:
            raise InvalidParameter("epsilon", "must be at most 10^9", str(self.epsilon), "Try 1.")
        if self.noise not in NOISES:
            rule = f"must be one of {', '.join(NOISES)}"
            raise InvalidParameter("noise", rule, self.noise, "Try 'auto'.")
        if self.delta and not LEAST_DELTA <= self.delta <= Fraction(1, 2):
            rule = "must be 0, or lie between 10^-60 and 1/2"
            raise InvalidParameter("delta", rule, self.delta, "Try 1e-6.")
        if not LEAST_SHARE <= self.margin_share <= 1 - LEAST_SHARE:
            rule = "must lie between 10^-6 and 1 - 10^-6"
            raise InvalidParameter("margin_share", rule, float(self.margin_share), "Try 1/3.")
        if self.noise in ("laplace", "gaussian") and not self.delta:
            rule = f"must be greater than 0 for {self.noise} noise"
            raise InvalidParameter("delta", rule, self.delta, "Try 1e-6, or noise 'heavy'.")
        named = () if self.noise == "global" else (self.noise,)
        for kind in self._smooth_kinds() if self.noise == "auto" else named:
            self._rung_noise(self._smooth(kind))  # refuses what no noise has
        self.guarantee()

    def guarantee(self) -> Guarantee:
        if self.noise == "auto":  # whichever it takes, loses no more than this
            return Guarantee(Loss(self.epsilon, self.delta), self.adjacency)
        if self.noise == "global":
            return Guarantee(Loss(self.epsilon), self.adjacency)
        smooth = self._smooth(self.noise)
        rungs = smooth.staircase.per_edit
        return Guarantee(smooth.loss() + self._rung_noise(smooth).loss(rungs), self.adjacency)

    def also(self, domain: Domain) -> tuple[Statement, ...]:
        """Under Replace, what is lost under AddRemove, unless noise goes by the public size."""
        if self.adjacency == AddRemove() or self._size_is_public(domain):
            return ()
        lost = self.guarantee().loss  # every noise is made for more than one record more or less
        if self.noise == "global":
            over = self.distances(domain)
            known = (over.dimensions, None, over.n_groups(self.radius))
            changed = count_sensitivity(self.max_crowd, known[0], AddRemove(), *known[1:])
            lost = DiscreteLaplace(self._global_scale(*known)).loss(changed)
        return (Statement(Cost.of_loss(lost), AddRemove()),)

    def preview(self, domain: Domain) -> Preview:
        over = self.distances(domain)
        known = (over.dimensions, None, over.n_groups(self.radius))
        chosen = self.chosen_noise(*known)
        if chosen == "global":
            return of_counts(DiscreteLaplace(self._global_scale(*known)), 1)
        smooth = self._smooth(chosen)
        margin = self.margins(*known)[chosen]
        words = (
            "The margin of the count depends on the records, and the answer will say it. It will be"
            f" about ± {margin} at least (95 % confidence)."
        )
        least = smooth.deviation(float(smooth.staircase.value(self._calm(smooth, *known))))
        return Preview("the count", least_deviation=least, words=words, least_margin=margin)

    def check(self, domain: Domain) -> None:
        over = self.distances(domain)
        scale = self._global_scale(over.dimensions, None, over.n_groups(self.radius))
        if scale > LARGEST_NOISE and (self.noise == "global" or not self._smooth_kinds()):
            rule = "would need noise beyond 2^40 in so many columns"
            raise InvalidParameter("noise", rule, self.noise, "Try 'heavy', or fewer columns.")

    def held_per_record(self, domain: Domain) -> int:
        """Global noise needs the count alone; smooth noise needs all points, and auto may."""
        over = self.distances(domain)
        public = self.noise == "auto" and not self._size_is_public(domain)
        known = (over.dimensions, None, over.n_groups(self.radius))
        counted = self.noise == "global" or (public and self.chosen_noise(*known) == "global")
        return 0 if counted else over.n_axes

    def most_bytes(self, domain: Domain, records: int) -> int:
        over = self.distances(domain)
        if self.held_per_record(domain) == 0:
            return super().most_bytes(domain, records)
        return crowd_bytes(records, over.n_axes) + cover_bytes(records, over.dimensions)

    def answer(self, table: Table, randomness: Randomness) -> Release[CountedOutliers]:
        over = self.distances(table.domain)
        size = len(table) if self._size_is_public(table.domain) else None
        known = (over.dimensions, size, over.n_groups(self.radius))
        chosen, rung = self.chosen_noise(*known), None
        if chosen == "global":
            count = count_credits(table, over, self.radius, self.max_crowd)
            noise = DiscreteLaplace(self._global_scale(*known))
            noisy = int(noise.add_to(np.array([count]), randomness)[0])
        else:
            smooth = self._smooth(chosen)
            points = over.points(table)
            groups = over.apart(table, self.radius) if over.categorical else None
            most = table.most_records if size is None else size
            cores = most is not None and most <= MOST_COMPARED
            numbers = points[:, : over.dimensions]
            count, true_rung = count_with_bound(
                points,
                self.radius,
                self.max_crowd,
                smooth,
                self.adjacency,
                GroupedCover(numbers, self.radius, over.extent, groups, cores=cores),
                self._sensitivity(*known),
            )
            noisy = smooth.add_to(count, smooth.staircase.value(true_rung), randomness)
            bought = self._rung_noise(smooth).add_to(np.array([true_rung]), randomness)
            rung = int(bought[0])
        shown = max(noisy, 0) if self.at_least_zero else noisy
        return self.release(CountedOutliers(shown, *known, chosen, rung), randomness)

    def chosen_noise(self, dimensions: int, size: int | None = None, n_groups: int = 1) -> str:
        """The noise that is taken in so many columns; auto goes by what is public alone.

        Smooth noise can state a margin anywhere between that of a calm data set and that of the
        worst one. It is taken if at worst it states as many times more than the global noise as it
        states less at best, or not even that: the choice that one can regret less.
        """
        if self.noise != "auto":
            return self.noise
        margins = self.margins(dimensions, size, n_groups)
        smooth = {kind: margin for kind, margin in margins.items() if kind != "global"}
        if not smooth:
            return "global"
        best = min(smooth, key=lambda kind: smooth[kind])
        if "global" not in margins:
            return best
        stairs = self._smooth(best).staircase
        sensitivity = self._sensitivity(dimensions, size, n_groups)
        at_worst = self._smooth_margin(best, stairs.reaching(sensitivity), sensitivity)
        return best if smooth[best] * at_worst <= margins["global"] ** 2 else "global"

    def margin(self, value: CountedOutliers) -> int:
        """What a released count is right to within, with 95 % certainty."""
        known = (value.n_columns, value.n_records, value.n_groups)
        if value.rung is None:
            return DiscreteLaplace(self._global_scale(*known)).quantile(CERTAINTY)
        return self._smooth_margin(value.noise, value.rung, self._sensitivity(*known))

    def margins(self, *known: Any) -> dict[str, int]:
        """The margin that each noise states on a calm data set; always the same by global noise."""
        found = {}
        scale, sensitivity = self._global_scale(*known), self._sensitivity(*known)
        if scale <= LARGEST_NOISE:
            found["global"] = DiscreteLaplace(scale).quantile(CERTAINTY)
        for kind in self._smooth_kinds():
            calm = self._calm(self._smooth(kind), *known)
            found[kind] = self._smooth_margin(kind, calm, sensitivity)
        return found

    def _smooth_margin(self, kind: str, rung: int, sensitivity: int) -> int:
        """With 95 % certainty the noise stays within this, if the noisy rung is `rung`.

        The true rung is higher than the noise on it explains with one doubt, and the noise larger
        than the rung explains with another: together 5 % [docs/proofs/outlier_count.md].
        """
        smooth = self._smooth(kind)
        stairs, noise = smooth.staircase, self._rung_noise(smooth)

        def margin(doubt: float, released: int, most: int) -> float:
            highest = min(most, max(0, released + noise.quantile(1 - 2 * doubt)))
            return smooth.margin(float(stairs.value(highest)), 1 - CERTAINTY - doubt)

        # How the 5 % are shared is decided once, for rung 0: by public parameters.
        most = stairs.reaching(LARGEST_COUNT)
        doubt = min(DOUBTS, key=lambda share: margin(share, 0, most))
        return math.ceil(margin(doubt, rung, stairs.reaching(sensitivity)))

    def _calm(self, smooth: SmoothNoise, *known: Any) -> int:
        """The rung of a data set where no record is near the line."""
        stairs, sensitivity = smooth.staircase, self._sensitivity(*known)
        return stairs.smooth(
            lambda t: min(sensitivity, least_bound(t, self.adjacency)),
            stairs.farthest(lambda t: t + 1),
        )

    def sentence(self, value: CountedOutliers) -> str:
        return (
            f"{value.count:,} ± {self.margin(value):,} outliers {self.columns_in_words} (95 %"
            f" confidence). An outlier has {crowd_in_words(self.max_crowd)} {self.radius_in_words}."
        )

    def table(self, value: CountedOutliers) -> dict[str, list[Any]]:
        return {"count": [value.count], "margin": [self.margin(value)]}

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns = domain.numeric_names[:2]
        if not columns:
            return ()
        asked: dict[str, Any] = {"radius": EXAMPLE_RADIUS, "scale": "range", "columns": columns}
        first = cls(max_crowd=3, epsilon=1, **asked)
        follows = cls(max_crowd=20, epsilon=2, delta="1e-6", noise="laplace", **asked)
        return (first, follows)

    def _sensitivity(self, dimensions: int, size: int | None = None, n_groups: int = 1) -> int:
        return count_sensitivity(self.max_crowd, dimensions, self.adjacency, size, n_groups)

    def _global_scale(self, *known: Any) -> Fraction:
        return self._sensitivity(*known) / self.epsilon

    def _size_is_public(self, domain: Domain) -> bool:
        """Adjacent tables are of one size: rows are replaced, and none is dropped for what it says.

        A row that misses a value without a fill is dropped, so that replacing it changes the size;
        so it does where rows must meet conditions.
        """
        return self.adjacency == Replace() and domain.keeps_every_row and not self.where

    def _smooth_kinds(self) -> tuple[str, ...]:
        """The smooth noises that delta allows and epsilon suits."""
        kinds = ["heavy", "laplace"] if self.delta else ["heavy"]
        if self.delta and LEAST_GAUSSIAN_EPSILON <= self._count_epsilon <= GAUSSIAN_EPSILON:
            kinds.append("gaussian")
        return tuple(k for k in kinds if self._smooth(k).growth >= 1 + SMALLEST_GROWTH)

    @property
    def _count_epsilon(self) -> Fraction:
        """What smooth noise may lose of epsilon: all but what buys its margin."""
        return (1 - self.margin_share) * self.epsilon

    def _smooth(self, kind: str) -> SmoothNoise:
        if kind == "laplace":
            return SmoothLaplace.for_loss(self._count_epsilon, self.delta)
        if kind == "gaussian":
            return SmoothGaussian.for_loss(self._count_epsilon, self.delta)
        return SmoothHeavy.for_loss(self._count_epsilon)

    def _rung_noise(self, smooth: SmoothNoise) -> DiscreteLaplace:
        """The noise of the rung, which one change moves by `per_edit` at most."""
        share = self.margin_share * self.epsilon
        return DiscreteLaplace.for_loss(share, smooth.staircase.per_edit)
