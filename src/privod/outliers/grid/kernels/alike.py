"""Which rows of cells are the same cell?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Ints
from privod.compiling import njit

MIXER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: it spreads small numbers


@njit(cache=True, nogil=True)
def number_alike(rows: NDArray[np.int32], slots: Ints, firsts: Ints, numbers: Ints) -> int:
    """Number rows by their first appearance, equal ones alike; return how many differ.

    `slots` are a power of two, more than there are rows, and all -1. `firsts` gets the first row of
    each number.
    """
    n_different = 0
    mask = np.uint64(slots.size - 1)
    for row in range(len(rows)):
        mixed = np.uint64(0)
        for number in rows[row]:
            mixed = (mixed ^ np.uint64(number)) * MIXER
            mixed ^= mixed >> np.uint64(32)
        slot = mixed & mask
        while slots[slot] >= 0 and not _equal(rows[firsts[slots[slot]]], rows[row]):
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] < 0:
            slots[slot] = n_different
            firsts[n_different] = row
            n_different += 1
        numbers[row] = slots[slot]
    return n_different


@njit(cache=True, nogil=True, inline="always")
def _equal(row: Any, other: Any) -> bool:
    place = 0
    while place < row.size and row[place] == other[place]:
        place += 1
    return bool(place == row.size)
