"""The histogram's hardest pairs: nobody against one record, and a record that changes cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privod.audit.game import Game, Reading, fineness
from privod.data import Categorical, Domain, Table
from privod.privacy import AddRemove, Replace
from privod.questions.histogram.query import Histogram

DOMAIN = Domain((Categorical("letter", ("a", "b")),))


def _votes(counts: NDArray[np.int64]) -> int:
    """How many of the two cells are as one expects with the record at a: the likelihood ratio."""
    return int(counts[0] >= 1) + int(counts[1] <= 0)


READINGS = (
    Reading("records at a", lambda value: float(value.counts[0])),
    Reading("cells that speak for a", lambda value: float(_votes(value.counts))),
    Reading("at a less at b", lambda value: float(value.counts[0] - value.counts[1])),
    Reading("binary places", lambda value: fineness(value.counts[0])),
)


def games(kind: type[Histogram] = Histogram) -> tuple[Game, ...]:
    """One game under each adjacency and noise."""
    rows = {text: Table(DOMAIN, {"letter": list(text)}) for text in ("", "a", "b")}
    add_remove = kind(columns=("letter",), epsilon=1, adjacency=AddRemove())
    replace = kind(columns=("letter",), epsilon=1, adjacency=Replace())
    gaussian = [
        kind(columns=("letter",), epsilon=1, noise="gaussian", delta="0.01", adjacency=adjacency)
        for adjacency in (AddRemove(), Replace())
    ]
    return (
        Game(add_remove, rows[""], rows["a"], READINGS),
        Game(replace, rows["a"], rows["b"], READINGS),
        Game(gaussian[0], rows[""], rows["a"], READINGS),
        Game(gaussian[1], rows["a"], rows["b"], READINGS),
    )
