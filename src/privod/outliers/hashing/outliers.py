"""Which suspects of hashing are outlying? [Raval 2011]."""

from __future__ import annotations

from math import floor

import numpy as np
from numpy.typing import NDArray

from privod.errors import InvalidParameter


def crowd_limit(far_fraction: float, n_records: int) -> int:
    """Return the largest crowd of an outlier: floor((1 - p_t) n), safe from binary rounding."""
    if not 0 < far_fraction < 1:
        raise InvalidParameter(
            "far_fraction", "must be between 0 and 1", far_fraction, "Try 0.9988, as in the paper."
        )
    return floor((1 - far_fraction) * n_records + 1e-9)


def intersect_rounds(rounds: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Keep what is flagged every time [Raval 2011, III-A2]."""
    rows = rounds[0]
    for other in rounds[1:]:
        rows = np.intersect1d(rows, other, assume_unique=True)
    return rows
