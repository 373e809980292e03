"""When two records are alike: numbers within tolerances, equal categories, weighted columns.

It is public, symmetric, and every record is alike itself; nothing else is used of it. Proofs in
docs/proofs/novelty_labels.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.query.checks import column_names, finite_number, whole_number

Entry = str | int | float

MOST_RECORDS = 1000
MOST_WEIGHT = 1_000_000
MOST_COLUMNS = 200
LARGEST_INTEGER = 2**63
ROUNDING = 1 + 2.0**-40  # far above what a difference of two floats is rounded by


@dataclass(frozen=True)
class Held:
    """Columns of a table: numbers, or the places of categories among the declared ones."""

    columns: list[NDArray[Any]]
    values: list[tuple[Any, ...] | None]

    def coded(self, record: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """A record as the columns hold it."""
        pairs = zip(record, self.values, strict=True)
        return tuple(one if values is None else values.index(one) for one, values in pairs)

    def row(self, place: int) -> tuple[Entry, ...]:
        """The record of a row."""
        pairs = zip(self.columns, self.values, strict=True)
        return tuple(
            float(column[place]) if values is None else values[column[place]]
            for column, values in pairs
        )


@dataclass(frozen=True)
class Likeness:
    """Which records are alike: the weights of differing columns sum up to at most `max_distance`.

    `tolerances` and `weights` name the columns that have others than 0 and 1.
    """

    columns: tuple[str, ...]
    max_distance: int
    tolerances: tuple[tuple[Any, ...], ...] = ()
    weights: tuple[tuple[Any, ...], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_names(self.columns))
        whole_number(self.max_distance, "max_distance", at_least=0)
        tolerances = [(name, _tolerance(one, name)) for name, one in self._named(self.tolerances)]
        object.__setattr__(self, "tolerances", tuple(tolerances))
        weights = [
            (name, whole_number(weight, f"the weight of {name!r}", 0))
            for name, weight in self._named(self.weights)
        ]
        object.__setattr__(self, "weights", tuple(weights))

    @classmethod
    def asked(
        cls, columns: tuple[str, ...], max_distance: int, tolerances: Any, weights: Any
    ) -> Likeness:
        """Which records are alike in a question, which compares so many columns at most."""
        names = column_names(columns)
        if len(names) > MOST_COLUMNS:
            rule = f"must be at most {MOST_COLUMNS}"
            raise InvalidParameter("columns", rule, len(names), "Name the ones that matter.")
        most = MOST_WEIGHT * MOST_COLUMNS
        whole_number(max_distance, "max_distance", at_least=0, at_most=most)
        like = cls(names, max_distance, tolerances, weights)
        for name, weight in like.weights:
            whole_number(weight, f"the weight of {name!r}", 0, MOST_WEIGHT)
        return like

    def check(self, domain: Domain, records: tuple[tuple[Entry, ...], ...]) -> None:
        """Refuse columns and records that do not suit the domain."""
        for place, name in enumerate(self.columns):
            column = domain[name]
            if isinstance(column, Numeric):
                _check_numbers(records, place, column)
                continue
            for record in records:
                if record[place] not in column.values:
                    rule = f"must have a declared value as {name}"
                    way_out = f"Its values are {', '.join(map(str, column.values[:20]))}."
                    raise InvalidParameter("records", rule, record[place], way_out)
            if name in self._tolerance_of:
                rule = "must be of numeric columns"
                raise InvalidParameter("tolerances", rule, name, "Leave it out.")

    def held(self, table: Table) -> Held:
        """The compared columns of a table."""
        columns, values = [], []
        for name in self.columns:
            column = table.domain[name]
            categories = column.values if isinstance(column, Categorical) else None
            values.append(categories)
            held = table.numbers((name,)) if categories is None else table.codes((name,))
            columns.append(np.ascontiguousarray(held[:, 0]))
        return Held(columns, values)

    def near(self, held: Held, record: tuple[Entry, ...]) -> NDArray[np.bool_]:
        """Which of the records held are alike this one."""
        return np.asarray(self._apart(held.columns, held.coded(record), 1) <= self.max_distance)

    def labels_moved(self, records: tuple[tuple[Entry, ...], ...]) -> int:
        """At most how many of the records one record can be alike.

        If a record is alike two of those asked about, these two agree within twice the tolerances
        but for columns of twice the distance; so it is at most the largest number of such agreeing.
        """
        listed = [_column(entries) for entries in zip(*records, strict=True)]
        moved = 0
        for record in records:
            apart = self._apart(listed, record, 2 * ROUNDING)
            moved = max(moved, int((apart <= 2 * self.max_distance).sum()))
        return moved

    def _apart(
        self, listed: list[NDArray[Any]], record: tuple[Entry, ...], stretch: float
    ) -> NDArray[np.int64]:
        """The summed weights of the columns in which each of the listed differs from the record."""
        weights, tolerances = dict(self.weights), self._tolerance_of
        apart = np.zeros(len(listed[0]), np.int64)
        for name, column, entry in zip(self.columns, listed, record, strict=True):
            if column.dtype == object or isinstance(entry, str):
                differs = column != entry
            else:
                with np.errstate(over="ignore"):  # farther than floats go is far
                    differs = np.abs(column - float(entry)) > stretch * tolerances.get(name, 0.0)
            apart += weights.get(name, 1) * differs
        return apart

    @cached_property
    def _tolerance_of(self) -> dict[str, float]:
        return dict(self.tolerances)

    def _named(self, rows: Any) -> list[tuple[str, Any]]:
        """Rows of a column and a number."""
        way_out = "Write (('age', 5),)."
        if not isinstance(rows, list | tuple) or not all(
            isinstance(row, list | tuple) and len(row) == 2 for row in rows
        ):
            rule = "must each be a column and a number"
            raise InvalidParameter("tolerances and weights", rule, rows, way_out)
        names = [row[0] for row in rows]
        if len(set(names)) != len(names) or not set(names) <= set(self.columns):
            rule = "must name columns, each once"
            raise InvalidParameter("tolerances and weights", rule, names, way_out)
        return [(row[0], row[1]) for row in rows]


def _check_numbers(records: tuple[tuple[Entry, ...], ...], place: int, column: Numeric) -> None:
    for record in records:
        if isinstance(record[place], str):
            rule, way_out = f"must have a number as {column.name}", "Give a number."
            if type(column) is not Numeric:  # a date or an ordered value, which is held as a number
                way_out = f"{record[place]} is {column.number(record[place]):g} there."
            raise InvalidParameter("records", rule, record[place], way_out)


def _column(entries: tuple[Entry, ...]) -> NDArray[Any]:
    texts = any(isinstance(entry, str) for entry in entries)
    return np.array(entries, dtype=object if texts else np.float64)


def checked_entries(
    rows: Any, width: int, name: str = "records", most: int = MOST_RECORDS
) -> tuple[tuple[Entry, ...], ...]:
    """The records asked about, a value for each column."""
    way_out = f"Give 1 to {most} rows of {width} values, one for each column."
    if not isinstance(rows, list | tuple) or not 1 <= len(rows) <= most:
        raise InvalidParameter(name, f"must be 1 to {most} rows", type(rows).__name__, way_out)
    found = []
    for row in rows:
        if not isinstance(row, list | tuple) or len(row) != width:
            raise InvalidParameter(name, f"must have {width} values each", row, way_out)
        if any(not isinstance(one, str | int | float) for one in row):
            raise InvalidParameter(name, "must hold texts and numbers", row, way_out)
        found.append(tuple(_entry(one, name) for one in row))
    return tuple(found)


def _entry(value: Entry, name: str) -> Entry:
    """A value as a table would hold it."""
    if isinstance(value, float):
        return finite_number(value, name)
    if isinstance(value, int) and not abs(value) < LARGEST_INTEGER:
        way_out = "Write it as a number with a point."
        raise InvalidParameter(name, "must have whole numbers of 64 bits", value, way_out)
    return value


def _tolerance(number: Any, name: str) -> float:
    found = finite_number(number, f"the tolerance of {name!r}")
    if found < 0:
        rule = "must be at least 0"
        raise InvalidParameter(f"the tolerance of {name!r}", rule, number, "Try 1.")
    return found


def end_of(column: Categorical | Numeric, *, last: int) -> Entry:
    """A public value of a column, for examples: its first or its last one."""
    if isinstance(column, Categorical):
        return column.values[-last]
    return column.high if last else column.low
