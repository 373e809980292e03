"""Everything about a data set that is public beforehand: columns, ranges, categories, the unit.

Nothing here is ever read off the rows. Whoever cannot declare a range buys one with budget.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from privod.data.fineness import rounded
from privod.errors import InvalidParameter, NotFound
from privod.texts import LONGEST_NAME, check_text

__all__ = ["Categorical", "Column", "Domain", "Numeric"]

MOST_COLUMNS = 100_000
Category = str | int


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
    """

    name: str
    low: float
    high: float
    fill: float | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        for side in ("low", "high"):
            object.__setattr__(self, side, _finite(getattr(self, side), f"{side} of {self.name!r}"))
        if not self.low < self.high:
            what = f"the range of {self.name!r}"
            way_out = "Declare a range that is known without looking at the data."
            raise InvalidParameter(what, "must have low < high", (self.low, self.high), way_out)
        if not math.isfinite(self.high - self.low):
            what = f"the range of {self.name!r}"
            raise InvalidParameter(what, "is too wide", (self.low, self.high), "Narrow it.")
        if self.fill is not None:
            fill = _finite(self.fill, f"fill of {self.name!r}")
            if not self.low <= fill <= self.high:
                what = f"fill of {self.name!r}"
                rule = f"must lie in [{self.low:g}, {self.high:g}]"
                raise InvalidParameter(what, rule, fill, "Choose a value in the range.")
            object.__setattr__(self, "fill", fill)

    def to_json(self) -> dict[str, Any]:
        """The declaration as plain values."""
        data: dict[str, Any] = {"name": self.name, "low": self.low, "high": self.high}
        return data if self.fill is None else {**data, "fill": self.fill}


@dataclass(frozen=True)
class Categorical:
    """A column with a public list of values; any other value counts as missing.

    Parameters
    ----------
    name : str
        The column's name.
    values : sequence of str or int
        Every possible value, not only those that occur; all of one type, numbers of 64 bits.
    fill : str or int, optional
        Stands in for a missing value; without it a row that misses the value is dropped.
    """

    name: str
    values: tuple[Category, ...]
    fill: Category | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        what = f"the values of {self.name!r}"
        if isinstance(self.values, str):
            raise InvalidParameter(what, "must be a list", self.values, "Write ('a', 'b').")
        object.__setattr__(self, "values", tuple(self.values))
        kinds = {type(value) for value in self.values}
        if not self.values or not (kinds == {str} or kinds == {int}):
            way_out = "List them, such as ('yes', 'no') or (1, 2, 3)."
            raise InvalidParameter(what, "must be texts, or whole numbers", self.values, way_out)
        for value in self.values:
            if isinstance(value, str):
                check_text(value, what)
        if any(isinstance(value, int) and not abs(value) < 2**63 for value in self.values):
            way_out = "Write longer ones as texts."
            raise InvalidParameter(what, "must have at most 64 bits", self.values, way_out)
        if len(set(self.values)) != len(self.values):
            raise InvalidParameter(what, "must differ", self.values, "Name each one once.")
        if self.fill is not None and self.fill not in self.values:
            way_out = "Choose one of the values."
            raise InvalidParameter(f"fill of {self.name!r}", "must be a value", self.fill, way_out)

    def to_json(self) -> dict[str, Any]:
        """The declaration as plain values."""
        data: dict[str, Any] = {"name": self.name, "values": list(self.values)}
        return data if self.fill is None else {**data, "fill": self.fill}


Column = Numeric | Categorical


