"""Joint questions that name outliers by distance: what exact and published runs have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Ints
from privod.data import Domain, Table
from privod.errors import InvalidParameter
from privod.joint.question import JointQuestion, JointResult, check_one_record_each
from privod.outliers.crowds.distance import crowds
from privod.outliers.hashing.outliers import crowd_limit

PARTITIONS = ("horizontal", "vertical")


class OutlierQuestion(JointQuestion):
    """Which records have at most a share of all records within a radius of them?"""

    partition: str
    far_fraction: float

    if TYPE_CHECKING:

        @property
        def columns(self) -> tuple[str, ...]:
            """The numeric columns of all parties, in order."""

    def check_partition(self) -> None:
        """Raise unless parties hold different rows, or different columns of the same rows."""
        if self.partition not in PARTITIONS:
            rule = f"must be one of {', '.join(PARTITIONS)}"
            raise InvalidParameter("partition", rule, self.partition, "Try 'horizontal'.")
        crowd_limit(self.far_fraction, 1)

    @property
    def over_columns(self) -> bool:
        return self.partition == "vertical"

    def own_columns(self, domain: Domain) -> tuple[str, ...]:
        """The question's columns that a domain has, in the question's order."""
        return tuple(name for name in self.columns if name in domain.numeric_names)

    def check(self, domain: Domain) -> None:
        check_one_record_each(domain)
        if not self.over_columns:
            domain.numeric(self.columns)
        elif not self.own_columns(domain):
            way_out = f"The question's columns are {list(self.columns)}."
            raise InvalidParameter("domain", "must have a column of the question", (), way_out)
        elif not domain.keeps_every_row:
            rule = "must keep every row, so that the parties' rows stay aligned"
            way_out = "Give every column a fill, and no person column."
            raise InvalidParameter("domain", rule, list(domain.names), way_out)

    def planned(self, records: int | None) -> int:
        """How many records a run is planned for; raise if nobody said so."""
        if records is None:
            way_out = "Say roughly how many records all parties have with --records."
            raise InvalidParameter("records", "is needed to plan", None, way_out)
        return records

    def table_guarantee(self) -> None:
        """Nothing that is opened has noise."""

    @abstractmethod
    def in_radii(self, table: Table) -> NDArray[np.float64]:
        """A party's own columns, with the radius as the unit."""

    def rows_alone(self, table: Table) -> Ints:
        """The rows with no more than the same share of the party's own records near them.

        Where it holds only some of the columns, the radius shrinks with the root of their share.
        """
        points = self.in_radii(table)
        limit = crowd_limit(self.far_fraction, len(points))
        radius = sqrt(points.shape[1] / len(self.columns))
        return np.flatnonzero(crowds(points, radius, cap=limit + 1) <= limit)


@dataclass(frozen=True, eq=False, kw_only=True)
class OutlierResult(JointResult):
    """Which of a party's records are outliers, together and alone."""

    n_records: int

    def sentences(self) -> list[str]:
        return [self.compared(), self.listing()]

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "n_records": self.n_records}

    def stated(self) -> dict[str, Any]:
        # No digest of which rows: with few of them whoever reads it tries all until one fits.
        return {"n_records": self.n_records, "outliers": len(self.rows)}
