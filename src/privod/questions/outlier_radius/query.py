"""Which radius makes a wanted share of the records stand apart? A private choice among candidates.

How far off a radius is, is measured in edits: that changes by at most 1 between adjacent data sets,
where the gap in records can change by hundreds. Proof in docs/proofs/outlier_radius.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from privod.data import Domain, Table
from privod.errors import InvalidParameter
from privod.mechanisms import PermuteAndFlip, Randomness
from privod.outliers.crowds.distance import CrowdIndex
from privod.privacy import AddRemove, Guarantee, positive
from privod.progress import track
from privod.query.checks import LARGEST_COUNT, ExactNumber, checked_radius, whole_number
from privod.query.crowd_bounds import GroupedCover, count_sensitivity, local_bound
from privod.query.crowd_count import CrowdQuestion
from privod.query.distances import Distances, Scale
from privod.query.memory import cover_bytes, crowd_bytes
from privod.query.preview import Preview, of_choice
from privod.query.query import Release

EDIT_SENSITIVITY = 1  # by so much one change moves the edits to the share
MOST_RADII = 200
LEAST_EPSILON, MOST_EPSILON = Fraction(1, 1000), 10**6
MOST_EDITS = 1000  # more are not told apart, so that the work has an end


@dataclass(frozen=True)
class ChosenRadius:
    """The radius, and what is public of how sure the choice is."""

    radius: float
    n_columns: int
    n_groups: int = 1


@dataclass(frozen=True, kw_only=True)
class OutlierRadius(CrowdQuestion[ChosenRadius]):
    """One radius out of public candidates, at which about the wanted share are outliers.

    Guarantee
    ---------
    Every record is protected (AddRemove), or what every record says (Replace). One of some
    public radii is named by an exact random choice.

    Parameters
    ----------
    share : number
        The share of the records that should be outlying, between 0 and 1.
    smallest : float
        The smallest candidate, greater than 0.
    largest : float
        The largest candidate.
    n_radii : int
        How many candidates there are, in equal ratios.
    """

    name: ClassVar[str] = "outlier-radius"
    value_class: ClassVar[Any] = ChosenRadius
    question: ClassVar[str] = "At which radius is a given share of the records outliers?"
    goal: ClassVar[str] = "find"

    share: ExactNumber = ExactNumber(positive)
    epsilon: ExactNumber = ExactNumber(positive)
    smallest: float = 0.005
    largest: float = 1.0
    n_radii: int = 25
    scale: Scale = "range"

    def __post_init__(self) -> None:
        super().__post_init__()
        for side in ("smallest", "largest"):
            object.__setattr__(self, side, checked_radius(getattr(self, side), side))
        whole_number(self.n_radii, "n_radii", at_least=2, at_most=MOST_RADII)
        if self.share >= 1:
            raise InvalidParameter("share", "must lie between 0 and 1", self.share, "Try 0.01.")
        if not 0 < self.smallest < self.largest:
            rule = "must be greater than 0 and below largest"
            raise InvalidParameter("smallest", rule, self.smallest, "Try 0.005, up to 1.")
        if not LEAST_EPSILON <= self.epsilon <= MOST_EPSILON:
            rule = "must lie between 0.001 and 10^6"
            raise InvalidParameter("epsilon", rule, str(self.epsilon), "Try 0.5.")

    @property
    def choice(self) -> PermuteAndFlip:
        """How the radius is chosen, by the edits to the share."""
        return PermuteAndFlip.for_loss(self.epsilon, EDIT_SENSITIVITY)

    @property
    def radii(self) -> tuple[float, ...]:
        """The candidates, in equal ratios and four digits, the ends as they were given."""
        ratio = math.log(self.largest / self.smallest) / (self.n_radii - 1)
        between = [
            float(f"{self.smallest * math.exp(ratio * place):.4g}")
            for place in range(1, self.n_radii - 1)
        ]
        return (self.smallest, *between, self.largest)

    @property
    def edits_off(self) -> int:
        """The radius named is at most this many edits farther off than the best: 95 % sure."""
        return of_choice(self.choice, self.n_radii)

    def records_off(self, dimensions: int, n_groups: int = 1) -> int:
        """By at most so many records `edits_off` edits can move the outliers off the share."""
        moved = count_sensitivity(self.max_crowd, dimensions, self.adjacency, None, n_groups)
        return math.ceil(self.edits_off * (moved + self._share_moved))

    def guarantee(self) -> Guarantee:
        return Guarantee(self.choice.loss(EDIT_SENSITIVITY), self.adjacency)

    def preview(self, domain: Domain) -> Preview:
        over = self.distances(domain)
        off = self.records_off(over.dimensions, over.n_groups(self.largest))
        words = (
            "If a candidate radius gives just the wanted share, the number of outliers will be at"
            f" most {off} off (95 % confidence), usually far less."
        )
        return Preview("the share", off, typical_share=float(self.share), loose=True, words=words)

    def check(self, domain: Domain) -> None:
        over = self.distances(domain)
        if self.edits_off > MOST_EDITS:  # so far off radii look alike, and any may be named
            rule = f"must be larger to choose among {self.n_radii} radii"
            raise InvalidParameter("epsilon", rule, str(self.epsilon), "Try 0.5, or fewer radii.")
        if self.records_off(over.dimensions, over.n_groups(self.largest)) > LARGEST_COUNT:
            rule = "must be fewer, or a record could move more than can be counted"
            raise InvalidParameter("columns", rule, over.dimensions, "Name two or three.")

    def work(self, domain: Domain, records: int) -> int:
        return self.n_radii * super().work(domain, records)

    def usual_work(self, domain: Domain, records: int) -> int:
        return self.n_radii * super().usual_work(domain, records)

    def most_bytes(self, domain: Domain, records: int) -> int:
        over = self.distances(domain)
        return crowd_bytes(records, over.n_axes) + cover_bytes(records, over.dimensions)

    def held_per_record(self, domain: Domain) -> int:
        """The points, and where categories are compared whose groups they are in."""
        over = self.distances(domain)
        return over.n_axes + bool(over.categorical)

    def answer(self, table: Table, randomness: Randomness) -> Release[ChosenRadius]:
        over = self.distances(table.domain)
        points = over.points(table)
        index = CrowdIndex(points)
        edits = []
        for radius in track(self.radii, "radii"):
            groups = over.apart(table, radius) if over.categorical else None
            cover = GroupedCover(points[:, : over.dimensions], radius, over.extent, groups)
            edits.append(self._edits(index, cover, radius, over))
        chosen = self.choice.choose(-np.array(edits, dtype=np.int64), randomness, self.radii)
        known = (over.dimensions, over.n_groups(self.largest))
        return self.release(ChosenRadius(self.radii[chosen], *known), randomness)

    def _edits(self, index: CrowdIndex, cover: GroupedCover, radius: float, over: Distances) -> int:
        """The edits to the share at one radius; not private."""
        sensitivity = count_sensitivity(
            self.max_crowd, over.dimensions, self.adjacency, None, over.n_groups(radius)
        )
        farthest = min(MOST_EDITS, sensitivity)  # from there on U_t is the sensitivity
        crowds = index.crowds(radius, cap=self.max_crowd + farthest + 2)
        outliers = int((crowds <= self.max_crowd).sum())
        gap = abs(outliers - self.share * index.size)
        bound = local_bound(crowds, cover, self.max_crowd, sensitivity, self.adjacency)
        return edits_to_share(gap, bound, self._share_moved, sensitivity, MOST_EDITS)

    def sentence(self, value: ChosenRadius) -> str:
        off = self.records_off(value.n_columns, value.n_groups)
        return (
            f"Radius {value.radius:g}{self.distance_in_words} makes about"
            f" {100 * float(self.share):.3g} % of the records outliers {self.columns_in_words}. An"
            f" outlier has at most {self.max_crowd} records, itself included, within it. If one of"
            f" the {self.n_radii} candidate radii gives just that share, the number of outliers is"
            f" at most {off:,} off (95 % confidence), usually far less."
        )

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns = domain.numeric_names[:2]
        if not columns:
            return ()
        return (cls(share="0.01", max_crowd=5, epsilon=2, columns=columns),)

    @property
    def _share_moved(self) -> Fraction:
        """By how much one change moves the wanted number of outliers."""
        return self.share if self.adjacency == AddRemove() else Fraction(0)


def edits_to_share(
    gap: Fraction, bound: Callable[[int], int], share_moved: Fraction, sensitivity: int, most: int
) -> int:
    """The least t at which the bounds of t changes together reach the gap, at most `most`.

    That is T = min {t : sum over s < t of (U_s + share) >= gap} for bounds U_s, which never fall
    and end at the sensitivity.
    """
    left, t = gap, 0
    while left > 0 and t < most:
        step = bound(t)
        if step >= sensitivity:  # it stays there
            return min(most, t + math.ceil(left / (sensitivity + share_moved)))
        left -= step + share_moved
        t += 1
    return t
