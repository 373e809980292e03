"""Ordered attributes: a numeric column cut into intervals, of which a context picks a range.

The cuts are declared in the question; none is read off the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.data.columns import Numeric
from privod.data.domain import Domain
from privod.data.fineness import rounded
from privod.data.table import Table
from privod.errors import InvalidParameter

MOST_INTERVALS = 62  # a range of them is the bits of a signed machine word


@dataclass(frozen=True)
class Interval:
    """Numbers from `low` to below `high`; `high` itself belongs to the last one of a column."""

    low: float
    high: float
    last: bool = False

    def __contains__(self, number: object) -> bool:
        if isinstance(number, bool) or not isinstance(number, int | float):
            return False
        return self.low <= number < self.high or (self.last and number == self.high)

    def __str__(self) -> str:
        return f"{self.low:.10g} to {self.high:.10g}"

    def in_words(self) -> str:
        """The interval for people; where it ends is left open unless it is the last one."""
        to = "to" if self.last else "to below"
        return f"from {self.low:.10g} {to} {self.high:.10g}"

    def to_json(self) -> dict[str, Any]:
        return {"from": self.low, "to" if self.last else "below": self.high}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Interval:
        last = "to" in data
        return cls(float(data["from"]), float(data["to" if last else "below"]), last)


@dataclass(frozen=True)
class Ordered:
    """A numeric column as an attribute: its declared range, cut into intervals.

    Cuts ascend, inside the range; a number equal to one belongs to the upper interval.
    """

    column: Numeric
    cuts: tuple[float, ...]

    def __post_init__(self) -> None:
        cuts = tuple(_cut(cut, self.name) for cut in self.cuts)
        object.__setattr__(self, "cuts", cuts)
        ends = (self.column.low, *cuts, self.column.high)
        if not cuts or any(low >= high for low, high in pairwise(ends)):
            rule = f"must ascend, between {self.column.low:g} and {self.column.high:g}"
            middle = self.column.low + (self.column.high - self.column.low) / 2
            way_out = f"Name where intervals meet, such as {middle:g}."
            raise InvalidParameter(f"the cuts of {self.name!r}", rule, cuts, way_out)
        if len(cuts) >= MOST_INTERVALS:
            rule = f"must give at most {MOST_INTERVALS} intervals"
            way_out = "Cut less finely."
            raise InvalidParameter(f"the cuts of {self.name!r}", rule, len(cuts) + 1, way_out)

    @classmethod
    def of(cls, domain: Domain, name: str, values: Sequence[object]) -> Ordered | None:
        """The attribute that a context's values were made by; None where they are categories."""
        intervals = [value for value in values if isinstance(value, Interval)]
        if not intervals:
            return None
        (column,) = domain.numeric((name,))
        return cls(column, tuple(interval.low for interval in intervals[1:]))

    @property
    def name(self) -> str:
        return self.column.name

    @cached_property
    def values(self) -> tuple[Interval, ...]:
        """The intervals, in ascending order."""
        ends = (self.column.low, *self.cuts, self.column.high)
        pairs = list(pairwise(ends))
        return tuple(Interval(*pair, pair == pairs[-1]) for pair in pairs)

    def codes(self, table: Table) -> NDArray[np.int64]:
        """In which interval each row lies."""
        numbers = table.numbers((self.name,))[:, 0]
        return np.searchsorted(np.array(self.cuts), numbers, side="right").astype(np.int64)

    def position(self, value: object) -> int:
        """In which interval a number lies."""
        for place, interval in enumerate(self.values):
            if value in interval:
                return place
        rule = f"must have a number from {self.column.low:g} to {self.column.high:g} as {self.name}"
        way_out = "Give the number as it is declared."
        raise InvalidParameter("record", rule, value, way_out)


def ranges_of(every: Sequence[Interval], chosen: Sequence[Interval]) -> list[Interval]:
    """The chosen intervals, with those that meet made one."""
    ranges: list[Interval] = []
    for interval in every:
        if interval not in chosen:
            continue
        if ranges and ranges[-1].high == interval.low:
            ranges[-1] = Interval(ranges[-1].low, interval.high, interval.last)
        else:
            ranges.append(interval)
    return ranges


def _cut(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
        way_out = "Name where intervals meet, such as 18."
        raise InvalidParameter(f"the cuts of {name!r}", "must be numbers", value, way_out)
    return float(rounded(value))


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
