"""The base classes of questions and answers: `Query` and `Release`.

A query is a frozen value of public parameters: it can be priced, stored and compared without any
data. A release is a query, its answer and its promise; of these only the answer depends on data.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from privod.data import Domain, Table
from privod.errors import InvalidParameter
from privod.mechanisms.randomness import Randomness
from privod.privacy import Adjacency, Cost, Guarantee, Statement, adjacency_from_json
from privod.query.frames import as_csv, as_frame
from privod.query.html import figure, release_html
from privod.query.memory import folding_bytes
from privod.query.preview import Preview
from privod.texts import did_you_mean, listed

Value = TypeVar("Value")

NANOSECONDS_A_VALUE = 20  # to read a value once, place it and count it
HELD_TIMES = 6  # values of records that a question holds: gathered, in order, and worked on
PLAIN = {str, int, float, bool, type(None)}  # what JSON has as it is
NOT_PARAMETERS = ("name", "version")  # of what is written of a question
NANOSECONDS_A_NUMBER = 2000  # to draw its noise, and to write and read it as text


class Query(ABC, Generic[Value]):
    """A question; every subclass is a frozen dataclass of public parameters.

    Each parameter is a number, a text, a truth value, None, a fraction, an adjacency, or a tuple of
    such, and `__post_init__` accepts what JSON makes of it (lists for tuples, texts for fractions).
    A parameter is documented by the class that declares it; these mean the same in all that do.

    Parameters
    ----------
    epsilon : number
        The privacy loss, greater than 0.
    adjacency : AddRemove or Replace
        Which two data sets must look alike.
    """

    name: ClassVar[str]
    """What is typed, such as "histogram"; the class, its folder and its page are the same word."""

    version: ClassVar[int] = 1
    """Written beside the name. A version never changes its meaning once a ledger contains it."""

    question: ClassVar[str]
    """What is asked, in one sentence a doctor understands."""

    goal: ClassVar[str] = "describe"
    """What people want who ask it: one of `privod.query.offers.GOALS`."""

    column_kinds: ClassVar[dict[str, Any]] = {}
    """Of parameters that name columns, which kind alone they take, Numeric or Categorical; any kind
    where nothing is said. Forms offer no others, and `check` refuses them."""

    holds_rows: ClassVar[bool] = True
    """Whether an answer holds values of every record at once; else it reads rows block by block."""

    value_class: ClassVar[Any] = None
    """What answers are: a class that writes itself (`to_json`, `from_json`), or a dataclass of
    plain values and tuples of such. Questions with other answers write and read them."""

    later: ClassVar[dict[str, Any]] = {}
    """Parameters that came later, as plain values: written only where they say something else, so
    that a question asked before reads as it always did."""

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The promise, derived from the noise; needs no data."""

    @property
    def state(self) -> str | None:
        """What questions have in common that look at the same noise; None if this shares none.

        All questions of one state about the same rows take the noise of each thing they look at
        from `randomness.stream(its name)`. Together they lose what one does, and one is charged.
        """
        return None

    def cost(self) -> Cost:
        """What the answer costs, also in the concentrated sense; a question may know it better.

        Both are losses under the adjacency of the guarantee.
        """
        return Cost.of_loss(self.guarantee().loss)

    def also(self, domain: Domain) -> tuple[Statement, ...]:  # noqa: ARG002 - for those that know
        """What else is proved of the same answer about such data, under other adjacencies."""
        return ()

    def statements(self, domain: Domain) -> tuple[Statement, ...]:
        """All that is proved of the answer about such data; what it promises comes first."""
        return (Statement(self.cost(), self.guarantee().adjacency), *self.also(domain))

    def within(self, accounting: str, delta: Fraction = Fraction(0)) -> Self:  # noqa: ARG002 - for those that leave it open
        """The question as it is asked where budgets count so ("sums" or "zcdp") and allow delta."""
        return self

    def not_protected(self) -> str:
        """What those lose by this very answer whom its guarantee leaves out; "" if nobody is."""
        return self.guarantee().adjacency.gives_up

    def exact_counts(self, domain: Domain) -> int:  # noqa: ARG002 - most tell none
        """At most how many counts of unprotected records the answer tells without any noise.

        An owner allows a number of them; no epsilon makes them less exact.
        """
        return 0

    def preview(self, domain: Domain) -> Preview:  # noqa: ARG002 - for those that know
        """How far off the answer may be, before anything is paid; needs no data."""
        return Preview("the answer")

    def work(self, domain: Domain, records: int) -> int:
        """About how many nanoseconds of one core an answer takes on so many records, at worst.

        From public things alone: `records` is what a server assumes, not how many there are.
        """
        read = NANOSECONDS_A_VALUE * records * len(domain.columns)
        return read + NANOSECONDS_A_NUMBER * self.n_numbers(domain)

    def usual_work(self, domain: Domain, records: int) -> int:
        """About the same on records as usual; by rates measured on made-up ones."""
        return self.work(domain, records)

    def n_numbers(self, domain: Domain) -> int:  # noqa: ARG002 - most hold few
        """At most how many numbers the answer holds, where they can be many; public."""
        return 0

    def most_numbers(self, domain: Domain, records: int) -> int:  # noqa: ARG002
        """The same for a table of so many records at most, where it hangs on them."""
        return self.n_numbers(domain)

    def most_bytes(self, domain: Domain, records: int) -> int:
        """At most how much memory an answer takes beside a table of so many records at most.

        Whatever the rows are, and from public things alone: a server ends nothing below it. A
        question that does not count it is taken for one that adds up over rows, and holds as many
        values of each as it says (`held_per_record`), six times.
        """
        held = HELD_TIMES * 8 * records * self.held_per_record(domain)
        return held + folding_bytes(len(domain.columns), self.most_numbers(domain, records))

    @abstractmethod
    def check(self, domain: Domain) -> None:
        """Raise `InvalidParameter` unless this can be asked of data in this domain."""

    def held_per_record(self, domain: Domain) -> int:
        """How many values of each record the answer holds in memory at once, at most.

        0 for a question that reads rows block by block. A data set too large to be held in memory
        refuses the others before they are charged, by this number and its declared size.
        """
        return len(domain.columns) if self.holds_rows else 0

    @abstractmethod
    def answer(self, table: Table, randomness: Randomness) -> Release[Value]:
        """Look at the rows, once, and release the noisy answer; never fails because of rows."""

    @abstractmethod
    def sentence(self, value: Value) -> str:
        """The answer in words."""

    def value_to_json(self, value: Value) -> Any:
        """The answer as plain JSON values."""
        answer: Any = value
        if hasattr(answer, "to_json"):
            return answer.to_json()
        return {one.name: plain_value(getattr(answer, one.name)) for one in fields(answer)}

    def value_from_json(self, data: Any) -> Value:
        """Read back what `value_to_json` wrote."""
        kind = self.value_class
        if hasattr(kind, "from_json"):
            return cast(Value, kind.from_json(data))
        return cast(Value, kind(**{one.name: _tuples(data[one.name]) for one in fields(kind)}))

    def table(self, value: Value) -> dict[str, list[Any]]:
        """The answer as columns of equal length: one row, lists as JSON, unless it knows better."""
        told = self.value_to_json(value)
        row = told if isinstance(told, dict) else {"answer": told}
        return {
            name: [canonical_json(entry) if isinstance(entry, list | dict) else entry]
            for name, entry in row.items()
        }

    @classmethod
    @abstractmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        """Sensible questions of this kind for a domain, from the domain alone; () if none fits."""

    def release(self, value: Value, randomness: Randomness) -> Release[Value]:
        """Put an answer beside its question and its promise."""
        return Release(self, value, self.promised, randomness.seeded)

    @cached_property
    def promised(self) -> Guarantee:
        """The guarantee, derived once: a query never changes."""
        return self.guarantee()

    @cached_property
    def canonical(self) -> str:
        """The question as the ledger writes it, written once."""
        return canonical_json(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Name, version and parameters, as plain JSON values."""
        assert is_dataclass(self)  # noqa: S101 - what every subclass is, told to the type checker
        written: dict[str, Any] = {"name": self.name, "version": self.version}
        for field in fields(self):
            value = vars(self)[field.name]
            written[field.name] = value if type(value) in PLAIN else plain_value(value)
        for name, default in self.later.items():
            if written[name] == default:
                del written[name]
        return written

    def parameters(self) -> dict[str, Any]:
        """The parameters alone, as plain JSON values."""
        return {key: value for key, value in self.to_json().items() if key not in NOT_PARAMETERS}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Build the question from plain JSON values."""
        given = dict(parameters)
        if isinstance(given.get("adjacency"), dict):
            given["adjacency"] = adjacency_from_json(given["adjacency"])
        known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        for key in given:
            if key not in known:
                rule = f"is not a parameter of {cls.name}"
                way_out = f"Its parameters are {known}."
                if key == "where":
                    way_out = "Its guarantee is not proved under conditions: leave them out."
                near = did_you_mean(key, known).strip()
                raise InvalidParameter(key, rule, given[key], f"{near} {way_out}".strip())
        try:
            return cls(**given)
        except TypeError as problem:
            missing = listed(re.findall(r"'(\w+)'", str(problem).rpartition(": ")[2]))
            way_out = f"Fill it in (`privod questions {cls.name}` explains it)."
            raise InvalidParameter(
                missing or "every parameter", "must be given", None, way_out
            ) from None


def plain_value(value: Any) -> Any:
    """A parameter's value as plain JSON values."""
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Adjacency):
        return value.to_json()
    if isinstance(value, tuple):
        return [item if type(item) in PLAIN else plain_value(item) for item in value]
    return value


