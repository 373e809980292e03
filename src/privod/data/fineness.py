"""How finely are numbers read? As multiples of 2^-500, which every ordinary number already is.

Distances square differences. A difference below 2^-511 or so vanishes when it is squared, and two
records that differ would be at distance 0. Multiples of 2^-500 are equal or differ by at least as
much, so no square of a difference of theirs loses a bit more than rounding takes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FINEST = 2.0**-500
UNTOUCHED = 2.0**-448  # from here on every float64 is a multiple of 2^-500


def rounded(values: Any) -> NDArray[np.float64]:
    """The nearest multiples of 2^-500; a number never changes its side of another, nor is -0.0."""
    array = np.array(values, dtype=np.float64)
    round_in_place(array)
    return array


def round_in_place(array: NDArray[np.float64]) -> None:
    """Replace numbers by the nearest multiples of 2^-500."""
    array += 0.0
    small = np.abs(array) < UNTOUCHED
    if small.any():
        array[small] = np.rint(array[small] / FINEST) * FINEST + 0.0
