"""Which coins land, what do candidates weigh together, and at whom does a draw point?

Every loop goes through all of its candidates and does the same for each, whatever they weigh. Sums
of weights times multiplicities are pairs of words, the high one first. Proofs:
docs/proofs/selection.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Ints, Words
from privod.compiling import njit
from privod.mechanisms import weights
from privod.mechanisms.weights import SUMMED

Wide = tuple[np.uint64, np.uint64]

# A word stays a word in arithmetic with words alone, so all constants are words.
ZERO, ONE = np.uint64(0), np.uint64(1)
BYTE_BITS, WORD_BITS = np.uint64(8), np.uint64(64)
WEIGHT_BITS = np.uint64(weights.WEIGHT_BITS)
REST_BITS = WEIGHT_BITS - BYTE_BITS  # of a coin, after its first byte
HALF_BITS = np.uint64(weights.WEIGHT_BITS // 2)
HALF = (ONE << HALF_BITS) - ONE
FAR = ONE << np.uint64(62)  # no gap is larger; here every weight is 0
DIGIT_BITS = np.uint64(weights.DIGIT_BITS)
DIGIT = (ONE << DIGIT_BITS) - ONE
SHORT_BITS = np.uint64(32)
SHORT = (ONE << SHORT_BITS) - ONE  # numbers that are seen to fit half a word are multiplied sooner


@njit(cache=True, nogil=True)
def weight(gap: np.uint64, digits: Words) -> np.uint64:
    """A lower bound of 2^62 e^(-gap / scale), by the tables of that scale."""
    low, rest = ONE << WEIGHT_BITS, gap
    for place in range(digits.shape[0]):
        factor = digits[place, rest & DIGIT]
        low = _product(low, factor) if place else factor
        rest >>= DIGIT_BITS
    return ZERO if rest else low


@njit(cache=True, nogil=True)
def _product(one: np.uint64, other: np.uint64) -> np.uint64:
    """The product of two numbers up to 1, less up to 2 units: the low halves are not multiplied."""
    high, low = one >> HALF_BITS & SHORT, one & HALF
    other_high, other_low = other >> HALF_BITS & SHORT, other & HALF
    return high * other_high + (high * other_low + low * other_high >> HALF_BITS)


@njit(cache=True, nogil=True)
def find_borders(digits: Words, slack: np.uint64, borders: Words) -> None:
    """Write, for each first byte of a coin, below which gap it lands, and up to which it may.

    A gap of 0 has a byte too that leaves it open, though it always lands: so all gaps have one.
    """
    last = borders.shape[0] - 1
    for byte in range(last + 1):
        least = np.uint64(byte) << REST_BITS  # of what a coin of this byte may turn out to be
        most = least + (ONE << REST_BITS)
        borders[byte, 0] = _fallen(digits, ZERO, most) if byte < last else ZERO
        borders[byte, 1] = _fallen(digits, slack, least + ONE) - ONE if byte else FAR


@njit(cache=True, nogil=True)
def _fallen(digits: Words, more: np.uint64, bound: np.uint64) -> np.uint64:
    """A gap whose weight and `more` are below `bound`, where those of the gap before it are not."""
    above, below = ZERO, FAR
    while below - above > ONE:
        gap = above + (below - above >> ONE)
        if weight(gap, digits) + more < bound:
            below = gap
        else:
            above = gap
    return below


@njit(cache=True, nogil=True)
def flip(
    utilities: Ints,
    best: int,
    borders: Words,
    firsts: NDArray[np.uint8],
    landed: NDArray[np.bool_],
    counts: Ints,
    edges: Ints,
) -> int:
    """Flip all coins by their first byte; return how many it leaves open, their places in `edges`.

    These have not landed yet. `counts` are of SUMMED coins at a time.
    """
    n_edges = 0
    for block in range(counts.size):
        start, end = block * SUMMED, (block + 1) * SUMMED
        # Slices from 0 on: the compiler need not look whether an index is negative.
        values, bytes_, lands = utilities[start:end], firsts[start:end], landed[start:end]
        count = 0
        for index in range(values.size):
            gap, byte = np.uint64(best - values[index]), bytes_[index]
            landing = gap < borders[byte, 0]
            lands[index] = landing
            count += int(landing)
            if (not landing) & (gap <= borders[byte, 1]):
                edges[n_edges] = start + index
                n_edges += 1
        counts[block] = count
    return n_edges


@njit(cache=True, nogil=True)
def prolong(
    utilities: Ints,
    best: int,
    digits: Words,
    slack: np.uint64,
    firsts: NDArray[np.uint8],
    words: Words,
    landed: NDArray[np.bool_],
    counts: Ints,
    edges: Ints,
    start: int,
) -> int:
    """Decide the coins left open, from number `start` on, by a word more for each.

    Return the number of one that is still undecided, or how many there are.
    """
    for number in range(start, edges.size):
        index = edges[number]
        low = weight(np.uint64(best - utilities[index]), digits)
        known = np.uint64(firsts[index]) << REST_BITS | words[number] >> WORD_BITS - REST_BITS
        if (known >= low) & (known < low + slack):
            return number
        landed[index] = known < low
        counts[index // SUMMED] += known < low
    return edges.size


@njit(cache=True, nogil=True)
def nth(landed: NDArray[np.bool_], counts: Ints, rank: int) -> int:
    """The place of the coin that landed after `rank` others."""
    seen = before = start = 0
    for block in range(counts.size):
        seen += int(counts[block])
        if seen <= rank:
            before, start = seen, (block + 1) * SUMMED
    lands, seen, place = landed[start : start + SUMMED], before, start
    for index in range(lands.size):
        seen += int(lands[index])
        place += int(seen <= rank)
    return place


@njit(cache=True, nogil=True)
def add_up(utilities: Ints, best: int, digits: Words, multiplicities: Ints, sums: Words) -> Wide:
    """Add up what candidates weigh at least, SUMMED at a time and all together."""
    total = (ZERO, ZERO)
    for block in range(sums.shape[0]):
        start, end = block * SUMMED, (block + 1) * SUMMED
        values, times = utilities[start:end], multiplicities[start:end]
        here = (ZERO, ZERO)
        for index in range(values.size):
            here = _plus(here, _mass(values, best, digits, times, index))
        sums[block, 0], sums[block, 1] = here
        total = _plus(total, here)
    return total


@njit(cache=True, nogil=True)
def locate(
    utilities: Ints,
    best: int,
    digits: Words,
    multiplicities: Ints,
    sums: Words,
    high: np.uint64,
    low: np.uint64,
) -> tuple[int, Wide, Wide]:
    """The candidate at a place in the sum of all, what is before it, and what it weighs itself.

    The place lies before the end of the last.
    """
    seen = before = (ZERO, ZERO)
    start = 0
    for block in range(sums.shape[0]):
        seen = _plus(seen, (sums[block, 0], sums[block, 1]))
        if _reaches(high, low, seen):
            before, start = seen, (block + 1) * SUMMED
    end = start + SUMMED
    values, times = utilities[start:end], multiplicities[start:end]
    seen, found = before, 0
    for index in range(values.size):
        seen = _plus(seen, _mass(values, best, digits, times, index))
        if _reaches(high, low, seen):
            before, found = seen, index + 1
    return start + found, before, _mass(values, best, digits, times, found)


@njit(cache=True, nogil=True)
def _mass(utilities: Ints, best: int, digits: Words, multiplicities: Ints, index: int) -> Wide:
    """What all that a candidate stands for weigh together, at least."""
    low = weight(np.uint64(best - utilities[index]), digits)
    if multiplicities.size:
        return _wide_product(low, np.uint64(multiplicities[index]))
    return ZERO, low


@njit(cache=True, nogil=True)
def _wide_product(one: np.uint64, other: np.uint64) -> Wide:
    high, low = one >> SHORT_BITS, one & SHORT
    other_high, other_low = other >> SHORT_BITS, other & SHORT
    crossed = high * other_low + (low * other_low >> SHORT_BITS)
    rest = low * other_high + (crossed & SHORT)
    return high * other_high + (crossed >> SHORT_BITS) + (rest >> SHORT_BITS), one * other


@njit(cache=True, nogil=True)
def _plus(one: Wide, other: Wide) -> Wide:
    low = one[1] + other[1]
    return one[0] + other[0] + np.uint64(low < one[1]), low


@njit(cache=True, nogil=True)
def _reaches(high: np.uint64, low: np.uint64, other: Wide) -> bool:
    return bool((high > other[0]) | ((high == other[0]) & (low >= other[1])))
