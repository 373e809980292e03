"""Which of a column's numbers are inside its range, and what becomes of the others?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privod.compiling import njit
from privod.data.fineness import FINEST, UNTOUCHED

__all__ = ["settle"]

Floats = NDArray[np.float64]


@njit(cache=True, nogil=True)
def settle(values: Floats, low: float, high: float, fill: float) -> tuple[int, int]:
    """Fill, clip and round numbers in place; return how many were missing and were clipped.

    A `fill` of NaN fills nothing: what is missing stays so.
    """
    missing = clipped = n_fine = 0
    for row in range(values.size):  # without a branch, so that several go at a time
        value = values[row]
        missing += np.isnan(value)
        value = fill if np.isnan(value) else value
        clipped += (value < low) | (value > high)
        value = low if value < low else value
        value = high if value > high else value
        n_fine += (abs(value) < UNTOUCHED) & (value != 0.0)
        values[row] = value + 0.0  # so that -0.0 is 0.0
    if n_fine:
        for row in range(values.size):
            if abs(values[row]) < UNTOUCHED:
                values[row] = np.rint(values[row] / FINEST) * FINEST + 0.0
    return missing, clipped
