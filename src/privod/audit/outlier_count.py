"""The outlier count's hardest pairs: one record that pulls 2 max_crowd others over the line."""

from __future__ import annotations

import numpy as np

from privod.audit.game import Game, Reading
from privod.data import Domain, Numeric, Table
from privod.privacy import AddRemove, Replace
from privod.queries.outlier_count import CountedOutliers, OutlierCount

__all__ = ["games"]

DOMAIN = Domain((Numeric("x", -100, 100),))
MAX_CROWD = 2


def _count(value: CountedOutliers) -> float:
    return float(value.count)


READINGS = (Reading("the count", _count),)


def _table(*places: float) -> Table:
    return Table(DOMAIN, {"x": np.array(places, dtype=float)})


def games(kind: type[OutlierCount] = OutlierCount) -> tuple[Game, ...]:
    """On the line, records at -1 and 1 are outlying until one comes to stand at 0."""
    sides = (-1.0, 1.0) * MAX_CROWD
    pairs = {
        AddRemove(): (_table(*sides), _table(*sides, 0.0)),
        Replace(): (_table(*sides, 50.0), _table(*sides, 0.0)),
    }
    found = []
    for adjacency, (left, right) in pairs.items():
        for noise in ("global", "heavy", "laplace"):
            query = kind(
                radius=1,
                max_crowd=MAX_CROWD,
                epsilon=1,
                delta="0.001" if noise == "laplace" else 0,
                noise=noise,
                adjacency=adjacency,
            )
            found.append(Game(query, left, right, READINGS))
    return tuple(found)
