"""Questions about records in small crowds: parameters, distances, work and words they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

from privod.data import Domain
from privod.outliers.crowds.by_space import most_points_at_once
from privod.privacy import AddRemove, Adjacency
from privod.query.checks import (
    LARGEST_COUNT,
    checked_radius,
    column_names,
    dp_adjacency,
    pairs_work,
    usual_pairs_work,
    whole_number,
)
from privod.query.conditional import Conditional
from privod.query.distances import Distances, Scale, checked_scale, checked_weights
from privod.query.memory import crowd_bytes
from privod.texts import listed

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class CrowdQuestion(Conditional[Value]):
    """A question about records with few records near them.

    Parameters
    ----------
    max_crowd : int
        A record is outlying with at most this many records, itself included, within the radius.
    columns : tuple of str
        The columns that distances are taken over, at least one of them numeric; none named means
        all numeric ones.
    scale : str
        own: numeric columns count in their own units; range: in shares of their declared ranges.
    weights : tuple of float
        For each column named, what a difference of one counts, or in a categorical column a
        mismatch; none given means 1 each.
    """

    most_crowd: ClassVar[int] = LARGEST_COUNT

    max_crowd: int
    columns: tuple[str, ...] = ()
    adjacency: Adjacency = AddRemove()
    scale: Scale = "own"
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_names(self.columns) if self.columns else ())
        object.__setattr__(self, "adjacency", dp_adjacency(self.adjacency))
        object.__setattr__(self, "scale", checked_scale(self.scale))
        object.__setattr__(self, "weights", checked_weights(self.weights, self.columns))
        whole_number(self.max_crowd, "max_crowd", at_least=1, at_most=self.most_crowd)

    def distances(self, domain: Domain) -> Distances:
        """How distances are taken in data of this domain."""
        return Distances.over(domain, self.columns, self.scale, self.weights)

    def work(self, domain: Domain, records: int) -> int:
        return pairs_work(records, self.distances(domain).n_axes)

    def usual_work(self, domain: Domain, records: int) -> int:
        return usual_pairs_work(records, self.distances(domain).n_axes)

    @property
    def columns_in_words(self) -> str:
        """Over which columns, for sentences."""
        return f"in {listed(self.columns)}" if self.columns else "in all numeric columns"

    @property
    def distance_in_words(self) -> str:
        """How a radius is measured, for sentences; "" where it needs no word."""
        parts = ["1 is the range of a column"] if self.scale == "range" else []
        if self.weights:
            parts.append(f"with the weights {', '.join(f'{one:g}' for one in self.weights)}")
        return f" ({', '.join(parts)})" if parts else ""


@dataclass(frozen=True, kw_only=True)
class CrowdCount(CrowdQuestion[Value]):
    """A count of records with few records near them.

    Parameters
    ----------
    radius : float
        How near records must be to count as neighbors: the Euclidean distance over the columns,
        after scaling.
    """

    holds_rows: ClassVar[bool] = False  # credits alone need no points

    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", checked_radius(self.radius))
        super().__post_init__()

    def most_bytes(self, domain: Domain, records: int) -> int:
        n_axes = self.distances(domain).n_axes
        return crowd_bytes(most_points_at_once(records, n_axes), n_axes)

    @property
    def radius_in_words(self) -> str:
        """How near is near, for sentences."""
        return f"within distance {self.radius:g}{self.distance_in_words}"


def crowd_in_words(max_crowd: int) -> str:
    """How many records an outlier has near it, for sentences."""
    if max_crowd == 1:
        return "no other record"
    return f"at most {max_crowd - 1} other record{'s' if max_crowd > 2 else ''}"