@dataclass(frozen=True)
class Domain:
    """The public frame that private rows are put into.

    Parameters
    ----------
    columns : sequence of Numeric or Categorical
        The columns that questions may use; other columns of a file are ignored.
    person : str, optional
        A column that says whose row it is. The unit of privacy is then a person, not a row.
    max_rows_per_person : int
        Of each person at most this many rows, the first ones, are kept, before anything is counted.
    title : str, optional
        What people call this data, such as "Patients of the heart ward".
    titles : mapping of str to str
        What people call a column, by its name, such as ``{"age": "Age at admission"}``. Titles are
        shown beside names and never asked for: domains that differ in them alone are equal.
    """

    columns: tuple[Column, ...]
    person: str | None = None
    max_rows_per_person: int = 1
    title: str | None = field(default=None, compare=False)
    titles: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        if not 1 <= len(self.columns) <= MOST_COLUMNS:
            rule = f"must number between 1 and {MOST_COLUMNS}"
            raise InvalidParameter("columns", rule, len(self.columns), "Declare the columns.")
        names = Counter(column.name for column in self.columns)
        twice = sorted(name for name, times in names.items() if times > 1)
        if twice:
            raise InvalidParameter("columns", "must have different names", twice, "Rename one.")
        if self.person is not None:
            check_text(self.person, "person")
        if self.person is not None and self.person in names:
            way_out = "Ask about other columns, or leave the unit of privacy a row."
            raise InvalidParameter("person", "must not be a column itself", self.person, way_out)
        rows = self.max_rows_per_person
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise InvalidParameter("max_rows_per_person", "must be at least 1", rows, "Try 1.")
        if self.person is None and rows != 1:
            way_out = "Name the person column, or leave the cap out."
            raise InvalidParameter("max_rows_per_person", "needs a person column", rows, way_out)
        if self.title is not None:
            _check_title(self.title, "title")
        object.__setattr__(self, "titles", _titles_for(names, self.titles))

    @property
    def untitled(self) -> Domain:
        """What decides answers, without what people call it."""
        return replace(self, title=None, titles={})

    @property
    def names(self) -> tuple[str, ...]:
        """Every column's name, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def numeric_names(self) -> tuple[str, ...]:
        """The numeric columns' names, in order."""
        return tuple(column.name for column in self.numeric())

    @property
    def categorical_names(self) -> tuple[str, ...]:
        """The categorical columns' names, in order."""
        return tuple(column.name for column in self.categorical())

    @property
    def keeps_every_row(self) -> bool:
        """Whether a table has as many rows as its data, whatever these say."""
        return self.person is None and all(column.fill is not None for column in self.columns)

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise NotFound(f"There is no column {name!r}. The columns are {_list(self.names)}.")

    def called(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names of columns for people: with a title, if it has one, before each."""
        known = self.titles
        return tuple(f"{known[name]} ({name})" if name in known else name for name in names)

    def numeric(self, names: Sequence[str] = ()) -> tuple[Numeric, ...]:
        """The numeric columns of these names, all of them if none are named."""
        columns = [column for column in self.columns if isinstance(column, Numeric)]
        return _chosen(names, columns, "numeric")

    def categorical(self, names: Sequence[str] = ()) -> tuple[Categorical, ...]:
        """The categorical columns of these names, all of them if none are named."""
        columns = [column for column in self.columns if isinstance(column, Categorical)]
        return _chosen(names, columns, "categorical")

    @property
    def unit(self) -> str:
        """Who is one in a promise: a row, or a person and with how many of them."""
        if self.person is None:
            return "each row"
        rows = "1 row" if self.max_rows_per_person == 1 else f"{self.max_rows_per_person} rows"
        return f"each person by {self.person}, at most {rows}"

    def to_json(self) -> dict[str, Any]:
        """The declaration as plain values."""
        data: dict[str, Any] = {"columns": [self._column_json(each) for each in self.columns]}
        if self.title is not None:
            data["title"] = self.title
        if self.person is not None:
            data |= {"person": self.person, "max_rows_per_person": self.max_rows_per_person}
        return data

    def _column_json(self, column: Column) -> dict[str, Any]:
        data = column.to_json()
        return data | {"title": self.titles[column.name]} if column.name in self.titles else data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Domain:
        """Read a declaration, such as the one `to_json` writes."""
        form = "Write {'columns': [{'name': 'age', 'low': 0, 'high': 120}, ...]}."
        if not isinstance(data, dict) or not isinstance(data.get("columns"), list):
            raise InvalidParameter("domain", "must have a list of columns", type(data), form)
        unknown = sorted(set(data) - {"columns", "title", "person", "max_rows_per_person"})
        if unknown:
            raise InvalidParameter("domain", "has unknown entries", unknown, form)
        titles: dict[str, Any] = {}
        try:
            columns = tuple(_column_of(entry, titles) for entry in data["columns"])
        except TypeError:
            rule = "must have a name and either low and high, or values"
            raise InvalidParameter("each column", rule, data["columns"], form) from None
        rows = data.get("max_rows_per_person", 1)
        return cls(columns, data.get("person"), rows, data.get("title"), titles)


def _column_of(entry: Any, titles: dict[str, Any]) -> Column:
    """One column of a declaration; its title, if it has one, goes to the others."""
    given = {**entry}
    title = given.pop("title", None)
    if "values" in given:
        given["values"] = tuple(given["values"])
    column = Categorical(**given) if "values" in given else Numeric(**given)
    if title is not None:
        titles[column.name] = title
    return column


def _titles_for(names: Mapping[str, int], titles: object) -> dict[str, str]:
    """Titles of columns, checked: each tells its column from all others."""
    if not isinstance(titles, Mapping):
        way_out = "Write {'age': 'Age at admission'}."
        raise InvalidParameter("titles", "must be by column", type(titles), way_out)
    for name, title in titles.items():
        if name not in names:
            raise InvalidParameter("titles", "must be of columns", name, "Leave it out.")
        _check_title(title, f"the title of {name!r}")
        if title in names and title != name:
            way_out = "Choose another title."
            raise InvalidParameter(f"the title of {name!r}", "names another column", title, way_out)
    twice = sorted(title for title, times in Counter(titles.values()).items() if times > 1)
    if twice:
        raise InvalidParameter("titles", "must differ", twice, "Change one.")
    return {str(name): title for name, title in titles.items()}


Chosen = TypeVar("Chosen", Numeric, Categorical)


def _chosen(names: Sequence[str], columns: list[Chosen], kind: str) -> tuple[Chosen, ...]:
    if not names:
        return tuple(columns)
    known = {column.name: column for column in columns}
    for name in names:
        if name not in known:
            way_out = f"The {kind} columns are {_list(tuple(known))}."
            raise InvalidParameter("columns", f"must be {kind} columns", name, way_out)
    if len(set(names)) != len(names):
        raise InvalidParameter("columns", "must differ", tuple(names), "Name each one once.")
    return tuple(known[name] for name in names)


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:20])
    return f"{shown} and {len(names) - 20} more" if len(names) > 20 else shown or "none"


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidParameter("a column's name", "must be a text", name, "Give it a name.")


def _check_title(title: object, what: str) -> None:
    readable = isinstance(title, str) and title.strip() and title.isprintable()
    if not readable or len(str(title)) > LONGEST_NAME:
        rule = f"must be a printable text of 1 to {LONGEST_NAME} characters"
        shown = ascii(title)[:LONGEST_NAME]
        raise InvalidParameter(what, rule, shown, "Write a few plain words, or leave it out.")


def _finite(value: object, what: str) -> float:
    if not isinstance(value, bool) and isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:  # an integer beyond all floats
            number = math.inf
        if math.isfinite(number):
            return float(rounded(number))
    raise InvalidParameter(what, "must be a finite number", value, "Declare a number.")
