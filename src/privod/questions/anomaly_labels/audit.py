"""The labels' hardest pairs: a record that makes its neighbors normal, and one far out."""

from __future__ import annotations

import numpy as np

from privod.audit.game import Game, Reading
from privod.data import Domain, Numeric, Table
from privod.privacy import AddRemove
from privod.questions.anomaly_labels.query import AnomalyLabels

__all__ = ["games"]

DOMAIN = Domain((Numeric("x", -100, 100),))
YESSES = (Reading("labels that say yes", lambda value: float(sum(value))),)


def _table(*places: float) -> Table:
    return Table(DOMAIN, {"x": np.array(places, dtype=float)})


def games(kind: type[AnomalyLabels] = AnomalyLabels) -> tuple[Game, ...]:
    """Two labels moved by one record between them; one label, for each promise."""
    crowd = (0.0, 0.5)
    found = []
    for margin in (None, 1):
        for records in (((0.0,),), ((0.0,), (0.5,))):
            query = kind(
                records=records,
                columns=("x",),
                radius=1,
                max_crowd=2,
                epsilon="0.8",
                edit_margin=margin,
            )
            found.append(Game(query, _table(*crowd), _table(*crowd, 0.25), YESSES))
    alone = kind(
        records=((50.0,),), columns=("x",), radius=1, max_crowd=8, epsilon="0.8", edit_margin=1
    )
    if alone.guarantee().adjacency == AddRemove():  # a record far out is not promised more
        found.append(Game(alone, _table(), _table(50.0), YESSES))
    return tuple(found)
