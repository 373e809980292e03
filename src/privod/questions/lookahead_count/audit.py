"""The lookahead's hardest pair: the rarest protected value against one copy less."""

from __future__ import annotations

import numpy as np

from privod.audit.game import Game, Reading
from privod.data import Domain, Numeric, Table
from privod.questions.lookahead_count.query import CopyCount, LookaheadCount

__all__ = ["games"]

DOMAIN = Domain((Numeric("x", -100, 100),))


def _count(value: CopyCount) -> float:
    return float(value.count)


def _noisy(value: CopyCount) -> float:
    return float(value.noisy)


READINGS = (Reading("the count", _count), Reading("whether it is noisy", _noisy))


def _copies(n: int) -> Table:
    return Table(DOMAIN, {"x": np.full(n, 5.0)})


def games(kind: type[LookaheadCount] = LookaheadCount) -> tuple[Game, ...]:
    """Two copies against three, where a crowd of three is protected."""
    query = kind(record=(5.0,), columns=("x",), max_crowd=3, epsilon="0.8", edit_margin=1)
    return (Game(query, _copies(2), _copies(3), READINGS),)
