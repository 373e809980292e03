"""How many values lie in each rung of a geometric ladder about a point: one pass."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privod.compiling import njit

__all__ = ["count_rungs"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@njit(cache=True, nogil=True)
def count_rungs(
    values: Floats, zero: float, below: float, above: float, octaves: int, parts: int, counts: Ints
) -> None:
    """Add each value to the count of its rung; what is not a number is left out.

    On each side of `zero` that has a length, every halving of the length is an octave and every
    octave is cut into `parts` equal rungs; the last rung reaches to `zero`. Rungs ascend.
    """
    rungs = octaves * parts
    shift = rungs + 1 if below > 0 else 0
    for row in range(values.size):
        offset = values[row] - zero
        if math.isnan(offset):
            continue
        upward = offset >= 0 if above > 0 else False
        part, exponent = math.frexp(abs(offset) / (above if upward else below))
        step = rungs
        if part > 0:
            inside = int((part - 0.5) * 2 * parts)
            step = min(max(-exponent * parts + parts - 1 - inside, 0), rungs)
        counts[shift + rungs - step if upward else step] += 1
