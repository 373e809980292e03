"""The hardest pairs for quantiles: a record at an end of few, and one that changes sides."""

from __future__ import annotations

from typing import Any

from privod.audit import WorstCase
from privod.data import Domain, Ordinal, Table
from privod.privacy import AddRemove, Replace
from privod.questions.quantiles.query import Quantiles

DOMAIN = Domain((Ordinal("grade", ("a", "b")),))


def worst_cases(kind: type[Quantiles] = Quantiles) -> tuple[WorstCase, ...]:
    """One case for one quantile and one for three, under each adjacency."""
    rows = {text: Table(DOMAIN, {"grade": list(text)}) for text in ("", "b", "aaab", "aaaa")}
    found = []
    for shares in (("1/2",), ("0.1", "0.5", "0.9")):
        asked: dict[str, Any] = {"columns": ("grade",), "epsilon": 1, "quantiles": shares}
        added = kind(**asked, adjacency=AddRemove())
        found.append(WorstCase(added, rows[""], rows["b"]))
        replaced = kind(**asked, adjacency=Replace())
        found.append(WorstCase(replaced, rows["aaaa"], rows["aaab"]))
    return tuple(found)
