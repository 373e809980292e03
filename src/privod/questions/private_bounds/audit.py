"""The bought ranges' hardest pairs: nobody against one record, and a record that moves far."""

from __future__ import annotations

from privod.audit import WorstCase
from privod.data import Domain, Numeric, Table
from privod.privacy import AddRemove, Replace
from privod.questions.private_bounds.query import PrivateBounds

DOMAIN = Domain((Numeric("x", -(2.0**20), 2.0**20),))


def worst_cases(kind: type[PrivateBounds] = PrivateBounds) -> tuple[WorstCase, ...]:
    """One case under each adjacency, at a loss large enough for one record to show."""
    nobody, small, large = (Table(DOMAIN, {"x": values}) for values in ([], [3.0], [900_000.0]))
    add_remove = kind(columns=("x",), epsilon=2, adjacency=AddRemove())
    replace = kind(columns=("x",), epsilon=2, adjacency=Replace())
    return (
        WorstCase(add_remove, nobody, small),
        WorstCase(replace, small, large),
    )
