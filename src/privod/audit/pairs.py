"""Which adjacent tables, and which parameters, might a question find hardest to hide?

Small tables, made from what is public: none or a few records, gathered at one place, at two places
or all over, and one record, or one person with as many rows as are allowed, more (or moved). Values
stand where arithmetic may go wrong: at ends and middles, on borders and centers that the question
names, at zero and minus zero, subnormal, huge, missing. Parameters are driven to the ends of what
the question accepts, and so is every number of a description that an analyst hands in.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import numpy as np

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms import seeded
from privod.privacy import AddRemove, Adjacency, CrowdAdjacency, Replace
from privod.query.parameters import parameters_of
from privod.query.query import Query

SIZES = (0, 1, 2, 4, 8)  # records beside the one that differs; a few show as much as many
STEPS = 8  # values tried within a range: its ends and seven between them
MOST_NUMBERS = 20_000  # of a release that is replayed
LONGEST = 10**8  # nanoseconds that an answer about a few records may take
FEW = 16  # of them
MOST_CROWD = 64  # records that are made for a crowd
BESIDE = 6  # tables that are adjacent to one: what is drawn of that is forced on all of them

TINY = (0.0, -0.0, 5e-324, -5e-324, 1e-310, 2.0**-500, 1e-150)
HUGE = (1e150, -1e150, 1.7e308, -1.7e308)
HOSTILE: dict[type, tuple[Any, ...]] = {
    Fraction: ("1e-30", "1/1000000", "1/100", 1, 50),
    float: (*TINY, 1e-9, 0.5, 1.0, 3.0, 1e9, *HUGE, math.inf, math.nan),
    int: (0, 1, 2, 3, 7, 100, 10**6, 10**15, 2**62, 10**29, -1),
}
"""What parameters are tried with; what a question does not accept it must refuse."""
NUMBERS: dict[str, type] = {"number": Fraction, "float": float, "whole": int}

Row = dict[str, Any]
Adjacent = Callable[[Query[Any], Table, Table], bool]
"""Whether two tables that differ in one record are adjacent under a question's own adjacency."""


@dataclass(frozen=True)
class WorstCase:
    """A question and the two adjacent tables that it should find hardest to hide."""

    query: Query[Any]
    left: Table
    right: Table


LINE = Domain((Numeric("x", -100, 100),))


def to_the_middle(*places: float, apart: float) -> dict[Adjacency, tuple[Table, Table]]:
    """Records on a line, before and after one comes to 0, or goes there from a place apart."""
    before, after, moved = (Table(LINE, {"x": [*places, *more]}) for more in ([], [0.0], [apart]))
    return {AddRemove(): (before, after), Replace(): (moved, after)}


def table_pairs(
    domain: Domain, adjacency: Adjacency, query: Query[Any] | None = None, *, seed: int = 0
) -> Iterator[tuple[Table, Table]]:
    """Pairs of small tables that are adjacent, without end; no release depends on the seed.

    Where a person may have several rows, one person comes, or moves, with all. Of another adjacency
    than AddRemove, Replace and crowds the tables differ in one record, and it must be looked at
    whether that makes them adjacent. The numbers of a query are places where records are put.
    """
    chance = np.random.default_rng(seed)
    named = [] if query is None else list(_numbers(query.to_json()))
    values = {one.name: _values(one, named) for one in domain.columns if isinstance(one, Numeric)}

    def row() -> Row:
        found: Row = {}
        for column in domain.columns:
            among = values[column.name] if isinstance(column, Numeric) else column.values
            found[column.name] = among[int(chance.integers(len(among)))]
        return found

    for number in range(2**62):
        size = SIZES[number % len(SIZES)]
        places = [row() for _ in range(1 + number % 3)]
        others = [places[chance.integers(len(places))] for _ in range(size)]
        # Every other time one of theirs: where it comes to stand is a place that counts.
        come = [places[at % len(places)] if at % 2 else row() for at in range(BESIDE)]
        if isinstance(adjacency, CrowdAdjacency):
            if adjacency.crowd > MOST_CROWD:
                return
            others += [come[0]] * (adjacency.crowd - 1)
            come = come[:1] * 2
        persons = [[one] for one in others]
        more = [[one] * domain.max_rows_per_person for one in come]
        if adjacency == Replace():
            one, beside = [*persons, more[0]], [[*persons, each] for each in more[1:]]
        elif chance.integers(2):
            one, beside = persons, [[*persons, each] for each in more[1:]]
        else:
            one, beside = [*persons, *more[1:]], []
            beside = [one[:at] + one[at + 1 :] for at in range(len(persons), len(one))]
        here = _table(domain, one)
        for each in beside:
            yield here, _table(domain, each)


