"""Count outlying records by degrees: how much a record counts falls with its neighbors.

One change moves others by one part each, so the noise is far smaller than that of the hard count,
and its margin is public. It is another statistic. Proof in docs/proofs/graded_count.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from privod.data import Domain, Table
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteLaplace, Randomness
from privod.mechanisms.noise import LARGEST_SCALE
from privod.outliers.crowds.packing import packing_number
from privod.privacy import Adjacency, Guarantee, Replace, positive
from privod.query.checks import LARGEST_COUNT, ExactNumber, whole_number
from privod.query.crowd_bounds import count_credits
from privod.query.crowd_count import CrowdCount
from privod.query.preview import CERTAINTY, Preview
from privod.query.query import Release

MOST_GRADES = 10**6  # parts of a record; sums over 10^12 records still fit 64 bits
MOST_CROWD = LARGEST_COUNT // MOST_GRADES
USUAL_GRADES = 2  # times max_crowd, where nothing else is said


@dataclass(frozen=True)
class GradedOutliers:
    """The noisy sum of all credits, in parts of a record, and what its noise depends on."""

    parts: int
    grades: int
    n_columns: int
    n_groups: int = 1

    @property
    def count(self) -> float:
        """The sum in records."""
        return self.parts / self.grades


@dataclass(frozen=True, kw_only=True)
class GradedCount(CrowdCount[GradedOutliers]):
    """One number with a margin of error: how many outliers there are, those near the line in part.

    Guarantee
    ---------
    Every record is protected (AddRemove), or what every record says (Replace). The sum of all
    credits gets one draw of exact discrete Laplace noise for the worst data set.

    Parameters
    ----------
    max_crowd : int
        A record counts in full with at most this many records, itself included, in the radius.
    grades : int, optional
        Over so many further records near it a record's credit falls to nothing, in equal parts, at
        least 1. None: twice `max_crowd`. One is the hard count of outlier-count.
    """

    name: ClassVar[str] = "graded-count"
    value_class: ClassVar[Any] = GradedOutliers
    question: ClassVar[str] = "How many outliers are there, borderline records counted in part?"
    goal: ClassVar[str] = "count"
    most_crowd: ClassVar[int] = MOST_CROWD

    epsilon: ExactNumber = ExactNumber(positive)
    grades: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
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
        over = self.distances(domain)
        margin = self.margin(over.dimensions, over.n_groups(self.radius))
        return Preview("the graded count", math.ceil(margin))

    def check(self, domain: Domain) -> None:
        over = self.distances(domain)
        widest = self.sensitivity(over.dimensions, over.n_groups(self.radius))
        if widest / self.epsilon > LARGEST_SCALE:
            rule = "must be fewer, or the noise would pass 2^40"
            raise InvalidParameter("columns", rule, over.dimensions, "Name fewer columns.")

    def answer(self, table: Table, randomness: Randomness) -> Release[GradedOutliers]:
        over = self.distances(table.domain)
        known = (over.dimensions, over.n_groups(self.radius))
        total = count_credits(table, over, self.radius, self.max_crowd, self.n_grades)
        noisy = int(self.noise(*known).add_to(np.array([total]), randomness)[0])
        return self.release(GradedOutliers(noisy, self.n_grades, *known), randomness)

    def sentence(self, value: GradedOutliers) -> str:
        margin = self.margin(value.n_columns, value.n_groups)
        return (
            f"{value.count:,.1f} ± {margin:,.1f} is the graded count of outliers"
            f" {self.columns_in_words} (95 % confidence). A record counts 1 with at most"
            f" {self.max_crowd} records, itself included, {self.radius_in_words}. It counts"
            f" 1/{self.n_grades} less for each further one, so this is not a number of records."
        )

    def table(self, value: GradedOutliers) -> dict[str, list[Any]]:
        margin = self.margin(value.n_columns, value.n_groups)
        return {"count": [value.count], "margin": [margin]}

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns = domain.numeric_names[:2]
        if not columns:
            return ()
        return (cls(radius=0.01, max_crowd=5, epsilon=1, columns=columns, scale="range"),)


def graded_sensitivity(
    max_crowd: int, grades: int, dimensions: int, adjacency: Adjacency, n_groups: int = 1
) -> int:
    """K (k + L - 1) under AddRemove and L more under Replace [docs/proofs/graded_count.md]."""
    moved = packing_number(dimensions) * n_groups * (max_crowd + grades - 1)
    return moved + grades if adjacency == Replace() else moved
