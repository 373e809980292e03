"""The curator's own values from nouns, and questions as nouns: what needs the whole library."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from typing import Any, TypeVar, get_args, get_type_hints

from privod import wire
from privod.curator import Answer, DataSet, Entry, Registered
from privod.data import Domain, IntakeReport
from privod.privacy import Adjacency, adjacency_from_json
from privod.query.catalog import release_from_json
from privod.query.parameters import parameters_of, promise_of

Value = TypeVar("Value")


def read(kind: type[Value], noun: Any, **otherwise: Any) -> Value:
    """A value of the curator from the noun that shows it, by the types of its fields."""
    hints = get_type_hints(kind)
    named = [field.name for field in fields(noun) if field.name in hints]
    return kind(**{name: _value(hints[name], getattr(noun, name)) for name in named}, **otherwise)


def _value(hint: Any, shown: Any) -> Any:
    kinds = get_args(hint) or (hint,)
    if shown is None:
        return None
    if Adjacency in kinds:
        return adjacency_from_json(shown)
    if Domain in kinds:
        return Domain.from_json(shown)
    return Fraction(shown) if Fraction in kinds else shown


def read_registered(noun: wire.Registered) -> Registered:
    """A data set with the report of its intake."""
    report = IntakeReport.from_json(noun.report)
    return Registered(read(DataSet, noun), report, tuple(noun.same_rows_as))


def read_answer(noun: wire.Answer) -> Answer:
    """An answer; its guarantee must be the one that its question makes."""
    return Answer(release_from_json(noun.release), noun.charges, noun.stored, noun.head)


def read_entry(noun: wire.Entry) -> Entry:
    """An entry, without the request id, which is not sent."""
    return read(Entry, noun, request=None)


def describe(kind: Any) -> wire.Question:
    """Describe a question of the catalog, or one between several holders."""
    parameters = tuple(wire.Parameter.of(parameter) for parameter in parameters_of(kind))
    return wire.Question(kind.name, kind.question, promise_of(kind), parameters)
