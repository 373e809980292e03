"""The subspaces' hardest pair: a record empties one column of outliers and adds to the other."""

from __future__ import annotations

import numpy as np

from privod.audit import WorstCase
from privod.data import Domain, Numeric, Table
from privod.privacy import AddRemove, Replace
from privod.questions.outlier_subspaces.query import OutlierSubspaces

DOMAIN = Domain((Numeric("x", -100, 100), Numeric("y", -100, 100)))


def _table(x: list[float], y: list[float]) -> Table:
    return Table(DOMAIN, {"x": np.array(x), "y": np.array(y)})


def worst_cases(kind: type[OutlierSubspaces] = OutlierSubspaces) -> tuple[WorstCase, ...]:
    """Both ends of x are outlying until a record comes to its middle, and far out in y.

    Before that either column is as full as the other, so that either comes first as often: then the
    choice loses all that it may.
    """
    ends = [-1.0, 1.0]
    crowded = [80.0, 80.0, 80.0]  # in x; in y these three are outlying
    x, y = [*ends, *crowded], [29.0, 31.0, -60.0, -70.0, -80.0]
    pairs = (
        (AddRemove(), _table(ends, [30.0, -60.0]), _table([*ends, 0.0], [30.0, -60.0, -30.0])),
        (Replace(), _table([*x, 50.0], [*y, 30.0]), _table([*x, 0.0], [*y, -30.0])),
    )
    return tuple(
        WorstCase(
            kind(
                radius_per_column=1, max_crowd=1, epsilon=2, count_share=share, adjacency=adjacency
            ),
            one,
            other,
        )
        for adjacency, one, other in pairs
        for share in (0, "0.5")
    )
