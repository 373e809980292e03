"""Count outlying records by degrees: how much a record counts falls with its neighbors.

The hard count of `outlier-count` lets one record move many others over a line, each by a whole
record. Here a record counts in full up to `max_crowd` and by one part in `grades` less for each
further record near it. One change then moves others by one part each, so the noise is far smaller,
and its margin is public. It is another statistic than the hard count, which it is never below.
Proof in docs/proofs/graded_count.md.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from privod.data import Domain, Table
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteLaplace, Randomness
from privod.mechanisms.noise import LARGEST_SCALE
from privod.outliers.crowds.by_space import most_points_at_once
from privod.outliers.crowds.packing import packing_number
from privod.privacy import AddRemove, Adjacency, Guarantee, Replace, positive
from privod.query.checks import (
    LARGEST_COUNT,
    ExactNumber,
    checked_radius,
    column_names,
    dp_adjacency,
    pairs_work,
    whole_number,
)
from privod.query.conditional import Conditional
from privod.query.crowd_bounds import count_credits, graded_credits
from privod.query.distances import (
    Distances,
    Scale,
    checked_scale,
    checked_weights,
    distance_in_words,
)
from privod.query.memory import crowd_bytes
from privod.query.preview import CERTAINTY, Preview
from privod.query.query import Release

__all__ = ["GradedCount", "GradedOutliers", "graded_credits", "graded_sensitivity"]

MOST_GRADES = 10**6  # parts of a record; sums over 10^12 records still fit 64 bits
MOST_CROWD = LARGEST_COUNT // MOST_GRADES
USUAL_GRADES = 2  # times max_crowd, where nothing else is said


@dataclass(frozen=True)
class GradedOutliers:
    """The noisy sum of all credits, in parts of a record, and what its noise depends on.

    That is the number of numeric columns, and the combinations of categories that can lie within
    the radius of one record.
    """

    parts: int
    grades: int
    n_columns: int
    n_groups: int = 1

    @property
    def count(self) -> float:
        """The sum in records."""
        return self.parts / self.grades


@dataclass(frozen=True, kw_only=True)
class GradedCount(Conditional[GradedOutliers]):
    """How many outlying records are there, if those near the line count in part?

    Guarantee
    ---------
    Every record is protected (AddRemove), or what every record says (Replace). The sum of all
    credits gets one draw of exact discrete Laplace noise for the worst data set.

    Parameters
    ----------
    radius : float
        How near records must be to count as neighbors: the Euclidean distance over the columns,
        after scaling.
    max_crowd : int
        A record counts in full with at most this many records, itself included, in the radius.
    epsilon : number
        The privacy loss, greater than 0.
    grades : int, optional
        Over so many further records near it a record's credit falls to nothing, in equal parts, at
        least 1. None: twice `max_crowd`. One is the hard count of outlier-count.
    columns : tuple of str
        The columns that distances are taken over, at least one of them numeric; none named means
        all numeric ones.
    adjacency : AddRemove or Replace
        Which two data sets must look alike.
    scale : str
        own: numeric columns count in their own units; range: in shares of their declared ranges.
    weights : tuple of float
        For each column named, what a difference of one counts, or in a categorical column a
        mismatch; none given means 1 each.
    """

    name: ClassVar[str] = "graded-count"
    question: ClassVar[str] = "How many records are outlying, those near the line counted in part?"

    radius: float
    max_crowd: int
    epsilon: ExactNumber = ExactNumber(positive)
    grades: int | None = None
    columns: tuple[str, ...] = ()
    adjacency: Adjacency = AddRemove()
    scale: Scale = "own"
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", checked_radius(self.radius))
        object.__setattr__(self, "columns", column_names(self.columns) if self.columns else ())
        object.__setattr__(self, "adjacency", dp_adjacency(self.adjacency))
        object.__setattr__(self, "scale", checked_scale(self.scale))
        object.__setattr__(self, "weights", checked_weights(self.weights, self.columns))
        whole_number(self.max_crowd, "max_crowd", at_least=1, at_most=MOST_CROWD)
        if self.grades is not None:
            whole_number(self.grades, "grades", at_least=1, at_most=MOST_GRADES)
        DiscreteLaplace.for_loss(self.epsilon, 1)  # refuses an epsilon far out of reach

    @property
    def n_grades(self) -> int:
        """Into how many parts a record's credit is cut."""
        if self.grades is not None:
            return self.grades
        return min(USUAL_GRADES * self.max_crowd, MOST_GRADES)

    def sensitivity(self, dimensions: int, n_groups: int = 1) -> int:
        """By how many parts one change can move the sum."""
        return graded_sensitivity(
            self.max_crowd, self.n_grades, dimensions, self.adjacency, n_groups
        )

    def noise(self, dimensions: int, n_groups: int = 1) -> DiscreteLaplace:
        """The noise of the sum, in parts of a record."""
        return DiscreteLaplace.for_loss(self.epsilon, self.sensitivity(dimensions, n_groups))

    def margin(self, dimensions: int, n_groups: int = 1) -> float:
        """What the sum is right to within with 95 % certainty, in records."""
        return self.noise(dimensions, n_groups).quantile(CERTAINTY) / self.n_grades

    def guarantee(self) -> Guarantee:
        # The scale is the sensitivity over epsilon in any number of columns.
        sensitivity = self.sensitivity(1)
        loss = DiscreteLaplace.for_loss(self.epsilon, sensitivity).loss(sensitivity)
        return Guarantee(loss, self.adjacency)

    def preview(self, domain: Domain) -> Preview:
        over = self._distances(domain)
        margin = self.margin(over.dimensions, over.n_groups(self.radius))
        return Preview("the graded count", math.ceil(margin))

    def check(self, domain: Domain) -> None:
        over = self._distances(domain)
        widest = self.sensitivity(over.dimensions, over.n_groups(self.radius))
        if widest / self.epsilon > LARGEST_SCALE:
            rule = "must be fewer, or the noise would pass 2^40"
            raise InvalidParameter("columns", rule, over.dimensions, "Name fewer columns.")

    def work(self, domain: Domain, records: int) -> int:
        over = self._distances(domain)
        return pairs_work(records, over.n_axes)

    def held_per_record(self, domain: Domain) -> int:  # noqa: ARG002
        return 0

    def most_bytes(self, domain: Domain, records: int) -> int:
        n_axes = self._distances(domain).n_axes
        return crowd_bytes(most_points_at_once(records, n_axes), n_axes)

    def answer(self, table: Table, randomness: Randomness) -> Release[GradedOutliers]:
        over = self._distances(table.domain)
        known = (over.dimensions, over.n_groups(self.radius))
        total = count_credits(table, over, self.radius, self.max_crowd, self.n_grades)
        noisy = int(self.noise(*known).add_to(np.array([total]), randomness)[0])
        return self.release(GradedOutliers(noisy, self.n_grades, *known), randomness)

    def sentence(self, value: GradedOutliers) -> str:
        where = f"in {', '.join(self.columns)}" if self.columns else "in all numeric columns"
        margin = self.margin(value.n_columns, value.n_groups)
        return (
            f"How far out the records lie {where} adds up to about {value.count:.4g}, right to"
            f" within {margin:.3g} with 95 % certainty. A record adds 1 with at most"
            f" {self.max_crowd} records, itself included, within {self.radius:g}"
            f"{distance_in_words(self.scale, self.weights)} of it, and 1/{self.n_grades} less"
            " for each further one, so the sum is not a number of records."
        )

    def table(self, value: GradedOutliers) -> dict[str, list[Any]]:
        margin = self.margin(value.n_columns, value.n_groups)
        return {"count": [value.count], "margin": [margin]}

    def value_to_json(self, value: GradedOutliers) -> Any:
        return asdict(value)

    def value_from_json(self, data: Any) -> GradedOutliers:
        return GradedOutliers(
            int(data["parts"]), int(data["grades"]), int(data["n_columns"]), int(data["n_groups"])
        )

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns = domain.numeric_names[:2]
        if not columns:
            return ()
        return (cls(radius=0.01, max_crowd=5, epsilon=1, columns=columns, scale="range"),)

    def _distances(self, domain: Domain) -> Distances:
        return Distances.over(domain, self.columns, self.scale, self.weights)


def graded_sensitivity(
    max_crowd: int, grades: int, dimensions: int, adjacency: Adjacency, n_groups: int = 1
) -> int:
    """K (k + L - 1) under AddRemove and L more under Replace [docs/proofs/graded_count.md]."""
    moved = packing_number(dimensions) * n_groups * (max_crowd + grades - 1)
    return moved + grades if adjacency == Replace() else moved
