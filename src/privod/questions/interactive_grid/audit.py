"""The interactive grid's hardest pairs: one record in a cell that is asked for, or next to it."""

from __future__ import annotations

from privod.audit import WorstCase
from privod.data import Domain, Numeric, Table
from privod.questions.interactive_grid.query import InteractiveGrid

DOMAIN = Domain((Numeric("x", 0, 8),))


def table_with(*places: float) -> Table:
    """Records at these places."""
    return Table(DOMAIN, {"x": list(places)})


def worst_cases(kind: type[InteractiveGrid] = InteractiveGrid) -> tuple[WorstCase, ...]:
    """A record comes to an empty cell one step away, or to the own cell."""
    once = kind(
        columns=("x",),
        cells_per_axis=8,
        epsilon=1,
        records=((3.5,),),
        n_neighbors=1_000,
        max_steps=1,
    )
    own = kind(columns=("x",), cells_per_axis=8, epsilon=1, records=((3.5,),), n_neighbors=2)
    return (
        WorstCase(once, table_with(3.5), table_with(3.5, 4.5)),
        WorstCase(own, table_with(), table_with(3.5)),
    )
