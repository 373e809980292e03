"""The outlier context's hardest pairs: a record that tips the balance between two groups."""

from __future__ import annotations

from privod.audit.game import Game, Reading
from privod.data import Categorical, Domain, Numeric, Table
from privod.outliers.contexts import Context
from privod.queries.outlier_context import OutlierContext

__all__ = ["games", "table_with"]

DOMAIN = Domain(
    (
        Categorical("group", ("a", "b")),
        Categorical("shift", ("day", "night")),
        Numeric("salary", 0, 100),
    )
)
RECORD = (("group", "a"), ("shift", "day"))


def table_with(others: int) -> Table:
    """Eight alike in the record's own group, so many others in group b, and the record itself.

    By Grubbs' test the record stands out wherever it is looked at, however many others there are.
    """
    salaries = [40 + place for place in range(8)] + [44] * others + [100]
    groups = ["a"] * 8 + ["b"] * others + ["a"]
    return Table(DOMAIN, {"group": groups, "shift": ["day"] * len(groups), "salary": salaries})


def _place(value: Context | None) -> float:
    return -1.0 if value is None else float(int(value.bits, 2))


READINGS = (Reading("the context as a number", _place),)


def games(kind: type[OutlierContext] = OutlierContext) -> tuple[Game, ...]:
    """One more or one less in group b, chosen directly and by a search."""
    direct = kind(record=RECORD, column="salary", value=100, epsilon=1, detector="grubbs")
    searched = kind(
        record=RECORD,
        column="salary",
        value=100,
        epsilon=1,
        detector="grubbs",
        sampler="bfs",
        max_visits=3,
    )
    return tuple(
        Game(query, table_with(2), table_with(3), READINGS) for query in (direct, searched)
    )
