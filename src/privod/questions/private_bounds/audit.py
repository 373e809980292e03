"""The bought ranges' hardest pairs: nobody against one record, and a record that moves far."""

from __future__ import annotations

import math

from privod.audit.game import Game, Reading
from privod.data import Domain, Numeric, Table
from privod.privacy import AddRemove, Replace
from privod.questions.private_bounds.query import PrivateBounds

DOMAIN = Domain((Numeric("x", -(2.0**20), 2.0**20),))

READINGS = (
    Reading("upper end", lambda value: float(value[0].high)),
    Reading("lower end", lambda value: float(value[0].low)),
    Reading("size", lambda value: math.log2(value[0].high - value[0].low)),
)


def games(kind: type[PrivateBounds] = PrivateBounds) -> tuple[Game, ...]:
    """One game under each adjacency, at a loss large enough for one record to show."""
    nobody, small, large = (Table(DOMAIN, {"x": values}) for values in ([], [3.0], [900_000.0]))
    add_remove = kind(columns=("x",), epsilon=2, adjacency=AddRemove())
    replace = kind(columns=("x",), epsilon=2, adjacency=Replace())
    return (
        Game(add_remove, nobody, small, READINGS),
        Game(replace, small, large, READINGS),
    )
