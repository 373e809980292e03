"""The outlier count's hardest pairs: one record that pulls 2 max_crowd others over the line."""

from __future__ import annotations

from typing import Any

import numpy as np

from privod.audit.game import Game, Reading
from privod.data import Domain, Numeric, Table
from privod.privacy import AddRemove, Adjacency, Replace
from privod.queries.outlier_count import NOISES, CountedOutliers, OutlierCount

__all__ = ["games"]

DOMAIN = Domain((Numeric("x", -100, 100),))
MAX_CROWD = 2
SMOOTH = ("heavy", "laplace", "gaussian")


def _count(value: CountedOutliers) -> float:
    return float(value.count)


READINGS = (Reading("the count", _count),)


def _table(*places: float) -> Table:
    return Table(DOMAIN, {"x": np.array(places, dtype=float)})


def games(kind: type[OutlierCount] = OutlierCount) -> tuple[Game, ...]:
    """On the line, records at -1 and 1 are outlying until one comes to stand at 0.

    With one neighbor fewer they stay outlying, but now stand at the line: nothing is counted
    differently, and only what a record could move from there on has changed.
    """
    sides = (-1.0, 1.0) * MAX_CROWD
    pairs = {
        AddRemove(): (_table(*sides), _table(*sides, 0.0)),
        Replace(): (_table(*sides, 50.0), _table(*sides, 0.0)),
    }
    found = []
    for adjacency, (left, right) in pairs.items():
        for noise in NOISES[1:]:
            query = _query(kind, noise, MAX_CROWD, adjacency)
            found.append(Game(query, left, right, READINGS))
    calm, tense = pairs[AddRemove()]
    for noise in SMOOTH:
        query = _query(kind, noise, MAX_CROWD + 1, AddRemove())
        found.append(Game(query, calm, tense, READINGS))
    return tuple(found)


def _query(
    kind: type[OutlierCount], noise: Any, max_crowd: int, adjacency: Adjacency
) -> OutlierCount:
    delta = "0.001" if noise in ("laplace", "gaussian") else 0
    return kind(
        radius=1, max_crowd=max_crowd, epsilon=1, delta=delta, noise=noise, adjacency=adjacency
    )
