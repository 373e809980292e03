"""Try to catch a mechanism breaking its promise."""

from __future__ import annotations

from collections.abc import Callable

from privod.audit import (
    anomaly,
    bounds,
    grid_knn,
    histogram,
    lookahead,
    marginals,
    outlier_context,
    outlier_count,
    subspaces,
)
from privod.audit.game import Game, Reading, Verdict, fineness, play

__all__ = ["GAMES", "Game", "Reading", "Verdict", "fineness", "play"]

GAMES: dict[str, Callable[[], tuple[Game, ...]]] = {
    "anomaly-labels-1": anomaly.games,
    "grid-knn-1": grid_knn.games,
    "histogram-1": histogram.games,
    "lookahead-count-1": lookahead.games,
    "marginals-1": marginals.games,
    "private-bounds-1": bounds.games,
    "outlier-context-1": outlier_context.games,
    "outlier-count-1": outlier_count.games,
    "outlier-subspaces-1": subspaces.games,
}
"""The name of a query to its games: the worst pairs of adjacent tables we know."""
