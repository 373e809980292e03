"""The outlier context's hardest pairs: a record that tips the balance between two contexts."""

from __future__ import annotations

from dataclasses import replace

from privod.audit.game import Game, Reading
from privod.data import Categorical, Domain, Numeric, Table
from privod.outliers.contexts.contexts import Context
from privod.questions.outlier_context.query import OutlierContext

__all__ = ["games", "table_with"]

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
