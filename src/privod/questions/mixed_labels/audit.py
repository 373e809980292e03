"""The hardest pairs for labels of mixed records: one more alike, at the border of the crowd."""

from __future__ import annotations

from privod.audit.game import Game, Reading
from privod.data import Categorical, Domain, Numeric, Table
from privod.privacy import AddRemove
from privod.questions.mixed_labels.query import MixedLabels

__all__ = ["games", "table_of"]

DOMAIN = Domain((Categorical("group", ("a", "b", "c")), Numeric("x", 0, 10)))
YESSES = (Reading("labels that say yes", lambda value: float(sum(value))),)

Row = tuple[str, float]


def table_of(*rows: Row) -> Table:
    """These records."""
    return Table(DOMAIN, {"group": [group for group, _ in rows], "x": [x for _, x in rows]})


def games(kind: type[MixedLabels] = MixedLabels) -> tuple[Game, ...]:
    """A record alike three asked about makes two of them normal, which are there; one label; all.

    With an edit margin the record that comes stands in a crowd, so it is protected.
    """
    crowd: tuple[Row, ...] = (("a", 5.0), ("b", 5.0))
    found = []
    for margin in (None, 1):
        for records in ((("a", 5.0),), (("a", 5.0), ("b", 5.0), ("c", 5.0))):
            query = kind(
                columns=("group", "x"),
                records=records,
                max_crowd=2,
                epsilon=1,
                edit_margin=margin,
                max_distance=1,
                tolerances=(("x", 1.0),),
            )
            found.append(Game(query, table_of(*crowd), table_of(*crowd, ("a", 5.5)), YESSES))
    alone = kind(columns=("group",), records=(("a",),), max_crowd=8, epsilon=1, edit_margin=1)
    if alone.guarantee().adjacency == AddRemove():  # one that nobody is alike is not promised more
        found.append(Game(alone, table_of(), table_of(("a", 5.0)), YESSES))
    return tuple(found)
