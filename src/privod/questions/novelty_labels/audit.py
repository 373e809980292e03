"""The novelty labels' hardest pairs: the record that makes a crowd of one too few."""

from __future__ import annotations

from privod.audit.game import Game, Reading
from privod.data import Categorical, Domain, Numeric, Table
from privod.questions.novelty_labels.query import NoveltyLabels

__all__ = ["games", "table_with"]

DOMAIN = Domain((Categorical("group", ("a", "b", "c")), Numeric("x", 0, 10)))
YESSES = (Reading("labels that say yes", lambda value: float(sum(value))),)


def table_with(n: int) -> Table:
    """So many records alike."""
    return Table(DOMAIN, {"group": ["a"] * n, "x": [5.0] * n})


def games(kind: type[NoveltyLabels] = NoveltyLabels) -> tuple[Game, ...]:
    """One record moves three labels at once: they share epsilon."""
    together = kind(
        columns=("group", "x"),
        records=(("a", 5.0), ("b", 5.0), ("a", 5.5)),
        max_crowd=2,
        epsilon=1,
        max_distance=1,
        tolerances=(("x", 1.0),),
    )
    alone = kind(columns=("group",), records=(("a",),), max_crowd=2, epsilon=1)
    return (
        Game(together, table_with(1), table_with(2), YESSES),
        Game(alone, table_with(1), table_with(2), YESSES),
    )
