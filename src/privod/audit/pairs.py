"""Which adjacent tables might a question find hardest to hide? Small ones, made from its domain.

Where nobody knows the worst pair, many are tried: none or a few records, gathered at one place, at
two places or all over, and one record, or one person with as many rows as are allowed, more (or
moved). Ends and middles of ranges come often, since that is where cells end and crowds meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations
from typing import Any

import numpy as np

from privod.audit.callables import Finding, search
from privod.audit.game import Reading
from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import Randomness
from privod.privacy import AddRemove, Adjacency, Guarantee, InAlikeCrowd, InCrowd, Replace
from privod.query.query import Query

__all__ = ["numbers_in", "search_question", "table_pairs"]

SIZES = (0, 1, 2, 4, 8)  # records beside the one that differs; a few show as much as many
STEPS = 8  # values tried within a range: its ends and seven between them
NUMBERS = 12  # of an answer that are read one by one
COMPARED = 5  # of these, each beside each other: a record that moves adds here and takes there

Row = dict[str, Any]


def table_pairs(
    domain: Domain, adjacency: Adjacency, *, seed: int = 0
) -> Iterator[tuple[Table, Table]]:
    """Pairs of small tables that are adjacent, without end.

    Parameters
    ----------
    domain : Domain
        What is public. Where a person may have several rows, one person comes, or moves, with all.
    adjacency : AddRemove, Replace, InCrowd or InAlikeCrowd
        What makes them adjacent.
    seed : int
        Which ones; no release depends on it.
    """
    if not isinstance(adjacency, AddRemove | Replace | InCrowd | InAlikeCrowd):
        rule = "must be add-remove, replace, in-crowd or in-alike-crowd"
        way_out = "Give the pairs yourself: play a Game, or search a callable."
        raise InvalidParameter("adjacency", rule, adjacency.name, way_out)
    chance = np.random.default_rng(seed)
    for number in range(2**62):
        size = SIZES[number % len(SIZES)]
        places = [_row(domain, chance) for _ in range(1 + number % 3)]
        others = [places[chance.integers(len(places))] for _ in range(size)]
        # Every other time one of theirs: where it comes to stand is a place that counts.
        one = places[0] if number % 2 else _row(domain, chance)
        if isinstance(adjacency, InCrowd | InAlikeCrowd):
            others += [one] * (adjacency.crowd - 1)
        more = [one] * domain.max_rows_per_person
        before = [_row(domain, chance)] * domain.max_rows_per_person
        left = others + before if adjacency == Replace() else others
        yield _table(domain, left, len(others)), _table(domain, others + more, len(others))


def _row(domain: Domain, chance: np.random.Generator) -> Row:
    row: Row = {}
    for column in domain.columns:
        if isinstance(column, Numeric):
            step = int(chance.integers(STEPS + 1))
            row[column.name] = column.low + (column.high - column.low) * step / STEPS
        else:
            row[column.name] = column.values[int(chance.integers(len(column.values)))]
    return row


def _table(domain: Domain, rows: list[Row], others: int) -> Table:
    """The rows; those past `others` are one person's, every other one has a person of its own."""
    columns: dict[str, Any] = {
        name: [row[name] for row in rows] for name in (column.name for column in domain.columns)
    }
    if domain.person is not None:
        columns[domain.person] = [str(min(place, others)) for place in range(len(rows))]
    return Table(domain, columns)


def numbers_in(query: Query[Any]) -> tuple[Reading, ...]:
    """Readings of any question's answer: the first numbers of its JSON, differences, sum, extremes.

    Truth values count as numbers; lengths of texts follow the numbers.
    """

    latest: list[Any] = [None, []]  # all readings of one value follow each other

    def numbers(value: Any) -> list[float]:
        if value is not latest[0]:
            plain = list(_flat(query.value_to_json(value)))
            texts = [float(len(item)) for item in plain if isinstance(item, str)]
            found = [float(item) for item in plain if not isinstance(item, str)]
            latest[:] = [value, found + texts]
        return latest[1]  # type: ignore[no-any-return]

    def at(value: Any, place: int) -> float:
        found = numbers(value)
        return found[place] if place < len(found) else 0.0

    def number(place: int) -> Reading:
        return Reading(f"number {place}", lambda value: at(value, place))

    def less(one: int, other: int) -> Reading:
        return Reading(
            f"number {one} less number {other}", lambda value: at(value, one) - at(value, other)
        )

    def full_and_empty(one: int, other: int) -> Reading:
        return Reading(
            f"number {one} high and number {other} low",
            lambda value: min(at(value, one), 1 - at(value, other)),
        )

    return (
        Reading("the sum", lambda value: float(sum(numbers(value)))),
        Reading("the largest", lambda value: max(numbers(value), default=0.0)),
        Reading("the smallest", lambda value: min(numbers(value), default=0.0)),
        Reading("how many numbers", lambda value: float(len(numbers(value)))),
        *(number(place) for place in range(NUMBERS)),
        *(less(*pair) for pair in combinations(range(COMPARED), 2)),
        *(full_and_empty(*pair) for pair in permutations(range(COMPARED), 2)),
    )


def _flat(data: Any) -> Iterator[float | str]:
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, list):
        for item in data:
            yield from _flat(item)
    elif isinstance(data, bool | int | float | str):
        yield data


def search_question(
    query: Query[Any],
    domain: Domain,
    *,
    runs: int = 20_000,
    most_pairs: int = 20,
    randomness: Randomness | None = None,
) -> Finding:
    """Look for a pair of tables on which a question breaks its promise, knowing nothing about it.

    Parameters
    ----------
    query : Query
        Any question that can be asked of the domain, registered or not.
    domain : Domain
        What is public; with a cap on the rows of a person, the promise is that towards persons.
    runs, most_pairs, randomness
        As in `search`.
    """
    query.check(domain)
    guarantee: Guarantee = query.guarantee()
    claimed = guarantee.for_groups(domain.max_rows_per_person).loss

    def answered(table: Table, source: Randomness) -> Any:
        return query.answer(table, source).value

    return search(
        answered,
        claimed,
        lambda: table_pairs(domain, guarantee.adjacency),
        numbers_in(query),
        runs=runs,
        most_pairs=most_pairs,
        randomness=randomness,
    )
