"""Which of a column's numbers are inside its range, and what becomes of the others?"""

from __future__ import annotations

import numpy as np

from privod.arrays import Floats
from privod.compiling import njit
from privod.data.fineness import FINEST, UNTOUCHED


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
def settle(columns: Floats, ends: Floats, fills: Floats) -> Floats:
    """Put marked numbers at the ends of their ranges, fills (or NaN) for missing ones; in place.

    `ends` are the lower and upper ends of the columns' ranges, shape (2, columns).
    """
    for column in range(columns.shape[0]):
        own, low, high, fill = columns[column], ends[0, column], ends[1, column], fills[column]
        for row in range(own.size):
            value = own[row]
            value = fill if np.isnan(value) else value
            value = low if value < low else value
            own[row] = high if value > high else value
    return columns
