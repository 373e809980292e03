"""Checks of parameter values that several questions share.

Each reads what was given (a text where JSON has no better, a list for a tuple) and returns what is
stored, or raises `InvalidParameter`; nothing here looks at rows.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, TypeVar

from privod.data import Domain, Numeric
from privod.data.fineness import FINEST, UNTOUCHED, rounded
from privod.errors import InvalidData, InvalidParameter
from privod.outliers.crowds.anomalies import protected_crowd
from privod.privacy import AddRemove, Adjacency, InCrowd, Number, Replace, adjacency_from_json
from privod.privacy.loss import as_float

Described = TypeVar("Described")

LARGEST_COUNT = 10**15  # no count comes near it, and sums of a few still fit in 64 bits
MOST_AXES = 200  # columns that a distance is taken over
LARGEST = sys.float_info.max
LARGEST_RADIUS = 1e150  # its square still is a float
SMALLEST_RADIUS = FINEST  # so is the square of this one; nearer records are equal
MOST_RECORDS = 100_000
USUAL_NANOSECONDS = 700  # to find the crowd of a made-up record, for each column
MOST_NUMBERS = 300_000  # of all records asked about, so that pricing them takes seconds at most


def pairs_work(records: int, n_columns: int) -> int:
    """About how many nanoseconds it takes to compare every record with every other, at worst."""
    return records * records * (n_columns + 2) // 8


def usual_pairs_work(records: int, n_columns: int) -> int:
    """The same on records as usual, most of which lie far apart (benchmarks/usual_times.py)."""
    return min(USUAL_NANOSECONDS * records * n_columns, pairs_work(records, n_columns))


class ExactNumber:
    """A field of a frozen dataclass that is given as any number and stored as an exact fraction."""

    def __init__(
        self, read: Callable[[Number, str], Fraction], default: Fraction | None = None
    ) -> None:
        self._read = read
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Fraction:
        if instance is not None:
            number: Fraction = vars(instance)[self._name]
            return number
        if self._default is None:  # so a dataclass learns that the field has no default
            raise AttributeError(self._name)
        return self._default

    def __set__(self, instance: object, value: Number) -> None:
        vars(instance)[self._name] = self._read(value, self._name)


def whole_number(value: Any, name: str, at_least: int, at_most: int | None = None) -> int:
    """Read a whole number that has a lower limit, and perhaps an upper one."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidParameter(name, "must be a whole number", value, f"Try {max(at_least, 10)}.")
    if value < at_least:
        way_out = f"Try {max(at_least, 10)}."
        raise InvalidParameter(name, f"must be at least {at_least}", value, way_out)
    if at_most is not None and value > at_most:
        raise InvalidParameter(name, f"must be at most {at_most}", value, f"Try {at_most}.")
    return value


def one_of(value: Any, name: str, known: Iterable[str]) -> str:
    """Read one of some texts."""
    known = tuple(known)
    if value not in known:
        way_out = f"{known[0]} is the usual one."
        raise InvalidParameter(name, f"must be one of {', '.join(known)}", value, way_out)
    return str(value)


def column_names(value: Any) -> tuple[str, ...]:
    """Read the names of one or more columns, given as a text or a sequence of texts."""
    names = (value,) if isinstance(value, str) else value
    way_out = "Name one or more columns, such as ('age', 'weight')."
    if not isinstance(names, list | tuple) or not names:
        raise InvalidParameter("columns", "must name a column", value, way_out)
    if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise InvalidParameter("columns", "must be different names", value, way_out)
    return tuple(names)


def dp_adjacency(value: Any) -> Adjacency:
    """Read AddRemove or Replace, given as such or by name."""
    if isinstance(value, str):
        value = adjacency_from_json({"name": value})
    if value not in (AddRemove(), Replace()):
        rule = "must be AddRemove() or Replace()"
        raise InvalidParameter("adjacency", rule, value, "AddRemove() is the usual one.")
    return value  # type: ignore[no-any-return]


