"""The grid's hardest pairs: nobody against one record, a record that changes cells."""

from __future__ import annotations

from privod.audit.game import Game, Reading, fineness
from privod.data import Domain, Numeric, Table
from privod.privacy import AddRemove, Replace
from privod.questions.grid_knn.query import GridKnn
from privod.questions.grid_knn.release import NoisyGrid

DOMAIN = Domain((Numeric("x", 0, 2),))


def _count(value: NoisyGrid, cell: int) -> float:
    """The noisy count of a cell; a dropped one counts zero."""
    if value.cells is None:
        return float(value.counts[cell])
    kept = value.cells[:, 0] == cell
    return float(value.counts[kept].sum())


READINGS = (
    Reading("records in the left cell", lambda value: _count(value, 0)),
    Reading(
        "records in the left cell less those in the right",
        lambda value: _count(value, 0) - _count(value, 1),
    ),
    Reading(
        "left cell full and right cell empty",
        lambda value: min(_count(value, 0), 1 - _count(value, 1)),
    ),
    Reading("records in all", lambda value: float(value.total)),
    Reading(
        "records in the left cell and as many in all",
        lambda value: min(_count(value, 0), value.total),
    ),
    Reading("binary places", lambda value: fineness(value.counts.sum())),
)


def games(kind: type[GridKnn] = GridKnn) -> tuple[Game, ...]:
    """One game under each adjacency, and one with cells dropped."""
    nobody, left, right = (Table(DOMAIN, {"x": values}) for values in ([], [0.5], [1.5]))
    add_remove = kind(columns=("x",), epsilon=1, cells_per_axis=2, adjacency=AddRemove())
    replace = kind(columns=("x",), epsilon=1, cells_per_axis=2, adjacency=Replace())
    sparse = kind(columns=("x",), epsilon=1, cells_per_axis=2, drop_below=2)
    return (
        Game(add_remove, nobody, left, READINGS),
        Game(replace, left, right, READINGS),
        Game(sparse, nobody, left, READINGS),
    )
