"""Everything about a data set that is public beforehand: columns, ranges, categories, the unit.

Nothing here is ever read off the rows. Whoever cannot declare a range buys one with budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from privod.data.columns import Categorical, Column, Numeric, Ordinal, column_from_json
from privod.errors import InvalidParameter, NotFound
from privod.texts import LONGEST_NAME, check_text, did_you_mean, named

MOST_COLUMNS = 100_000


@dataclass(frozen=True)
class Domain:
    """The public frame that private rows are put into.

    Parameters
    ----------
    columns : sequence of Numeric, Date, Ordinal, Categorical or Boolean
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
        found = self._by_name.get(name)
        if found is None:
            raise NotFound(
                f"There is no column {name!r}.{did_you_mean(name, self.names)} The columns are"
                f" {named(self.names)}."
            )
        return found

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def known(self, names: Iterable[str], parameter: str = "columns") -> None:
        """Refuse names that are no columns, and propose the nearest."""
        for name in names:
            if name not in self._by_name:
                way_out = f"{did_you_mean(name, self.names)} The columns are {named(self.names)}."
                raise InvalidParameter(parameter, "must be declared", name, way_out.strip())

    def called(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names of columns for people: with a title before each and a unit after it, if it has."""
        known = self.titles
        units = {one.name: f" [{one.unit}]" for one in self.numeric() if one.unit is not None}
        return tuple(
            (f"{known[name]} ({name})" if name in known else name) + units.get(name, "")
            for name in names
        )

    def numeric(self, names: Sequence[str] = ()) -> tuple[Numeric, ...]:
        """The numeric columns of these names, all of them if none are named."""
        columns = [column for column in self.columns if isinstance(column, Numeric)]
        return _chosen(names, columns, "numeric")

    def categorical(self, names: Sequence[str] = ()) -> tuple[Categorical, ...]:
        """The categorical columns of these names, all of them if none are named.

        Ordered categories are numbers, but may be named here: then only their equality counts.
        """
        ordered = [one.categories for one in self.columns if isinstance(one, Ordinal)]
        columns = [column for column in self.columns if isinstance(column, Categorical)]
        return _chosen(names, [*columns, *ordered] if names else columns, "categorical")

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
        form = 'Write {"columns": [{"name": "age", "low": 0, "high": 120}, ...]}.'
        if not isinstance(data, dict) or not isinstance(data.get("columns"), list):
            entries = sorted(data) if isinstance(data, dict) else type(data)
            raise InvalidParameter("domain", "must have a list of columns", entries, form)
        unknown = sorted(set(data) - {"columns", "title", "person", "max_rows_per_person"})
        if unknown:
            raise InvalidParameter("domain", "has unknown entries", unknown, form)
        if "max_rows_per_person" in data and data.get("person") is None:
            way_out = "Name it, as in 'person': 'patient_id', or leave the cap out."
            raise InvalidParameter("max_rows_per_person", "needs a person column", None, way_out)
        titles: dict[str, Any] = {}
        columns = tuple(_column_of(entry, titles) for entry in data["columns"])
        rows = data.get("max_rows_per_person", 1)
        return cls(columns, data.get("person"), rows, data.get("title"), titles)


def _column_of(entry: Any, titles: dict[str, Any]) -> Column:
    """One column of a declaration; its title, if it has one, goes to the others."""
    title = entry.get("title") if isinstance(entry, Mapping) else None
    column = column_from_json(
        entry if title is None else {key: value for key, value in entry.items() if key != "title"}
    )
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
            way_out = f"{did_you_mean(name, known)} The {kind} columns are {named(known)}."
            raise InvalidParameter("columns", f"must be {kind} columns", name, way_out.strip())
    if len(set(names)) != len(names):
        raise InvalidParameter("columns", "must differ", tuple(names), "Name each one once.")
    return tuple(known[name] for name in names)


def _check_title(title: object, what: str) -> None:
    readable = isinstance(title, str) and title.strip() and title.isprintable()
    if not readable or len(str(title)) > LONGEST_NAME:
        rule = f"must be a printable text of 1 to {LONGEST_NAME} characters"
        shown = ascii(title)[:LONGEST_NAME]
        raise InvalidParameter(what, rule, shown, "Write a few plain words, or leave it out.")
