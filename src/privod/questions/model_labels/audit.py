"""The model labels' hardest pairs: the record that changes a verdict, or two at once."""

from __future__ import annotations

from typing import Any

from privod.audit.game import Game, Reading
from privod.data import Domain, Numeric, Table
from privod.questions.model_labels.query import ModelLabels

__all__ = ["games", "table_with"]

DOMAIN = Domain((Numeric("x", 0, 10),))
YESSES = (Reading("labels that say yes", lambda value: float(sum(value))),)


def table_with(n: int) -> Table:
    """So many records at the same place."""
    return Table(DOMAIN, {"x": [9.0] * n})


def games(kind: type[ModelLabels] = ModelLabels) -> tuple[Game, ...]:
    """One record changes two verdicts: they share epsilon."""
    asked: dict[str, Any] = {"columns": ("x",), "records": ((9.0,), (9.0,)), "epsilon": 1}
    rank = kind(**asked, model="tail-rank(n_beyond=2)")
    near = kind(**asked, model="knn-distance(n_neighbors=2, radius=1)")
    return (
        Game(rank, table_with(1), table_with(2), YESSES),
        Game(near, table_with(1), table_with(2), YESSES),
    )
