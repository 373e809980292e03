"""What an owner permits one by one: persons asked about, and counts that are told exactly."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from privod.data import Domain
from privod.errors import NoPromise
from privod.ledger.chain import Due, Entry, read_entries
from privod.ledger.database import Connection
from privod.ledger.store import DataSet, versions_of
from privod.privacy import Adjacency, AdmittedContexts, SameContexts
from privod.query.catalog import known_kind, query_from_json
from privod.query.query import Query, canonical_json


def admitted(connection: Connection, root: str) -> list[SameContexts]:
    """The persons about whom may be asked, each with a detector and a column."""
    names = connection.execute("SELECT name FROM datasets WHERE root = ?", root)
    entries = read_entries(connection, [str(name) for (name,) in names])
    found = [entry.adjacency for entry in entries if entry.kind == "admit"]
    return [adjacency for adjacency in found if isinstance(adjacency, SameContexts)]


def is_admitted(asked: SameContexts, persons: Sequence[SameContexts]) -> bool:
    """Whether the persons of a question are on the list, together or each of them."""
    return asked in persons or all(one in persons for one in asked.each())


def check_admitted(connection: Connection, root: str, asked: Adjacency, due: Sequence[Due]) -> None:
    """Refuse a question about a person whom the owner did not admit."""
    if not isinstance(asked, SameContexts):
        return
    by_list = [state for state, _ in due if isinstance(state.adjacency, AdmittedContexts)]
    if by_list and not is_admitted(asked, admitted(connection, root)):
        raise NoPromise(
            "Questions about contexts may be asked only about persons whom the owner admitted, with"
            " this detector and column. Request that this person is admitted."
        )


@dataclass
class ExactCounts:
    """How many exact counts each budget, by its number, may pay for, and how many it has paid."""

    allowed: dict[int, int] = field(default_factory=dict)
    told: Counter[int] = field(default_factory=Counter)

    def follow(self, entry: Entry, domains: Mapping[str, Domain]) -> bool:
        """Go on by one entry; whether it tells no more than was allowed when it was entered."""
        if entry.budget is None:
            return True
        if entry.kind == "exact" and entry.details is not None:
            self.allowed[entry.budget] = int(entry.details["counts"])
        elif entry.kind == "charge" and entry.query is not None:
            kind = known_kind(entry.query)
            if kind is not None and kind.exact_counts is not Query.exact_counts:
                query = query_from_json(entry.query)
                counts = query.exact_counts(domains[entry.dataset])
                self.told[entry.budget] += counts
                return counts == 0 or self.left(entry.budget) >= 0
        return True

    def left(self, budget: int) -> int:
        """How many more may be told; below 0 if more were than is allowed."""
        return self.allowed.get(budget, 0) - self.told[budget]


def exact_counts_of(connection: Connection, root: str) -> ExactCounts:
    """What was allowed and told of a data set and its versions."""
    domains = versions_of(connection, root)
    found = ExactCounts()
    for entry in read_entries(connection, domains):
        found.follow(entry, domains)
    return found


def check_exact_counts(
    connection: Connection, dataset: DataSet, query: Query[Any], due: Sequence[Due]
) -> None:
    """Refuse a question that would tell more counts exactly than the owner allows."""
    counts = query.exact_counts(dataset.domain)
    if counts == 0:
        return
    found = exact_counts_of(connection, dataset.root)
    for state, _ in due:
        if counts > found.left(state.number):
            left = max(0, found.left(state.number))
            total = found.told[state.number] + counts
            name = shlex.quote(dataset.name)
            relation = shlex.quote(canonical_json(state.adjacency.to_json()))
            raise NoPromise(
                f"{query.name} as it is asked may tell {counts} counts exactly, whatever epsilon"
                f" is, and the owner allows {left} more of them. The owner may allow {total} in"
                f" all (`privod allow-exact {name} --counts {total} --adjacency"
                f" {relation} --reason WHY`). Or choose an edit_margin at which every count is"
                " noisy."
            )
