"""Which two data sets must look alike: the relation under which a promise is made.

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

from privod.errors import InvalidParameter
from privod.privacy.loss import as_float
from privod.texts import check_text

__all__ = [
    "AddRemove",
    "Adjacency",
    "AdmittedContexts",
    "InCrowd",
    "Replace",
    "SameContexts",
    "adjacency_from_json",
]


@dataclass(frozen=True)
class Adjacency(ABC):
    """A symmetric relation between data sets."""

    name: ClassVar[str]

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

    def steps_of(self, wider: Adjacency) -> int | None:
        return 1 if wider == self or (isinstance(wider, InCrowd) and wider.crowd <= 1) else None

    @property
    def protected(self) -> str:
        return "Every record is protected, including whether it is in the data at all"

    @property
    def gives_up(self) -> str:
        return ""


@dataclass(frozen=True)
class Replace(Adjacency):
    """One record changed; the number of records is public."""

    name: ClassVar[str] = "replace"

    def steps_of(self, wider: Adjacency) -> int | None:
        if wider == self:
            return 1
        remove_then_add = AddRemove().steps_of(wider)
        return None if remove_then_add is None else 2 * remove_then_add

    @property
    def protected(self) -> str:
        return "What every record says is protected, but not how many records there are"

    @property
    def gives_up(self) -> str:
        return (
            "The number of records becomes public, so whether a record is there is not protected."
        )


@dataclass(frozen=True)
class InCrowd(Adjacency):
    """One record more or less that stands in a crowd in one of the two data sets [Asif 2020].

    Two data sets are adjacent when they differ in one copy of a record that has, in one of them, at
    least `crowd` records within `radius` (itself included, over `columns`, closed ball).

    Parameters
    ----------
    radius : float
        At least 0, Euclidean over `columns`.
    columns : tuple of str
        The numeric columns that the distance is taken over; at least one.
    crowd : int
        At least 1. The smaller it is, the more records are protected; 1 protects every record.
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
        columns: object = self.columns
        if not isinstance(columns, list | tuple) or not columns:
            raise InvalidParameter("columns", "must name a column", columns, "Try ('age',).")
        for name in columns:
            check_text(name, "columns")
        object.__setattr__(self, "columns", tuple(sorted(set(columns))))
        crowd: object = self.crowd
        if isinstance(crowd, bool) or not isinstance(crowd, int):
            raise InvalidParameter("crowd", "must be a whole number", crowd, "Try 5.")
        if crowd < 1:
            way_out = "A crowd of 1 already protects every record."
            raise InvalidParameter("crowd", "must be at least 1", self.crowd, way_out)

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

    @property
    def protected(self) -> str:
        where = ", ".join(self.columns)
        return (
            f"Every record with at least {self.crowd} records within {self.radius:g} of it over"
            f" {where}, itself included, is protected"
        )

    @property
    def gives_up(self) -> str:
        if self.crowd <= 1:
            return ""
        return (
            f"A record with fewer than {self.crowd} records within {self.radius:g} of it over"
            f" {', '.join(self.columns)}, itself included, is not protected: an answer may tell"
            " exactly whether it is in the data."
        )


@dataclass(frozen=True)
class SameContexts(Adjacency):
    """One record more or less that leaves a given record's matching contexts as they are [PCOR].

    The given record is public and always counted in, whether it is among the rows or not. Several
    may be given: then the contexts of each of them stay as they are.

    Parameters
    ----------
    detector : str
        Which rule says that a value is outlying in a population, with its parameters.
    column : str
        The numeric column in which the record may stand out.
    record : str
        Which record, or which several, the contexts are of, as a stable text.
    tells_none : bool
        Whether an answer may say that no context matches. If it may not, data sets without a
        matching context and data sets where every context matches count as having the same ones.
    """

    name: ClassVar[str] = "same-contexts"
    detector: str
    column: str
    record: str
    tells_none: bool = False

    def __post_init__(self) -> None:
        for name in ("detector", "column", "record"):
            check_text(getattr(self, name), name)
        if not isinstance(self.tells_none, bool):
            rule = "must be true or false"
            raise InvalidParameter("tells_none", rule, self.tells_none, "Leave it out.")

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
        if self.tells_none and wider == replace(self, tells_none=False):
            return 1  # the same contexts are also the same but for none against all
        return 1 if wider == self else AddRemove().steps_of(wider)

    @property
    def protected(self) -> str:
        return (
            "Every other record is protected whose presence changes for no record asked about in"
            f" which contexts it stands out by {self.column}"
        )

    @property
    def gives_up(self) -> str:
        none = " Whether one stands out anywhere is told." if self.tells_none else ""
        return (
            "A record whose presence changes in which contexts one asked about stands out is not"
            f" protected; nor are the values of records asked about, which are public.{none}"
        )


@dataclass(frozen=True)
class AdmittedContexts(Adjacency):
    """One record more or less that leaves the contexts of every admitted person as they are.

    The list of admitted persons, each with a detector and a column, is part of the ledger. Two data
    sets are adjacent when they differ in one record and, for each of them, have the same matching
    contexts; so each admission narrows it.
    """

    name: ClassVar[str] = "admitted-contexts"

    def steps_of(self, wider: Adjacency) -> int | None:
        # Of a person that was not admitted nothing follows; the ledger asks that of each question.
        return 1 if isinstance(wider, SameContexts | AdmittedContexts | AddRemove) else None

    @property
    def protected(self) -> str:
        return (
            "Every record is protected whose presence changes for no admitted person in which"
            " contexts that person stands out"
        )

    @property
    def gives_up(self) -> str:
        return (
            "A record whose presence changes in which contexts an admitted person stands out is not"
            " protected: an answer may tell exactly whether it is in the data. Each person admitted"
            " later narrows who is protected. The values of admitted persons are public."
        )


def _text(data: Any) -> str:
    """One text for one value, as questions write it."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


_ADJACENCIES: dict[str, type[Adjacency]] = {
    kind.name: kind for kind in (AddRemove, Replace, InCrowd, SameContexts, AdmittedContexts)
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
