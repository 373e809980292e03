"""The replay audit of a registered question: hostile tables, and hostile parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

from privod.audit.pairs import WorstCase, table_pairs, variants
from privod.audit.replay import Replayed, replay_question
from privod.data import Boolean, Categorical, Domain, Numeric, Table
from privod.errors import NoPromise
from privod.privacy import AddRemove, CrowdAdjacency, Replace, Statement
from privod.query.query import Query
from privod.registry import load, question

DOMAINS = (
    Domain(
        (
            Numeric("x", -16, 16),
            Numeric("y", 0, 100),
            Categorical("group", ("a", "b", "c")),
            Categorical("grade", (1, 2)),
        )
    ),
    Domain((Numeric("x", -1, 1), Numeric("y", 0, 1e6, fill=3.0), Categorical("group", ("a", "b"))),
           person="who", max_rows_per_person=3),
    Domain((Numeric("x", -1, 1, fill=0), Numeric("y", 0, 9, fill=9), Boolean("b", fill=False))),
)  # fmt: skip
"""Beside the worst cases: rows alone, persons with several, and rows of which all are kept."""

PLAIN = AddRemove | Replace | CrowdAdjacency


def replay_case(case: WorstCase) -> Replayed:
    """Replay the two tables of a worst case, each way, three times."""
    ways = [(case.left, case.right), (case.right, case.left)] * 3
    return replay_question(case.query, case.query.cost(), ways)


def replay_audit(
    name: str, pairs: int, domains: tuple[Domain, ...] = (), part: int = 0
) -> Replayed:
    """Replay a registered question on so many pairs, divided among its claims and variants.

    At least one of each variant. Its examples on these domains are asked; if none are given, its
    worst cases and usual data. Of a longer audit each part has other tables; the
    pairs of worst cases are in the first.
    """
    found = list(_claims(name, domains))
    each = -(-pairs // max(1, len(found)))
    whole: Replayed | None = None
    for number, claim in enumerate(found):
        query, _, statement, _ = claim
        listed = islice(_pairs(name, claim, part * len(found) + number, first=not part), each)
        one = replay_question(query, statement.cost, listed)
        done = one.pairs + (0 if whole is None else whole.pairs)
        if not one.holds:
            return replace(one, pairs=done, trouble=f"{one.trouble} {query.to_json()}")
        best = one if whole is None or one.share > whole.share else whole
        whole = replace(best, pairs=done)
    if whole is None:
        raise NoPromise(f"{name} claims nothing that a replay can look at.")
    return whole


Claim = tuple[Query[Any], Domain, Statement, WorstCase | None]


def _claims(name: str, domains: tuple[Domain, ...]) -> Iterator[Claim]:
    """Every statement of the question of every case and example, and of their variants."""
    described = question(name)
    cases: tuple[WorstCase, ...] = () if domains else load(described.worst_cases)()
    asked: type[Query[Any]] = load(described.query)
    bases: list[tuple[Query[Any], Domain, WorstCase | None]] = [
        (case.query, case.left.domain, case) for case in cases
    ]
    for domain in domains or DOMAINS:
        bases += [(query, domain, None) for query in asked.examples(domain)]
    for query, domain, case in bases:
        for variant in variants(query, domain):
            for statement in variant.statements(domain):
                with suppress(NoPromise):  # towards persons with several rows
                    claimed = statement.towards(statement.adjacency, domain.max_rows_per_person)
                    if claimed is not None and (
                        isinstance(statement.adjacency, PLAIN) or described.adjacent
                    ):
                        yield variant, domain, Statement(claimed, statement.adjacency), case


def _pairs(name: str, claim: Claim, seed: int, *, first: bool) -> Iterator[tuple[Table, Table]]:
    """The pair of the case both ways, where it is one of this adjacency, and generated ones."""
    query, domain, statement, case = claim
    if first and case is not None and statement.adjacency == case.query.guarantee().adjacency:
        yield case.left, case.right
        yield case.right, case.left
    adjacent = None if isinstance(statement.adjacency, PLAIN) else load(question(name).adjacent)
    tried = table_pairs(domain, statement.adjacency, query, seed=seed)
    for one, other in tried if adjacent is None else islice(tried, 200):
        if adjacent is None or adjacent(query, one, other):
            yield one, other
