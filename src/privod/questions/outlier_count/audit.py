"""The outlier count's hardest pairs: one record that pulls 2 max_crowd others over the line."""

from __future__ import annotations

from typing import Any

import numpy as np

from privod.audit import WorstCase, to_the_middle
from privod.data import Categorical, Domain, Numeric, Table
from privod.privacy import AddRemove, Adjacency, Replace
from privod.questions.outlier_count.query import NOISES, OutlierCount

MIXED = Domain((Numeric("x", -100, 100), Categorical("kind", ("a", "b"))))
SPACE = Domain(tuple(Numeric(name, -100, 100) for name in ("x", "y", "z")))
MAX_CROWD = 2
SMOOTH = ("heavy", "laplace", "gaussian")
DELTAS = {"laplace": "0.001", "gaussian": "0.1"}
MOVED = {"epsilon": "1.5", "margin_share": "0.01"}
"""Where a record moves the count by all of its bound, which nearly all of epsilon buys."""


def worst_cases(kind: type[OutlierCount] = OutlierCount) -> tuple[WorstCase, ...]:
    """On the line, records at -1 and 1 are outlying until one comes to stand at 0.

    With one neighbor fewer they stay outlying, but now stand at the line: nothing is counted
    differently, and only what a record could move from there on has changed. So there noise that
    is cut by a factor breaks no promise, and a scale that does not change smoothly does.
    """
    sides = (-1.0, 1.0) * MAX_CROWD
    pairs = to_the_middle(*sides, apart=50.0)
    found = []
    for adjacency, (left, right) in pairs.items():
        for noise in NOISES[1:]:
            telling = MOVED if noise in SMOOTH else {}
            query = _query(kind, noise, MAX_CROWD, adjacency, **telling)
            found.append(WorstCase(query, left, right))
    asked: dict[str, Any] = {"max_crowd": MAX_CROWD, "columns": ("x", "kind"), "weights": (1, 0.9)}
    mixed = kind(radius=1, epsilon=1, noise="global", **asked)
    found.append(WorstCase(mixed, *_mixed_pair()))
    calm, tense = pairs[AddRemove()]
    for noise in SMOOTH:
        query = _query(kind, noise, MAX_CROWD + 1, AddRemove())
        found.append(WorstCase(query, calm, tense))
    in_space = [_query(kind, noise, MAX_CROWD, Replace(), **MOVED) for noise in SMOOTH]
    return (*found, *(WorstCase(query, *_space_pair()) for query in in_space))


def _space_pair() -> tuple[Table, Table]:
    """Six groups around a place, each a radius from it and farther from each other."""
    axes = np.repeat(np.vstack([np.eye(3), -np.eye(3)]), MAX_CROWD, axis=0)
    tables = []
    for place in (50.0, 0.0):
        rows = np.vstack([axes, np.full(3, place)])
        tables.append(Table(SPACE, dict(zip(SPACE.names, rows.T, strict=True))))
    return tables[0], tables[1]


def _mixed_pair() -> tuple[Table, Table]:
    """Three groups within the radius of a place and apart from each other, one by its category."""
    places = [(-1.0, "a"), (1.0, "a"), (0.0, "b")] * MAX_CROWD
    tables = []
    for rows in (places, [*places, (0.0, "a")]):
        columns = {"x": np.array([x for x, _ in rows]), "kind": [kind for _, kind in rows]}
        tables.append(Table(MIXED, columns))
    return tables[0], tables[1]


def _query(
    kind: type[OutlierCount], noise: Any, max_crowd: int, adjacency: Adjacency, **more: Any
) -> OutlierCount:
    given = {"epsilon": 1, "delta": DELTAS.get(noise, 0), **more}
    return kind(radius=1, max_crowd=max_crowd, noise=noise, adjacency=adjacency, **given)
