"""The hardest pairs for quantiles: a record lifts some places and lowers others."""

from __future__ import annotations

from typing import Any

from privod.audit import WorstCase
from privod.data import Domain, Ordinal, Table
from privod.privacy import AddRemove, Replace
from privod.questions.quantiles.query import Quantiles

DOMAIN = Domain((Ordinal("grade", ("a", "b", "c")),))


def worst_cases(kind: type[Quantiles] = Quantiles) -> tuple[WorstCase, ...]:
    """One case for one quantile and one for three, under each adjacency."""
    few, more, moved = (
        Table(DOMAIN, {"grade": list(text)}) for text in ("bbbccc", "abbbccc", "bbbcccc")
    )
    found = []
    for shares in (("1/2",), ("0.1", "0.5", "0.9")):
        asked: dict[str, Any] = {"columns": ("grade",), "epsilon": 1, "quantiles": shares}
        added = kind(**asked, adjacency=AddRemove())
        found.append(WorstCase(added, few, more))
        replaced = kind(**asked, adjacency=Replace())
        found.append(WorstCase(replaced, more, moved))
    return tuple(found)
