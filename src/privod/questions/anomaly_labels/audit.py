"""The labels' hardest pairs: a record that makes its neighbors normal, and one far out."""

from __future__ import annotations

from typing import Any

from privod.audit import WorstCase
from privod.data import Categorical, Domain, Numeric, Table
from privod.privacy import AddRemove
from privod.questions.anomaly_labels.query import AnomalyLabels

DOMAIN = Domain((Categorical("group", ("a", "b", "c")), Numeric("x", -100, 100)))
Row = tuple[str, float]


def table_of(*rows: Row) -> Table:
    """These records."""
    return Table(DOMAIN, {"group": [group for group, _ in rows], "x": [x for _, x in rows]})


def worst_cases(kind: type[AnomalyLabels] = AnomalyLabels) -> tuple[WorstCase, ...]:
    """Labels moved by one record between them; one label, for each promise and crowd.

    With an edit margin the record that comes stands in a crowd, so it is protected.
    """
    found = []
    near: dict[str, Any] = {"columns": ("x",), "near": "distance(radius=1.0)"}
    beyond: dict[str, Any] = {"columns": ("x",), "near": "tail()"}
    alike: dict[str, Any] = {
        "columns": ("group", "x"),
        "near": 'alike(max_distance=1, tolerances={"x": 1.0})',
    }
    crowd: tuple[Row, ...] = (("a", 0.0), ("b", 0.5))
    tail: tuple[Row, ...] = (("a", 3.0), ("a", 3.0), ("a", 9.0))
    cases: list[tuple[dict[str, Any], Any, tuple[Row, ...], Row]] = [
        (near, ((0.0,), (0.5,)), crowd, ("a", 0.25)),
        (alike, (("a", 0.0), ("b", 0.5), ("c", 0.0)), crowd, ("a", 0.25)),
        (beyond, ((3.0,), (3.5,)), tail, ("a", 3.0)),
    ]
    for margin in (None, 1):
        for asked, records, before, comes in cases:
            for some in (records[:1], records):
                query = kind(**asked, records=some, max_crowd=2, epsilon="0.8", edit_margin=margin)
                found.append(WorstCase(query, table_of(*before), table_of(*before, comes)))
    alone = kind(**near, records=((50.0,),), max_crowd=8, epsilon="0.8", edit_margin=1)
    if alone.guarantee().adjacency == AddRemove():  # a record far out is not promised more
        found.append(WorstCase(alone, table_of(), table_of(("a", 50.0))))
    return tuple(found)
