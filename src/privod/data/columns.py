"""The types of columns, and how a value of each becomes a number.

A table holds two kinds of arrays: numbers, which distances and bins are made of, and codes, which
are places in a list. Numbers, dates (days or seconds) and ordered categories (ranks) are numbers;
other categories and truth values are codes. `number` and `shown` translate a public value in both
directions, so that questions, answers and pictures agree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, ClassVar, Literal
from zoneinfo import ZoneInfo

from privod.data.fineness import rounded
from privod.errors import InvalidParameter
from privod.texts import check_text

Category = str | int
UNIVERSE = 2.0**64
"""A range from minus to plus this, or wider, is one that nobody declared."""

OTHER = "(other)"  # the cell of what was not declared, where a category is open
ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")
SECONDS = {"day": 86400, "second": 1}
MOST_DIGITS, LONGEST = 1e4, 1e15  # in between a number is written out, without its fraction


@dataclass(frozen=True)
class Numeric:
    """A column of numbers with a public range; what lies outside is clipped to it.

    Parameters
    ----------
    name : str
        The column's name.
    low, high : float
        The range, low < high, both finite; like all numbers, multiples of 2^-500.
    fill : float, optional
        Stands in for a missing value; without it a row that misses the value is dropped.
    unit : str, optional
        What the numbers count, such as "kg"; shown beside the column's name.
    """

    type: ClassVar[str] = "number"

    name: str
    low: float
    high: float
    fill: float | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        for side in ("low", "high"):
            object.__setattr__(self, side, self._read(getattr(self, side), f"{side} of"))
        if self.unit is not None:
            check_text(self.unit, f"the unit of {self.name!r}")
        what, sides = f"the range of {self.name!r}", (self.shown(self.low), self.shown(self.high))
        if not self.low < self.high:
            way_out = "Declare a range that is known without looking at the data."
            raise InvalidParameter(what, "must have low < high", sides, way_out)
        if not math.isfinite(self.high - self.low):
            raise InvalidParameter(what, "is too wide", (self.low, self.high), "Narrow it.")
        if self.fill is not None:
            fill = self._read(self.fill, "fill of")
            if not self.low <= fill <= self.high:
                rule = f"must lie in [{sides[0]}, {sides[1]}]"
                way_out = "Choose a value in the range."
                raise InvalidParameter(f"fill of {self.name!r}", rule, self.shown(fill), way_out)
            object.__setattr__(self, "fill", fill)

    def number(self, value: Any) -> float:
        """The number that stands for a public value of this column."""
        return self._read(value, "a value of")

    def shown(self, number: float) -> str:
        """A number of this column for people."""
        whole = MOST_DIGITS <= abs(number) < LONGEST
        return f"{number:.0f}" if whole else f"{number:.4g}"

    @property
    def is_open(self) -> bool:
        """Whether nobody declared the range."""
        return self.low <= -UNIVERSE and self.high >= UNIVERSE

    def check_range(self) -> None:
        """Refuse a range that nobody declared, for what is cut or scaled by it."""
        if self.is_open:
            way_out = (
                "Ask private-bounds where the numbers lie; a histogram takes edges of its own. The"
                " owner declares a range in a version that continues this data set"
                " (`privod register NAME FILE --domain FILE --continues DATA`)."
            )
            raise InvalidParameter("columns", "must have declared ranges", self.name, way_out)

    def between(self, low: float, high: float) -> Numeric:
        """The same column with another range, and without a fill."""
        return Numeric(self.name, low, high, unit=self.unit)

    def to_json(self) -> dict[str, Any]:
        """The declaration as plain values."""
        data = {"name": self.name, "low": self.low, "high": self.high}
        return data | _given(fill=self.fill, unit=self.unit)

    def _read(self, value: Any, what: str) -> float:
        return _finite(value, f"{what} {self.name!r}")


@dataclass(frozen=True, init=False)
class Date(Numeric):
    """A column of dates with a public range, held as days or seconds since an origin.

    Cells are ISO texts (2024-03-31, 2024-03-31T08:30), dates and timestamps of Arrow, pandas or
    Python, or numbers that count steps since the origin. What is no date, such as 31 February, is
    missing.

    Parameters
    ----------
    low, high : str or date
        The range, such as "2015-01-01" and "2024-12-31"; what lies outside is clipped to it.
    fill : str or date, optional
        Stands in for a missing value; without it a row that misses the value is dropped.
    step : str
        day or second: dates are cut to it.
    origin : str
        The date that is number 0.
    day_first : bool
        Whether texts may be written 31.3.2024, 31/3/2024 or 31-3-2024 too.
    zone : str
        The time zone of the column, such as "Europe/Berlin". Timestamps that say their own zone are
        turned into it; others are taken as they are.
    """

    type: ClassVar[str] = "date"

    step: Literal["day", "second"] = "day"
    origin: str = "1970-01-01"
    day_first: bool = False
    zone: str = "UTC"

    def __init__(
        self,
        name: str,
        low: str | date | float,
        high: str | date | float,
        fill: str | date | float | None = None,
        *,
        step: Literal["day", "second"] = "day",
        origin: str = "1970-01-01",
        day_first: bool = False,
        zone: str = "UTC",
    ) -> None:
        given = {"name": name, "low": low, "high": high, "fill": fill, "unit": None}
        given |= {"step": step, "origin": origin, "day_first": day_first, "zone": zone}
        for field, value in given.items():
            object.__setattr__(self, field, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.step not in SECONDS:
            what = f"the step of {self.name!r}"
            raise InvalidParameter(what, "must be day or second", self.step, "Try 'day'.")
        if not isinstance(self.day_first, bool):
            what = f"day_first of {self.name!r}"
            raise InvalidParameter(what, "must be true or false", self.day_first, "Leave it out.")
        object.__setattr__(self, "origin", str(self.origin))
        _moment(self.origin, f"the origin of {self.name!r}")
        try:
            ZoneInfo(self.zone)
        except (ValueError, TypeError, OSError, KeyError):
            what, way_out = f"the zone of {self.name!r}", "Try 'Europe/Berlin', or leave it out."
            raise InvalidParameter(what, "must be a time zone", self.zone, way_out) from None
        super().__post_init__()

    @property
    def origin_seconds(self) -> int:
        """The origin, in seconds since 1970."""
        return int((_moment(self.origin, "origin") - datetime(1970, 1, 1)).total_seconds())

    def shown(self, number: float) -> str:
        """A date as it is written."""
        try:
            moment = _moment(self.origin, "origin") + timedelta(seconds=number * SECONDS[self.step])
        except OverflowError:
            return f"{number:.4g} {self.step}s since {self.origin}"
        words = moment.isoformat(" ", "seconds").removesuffix(" 00:00:00")
        return words[:10] if self.step == "day" else words

    def between(self, low: float, high: float) -> Date:
        """The same column with another range of whole steps, and without a fill."""
        own: dict[str, Any] = {"step": self.step, "origin": self.origin, "zone": self.zone}
        steps = math.floor(low), math.ceil(high)
        return Date(self.name, *steps, day_first=self.day_first, **own)

    def to_json(self) -> dict[str, Any]:
        shown = {"low": self.shown(self.low), "high": self.shown(self.high)}
        data: dict[str, Any] = {"name": self.name, "type": self.type, **shown}
        fill = None if self.fill is None else self.shown(self.fill)
        usual = {"step": "day", "origin": "1970-01-01", "day_first": False, "zone": "UTC"}
        own = {key: getattr(self, key) for key in usual if getattr(self, key) != usual[key]}
        return data | _given(fill=fill) | own

    def _read(self, value: Any, what: str) -> float:
        if not isinstance(value, str | date):
            return float(math.floor(_finite(value, f"{what} {self.name!r}")))
        moment = _moment(value, f"{what} {self.name!r}")
        if moment.tzinfo is not None:
            moment = moment.astimezone(ZoneInfo(self.zone)).replace(tzinfo=None)
        passed = moment - _moment(self.origin, "origin")
        return float(passed // timedelta(seconds=SECONDS[self.step]))


@dataclass(frozen=True, init=False)
class Ordinal(Numeric):
    """A column of ordered categories; they are as far apart as their ranks, which count from 0.

    Parameters
    ----------
    values : sequence of str or int
        Every possible value in its order, two at least; any other value counts as missing.
    fill : str or int, optional
        Stands in for a missing value; without it a row that misses the value is dropped.
    """

    type: ClassVar[str] = "ordinal"

    values: tuple[Category, ...] = ()

    def __init__(self, name: str, values: Sequence[Category], fill: Any = None) -> None:
        check_name(name)
        listed = _checked_values(values, name)
        if len(listed) < 2:
            what = f"the values of {name!r}"
            raise InvalidParameter(what, "must be at least two", listed, "List them in order.")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "values", listed)
        object.__setattr__(self, "low", 0.0)
        object.__setattr__(self, "high", float(len(listed) - 1))
        object.__setattr__(self, "unit", None)
        rank = None if fill is None else self._read(fill, "fill of")
        object.__setattr__(self, "fill", rank)

    @property
    def categories(self) -> Categorical:
        """The same column where only equality counts."""
        fill = None if self.fill is None else self.values[int(self.fill)]
        return Categorical(self.name, self.values, fill)

    def shown(self, number: float) -> str:
        """The value of a rank, or of the nearest one."""
        return str(self.values[min(max(round(number), 0), len(self.values) - 1)])

    def between(self, low: float, high: float) -> Ordinal:  # noqa: ARG002 - ranks are public
        """The same column: its ranks are public."""
        return Ordinal(self.name, self.values)

    def to_json(self) -> dict[str, Any]:
        fill = None if self.fill is None else self.values[int(self.fill)]
        data = {"name": self.name, "type": self.type, "values": list(self.values)}
        return data | _given(fill=fill)

    def _read(self, value: Any, what: str) -> float:
        return float(_place(value, self.values, f"{what} {self.name!r}"))


@dataclass(frozen=True)
class Categorical:
    """A column with a public list of values; any other value counts as missing, or as other.

    Parameters
    ----------
    values : sequence of str, int or bool
        Every possible value, not only those that occur; all of one type, numbers of 64 bits.
    fill : str or int, optional
        Stands in for a missing value; without it a row that misses the value is dropped.
    other : bool
        Whether values that are not listed are kept, as one more category `(other)`, the last of
        `values`. An empty cell is missing all the same.
    """

    type: ClassVar[str] = "category"

    name: str
    values: tuple[Category, ...]
    fill: Category | None = None
    other: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)
        listed = _checked_values(self.values, self.name)
        if not isinstance(self.other, bool) or (self.other and isinstance(listed[0], bool)):
            what, rule = f"other of {self.name!r}", "must be true or false, and false for booleans"
            raise InvalidParameter(what, rule, self.other, "Leave it out.")
        object.__setattr__(self, "values", (*listed, OTHER) if self.other else listed)
        if self.fill is not None:
            _place(self.fill, self.values, f"fill of {self.name!r}")

    @property
    def declared(self) -> tuple[Category, ...]:
        """The values that were listed."""
        return self.values[:-1] if self.other else self.values

    def number(self, value: Any) -> float:
        """The place of a public value in the list."""
        if self.other and value not in self.values and isinstance(value, str | int):
            return float(len(self.values) - 1)
        return float(_place(value, self.values, f"a value of {self.name!r}"))

    def shown(self, number: float) -> str:
        """The value at a place of the list."""
        return _written(self.values[int(number)])

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"name": self.name, "values": list(self.declared)}
        return data | _given(fill=self.fill, other=self.other or None)


@dataclass(frozen=True, init=False)
class Boolean(Categorical):
    """A column of truth values: true or false, yes or no, t or f, y or n, 1 or 0, in any case.

    Parameters
    ----------
    fill : bool, optional
        Stands in for a missing value; without it a row that misses the value is dropped.
    """

    type: ClassVar[str] = "boolean"

    def __init__(self, name: str, fill: bool | None = None) -> None:
        Categorical.__init__(self, name, (False, True), fill)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "type": self.type} | _given(fill=self.fill)


Column = Numeric | Categorical
TYPES: dict[str, Any] = {kind.type: kind for kind in (Numeric, Date, Ordinal, Categorical, Boolean)}


def column_from_json(entry: Mapping[str, Any]) -> Column:
    """Read one column of a declaration, as its `to_json` writes it."""
    form = 'Write {"name": "age", "low": 0, "high": 120}, or draft a domain: `privod draft FILE`.'
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
        raise InvalidParameter("each column", "must be an object with a name", entry, form)
    given = {key: value for key, value in entry.items() if key != "type"}
    given.pop("note", None)  # what a draft says to whoever fills it in
    kind = entry.get("type", "category" if "values" in given else "number")
    what = f"the type of {given['name']!r}"
    if kind not in TYPES:
        raise InvalidParameter(what, f"must be one of {', '.join(TYPES)}", kind, form)
    if kind == "number" and given.get("low") == given.get("high") == "unknown":
        given |= {"low": -UNIVERSE, "high": UNIVERSE}
    unknown = [key for key, value in given.items() if value == "unknown"]
    if unknown:
        raise InvalidParameter(
            f"{unknown[0]} of {given['name']!r}",
            "must be declared",
            "unknown",
            "Write what is known without looking at the data, or leave the column out. Only numbers"
            " may have an unknown range: private-bounds and the detector find one for a part of the"
            " budget.",
        )
    try:
        column: Column = TYPES[kind](**given)
    except TypeError:
        numbers = "low and high, or 'unknown' for both"
        needs = {"number": numbers, "date": "low and high", "boolean": "nothing more"}
        rule = f"must have a name and {needs.get(kind, 'values')}"
        raise InvalidParameter(f"the column {given['name']!r}", rule, sorted(entry), form) from None
    return column


def check_name(name: object) -> None:
    """Refuse what cannot name a column."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidParameter("a column's name", "must be a text", name, "Give it a name.")


