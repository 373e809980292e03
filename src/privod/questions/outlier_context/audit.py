"""The outlier context's hardest pairs: a record that is counted in every choice and every size."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from privod.audit import WorstCase
from privod.data import Categorical, Domain, Numeric, Table
from privod.outliers.contexts.detectors import detector
from privod.outliers.contexts.matching import look_from
from privod.privacy import SameContexts
from privod.query.query import Query
from privod.questions.outlier_context.persons import persons_in
from privod.questions.outlier_context.query import OutlierContext

DOMAIN = Domain(
    (Categorical("group", ("a", "b")), Numeric("age", 0, 100), Numeric("salary", 0, 100))
)


def table_with(others: int) -> Table:
    """Eight alike of group a, so many others of group b, and one far out; all young.

    By Grubbs' test a person as far out stands out wherever looked at, however many others there
    are. The second person asked about is seen as the same one: groups cut ages at 50.
    """
    salaries = [40 + place for place in range(8)] + [44] * others + [100]
    groups = ["a"] * 8 + ["b"] * others + ["a"]
    return Table(DOMAIN, {"group": groups, "age": [20] * len(groups), "salary": salaries})


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


def worst_cases(kind: type[OutlierContext] = OutlierContext) -> tuple[WorstCase, ...]:
    """One more or one less in group b: for one group and two, searched, for two persons, sizes."""
    direct = kind(
        group_columns=("group",),
        persons=(("a", 100.0),),
        column="salary",
        epsilon=1,
        detector="grubbs",
    )
    persons = (("a", 20.0, 100.0), ("a", 21.0, 100.0))
    aged = replace(direct, group_columns=("group", "age"), persons=persons, cuts=(("age", 50.0),))
    one_aged = replace(aged, persons=persons[:1])
    return (
        WorstCase(direct, table_with(0), table_with(1)),
        WorstCase(direct, table_with(1), table_with(2)),
        WorstCase(replace(direct, sampler="bfs", max_visits=2), table_with(0), table_with(1)),
        WorstCase(replace(one_aged, n_groups=2), table_with(0), table_with(1)),
        WorstCase(replace(aged, size_share=Fraction(4, 5)), table_with(0), table_with(1)),
        WorstCase(replace(one_aged, sampler="bfs", max_visits=5), table_with(0), table_with(1)),
    )
