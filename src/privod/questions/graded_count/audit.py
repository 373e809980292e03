"""The graded count's hardest pairs: one record that lowers the credit of as many as it can."""

from __future__ import annotations

import numpy as np

from privod.audit.game import Game, Reading
from privod.data import Domain, Numeric, Table
from privod.privacy import AddRemove, Replace
from privod.questions.graded_count.query import GradedCount, GradedOutliers

DOMAIN = Domain((Numeric("x", -100, 100),))
MAX_CROWD = 2
GRADES = 3


def _parts(value: GradedOutliers) -> float:
    return float(value.parts)


READINGS = (Reading("the sum of credits", _parts),)


def _table(*places: float) -> Table:
    return Table(DOMAIN, {"x": np.array(places, dtype=float)})


def games(kind: type[GradedCount] = GradedCount) -> tuple[Game, ...]:
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
        Game(
            kind(radius=1, max_crowd=MAX_CROWD, grades=GRADES, epsilon=1, adjacency=adjacency),
            left,
            right,
            READINGS,
        )
        for adjacency, (left, right) in pairs.items()
    )
