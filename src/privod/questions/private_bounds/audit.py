"""The bought ranges' hardest pairs: nobody against one record, and a record that moves far."""

from __future__ import annotations

from privod.audit import WorstCase
from privod.data import Domain, Numeric, Table
from privod.privacy import AddRemove, Replace
from privod.questions.private_bounds.query import PrivateBounds

DOMAIN = Domain((Numeric("x", -(2.0**20), 2.0**20),))


def worst_cases(kind: type[PrivateBounds] = PrivateBounds) -> tuple[WorstCase, ...]:
    """Under each adjacency a record alone, which shows, and one in a crowd, which all looks see."""

    def table(*values: float) -> Table:
        return Table(DOMAIN, {"x": list(values)})

    crowd = (3.0,) * 100
    add_remove = kind(columns=("x",), epsilon=2, adjacency=AddRemove())
    replace = kind(columns=("x",), epsilon=2, adjacency=Replace())
    return (
        WorstCase(add_remove, table(), table(3.0)),
        WorstCase(replace, table(3.0), table(900_000.0)),
        WorstCase(add_remove, table(*crowd), table(*crowd, 3.0)),
        WorstCase(replace, table(*crowd, 3.0), table(*crowd, 1.5)),
    )
