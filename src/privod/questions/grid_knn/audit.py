"""The grid's hardest pairs: nobody against one record, a record that changes cells."""

from __future__ import annotations

from privod.audit import WorstCase
from privod.data import Domain, Numeric, Table
from privod.privacy import AddRemove, Replace
from privod.questions.grid_knn.query import GridKnn

DOMAIN = Domain((Numeric("x", 0, 2),))


def worst_cases(kind: type[GridKnn] = GridKnn) -> tuple[WorstCase, ...]:
    """One case under each adjacency, and one with cells dropped."""
    nobody, left, right = (Table(DOMAIN, {"x": values}) for values in ([], [0.5], [1.5]))
    add_remove = kind(columns=("x",), epsilon=1, cells_per_axis=2, adjacency=AddRemove())
    replace = kind(columns=("x",), epsilon=1, cells_per_axis=2, adjacency=Replace())
    sparse = kind(columns=("x",), epsilon=1, cells_per_axis=2, drop_below=2)
    return (
        WorstCase(add_remove, nobody, left),
        WorstCase(replace, left, right),
        WorstCase(sparse, nobody, left),
    )
