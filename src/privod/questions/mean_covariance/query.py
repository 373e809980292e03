"""Release the mean and the covariance of columns, to score new records by how far they lie.

Of epsilon a fiftieth buys the number of records, a fifth the sums of the scaled columns, four
fiftieths a radius around the mean that most records lie within (by noisy counts in public
geometric bins), six tenths the sums of products of records pulled back to that radius, and a tenth
counts of the records by their distances under all this, which thresholds follow. Gaussian noise
takes the same shares of rho. Making a covariance of the noisy sums, scores and thresholds are
post-processing (`NoisyMoments`). Proof in docs/proofs/mean_covariance.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteGaussian, DiscreteLaplace, Randomness
from privod.mechanisms.merged import MergedNoise
from privod.privacy import (
    AddRemove,
    Adjacency,
    Cost,
    Guarantee,
    Loss,
    Zcdp,
    positive,
)
from privod.privacy.zcdp import epsilon_of_rho, rho_of_loss
from privod.query.checks import ExactNumber, checked_description, column_names, dp_adjacency
from privod.query.conditional import Conditional
from privod.query.count_query import CountNoise, chance, loss_of, told_of_epsilon
from privod.query.moments import (
    UNIT,
    coordinate_sums,
    distance_counts,
    product_sums,
)
from privod.query.preview import Preview
from privod.query.query import Release
from privod.query.score_counts import (
    FAR_EDGES,
    SCORE_SHARE,
    ScoreCounts,
    counts_of_scores,
    told_before,
    told_of_threshold,
)
from privod.questions.mean_covariance.frame import Frame, change_of, half_ranges, radius_from
from privod.questions.mean_covariance.release import NoisyMoments

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHARES = {
    "total": Fraction(1, 50),
    "sums": Fraction(1, 5),
    "radius": Fraction(2, 25),
    "products": Fraction(6, 10),
    "scores": SCORE_SHARE,
}
MOST_COLUMNS = 1000  # half a million products
PARTS = "the parts it is divided into for number, means, radius, products and scores"


@dataclass(frozen=True, kw_only=True)
class MeanCovariance(Conditional[NoisyMoments]):
    """Noisy means and covariances of columns, to score new records by how far from usual they lie.

    Guarantee
    ---------
    Every record is protected (AddRemove), or what every record says (Replace). The number of
    records, the sums, the radius, the products and the counts of distances get noise once each;
    their losses add up, and scoring costs nothing.

    Parameters
    ----------
    columns : tuple of str
        The numeric columns.
    epsilon : number
        The privacy loss of everything together, greater than 0.
    frame : str, optional
        The center and radius of an earlier release (`value.frame.text`), for one that adds up with
        it. None: bought.
    noise : str
        One of laplace, gaussian.
    delta : number
        The probability that the guarantee may fail; 0 for laplace noise, more for gaussian.
    adjacency : AddRemove or Replace
        Which two data sets must look alike.
    """

    name: ClassVar[str] = "mean-covariance"
    column_kinds: ClassVar[dict[str, Any]] = {"columns": Numeric}
    question: ClassVar[str] = "How far from the usual combinations of values is a new record?"

    columns: tuple[str, ...]
    epsilon: ExactNumber = ExactNumber(positive)
    frame: str | None = None
    noise: Literal["laplace", "gaussian"] = "laplace"
    delta: ExactNumber = ExactNumber(chance, Fraction(0))
    adjacency: Adjacency = AddRemove()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_names(self.columns))
        object.__setattr__(self, "adjacency", dp_adjacency(self.adjacency))
        if self.noise not in ("laplace", "gaussian"):
            rule = "must be one of laplace, gaussian"
            raise InvalidParameter("noise", rule, self.noise, "Try 'laplace'.")
        if (self.noise == "gaussian") != bool(self.delta):
            rule = "must be greater than 0 for gaussian noise, and 0 for laplace noise"
            raise InvalidParameter("delta", rule, str(self.delta), "Try gaussian with 1e-6.")
        if len(self.columns) > MOST_COLUMNS:
            rule = f"must be at most {MOST_COLUMNS}"
            raise InvalidParameter("columns", rule, len(self.columns), "Leave some out.")
        self._given_frame  # noqa: B018 - refuses a text that is none
        with told_of_epsilon(self.epsilon, PARTS):
            self.guarantee()

    def noise_of(self, part: str) -> CountNoise:
        """The noise of every number of a part: total, sums, radius, products or scores."""
        share = SHARES[part]
        if part == "products" and self.frame is not None:
            share += SHARES["radius"]  # which is not bought then
        changed = change_of(part, len(self.columns), self.adjacency)
        if self.noise == "laplace":
            return DiscreteLaplace.for_loss(self.epsilon * share, changed.absolute)
        rho = rho_of_loss(self.epsilon, self.delta)
        return DiscreteGaussian.for_rho(rho * share, changed.squared)

    def guarantee(self) -> Guarantee:
        """Each part's loss is that of its noise, for the most that one record changes it."""
        return self._promise

    @cached_property
    def _promise(self) -> Guarantee:
        if self.noise == "laplace":
            return Guarantee(Loss(sum(self._losses, Fraction(0))), self.adjacency)
        rho = sum(self._losses, Fraction(0))
        worth = rho <= rho_of_loss(self.epsilon, self.delta)
        lost = self.epsilon if worth else epsilon_of_rho(rho, self.delta)
        return Guarantee(Loss(lost, self.delta), self.adjacency)

    def cost(self) -> Cost:
        loss = self.guarantee().loss
        if self.noise == "laplace":
            return Cost.of_loss(loss)
        return Cost(loss, Zcdp(sum(self._losses, Fraction(0))))

    def preview(self, domain: Domain) -> Preview:  # noqa: ARG002
        margin = self.noise_of("total").quantile(0.95)
        d = len(self.columns)
        enough = 2 * d**1.5 * self.noise_of("products").deviation / UNIT**2
        words = (
            f"The number of records will be right to within {margin} with 95 % certainty. Of fewer"
            f" than about {enough:.2g} records, how the columns go together drowns in noise."
            f"{told_before(self.noise_of('scores'), FAR_EDGES)}"
        )
        share = max(margin, 1) / max(enough, 1.0)
        return Preview("the number of records", margin, typical_share=share, words=words)

    def check(self, domain: Domain) -> None:
        columns = domain.numeric(self.columns)
        given = self._given_frame
        if given is not None and given.columns != columns:
            rule = "must be of the columns as they are declared"
            raise InvalidParameter("frame", rule, "others", "Leave it out.")

    def n_numbers(self, domain: Domain) -> int:  # noqa: ARG002
        n_columns = len(self.columns)
        return n_columns * (n_columns + 1) // 2 + 4 * n_columns + len(FAR_EDGES)

    def held_per_record(self, domain: Domain) -> int:  # noqa: ARG002
        return 0

    def answer(self, table: Table, randomness: Randomness) -> Release[NoisyMoments]:
        columns = table.domain.numeric(self.columns)
        middles, halves = half_ranges(columns)
        total = self._noisy("total", np.array([len(table)]), randomness)
        summing = partial(coordinate_sums, middles=middles, halves=halves)
        sums = self._noisy("sums", table.sums(self.columns, summing), randomness)
        frame, spent = self._given_frame, Fraction(0)
        if frame is None:
            frame = Frame.around(columns, sums, int(total[0]))
            counting = partial(
                distance_counts, centers=frame.centers, halves=halves, ends=frame.distance_ends
            )
            noisy = self._noisy("radius", table.sums(self.columns, counting), randomness)
            frame = radius_from(frame, noisy, int(total[0]))
            spent = self._loss_of("radius")
        multiplying = partial(
            product_sums, centers=frame.centers, scales=halves, radius=frame.radius
        )
        products = self._noisy("products", table.sums(self.columns, multiplying), randomness)
        of_total, of_sums, of_products = (
            MergedNoise.of(self._noises[part]) for part in ("total", "sums", "products")
        )
        value = NoisyMoments(
            frame,
            int(total[0]),
            sums,
            products,
            of_total,
            of_sums,
            of_products,
            spent,
            self.guarantee(),
            randomness.seeded,
        )
        counting = partial(_by_distance, value.ready())  # a public function of a record
        scored = self._noisy("scores", table.sums(self.columns, counting), randomness)
        found = ScoreCounts(tuple(scored.tolist()), MergedNoise.of(self._noises["scores"]))
        return self.release(replace(value, scored=found), randomness)

    def sentence(self, value: NoisyMoments) -> str:
        told = told_of_threshold(
            value.threshold,
            value.share_beyond,
            scored=value.shows_scores,
        )
        return (
            f"Means and covariances of {len(self.columns)} columns stand for about"
            f" {round(value.records)} records, right to within"
            f" {value.noise_of_total.quantile(0.95)} with 95 % certainty.{told} New records can now"
            " be scored against them without further loss."
        )

    def table(self, value: NoisyMoments) -> dict[str, list[Any]]:
        names = [column.name for column in value.frame.columns]
        with_others = zip(names, value.covariance.T.tolist(), strict=True)
        return {
            "column": names,
            "noisy mean": value.mean.tolist(),
            **{f"noisy covariance with {name}": numbers for name, numbers in with_others},
        }

    def value_to_json(self, value: NoisyMoments) -> Any:
        return value.to_json()

    def value_from_json(self, data: Any) -> NoisyMoments:
        return NoisyMoments.from_json(data)

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns = domain.numeric_names[:8]
        return (cls(columns=columns, epsilon=1),) if columns else ()

    def _noisy(self, part: str, exact: Ints, randomness: Randomness) -> Ints:
        return self._noises[part].add_to(exact, randomness)

    @cached_property
    def _noises(self) -> dict[str, CountNoise]:
        bought = [part for part in SHARES if part != "radius" or self.frame is None]
        return {part: self.noise_of(part) for part in bought}

    def _loss_of(self, part: str) -> Fraction:
        """What a part loses: epsilon, or rho of Gaussian noise."""
        noise, changed = self._noises[part], change_of(part, len(self.columns), self.adjacency)
        return loss_of(noise, changed.absolute, changed.squared)

    @property
    def _losses(self) -> list[Fraction]:
        return [self._loss_of(part) for part in self._noises]

    @cached_property
    def _given_frame(self) -> Frame | None:
        if self.frame is None:
            return None
        return checked_description(self.frame, "frame", "the frame", Frame.from_json)


def _by_distance(value: NoisyMoments, rows: Floats) -> Ints:
    """How many rows have a distance in each bin, by what is released already."""
    return counts_of_scores(value.scores_by("distance", rows), value.distance_edges)
