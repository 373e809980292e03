"""The novelty labels' hardest pairs: the record that makes a crowd of one too few."""

from __future__ import annotations

from typing import Any

from privod.audit import WorstCase
from privod.data import Categorical, Domain, Numeric, Table
from privod.questions.novelty_labels.query import NoveltyLabels

DOMAIN = Domain((Categorical("group", ("a", "b", "c")), Numeric("x", 0, 10)))


def table_with(n: int) -> Table:
    """So many records alike."""
    return Table(DOMAIN, {"group": ["a"] * n, "x": [5.0] * n})


def worst_cases(kind: type[NoveltyLabels] = NoveltyLabels) -> tuple[WorstCase, ...]:
    """One record moves several labels at once: they share epsilon."""
    mixed = (("a", 5.0), ("b", 5.0), ("a", 5.5))
    cases: tuple[tuple[tuple[str, ...], Any, str], ...] = (
        (("group", "x"), mixed, 'alike(max_distance=1, tolerances={"x": 1.0})'),
        (("group",), (("a",),), "alike()"),
        (("x",), ((5.0,), (5.0,)), "tail()"),
        (("x",), ((5.0,), (5.0,)), "distance(radius=1.0)"),
    )
    return tuple(
        WorstCase(
            kind(
                columns=columns,
                records=records,
                epsilon=1,
                model=f"crowd(max_crowd=2, near={near})",
            ),
            table_with(1),
            table_with(2),
        )
        for columns, records, near in cases
    )
