"""The graded count's hardest pairs: one record that lowers the credit of as many as it can."""

from __future__ import annotations

import numpy as np

from privod.audit import WorstCase
from privod.data import Domain, Numeric, Table
from privod.privacy import AddRemove, Replace
from privod.questions.graded_count.query import GradedCount

DOMAIN = Domain((Numeric("x", -100, 100),))
MAX_CROWD = 2
GRADES = 3


def _table(*places: float) -> Table:
    return Table(DOMAIN, {"x": np.array(places, dtype=float)})


def worst_cases(kind: type[GradedCount] = GradedCount) -> tuple[WorstCase, ...]:
    """On the line, k + L - 1 records at -1 and as many at 1, and one that comes to 0.

    It takes a part from every one of them and counts nothing itself; replaced, it counted in full
    where it stood apart.
    """
    sides = (-1.0, 1.0) * (MAX_CROWD + GRADES - 1)
    pairs = {
        AddRemove(): (_table(*sides), _table(*sides, 0.0)),
        Replace(): (_table(*sides, 50.0), _table(*sides, 0.0)),
    }
    return tuple(
        WorstCase(
            kind(radius=1, max_crowd=MAX_CROWD, grades=GRADES, epsilon=1, adjacency=adjacency),
            left,
            right,
        )
        for adjacency, (left, right) in pairs.items()
    )
