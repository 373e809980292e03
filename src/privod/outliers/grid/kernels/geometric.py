"""How many values lie in each of some geometric bins about a point: one pass."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privod.compiling import njit

__all__ = ["count_in_bins"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@njit(cache=True, nogil=True)
def count_in_bins(
    values: Floats, zero: float, below: float, above: float, octaves: int, parts: int, counts: Ints
) -> None:
    """Add each value to the count of its bin; what is not a number is left out.

    On each side of `zero` that has a length, every halving of the length is an octave and every
    octave is cut into `parts` equal bins; the last bin reaches to `zero`. Bins ascend.
    """
    n_bins = octaves * parts
    shift = n_bins + 1 if below > 0 else 0
    for row in range(values.size):
        offset = values[row] - zero
        if math.isnan(offset):
            continue
        upward = offset >= 0 if above > 0 else False
        part, exponent = math.frexp(abs(offset) / (above if upward else below))
        step = n_bins
        if part > 0:
            inside = int((part - 0.5) * 2 * parts)
            step = min(max(-exponent * parts + parts - 1 - inside, 0), n_bins)
        counts[shift + n_bins - step if upward else step] += 1
