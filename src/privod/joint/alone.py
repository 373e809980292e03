"""What can a party say by itself? Its own records against its own, before and beside every run.

Nothing is sent. An outlier has at most a share of all records near it; alone the same share is
taken of one's own. Where a party holds only some of the columns, the radius shrinks with the root
of its share of them.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from privod.outliers.crowds.distance import crowds
from privod.outliers.hashing.outliers import crowd_limit

Rows = NDArray[np.int64]


def outliers_alone(
    points: NDArray[np.float64], radius: float, far_fraction: float, all_columns: int
) -> Rows:
    """Return the rows with no more than a crowd of own records near them, ascending."""
    limit = crowd_limit(far_fraction, len(points))
    own_radius = radius * sqrt(points.shape[1] / all_columns)
    return np.flatnonzero(crowds(points, own_radius, cap=limit + 1) <= limit)


def compared(alone: Rows, together: Rows, n_records: int) -> str:
    """Both results in one sentence."""
    differ = len(np.setxor1d(alone, together))
    return (
        f"Alone {len(alone)} of your {n_records} records are outliers, together {len(together)};"
        f" {differ} differ."
    )
