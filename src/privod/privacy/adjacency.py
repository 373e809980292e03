"""Adjacency of data sets: the relation under which a guarantee is made.

Adjacencies nest. A pair of a narrow adjacency can be reached in a number of steps of a wider one,
so a loss promised under the wide one holds, times that number, under the narrow one; never the
reverse.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from ..errors import InvalidParameter
from ..texts import check_text
from .loss import as_float

MOST = 2**53  # records: no data set has more, and every sum of a few such numbers fits 64 bits


@dataclass(frozen=True)
class Adjacency(ABC):
    """A symmetric relation between data sets."""

    name: ClassVar[str]
    stretches_to_persons: ClassVar[bool] = False
    """Whether a loss towards a record bounds one towards a person with several [Guarantee]."""

    @abstractmethod
    def steps_of(self, wider: Adjacency) -> int | None:
        """How many steps of `wider` reach across any pair of this one; None if none surely do."""

    @property
    @abstractmethod
    def protected(self) -> str:
        """Who is protected, as a sentence without its period."""

    @property
    @abstractmethod
    def gives_up(self) -> str:
        """What an owner gives up by promising no more than this, as a sentence; "" if nothing."""

    def to_json(self) -> dict[str, Any]:
        """The name and the parameters."""
        return {"name": self.name, **asdict(self)}


@dataclass(frozen=True)
class AddRemove(Adjacency):
    """One record more or less; the number of records is private."""

    name: ClassVar[str] = "add-remove"
    stretches_to_persons: ClassVar[bool] = True
    protected = "Every record is protected, including whether it is in the data at all"
    gives_up = ""

    def steps_of(self, wider: Adjacency) -> int | None:
        return 1 if wider == self or (isinstance(wider, InCrowd) and wider.crowd <= 1) else None


@dataclass(frozen=True)
class Replace(Adjacency):
    """One record changed; the number of records is public."""

    name: ClassVar[str] = "replace"
    protected = "What every record says is protected, but not how many records there are"
    gives_up = (
        "The number of records becomes public, so whether a record is there is not protected."
    )

    def steps_of(self, wider: Adjacency) -> int | None:
        if wider == self:
            return 1
        remove_then_add = AddRemove().steps_of(wider)
        return None if remove_then_add is None else 2 * remove_then_add


class CrowdAdjacency(Adjacency):
    """One record more or less that has a crowd of at least so many in one of the two data sets."""

    columns: tuple[str, ...]
    crowd: int

    @abstractmethod
    def _near(self, side: str = "either", joined: str = ", ") -> str:
        """Which records make up the crowd of a record, in words."""

    @property
    def protected(self) -> str:
        return f"Every record with at least {self.crowd} records {self._near()} is protected"

    @property
    def gives_up(self) -> str:
        if self.crowd <= 1:
            return ""
        return (
            f"A record with fewer than {self.crowd} records {self._near('one', ' or ')} is not"
            " protected: an answer may tell exactly whether it is in the data."
        )


@dataclass(frozen=True)
class InCrowd(CrowdAdjacency):
    """One record more or less that stands in a crowd in one of the two data sets [Asif 2020].

    Two data sets are adjacent when they differ in one copy of a record that has, in one of them, at
    least `crowd` records within `radius` (itself included; a closed Euclidean ball over the numeric
    `columns`). The smaller `crowd`, the more records are protected; 1 protects every record.
    """

    name: ClassVar[str] = "in-crowd"
    radius: float
    columns: tuple[str, ...]
    crowd: int

    def __post_init__(self) -> None:
        radius = as_float(self.radius, "radius")
        if radius < 0:
            raise InvalidParameter("radius", "must be at least 0", self.radius, "Try 1.")
        object.__setattr__(self, "radius", radius)
        object.__setattr__(self, "columns", _column_names(self.columns))
        _whole_from(1, self.crowd, "crowd")

    def steps_of(self, wider: Adjacency) -> int | None:
        if isinstance(wider, AddRemove):
            return 1
        if not isinstance(wider, InCrowd):
            return None
        # Distance over fewer columns is shorter, so a crowd over ours is one over theirs too.
        nested = (
            wider.radius >= self.radius
            and wider.crowd <= self.crowd
            and set(wider.columns) <= set(self.columns)
        )
        return 1 if nested or wider.crowd <= 1 else None

    def _near(self, *_: str) -> str:
        near = f"within {self.radius:g} of it over" if self.radius else "of the same"
        return f"{near} {', '.join(self.columns)}, itself included,"


@dataclass(frozen=True)
class InAlikeCrowd(CrowdAdjacency):
    """One record more or less that has a crowd of records alike it in one of the two data sets.

    Two records are alike when the weights of the columns in which they differ sum up to at most
    `max_distance`; numbers differ when they are farther apart than the tolerance of their column,
    categories when they are not equal [Asif 2020, for records with categories]. `tolerances` name
    the columns where it is not 0, `weights` those where it is not 1. Protected is a record that
    `crowd` records, itself included, at least 2, are alike.
    """

    name: ClassVar[str] = "in-alike-crowd"
    columns: tuple[str, ...]
    crowd: int
    max_distance: int = 0
    tolerances: tuple[tuple[str, float], ...] = ()
    weights: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", _column_names(self.columns))
        _whole_from(2, self.crowd, "crowd")
        _whole_from(0, self.max_distance, "max_distance")
        tolerances = _named(self.tolerances, self.columns, "tolerances")
        tolerances = [(name, as_float(number, "tolerances")) for name, number in tolerances]
        for _, number in tolerances:
            if number < 0:
                raise InvalidParameter("tolerances", "must be at least 0", number, "Try 1.")
        weights = _named(self.weights, self.columns, "weights")
        for _, weight in weights:
            _whole_from(1, weight, "weights")
        object.__setattr__(self, "tolerances", tuple(one for one in tolerances if one[1]))
        object.__setattr__(self, "weights", tuple(one for one in weights if one[1] != 1))

    def steps_of(self, wider: Adjacency) -> int | None:
        if isinstance(wider, AddRemove):
            return 1
        if isinstance(wider, InCrowd) and wider.crowd <= 1:
            return 1
        if not isinstance(wider, InAlikeCrowd):
            return None
        # Fewer columns, larger tolerances, smaller weights: who is alike by ours is by theirs too.
        ours, theirs = (dict(one.tolerances) for one in (self, wider))
        heavy, light = (dict(one.weights) for one in (self, wider))
        nested = (
            wider.crowd <= self.crowd
            and wider.max_distance >= self.max_distance
            and set(wider.columns) <= set(self.columns)
            and all(theirs.get(name, 0.0) >= ours.get(name, 0.0) for name in wider.columns)
            and all(light.get(name, 1) <= heavy.get(name, 1) for name in wider.columns)
        )
        return 1 if nested else None

    def _near(self, *_: str) -> str:
        tolerances, weights = dict(self.tolerances), dict(self.weights)
        listed = []
        for name in self.columns:
            notes = [f"within {tolerances[name]:g}"] if name in tolerances else []
            notes += [f"weight {weights[name]}"] if name in weights else []
            listed.append(f"{name} ({', '.join(notes)})" if notes else name)
        differ = f", up to differences of weight {self.max_distance}" if self.max_distance else ""
        return f"alike it in {', '.join(listed)}{differ}, itself included,"


@dataclass(frozen=True)
class BetweenTails(CrowdAdjacency):
    """One record more or less that is far from the ends of every column in one of the two.

    Two data sets are adjacent when they differ in one record that has, in one of them, at least
    `crowd` (at least 2) records at its value or beyond on either side of every numeric column,
    itself included. The smaller `crowd`, the more records are protected.
    """

    name: ClassVar[str] = "between-tails"
    columns: tuple[str, ...]
    crowd: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", _column_names(self.columns))
        _whole_from(2, self.crowd, "crowd")

    def steps_of(self, wider: Adjacency) -> int | None:
        if isinstance(wider, BetweenTails):
            nested = wider.crowd <= self.crowd and set(wider.columns) <= set(self.columns)
            return 1 if nested else None
        return AddRemove().steps_of(wider)

    def _near(self, side: str = "either", joined: str = ", ") -> str:
        where = f"on {side} side of {joined.join(self.columns)}"
        return f"at its value or beyond, itself included, {where},"


def _column_names(columns: object) -> tuple[str, ...]:
    if not isinstance(columns, list | tuple) or not columns:
        raise InvalidParameter("columns", "must name a column", columns, "Try ('age',).")
    for name in columns:
        check_text(name, "columns")
    return tuple(sorted(set(columns)))


def _named(rows: object, columns: tuple[str, ...], parameter: str) -> list[tuple[str, Any]]:
    """Rows of a column and a number, in the order of the columns' names."""
    given = rows if isinstance(rows, list | tuple) else [rows]
    pairs = [tuple(row) if isinstance(row, list | tuple) else () for row in given]
    names = [row[0] for row in pairs if len(row) == 2 and isinstance(row[0], str)]
    if len(names) < len(pairs) or len(set(names)) < len(names) or not set(names) <= set(columns):
        rule = "must each be a column that is compared and its number"
        raise InvalidParameter(parameter, rule, rows, 'Write [["age", 5]].')
    return sorted((row[0], row[1]) for row in pairs)


