"""Which of a column's numbers are inside its range, and what becomes of the others?"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privod.data.fineness import FINEST, UNTOUCHED

__all__ = ["settle"]

Floats = NDArray[np.float64]


@njit(cache=True, nogil=True)
def settle(values: Floats, low: float, high: float, fill: float) -> tuple[int, int]:
    """Fill, clip and round numbers in place; return how many were missing and were clipped.

    A `fill` of NaN fills nothing: what is missing stays so.
    """
    missing = clipped = 0
    for row in range(values.size):
        value = values[row]
        if np.isnan(value):
            missing += 1
            value = fill
        if value < low:
            clipped += 1
            value = low
        elif value > high:
            clipped += 1
            value = high
        value += 0.0  # so that -0.0 is 0.0
        if abs(value) < UNTOUCHED:
            value = np.rint(value / FINEST) * FINEST + 0.0
        values[row] = value
    return missing, clipped
