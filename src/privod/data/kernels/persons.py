"""Who is who among many names, and which rows are the first of each? One pass over the rows."""

from __future__ import annotations

import numpy as np

from privod.arrays import Bools, Bytes, Ints, Words
from privod.compiling import njit

EMPTY = -1


@njit(cache=True, nogil=True)
def _same(data: Bytes, offsets: Ints, one: int, other: int) -> bool:
    start, also = offsets[one], offsets[other]
    length = offsets[one + 1] - start
    if offsets[other + 1] - also != length:
        return False
    alike = 0
    while alike < length and data[start + alike] == data[also + alike]:
        alike += 1
    return bool(alike == length)


@njit(cache=True, nogil=True)
def number_names(
    data: Bytes, offsets: Ints, hashes: Words, slots: Ints, shift: int, numbers: Ints
) -> int:
    """Number names in the order in which they first appear; return how many there are.

    `slots` is all `EMPTY`, of 2^(64 - shift) places, more than there are names. A hash says where
    to look first; whether two names are one is decided by their bytes.
    """
    n_names = 0
    last = slots.size - 1
    for row in range(hashes.size):
        slot = np.int64(hashes[row] >> np.uint64(shift))
        while True:
            first = slots[slot]
            if first == EMPTY:
                slots[slot] = row
                numbers[row] = n_names
                n_names += 1
                break
            if hashes[first] == hashes[row] and _same(data, offsets, first, row):
                numbers[row] = numbers[first]
                break
            slot = (slot + 1) & last
    return n_names


@njit(cache=True, nogil=True)
def mark_first(numbers: Ints, most: int, seen: Ints, first: Bools) -> None:
    """Mark the first `most` rows of each number; `seen` begins with 0 for every number."""
    for row in range(numbers.size):
        number = numbers[row]
        first[row] = seen[number] < most
        if first[row]:
            seen[number] += 1


@njit(cache=True, nogil=True)
def set_bits(bits: Bytes, places: Ints) -> None:
    """Set the bits at some places, the lowest of a byte first."""
    for place in places:
        bits[place >> 3] |= np.uint8(1 << (place & 7))
