"""The sketch's hardest pairs: a record is in one bin of every table, and moves in all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from privod.audit.game import Game, Reading, fineness
from privod.data import Domain, Numeric, Table
from privod.privacy import AddRemove, Replace
from privod.questions.density_sketch.query import DensitySketch
from privod.questions.density_sketch.release import NoisySketch

DOMAIN = Domain((Numeric("x", 0, 1), Numeric("y", 0, 1)))
LOW, HIGH = (0.05, 0.05), (0.95, 0.95)  # in different bins of nearly every table


def _around(value: NoisySketch, place: tuple[float, float]) -> float:
    bins = value.hashing.bins_of(np.array([place]))[0]
    return float(value.counts[np.arange(len(bins)), bins].sum())


READINGS = (
    Reading("counts around the low record", lambda value: _around(value, LOW)),
    Reading("low less high", lambda value: _around(value, LOW) - _around(value, HIGH)),
    Reading("all counts", lambda value: float(value.counts.sum())),
    Reading("binary places", lambda value: fineness(value.counts.sum())),
)


def games(kind: type[DensitySketch] = DensitySketch) -> tuple[Game, ...]:
    """One game under each adjacency and noise."""
    nobody, low, high = (
        Table(DOMAIN, {"x": [place[0] for place in rows], "y": [place[1] for place in rows]})
        for rows in ((), (LOW,), (HIGH,))
    )
    small: dict[str, Any] = {"n_tables": 8, "bandwidths": (0.05, 0.1), "bins": 16}
    laplace: dict[str, Any] = {}
    gaussian: dict[str, Any] = {"noise": "gaussian", "delta": "0.01"}
    return tuple(
        Game(
            kind(columns=("x", "y"), epsilon=1, adjacency=adjacency, **small, **noise),
            left,
            right,
            READINGS,
        )
        for noise in (laplace, gaussian)
        for adjacency, left, right in ((AddRemove(), nobody, low), (Replace(), low, high))
    )