def _whole_from(least: int, number: object, parameter: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= MOST:
        rule = f"must be a whole number from {least} to {MOST}"
        raise InvalidParameter(parameter, rule, number, f"Try {least + 3}.")


@dataclass(frozen=True)
class SameContexts(Adjacency):
    """One record more or less that leaves a given record's matching contexts as they are [PCOR].

    The given record, a stable text, is public and always counted in, whether it is among the rows
    or not. Several may be given: then the contexts of each of them stay as they are. The `detector`
    says, with its parameters, when a value of the numeric `column` is outlying in a population.
    """

    name: ClassVar[str] = "same-contexts"
    stretches_to_persons: ClassVar[bool] = True
    gives_up = (
        "A record whose presence changes in which contexts one asked about stands out is not"
        " protected; nor are the values of records asked about, which are public."
        " Whether one stands out anywhere is told."
    )
    detector: str
    column: str
    record: str

    def __post_init__(self) -> None:
        for name in ("detector", "column", "record"):
            check_text(getattr(self, name), name)

    def each(self) -> tuple[SameContexts, ...]:
        """The same for each of the records, where several are given: all of these together are it.

        Two tables keep the contexts of all given records if they keep those of each.
        """
        given: Any = None
        with suppress(ValueError, RecursionError):
            given = json.loads(self.record)
        persons = given.get("persons") if isinstance(given, dict) else None
        if not persons or not isinstance(persons, list):
            return (self,)
        if not all(isinstance(one, str) for one in persons):
            return (self,)
        alone = (
            one if not given.get("cuts") else _text({"persons": [one], "cuts": given["cuts"]})
            for one in persons
        )
        return tuple(replace(self, record=record) for record in alone)

    def steps_of(self, wider: Adjacency) -> int | None:
        return 1 if wider == self else AddRemove().steps_of(wider)

    @property
    def protected(self) -> str:
        return (
            "Every other record is protected whose presence changes for no record asked about in"
            f" which contexts it stands out by {self.column}"
        )


@dataclass(frozen=True)
class AdmittedContexts(Adjacency):
    """One record more or less that leaves the contexts of every admitted person as they are.

    The list of admitted persons, each with a detector and a column, is part of the ledger. Two data
    sets are adjacent when they differ in one record and, for each of them, have the same matching
    contexts; so each admission narrows it.
    """

    name: ClassVar[str] = "admitted-contexts"
    stretches_to_persons: ClassVar[bool] = True
    protected = (
        "Every record is protected whose presence changes for no admitted person in which contexts"
        " that person stands out"
    )
    gives_up = (
        "A record whose presence changes in which contexts an admitted person stands out is not"
        " protected: an answer may tell exactly whether it is in the data. Each person admitted"
        " later narrows who is protected. The values of admitted persons are public."
    )

    def steps_of(self, wider: Adjacency) -> int | None:
        # Of a person that was not admitted nothing follows; the ledger asks that of each question.
        return 1 if isinstance(wider, SameContexts | AdmittedContexts | AddRemove) else None


def _text(data: Any) -> str:
    """One text for one value, as questions write it."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


_ADJACENCIES: dict[str, type[Adjacency]] = {
    kind.name: kind
    for kind in (
        AddRemove,
        Replace,
        InCrowd,
        InAlikeCrowd,
        BetweenTails,
        SameContexts,
        AdmittedContexts,
    )
}


def adjacency_from_json(data: dict[str, Any]) -> Adjacency:
    """Read back what `Adjacency.to_json` wrote."""
    parameters = {key: value for key, value in data.items() if key != "name"}
    kind = _ADJACENCIES.get(str(data.get("name")))
    if kind is None:
        rule = f"must be one of {', '.join(sorted(_ADJACENCIES))}"
        raise InvalidParameter("adjacency", rule, data.get("name"), "Try 'add-remove'.")
    try:
        return kind(**parameters)
    except TypeError:
        way_out = "See the parameters of the adjacency in the documentation."
        raise InvalidParameter("adjacency", "has other parameters", parameters, way_out) from None


def adjacency_from_text(text: str) -> Adjacency:
    """Read an adjacency as people type it: its name, or JSON with its parameters."""
    if not text.lstrip().startswith("{"):
        return adjacency_from_json({"name": text.strip()})
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        way_out = """Write '{"name": "in-crowd", "radius": 1, "columns": ["x"], "crowd": 5}'."""
        rule = "must be a name or JSON"
        raise InvalidParameter("adjacency", rule, text[:100], way_out) from None
    return adjacency_from_json(data)