def _given(**entries: Any) -> dict[str, Any]:
    return {key: value for key, value in entries.items() if value is not None}


def _checked_values(values: Any, name: str) -> tuple[Category, ...]:
    what = f"the values of {name!r}"
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidParameter(what, "must be a list", values, "Write ('a', 'b').")
    listed = tuple(values)
    kinds = {type(value) for value in listed}
    if len(kinds) != 1 or not kinds <= {str, int, bool}:
        way_out = "List them, such as ('yes', 'no') or (1, 2, 3)."
        rule = "must be texts, or whole numbers, or truth values"
        raise InvalidParameter(what, rule, listed, way_out)
    for value in listed:
        if isinstance(value, str):
            check_text(value, what)
    if any(isinstance(value, int) and not abs(value) < 2**63 for value in listed):
        way_out = "Write longer ones as texts."
        raise InvalidParameter(what, "must have at most 64 bits", listed, way_out)
    if len(set(listed)) != len(listed):
        raise InvalidParameter(what, "must differ", listed, "Name each one once.")
    if OTHER in listed:
        raise InvalidParameter(what, f"must not hold {OTHER!r}", listed, "Write other=True.")
    return listed


def _place(value: Any, values: tuple[Category, ...], what: str) -> int:
    for place, one in enumerate(values):
        if one == value and isinstance(one, bool) == isinstance(value, bool):
            return place
    shown = ", ".join(map(_written, values[:20]))
    raise InvalidParameter(what, "must be a declared value", value, f"Its values are {shown}.")


def _written(value: Category) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _moment(value: str | date, what: str) -> datetime:
    """A date as people write it, at midnight if no time is said."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    try:
        if isinstance(value, str) and ISO.fullmatch(value):
            return datetime.fromisoformat(value)
    except ValueError:
        pass
    way_out = "Write a day that exists, such as 2024-03-31 or 2024-03-31 08:30."
    raise InvalidParameter(what, "must be a date", value, way_out)


def _finite(value: object, what: str) -> float:
    if not isinstance(value, bool) and isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:  # an integer beyond all floats
            number = math.inf
        if math.isfinite(number):
            return float(rounded(number))
    raise InvalidParameter(what, "must be a finite number", value, "Write a number such as 60.")
