"""How many copies of one record are there? Rare ones exactly, others noisy [Asif 2020, 8.1].

Proof in docs/proofs/lookahead.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import Randomness
from privod.privacy import positive
from privod.query.checks import (
    LARGEST_COUNT,
    ExactNumber,
    checked_radius,
    checked_records,
    column_names,
    numeric_columns,
    whole_number,
)
from privod.query.preview import Preview, of_counts
from privod.query.query import Query, Release
from privod.query.sensitive import ExactWhereRare

__all__ = ["CopyCount", "LookaheadCount"]


@dataclass(frozen=True)
class CopyCount:
    """A number of copies, and whether noise was added to it."""

    count: int
    noisy: bool


@dataclass(frozen=True, kw_only=True)
class LookaheadCount(ExactWhereRare, Query[CopyCount]):
    """How many copies of one record are there? Rare ones are told exactly [Asif 2020, 8.1].

    Guarantee
    ---------
    Every record is protected that has at least max_crowd + 1 - edit_margin copies of its values in
    these columns. Counts of rarer values are told as they are: their owners are not protected.
    Whether a count is noisy is told with it; that costs nothing.

    Parameters
    ----------
    record : tuple of float
        The record asked about, a value for each column; it is public.
    columns : tuple of str
        The numeric columns in which records must be equal.
    max_crowd : int
        A record with at most this many copies, itself included, is anomalous.
    epsilon : number
        The privacy loss; at least 0.1 where rare counts are told exactly.
    edit_margin : int
        Within how many edits a protected record is normal, from 1.
    radius : float
        Must be 0: for larger ones the lookahead is not private.
    """

    name: ClassVar[str] = "lookahead-count-1"
    column_kinds: ClassVar[dict[str, Any]] = {"columns": Numeric}
    question: ClassVar[str] = "How many copies of this record are there, if it is rare?"

    record: tuple[float, ...]
    columns: tuple[str, ...]
    max_crowd: int
    epsilon: ExactNumber = ExactNumber(positive)
    edit_margin: int = 1
    radius: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_names(self.columns))
        record = checked_records((self.record,), len(self.columns))[0]
        object.__setattr__(self, "record", record)
        object.__setattr__(self, "radius", checked_radius(self.radius))
        whole_number(self.max_crowd, "max_crowd", at_least=1, at_most=LARGEST_COUNT)
        whole_number(self.edit_margin, "edit_margin", at_least=1)
        self.guarantee()  # refuses an epsilon that is out of reach
        if self.radius > 0:
            rule = "must be 0: a lookahead at a larger radius is not private (Asif, Theorem 1)"
            raise InvalidParameter("radius", rule, self.radius, "Ask for anomaly labels instead.")

    def not_protected(self) -> str:
        return self.told_exactly("values", "copies")

    def exact_counts(self, domain: Domain) -> int:  # noqa: ARG002
        return 1 if self.noisy_from > 0 else 0

    def preview(self, domain: Domain) -> Preview:  # noqa: ARG002
        return of_counts(self.noise, 1)

    def check(self, domain: Domain) -> None:
        numeric_columns(domain, self.columns)
        self.check_exactness()

    def held_per_record(self, domain: Domain) -> int:  # noqa: ARG002
        return 0

    def answer(self, table: Table, randomness: Randomness) -> Release[CopyCount]:
        copies = table.copies(self.columns, self.record)
        noisy = copies >= self.noisy_from
        drawn = int(self.noise.add_to(np.array([copies]), randomness)[0])  # for a rare one as well
        return self.release(CopyCount(drawn if noisy else copies, noisy), randomness)

    def sentence(self, value: CopyCount) -> str:
        if not value.noisy:
            many = "is exactly 1 copy" if value.count == 1 else f"are exactly {value.count} copies"
            return f"There {many} of this record; fewer than {self.noisy_from} are told exactly."
        margin = self.noise.quantile(0.95)
        return (
            f"There are about {value.count} copies of this record, right to within {margin} with"
            " 95 % certainty."
        )

    def value_to_json(self, value: CopyCount) -> Any:
        return {"count": value.count, "noisy": value.noisy}

    def value_from_json(self, data: Any) -> CopyCount:
        return CopyCount(int(data["count"]), bool(data["noisy"]))

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns = domain.numeric_names[:1]
        if not columns:
            return ()
        column = domain[columns[0]]
        low = column.low if isinstance(column, Numeric) else 0.0
        return (cls(record=(low,), columns=columns, max_crowd=3, epsilon=1),)
