"""The marginal histograms' hardest pairs: a record moves a bin in every column at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privod.audit.game import Game, Reading, fineness
from privod.data import Domain, Numeric, Table
from privod.privacy import AddRemove, Replace
from privod.questions.marginals.query import Marginals
from privod.questions.marginals.release import NoisyMarginals

__all__ = ["games"]

DOMAIN = Domain((Numeric("x", 0, 2), Numeric("y", 0, 2)))


def _total(value: NoisyMarginals) -> float:
    return 0.0 if value.records is None else float(value.records.count)


def _scored(value: NoisyMarginals) -> NDArray[np.int64]:
    return np.array(() if value.scored is None else value.scored.counts, dtype=np.int64)


READINGS = (
    Reading("number of records", _total),
    Reading("all counts", lambda value: float(value.counts.sum())),
    Reading("low bins of both columns", lambda value: float(value.counts[:, 0].sum())),
    Reading(
        "low bins less high bins",
        lambda value: float(value.counts[:, 0].sum() - value.counts[:, 1].sum()),
    ),
    Reading("low bins full", lambda value: float(value.counts[:, 0].min())),
    Reading("records by their scores", lambda value: float(_scored(value).sum())),
    Reading("ordinary scores", lambda value: float(_scored(value)[:11].sum())),
    Reading("binary places", lambda value: fineness(value.counts.sum())),
)


def games(kind: type[Marginals] = Marginals) -> tuple[Game, ...]:
    """One game under each adjacency and noise, and one where the number of records is bought."""
    nobody, low, high = (Table(DOMAIN, {"x": values, "y": values}) for values in ([], [0.5], [1.5]))
    add_remove = kind(columns=("x", "y"), epsilon=1, bins=2, adjacency=AddRemove())
    replace = kind(columns=("x", "y"), epsilon=1, bins=2, adjacency=Replace())
    gaussian = [
        kind(columns=("x", "y"), epsilon=1, bins=2, noise="gaussian", delta="0.01", adjacency=other)
        for other in (AddRemove(), Replace())
    ]
    return (
        Game(add_remove, nobody, low, READINGS),
        Game(replace, low, high, READINGS),
        Game(gaussian[0], nobody, low, READINGS),
        Game(gaussian[1], low, high, READINGS),
        Game(kind(columns=("x", "y"), epsilon=1), nobody, low, READINGS),
    )