def _tuples(data: Any) -> Any:
    """Plain JSON values with tuples for lists."""
    return tuple(map(_tuples, data)) if isinstance(data, list) else data


def canonical_json(data: Any) -> str:
    """One text for one value: sorted keys, no spaces, no NaN."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class Release(Generic[Value]):
    """A question, its answer and its promise; only the answer, `value`, depends on data.

    What was promised is `query.guarantee()`, of data with so many rows of a person. Where the noise
    came from a test seed, the release is `seeded` and never published.
    """

    query: Query[Value]
    value: Value
    guarantee: Guarantee
    seeded: bool

    def __post_init__(self) -> None:
        if self.seeded:
            object.__setattr__(self, "guarantee", replace(self.guarantee, seeded=True))

    def of_persons(self, rows_per_person: int) -> Release[Value]:
        """The same release about data in which a person may have so many records."""
        promise = self.guarantee.of_persons(rows_per_person)
        if promise == self.guarantee:
            return self
        value: Any = self.value
        if isinstance(getattr(value, "guarantee", None), Guarantee):
            value = replace(value, guarantee=value.guarantee.of_persons(rows_per_person))
        return replace(self, value=value, guarantee=promise)

    def sentence(self) -> str:
        """The answer in words."""
        return self.query.sentence(self.value)

    __str__ = sentence

    def plot(self) -> Any:
        """The answer as a matplotlib figure."""
        return figure(self)

    def table(self) -> dict[str, list[Any]]:
        """The answer as columns of equal length."""
        return self.query.table(self.value)

    def to_csv(self) -> str:
        """The answer as CSV: `table()` with its names in the first line."""
        return as_csv(self.table())

    def to_pandas(self) -> Any:
        """The answer as a pandas data frame."""
        return as_frame("pandas", self.table())

    def to_polars(self) -> Any:
        """The answer as a polars data frame."""
        return as_frame("polars", self.table())

    def _repr_html_(self) -> str:
        return release_html(self)

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "query": self.query.to_json(),
            "value": self.query.value_to_json(self.value),
            "guarantee": self.guarantee.to_json(),
            "seeded": self.seeded,
        }
