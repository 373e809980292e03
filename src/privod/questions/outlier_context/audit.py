"""The outlier context's hardest pairs: a record that tips the balance between two contexts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from privod.audit.game import Game, Reading
from privod.data import Categorical, Domain, Numeric, Table
from privod.outliers.contexts.contexts import Context
from privod.outliers.contexts.detectors import detector
from privod.outliers.contexts.matching import look_from
from privod.privacy import SameContexts
from privod.query.query import Query
from privod.questions.outlier_context.persons import persons_in
from privod.questions.outlier_context.query import OutlierContext

__all__ = ["games", "same_contexts", "table_with"]

DOMAIN = Domain((Categorical("group", ("a", "b")), Numeric("salary", 0, 100)))


def table_with(others: int) -> Table:
    """Eight alike in the record's own group, so many others in group b, and the record itself.

    By Grubbs' test the record stands out wherever it is looked at, however many others there are.
    """
    salaries = [40 + place for place in range(8)] + [44] * others + [100]
    return Table(DOMAIN, {"group": ["a"] * 8 + ["b"] * others + ["a"], "salary": salaries})


def _place(value: Context | None) -> float:
    return -1.0 if value is None else float(int(value.bits, 2))


READINGS = (Reading("the context as a number", _place),)


def same_contexts(query: Query[Any], one: Table, other: Table) -> bool:
    """Whether every person asked about stands out in the same contexts of both tables."""
    adjacency = query.guarantee().adjacency
    assert isinstance(adjacency, SameContexts)  # noqa: S101 - what such questions promise under
    rule = detector(adjacency.detector)
    for person in persons_in(adjacency.record):
        space = person.space(one.domain)
        here, there = (
            look_from(table, space, adjacency.column, person.value, rule).scan() >= 0
            for table in (one, other)
        )
        if not np.array_equal(here, there):
            return False
    return True


def games(kind: type[OutlierContext] = OutlierContext) -> tuple[Game, ...]:
    """One more or one less in group b: as likely as not at first, and for the rarer answer."""
    direct = kind(
        record=(("group", "a"),), column="salary", value=100, epsilon=1, detector="grubbs"
    )
    searched = replace(direct, sampler="bfs", max_visits=2)
    return (
        Game(direct, table_with(0), table_with(1), READINGS),
        Game(direct, table_with(1), table_with(2), READINGS),
        Game(searched, table_with(0), table_with(1), READINGS),
    )