def _values(column: Numeric, named: list[float]) -> list[float]:
    """Where records of a column are put: about its range, and about numbers that were named."""
    low, high = column.low, column.high
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    steps = [low * (1 - step / STEPS) + high * (step / STEPS) for step in range(STEPS + 1)]
    ends = [math.nextafter(low, math.inf), math.nextafter(high, -math.inf)]
    asked = [one for each in named for one in (each, middle + each * half, -each)]
    return [*steps * 2, *ends, *TINY, *HUGE, math.nan, *(one for one in asked if abs(one) < 1e308)]


def _table(domain: Domain, persons: list[list[Row]]) -> Table:
    """The rows of these persons."""
    rows = [row for person in persons for row in person]
    columns: dict[str, Any] = {
        name: [row[name] for row in rows] for name in (column.name for column in domain.columns)
    }
    if domain.person is not None:
        columns[domain.person] = [str(at) for at, person in enumerate(persons) for _ in person]
    return Table(domain, columns)


def variants(query: Query[Any], domain: Domain) -> Iterator[Query[Any]]:
    """The question, and the question with one parameter at an end of what it accepts.

    A description that a release writes for the next question (`value.frame.text`) is handed in, and
    every number of it is changed too. What is refused must be refused as an invalid parameter.
    """
    yield query
    value = query.answer(_table(domain, []), seeded(0)).value
    for parameter in parameters_of(type(query)):
        name, now = parameter.name, getattr(query, parameter.name)
        if parameter.kind == "conditions":
            yield from _conditional(query, domain)
            continue
        described = getattr(getattr(value, name, None), "text", None)
        if now is None and isinstance(described, str):
            now = described
            yield from _accepted(query, domain, name, described)
        worded = now is None or now in parameter.choices
        numbers = HOSTILE.get(NUMBERS.get(parameter.kind, str), ()) if worded else ()
        for other in (*_others(now), *parameter.choices, *numbers):
            yield from _accepted(query, domain, name, other)


def _conditional(query: Query[Any], domain: Domain) -> Iterator[Query[Any]]:
    """The question about some of the records, also where records are replaced."""
    adjacencies = (AddRemove(), Replace()) if hasattr(query, "adjacency") else (None,)
    for column in domain.columns:
        if isinstance(column, Numeric):
            where: Any = {column.name: {"from": column.low / 2 + column.high / 2}}
        else:
            where = {column.name: [column.values[0]]}
        for adjacency in adjacencies:
            asked = query if adjacency is None else replace(cast(Any, query), adjacency=adjacency)
            yield from _accepted(asked, domain, "where", where)


def _accepted(query: Query[Any], domain: Domain, name: str, value: Any) -> Iterator[Query[Any]]:
    """The question with another value of a parameter, unless it is refused or takes too long."""
    try:
        found = replace(cast(Any, query), **{name: value})
        found.check(domain)
        found.cost()  # refuses what no noise has
        small = found.n_numbers(domain) <= MOST_NUMBERS and found.work(domain, FEW) <= LONGEST
        small = small and found.most_numbers(domain, FEW) <= MOST_NUMBERS
    except (InvalidParameter, InvalidData):
        return
    if small and found != query:
        yield found


def _others(now: Any) -> Iterator[Any]:
    """Values of the same form with one number, truth or adjacency changed."""
    if isinstance(now, bool):
        yield not now
    elif isinstance(now, Adjacency):
        yield from (AddRemove(), Replace())
    elif type(now) in HOSTILE:
        yield from HOSTILE[type(now)]
    elif isinstance(now, list | tuple):
        for place, entry in enumerate(now[:3]):
            for other in _others(entry):
                yield type(now)((*now[:place], other, *now[place + 1 :]))
    elif isinstance(now, dict):
        for key in now:
            for other in _others(now[key]):
                yield {**now, key: other}
    elif isinstance(now, str) and now.startswith("{"):
        yield from map(json.dumps, _others(json.loads(now)))


def _numbers(data: Any) -> Iterator[float]:
    """Every number that a question names, those of descriptions included."""
    if isinstance(data, str) and data.startswith("{"):
        data = json.loads(data)
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, list | tuple):
        for entry in data:
            yield from _numbers(entry)
    elif isinstance(data, int | float) and not isinstance(data, bool) and abs(data) < 1e308:
        yield float(data)
