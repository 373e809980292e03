"""Which of a column's numbers are inside its range, and what becomes of the others?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privod.compiling import njit
from privod.data.fineness import FINEST, UNTOUCHED

Floats = NDArray[np.float64]


@njit(cache=True, nogil=True)
def mark(values: Floats, low: float, high: float) -> tuple[int, int]:
    """Round numbers in place, and mark what lies outside: -inf below the range, inf above it.

    Returns how many are missing (NaN) and how many lie outside.
    """
    missing = outside = n_fine = 0
    for row in range(values.size):  # without a branch, so that several go at a time
        value = values[row]
        missing += np.isnan(value)
        outside += (value < low) | (value > high)
        value = -np.inf if value < low else value
        value = np.inf if value > high else value
        n_fine += (abs(value) < UNTOUCHED) & (value != 0.0)
        values[row] = value + 0.0  # so that -0.0 is 0.0
    if n_fine:
        for row in range(values.size):
            if abs(values[row]) < UNTOUCHED:
                values[row] = np.rint(values[row] / FINEST) * FINEST + 0.0
    return missing, outside


@njit(cache=True, nogil=True)
def settle(rows: Floats, lows: Floats, highs: Floats, fills: Floats) -> Floats:
    """Rows with marked numbers at the ends of their ranges, fills (or NaN) where some miss."""
    found = np.empty(rows.shape)
    for row in range(rows.shape[0]):
        for column in range(rows.shape[1]):
            value = rows[row, column]
            value = fills[column] if np.isnan(value) else value
            value = lows[column] if value < lows[column] else value
            found[row, column] = highs[column] if value > highs[column] else value
    return found