def crowd_adjacency(
    radius: float, columns: tuple[str, ...], max_crowd: int, edit_margin: int | None
) -> Adjacency:
    """Who is protected: everyone in a crowd of max_crowd + 1 - edit_margin, or everyone."""
    crowd = 1 if edit_margin is None else protected_crowd(max_crowd, edit_margin)
    return AddRemove() if crowd <= 1 else InCrowd(radius, columns, crowd)


def numeric_columns(domain: Domain, columns: tuple[str, ...]) -> tuple[str, ...]:
    """The named columns, or all numeric ones; an error unless they are numeric columns."""
    chosen = tuple(column.name for column in domain.numeric(columns))
    if not 1 <= len(chosen) <= MOST_AXES:
        rule = f"must be 1 to {MOST_AXES} numeric columns"
        raise InvalidParameter("columns", rule, len(chosen), "Name some of them.")
    return chosen


def finite_number(value: Any, name: str = "value") -> float:
    """A number as a table would hold it."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise InvalidParameter(name, "must be a finite number", value, "Try 1.5.")
    return float(rounded(value))


def checked_radius(value: Any, name: str = "radius") -> float:
    """Read a radius: 0, for equal records, or a number whose square is not rounded away."""
    number = as_float(value, name)
    if number < 0:
        raise InvalidParameter(name, "must be at least 0", value, "Try 1.")
    if 0 < number < SMALLEST_RADIUS:
        rule = "must be 0 or at least 2^-500"
        raise InvalidParameter(name, rule, value, "Try 0, for equal records.")
    if number > LARGEST_RADIUS:
        raise InvalidParameter(name, "must be at most 1e150", value, "Try 1.")
    return number


def typical_radius(domain: Domain, columns: tuple[str, ...]) -> float:
    """A twentieth of the columns' root-mean-square range, for examples."""
    limits = [domain[column] for column in columns]
    ranges = [c.high - c.low for c in limits if isinstance(c, Numeric)]
    widest = max(ranges)  # taken out, so that no square is too large or too small
    mean = widest * math.sqrt(sum((width / widest) ** 2 for width in ranges) / len(ranges))
    return float(f"{min(max(mean / 20, 2 * SMALLEST_RADIUS), LARGEST_RADIUS):.3g}")


def checked_records(value: Any, width: int) -> tuple[tuple[float, ...], ...]:
    """Read records of so many numbers each."""
    way_out = f"Give at least one record of {width} numbers."
    if not isinstance(value, list | tuple) or not value:
        raise InvalidParameter("records", "must hold a record", type(value).__name__, way_out)
    if len(value) > MOST_RECORDS:
        rule = f"must be at most {MOST_RECORDS}"
        raise InvalidParameter("records", rule, len(value), "Ask about fewer at a time.")
    if len(value) * width > MOST_NUMBERS:
        rule = f"must be at most {MOST_NUMBERS} numbers together"
        raise InvalidParameter("records", rule, len(value) * width, "Ask about fewer at a time.")
    found = []
    for row in value:
        entries = tuple(row) if isinstance(row, list | tuple) else (row,)
        if len(entries) != width:
            rule = f"must have {width} values each, one for each column"
            raise InvalidParameter("records", rule, len(entries), way_out)
        found.append(tuple(_number(entry) for entry in entries))
    return tuple(found)


def _number(entry: Any) -> float:
    """Read a number as a table would."""
    number = as_float(entry, "records")
    return number if abs(number) >= UNTOUCHED else float(rounded(number))


def checked_description(
    text: object, name: str, of_what: str, read: Callable[[Any], Described]
) -> Described:
    """Read what describes a part of a release, as the release writes it, wherever it comes from."""
    if isinstance(text, str):
        try:
            return read(json.loads(text))
        except InvalidParameter as error:
            if error.parameter == name:  # it says what is accepted
                raise
        except Exception:  # noqa: S110 - whatever it is, it is no description
            pass
    rule, way_out = f"must describe {of_what} of a release", f"Take its `{name}.text`."
    raise InvalidParameter(name, rule, type(text).__name__, way_out)


def checked_truth(value: Any) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise InvalidData("Whether it was seeded must be true or false.")
    return value
