"""The histogram's hardest pairs: nobody against one record, and a record that changes cells."""

from __future__ import annotations

from privod.audit import WorstCase
from privod.data import Categorical, Domain, Table
from privod.privacy import AddRemove, Replace
from privod.questions.histogram.query import Histogram

DOMAIN = Domain((Categorical("letter", ("a", "b")),))


def worst_cases(kind: type[Histogram] = Histogram) -> tuple[WorstCase, ...]:
    """One case under each adjacency and noise."""
    rows = {text: Table(DOMAIN, {"letter": list(text)}) for text in ("", "a", "b")}
    add_remove = kind(columns=("letter",), epsilon=1, adjacency=AddRemove())
    replace = kind(columns=("letter",), epsilon=1, adjacency=Replace())
    gaussian = [
        kind(columns=("letter",), epsilon=1, noise="gaussian", delta="0.01", adjacency=adjacency)
        for adjacency in (AddRemove(), Replace())
    ]
    return (
        WorstCase(add_remove, rows[""], rows["a"]),
        WorstCase(replace, rows["a"], rows["b"]),
        WorstCase(gaussian[0], rows[""], rows["a"]),
        WorstCase(gaussian[1], rows["a"], rows["b"]),
    )
