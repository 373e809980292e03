"""The moments' hardest pairs: one record in a corner, which moves every sum and product at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.audit.game import Game, Reading, fineness
from privod.data import Domain, Numeric, Table
from privod.privacy import AddRemove, Replace
from privod.questions.mean_covariance.frame import Frame
from privod.questions.mean_covariance.query import MeanCovariance
from privod.questions.mean_covariance.release import NoisyMoments

DOMAIN = Domain((Numeric("x", -1, 1), Numeric("y", -1, 1)))
FRAME = Frame(DOMAIN.numeric(), (0.0, 0.0), 1.0)
CORNER, OTHER = (1.0, 1.0), (-1.0, 1.0)
"""Of equal length, with products of different signs."""


def _across(value: NoisyMoments) -> float:
    return float(value.products[1])


def _scored(value: NoisyMoments) -> NDArray[np.int64]:
    return np.array(() if value.scored is None else value.scored.counts, dtype=np.int64)


READINGS = (
    Reading("number of records", lambda value: float(value.total)),
    Reading("sums of both columns", lambda value: float(value.sums.sum())),
    Reading("sum of the first column", lambda value: float(value.sums[0])),
    Reading("all products", lambda value: float(value.products.sum())),
    Reading("product of both columns", _across),
    Reading("radius", lambda value: value.frame.radius),
    Reading("records by their distances", lambda value: float(_scored(value).sum())),
    Reading("binary places", lambda value: fineness(value.products.sum())),
)


def games(kind: type[MeanCovariance] = MeanCovariance) -> tuple[Game, ...]:
    """Under each adjacency and noise, with the frame bought for one and given for the other."""
    nobody, corner, other = (
        Table(DOMAIN, {"x": [place[0] for place in rows], "y": [place[1] for place in rows]})
        for rows in ((), (CORNER,), (OTHER,))
    )
    added, replaced = (AddRemove(), nobody, corner), (Replace(), corner, other)
    laplace: dict[str, Any] = {}
    gaussian: dict[str, Any] = {"noise": "gaussian", "delta": "0.01"}
    return tuple(
        Game(
            kind(columns=DOMAIN.names, epsilon=1, frame=frame, adjacency=adjacency, **noise),
            left,
            right,
            READINGS,
        )
        for (adjacency, left, right), frame, noise in (
            (added, None, laplace),
            (replaced, FRAME.text, laplace),
            (added, FRAME.text, gaussian),
            (replaced, None, gaussian),
        )
    )
