"""Would these new records be anomalous among the private ones? Numbers and categories [Asif 2020].

The variant of anomaly labels in which the record asked about is added to the data: whether it is in
there already makes no difference to whom the answer protects, so plain differential privacy labels
lone records almost surely right. Proof in docs/proofs/novelty_labels.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import Randomness
from privod.privacy import AddRemove, Guarantee, Loss, positive
from privod.queries.anomaly_labels import answer_by_edits
from privod.queries.checks import (
    LARGEST_COUNT,
    ExactNumber,
    column_names,
    labeled,
    said_to_be,
    whole_number,
)
from privod.queries.outlier_context.query import finite_number
from privod.queries.preview import Preview
from privod.queries.query import Query, Release

__all__ = ["NoveltyLabels"]

Entry = str | int | float

MOST_RECORDS = 1000
MOST_WEIGHT = 1_000_000
MOST_COLUMNS = 200
LARGEST_INTEGER = 2**63
SURE = 100  # e^-100 < 2^-144
SMALLEST_LOG = 800  # e^-800 is 0 as a float
ROUNDING = 1 + 2.0**-40  # far above what a difference of two floats is rounded by


@dataclass(frozen=True, kw_only=True)
class NoveltyLabels(Query[tuple[bool, ...]]):
    """Which of these new records would be anomalous among the records at hand?

    Guarantee
    ---------
    Every record is protected, including whether it is in the data at all. A label is wrong the more
    rarely, the more records would have to come or go for the answer to change.

    Parameters
    ----------
    columns : tuple of str
        The columns that records are compared by, numeric and categorical ones, 200 at most.
    records : tuple of (str, int or float, ...)
        The new records, a value for each column; they are public. 1000 at most.
    max_crowd : int
        A record is anomalous with at most this many records near it, itself included.
    epsilon : number
        The privacy loss of all labels together, greater than 0. Records asked about that one
        record can be near to share it; others do not.
    max_distance : int
        Records are near if the weights of the columns in which they differ sum up to this at most.
        0 asks for the same values in all columns.
    tolerances : tuple of (str, number)
        Rows of a numeric column and how far apart two numbers may be that count as the same, 0 if
        it is not named.
    weights : tuple of (str, int)
        Rows of a column and its weight, a whole number from 0; 1 if it is not named. With all
        weights 1 the distance is the number of columns that differ (Hamming).
    """

    name: ClassVar[str] = "novelty-labels-1"
    question: ClassVar[str] = "Which of these new records would be anomalous among those at hand?"

    columns: tuple[str, ...]
    records: tuple[tuple[Entry, ...], ...]
    max_crowd: int
    epsilon: ExactNumber = ExactNumber(positive)
    max_distance: int = 0
    tolerances: tuple[tuple[str | float, ...], ...] = ()
    weights: tuple[tuple[str | int, ...], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_names(self.columns))
        if len(self.columns) > MOST_COLUMNS:
            rule = f"must be at most {MOST_COLUMNS}"
            raise InvalidParameter("columns", rule, len(self.columns), "Name the ones that matter.")
        object.__setattr__(self, "records", _records(self.records, len(self.columns)))
        whole_number(self.max_crowd, "max_crowd", at_least=1, at_most=LARGEST_COUNT)
        most = MOST_WEIGHT * MOST_COLUMNS
        whole_number(self.max_distance, "max_distance", at_least=0, at_most=most)
        tolerances = [
            (name, _tolerance(number, name)) for name, number in self._named(self.tolerances)
        ]
        object.__setattr__(self, "tolerances", tuple(tolerances))
        weights = [
            (name, whole_number(weight, f"the weight of {name!r}", 0, MOST_WEIGHT))
            for name, weight in self._named(self.weights)
        ]
        object.__setattr__(self, "weights", tuple(weights))

    @cached_property
    def labels_moved(self) -> int:
        """At most how many labels one record can move.

        If a record is near two of those asked about, these two agree within twice the tolerances
        but for columns of twice the distance; so it is at most the largest number of such agreeing.
        """
        listed = [_column(entries) for entries in zip(*self.records, strict=True)]
        moved = 0
        for record in self.records:
            apart = self._apart(listed, record, 2 * ROUNDING)
            moved = max(moved, int((apart <= 2 * self.max_distance).sum()))
        return moved

    @cached_property
    def label_epsilon(self) -> Fraction:
        """The loss of one label."""
        return self.epsilon / self.labels_moved

    @cached_property
    def most_edits(self) -> int:
        """More edits are not told apart: at so many the coin lies less than once in 2^144 times."""
        return 1 + math.ceil(SURE / self.label_epsilon)

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(self.epsilon), AddRemove())

    def preview(self, domain: Domain) -> Preview:  # noqa: ARG002
        return Preview("The label", wrong_label=self.error(others=0))

    def check(self, domain: Domain) -> None:
        for place, name in enumerate(self.columns):
            column = domain[name]
            if isinstance(column, Numeric):
                self._check_numbers(place)
                continue
            for record in self.records:
                if record[place] not in column.values:
                    rule = f"must have a declared value as {name}"
                    way_out = f"Its values are {', '.join(map(str, column.values[:20]))}."
                    raise InvalidParameter("records", rule, record[place], way_out)
            if name in dict(self._named(self.tolerances)):
                rule = "must be of numeric columns"
                raise InvalidParameter("tolerances", rule, name, "Leave it out.")

    def answer(self, table: Table, randomness: Randomness) -> Release[tuple[bool, ...]]:
        listed = [_held(table, name) for name in self.columns]
        labels = []
        for record in self.records:
            near = int((self._apart(listed, record, 1) <= self.max_distance).sum())
            truth = self.is_anomalous(near)
            labels.append(answer_by_edits(truth, self.edits(near), self.label_epsilon, randomness))
        return self.release(tuple(labels), randomness)

    def is_anomalous(self, others: int) -> bool:
        """Whether a record with so many others near it is; not private."""
        return others + 1 <= self.max_crowd

    def edits(self, others: int) -> int:
        """The fewest records to add or remove until the answer changes; not private."""
        crowd = others + 1
        found = self.max_crowd + 1 - crowd if crowd <= self.max_crowd else crowd - self.max_crowd
        return min(found, self.most_edits)

    def error(self, others: int) -> float:
        """The probability of a wrong label; not private."""
        return self._lies(self.edits(others))

    def sentence(self, value: tuple[bool, ...]) -> str:
        return (
            f"{said_to_be(value, 'new record', 'new records')}"
            f" anomalous among those at hand (at most {self.max_crowd} near it, itself"
            f" included); a label is wrong with a probability of at most {self._lies(1):.1%}, that"
            f" of a record with no other near it of at most {self.error(others=0):.2g}."
        )

    def table(self, value: tuple[bool, ...]) -> dict[str, list[Any]]:
        return labeled(self.columns, self.records, value)

    def value_to_json(self, value: tuple[bool, ...]) -> Any:
        return list(value)

    def value_from_json(self, data: Any) -> tuple[bool, ...]:
        return tuple(bool(label) for label in data)

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns: list[Categorical | Numeric] = [*domain.categorical()[:2], *domain.numeric()[:2]]
        if not columns:
            return ()
        numeric = [column for column in columns if isinstance(column, Numeric)]
        tolerances = tuple((one.name, float(f"{(one.high - one.low) / 10:.3g}")) for one in numeric)
        return (
            cls(
                columns=tuple(column.name for column in columns),
                records=tuple(tuple(_end(one, last=last) for one in columns) for last in (0, 1)),
                max_crowd=10,
                epsilon="0.5",
                max_distance=1 if len(columns) > 1 else 0,
                tolerances=tolerances,
            ),
        )

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

    def _apart(
        self, listed: list[NDArray[Any]], record: tuple[Entry, ...], stretch: float
    ) -> NDArray[np.int64]:
        """The summed weights of the columns in which each of the listed differs from the record."""
        weights, tolerances = dict(self._named(self.weights)), dict(self._named(self.tolerances))
        apart = np.zeros(len(listed[0]), np.int64)
        for name, column, entry in zip(self.columns, listed, record, strict=True):
            if column.dtype == object or isinstance(entry, str):
                differs = column != entry
            else:
                differs = np.abs(column - float(entry)) > stretch * tolerances.get(name, 0.0)
            apart += weights.get(name, 1) * differs
        return apart

    def _check_numbers(self, place: int) -> None:
        for record in self.records:
            if isinstance(record[place], str):
                rule = f"must have a number as {self.columns[place]}"
                raise InvalidParameter("records", rule, record[place], "Give a number.")

    def _lies(self, edits: int) -> float:
        """e^(-epsilon (edits - 1)) / (1 + e^epsilon), which is 0 where floats end."""
        epsilon = self.label_epsilon
        damped = float(min(epsilon * edits, Fraction(SMALLEST_LOG)))
        plain = float(min(epsilon, Fraction(SMALLEST_LOG)))
        return math.exp(-damped) / (1 + math.exp(-plain))


def _held(table: Table, name: str) -> NDArray[Any]:
    """A column of the table: numbers, or categories as they are declared."""
    column = table.domain[name]
    if isinstance(column, Categorical):
        values = np.array(column.values, dtype=object)
        return values[table.codes((name,))[:, 0]]
    return table.numbers((name,))[:, 0]


def _column(entries: tuple[Entry, ...]) -> NDArray[Any]:
    texts = any(isinstance(entry, str) for entry in entries)
    return np.array(entries, dtype=object if texts else np.float64)


def _records(rows: Any, width: int) -> tuple[tuple[Entry, ...], ...]:
    way_out = f"Give 1 to {MOST_RECORDS} rows of {width} values, one for each column."
    if not isinstance(rows, list | tuple) or not 1 <= len(rows) <= MOST_RECORDS:
        rule = f"must be 1 to {MOST_RECORDS} rows"
        raise InvalidParameter("records", rule, type(rows).__name__, way_out)
    found = []
    for row in rows:
        if not isinstance(row, list | tuple) or len(row) != width:
            raise InvalidParameter("records", f"must have {width} values each", row, way_out)
        if any(isinstance(one, bool) or not isinstance(one, str | int | float) for one in row):
            raise InvalidParameter("records", "must hold texts and numbers", row, way_out)
        found.append(tuple(_entry(one) for one in row))
    return tuple(found)


def _entry(value: Entry) -> Entry:
    """A value as a table would hold it."""
    if isinstance(value, float):
        return finite_number(value, "records")
    if isinstance(value, int) and not abs(value) < LARGEST_INTEGER:
        way_out = "Write it as a number with a point."
        raise InvalidParameter("records", "must have whole numbers of 64 bits", value, way_out)
    return value


def _tolerance(number: Any, name: str) -> float:
    found = finite_number(number, f"the tolerance of {name!r}")
    if found < 0:
        rule = "must be at least 0"
        raise InvalidParameter(f"the tolerance of {name!r}", rule, number, "Try 1.")
    return found


def _end(column: Categorical | Numeric, *, last: int) -> Entry:
    """A public value of a column, for examples: its first or its last one."""
    if isinstance(column, Categorical):
        return column.values[-last]
    return column.high if last else column.low
