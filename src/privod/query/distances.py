"""Distances between records, defined once for every question about crowds.

A record becomes a point by itself alone: numbers in their units or in shares of their ranges, times
weights; two categories as far apart as their column's weight. So every theorem about points holds
for records. Proofs in docs/proofs/outlier_count.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from privod.data import Categorical, Domain, Table
from privod.data.fineness import round_in_place
from privod.data.folding import Block
from privod.errors import InvalidParameter
from privod.privacy.loss import as_float
from privod.query.checks import MOST_AXES, numeric_columns

Scale = Literal["own", "range"]
LEAST_WEIGHT, MOST_WEIGHT = 1e-100, 1e100
EXAMPLE_RADIUS = 0.01  # in shares of the declared ranges
LARGEST_PLACE = 1e300  # of a scaled number; differences of such are still finite


@dataclass(frozen=True)
class Distances:
    """Columns with what a unit or a mismatch counts (of categories, how many there are, too).

    `extent` is a public bound of a point's numeric coordinates.
    """

    numeric: tuple[tuple[str, float], ...]
    categorical: tuple[tuple[str, int, float], ...]
    extent: float

    @classmethod
    def over(
        cls, domain: Domain, columns: tuple[str, ...], scale: Scale, weights: tuple[float, ...]
    ) -> Self:
        """Over these columns, or all numeric ones; an error unless they suit the domain."""
        names = tuple(name for name in columns if name not in domain.categorical_names)
        if columns and not names:
            rule = "must name a numeric column too"
            raise InvalidParameter("columns", rule, columns, "Add one, or ask for a histogram.")
        chosen = numeric_columns(domain, names)
        counted = dict(zip(columns, weights, strict=True)) if weights else {}
        numeric, extent = [], 0.0
        for column in domain.numeric(chosen):
            if scale == "range":
                column.check_range()
            unit = column.high - column.low if scale == "range" else 1.0
            factor = counted.get(column.name, 1.0) / unit
            numeric.append((column.name, factor))
            extent = max(extent, abs(column.low * factor), abs(column.high * factor))
        scaled = scale == "range" or bool(weights)
        if scaled and (extent > LARGEST_PLACE or not all(factor for _, factor in numeric)):
            rule = "must leave numbers between 1e-300 and 1e300"
            raise InvalidParameter("weights", rule, weights, "Choose weights nearer to 1.")
        kinds = []
        for name in columns:
            column_of = domain[name]
            if isinstance(column_of, Categorical):
                kinds.append((name, len(column_of.values), counted.get(name, 1.0)))
        found = cls(tuple(numeric), tuple(kinds), extent)
        if found.n_axes > MOST_AXES:
            rule = f"must be at most {MOST_AXES} numbers and categories"
            raise InvalidParameter("columns", rule, found.n_axes, "Name fewer.")
        return found

    @property
    def dimensions(self) -> int:
        """How many numeric columns there are."""
        return len(self.numeric)

    @property
    def n_axes(self) -> int:
        """How many coordinates a point has."""
        return self.dimensions + sum(1 if size <= 2 else size for _, size, _ in self.categorical)

    def n_groups(self, radius: float) -> int:
        """How many combinations of categories can lie within the radius of one record."""
        return math.prod(
            size for _, size, mismatch in self.categorical if _reaches(size, mismatch, radius)
        )

    def points(self, table: Table) -> NDArray[np.float64]:
        """The records as points: scaled numbers first, then the corners of their categories."""
        codes = table.codes(self.codes) if self.codes else np.empty((len(table), 0), np.int64)
        return self.points_of(Block(table.numbers(self.numbers), codes))

    @property
    def numbers(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.numeric)

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(name for name, _, _ in self.categorical)

    def points_of(self, block: Block) -> NDArray[np.float64]:
        """Some records as points, from their columns `numbers` and `codes`."""
        factors = [factor for _, factor in self.numeric]
        numbers = block.numbers
        if set(factors) != {1.0}:
            numbers = numbers * np.array(factors)
            round_in_place(numbers)
        if not self.categorical:
            return numbers
        parts = [numbers]
        for place, (_, size, mismatch) in enumerate(self.categorical):
            parts.append(_corners(size, mismatch)[block.codes[:, place]])
        return np.hstack(parts)

    def apart(self, table: Table, radius: float) -> NDArray[np.int64]:
        """A number for each record; records of different numbers are never within the radius."""
        keys = np.zeros(len(table), np.int64)
        for name, size, mismatch in self.categorical:
            if not _reaches(size, mismatch, radius):
                keys = np.unique(keys * size + table.codes([name])[:, 0], return_inverse=True)[1]
        return keys


def _corners(size: int, mismatch: float) -> NDArray[np.float64]:
    """Places whose computed squared distances are alike and at most mismatch * mismatch.

    Two categories lie on one axis, more on an axis each.
    """
    if size <= 2:
        return np.array([[0.0], [mismatch]])[:size]
    side = mismatch / math.sqrt(2)
    while side * side + side * side > mismatch * mismatch:
        side = math.nextafter(side, 0)
    return np.eye(size) * side


def _reaches(size: int, mismatch: float, radius: float) -> bool:
    """Whether records that differ in such a column can be within the radius, as it is computed."""
    if size <= 1:
        return False
    corners = _corners(size, mismatch)
    squares = (corners[0] - corners[1]) ** 2
    return float(squares[0] + (squares[1] if len(squares) > 1 else 0.0)) <= radius * radius


def checked_scale(value: Any) -> Scale:
    """Read how numeric columns are scaled."""
    if value not in ("own", "range"):
        raise InvalidParameter("scale", "must be own or range", value, "Try 'range'.")
    return value  # type: ignore[no-any-return]


def checked_weights(value: Any, columns: tuple[str, ...]) -> tuple[float, ...]:
    """Read a weight for each named column, or none."""
    given = tuple(as_float(weight, "weights") for weight in value)
    if given and len(given) != len(columns):
        rule = f"must be one for each of the {len(columns)} columns named"
        raise InvalidParameter("weights", rule, len(given), "Name the columns, weigh each.")
    for weight in given:
        if not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
            rule = "must lie between 1e-100 and 1e100"
            raise InvalidParameter("weights", rule, weight, "Leave a column out that counts not.")
    return given
