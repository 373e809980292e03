"""The hardest pairs for quantiles: a record at an end of few, and one that changes sides."""

from __future__ import annotations

from typing import Any

from privod.audit.game import Game, Reading
from privod.data import Domain, Ordinal, Table
from privod.privacy import AddRemove, Replace
from privod.questions.quantiles.query import Quantiles

DOMAIN = Domain((Ordinal("grade", ("a", "b")),))
READINGS = (
    Reading("the median", lambda value: value.values[0][0]),
    Reading("the upper end of its interval", lambda value: value.highs[0][0]),
    Reading("the last quantile", lambda value: value.values[0][-1]),
)


def games(kind: type[Quantiles] = Quantiles) -> tuple[Game, ...]:
    """One game for one quantile and one for three, under each adjacency."""
    rows = {text: Table(DOMAIN, {"grade": list(text)}) for text in ("", "b", "aaab", "aaaa")}
    found = []
    for shares in (("1/2",), ("0.1", "0.5", "0.9")):
        asked: dict[str, Any] = {"columns": ("grade",), "epsilon": 1, "quantiles": shares}
        added = kind(**asked, adjacency=AddRemove())
        found.append(Game(added, rows[""], rows["b"], READINGS))
        replaced = kind(**asked, adjacency=Replace())
        found.append(Game(replaced, rows["aaaa"], rows["aaab"], READINGS))
    return tuple(found)
