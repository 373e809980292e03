"""How is candidate i drawn in proportion to e^(utility_i / scale), from a fixed number of bits?

All weights e^(-(best - utility_i) / scale) are enclosed at once by 62-bit integers, products of a
few table look-ups, and a uniform number of a fixed length is compared with their sums. That decides
nearly always unless very many candidates lie far below the best one; else longer enclosures do and,
less than once in 2^120 draws, more bits (docs/proofs/selection.md, Theorem 1 and "Work").
"""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privod.mechanisms.exact import Enclosure, Real, Uniform, exp_minus, powers
from privod.mechanisms.randomness import Randomness

__all__ = ["WEIGHT_BITS", "WeightedChoice", "enclosed_weights"]

Ints = NDArray[np.int64]

WEIGHT_BITS = 62  # after the point; a weight of 1 still fits 64 bits
HALF_BITS = WEIGHT_BITS // 2
HALF = (1 << HALF_BITS) - 1
DIGIT_BITS = 8
DIGIT = 1 << DIGIT_BITS
TABLE_GUARD = 16  # bits by which a table's digits are known better than they are kept
DRAWN_BITS = 192  # of a draw; it takes more less than once in 2^120 times
LEAST_TOTAL = 1 << 48  # weights whose sum has fallen below it are measured from the best one left
BLOCK = 1 << 17  # candidates at a time, so that they stay in the processor's cache
SUMMED = 1 << 10  # candidates that are gone through one by one at the end of a draw


class _Tables(NamedTuple):
    """For each digit of a gap, what it multiplies the weight by, rounded down."""

    digits: tuple[Ints, ...]
    slack: int
    """By how much a weight may exceed its lower bound, in units of 2**-WEIGHT_BITS."""


@lru_cache(maxsize=64)
def _tables(scale: Fraction) -> _Tables:
    digits, slack = [], 1
    place = 1
    while place < WEIGHT_BITS * scale:  # past it e^-x < 2^-x is at most one unit
        precise = powers(place / scale, DIGIT - 1, WEIGHT_BITS + TABLE_GUARD)
        known = [one.rounded(WEIGHT_BITS) for one in precise]
        digits.append(np.array([one.low for one in known], dtype=np.int64))
        slack += max(one.high - one.low for one in known) + 1  # a product rounds down once
        place <<= DIGIT_BITS
    return _Tables(tuple(digits), slack)


def enclosed_weights(gaps: Ints, scale: Fraction) -> tuple[Ints, int]:
    """Lower bounds of e^(-gap / scale) for gaps from 0 to 2^62, and how far above these it may lie.

    Both in units of 2**-WEIGHT_BITS; a gap of 0 weighs exactly 1.
    """
    tables = _tables(scale)
    lows = np.empty(gaps.shape, dtype=np.int64)
    for start in range(0, gaps.size, BLOCK):
        block = slice(start, start + BLOCK)
        rest = gaps[block]
        low = np.full(rest.shape, 1 << WEIGHT_BITS, dtype=np.int64)
        for place, table in enumerate(tables.digits):
            factor = table[rest & DIGIT - 1]
            low = _product(low, factor) if place else factor
            rest = rest >> DIGIT_BITS
        low[rest > 0] = 0
        lows[block] = low
    return lows, tables.slack


def _product(some: Ints, others: Ints) -> Ints:
    """The products of numbers up to 1, rounded down, in halves that fit 64 bits."""
    high, low = some >> HALF_BITS, some & HALF
    other_high, other_low = others >> HALF_BITS, others & HALF
    crossed = high * other_low + low * other_high + (low * other_low >> HALF_BITS)
    return np.asarray(high * other_high + (crossed >> HALF_BITS))


class WeightedChoice:
    """Candidates, each standing for `multiplicities[i]` equal ones, ready to be drawn from."""

    def __init__(
        self, utilities: Ints, scale: Fraction, multiplicities: Ints | None = None
    ) -> None:
        self._utilities = utilities
        self._scale = scale
        self._multiplicities = multiplicities
        self._removed = np.zeros(utilities.size, dtype=np.bool_)
        self._n_left = utilities.size if multiplicities is None else int(multiplicities.sum())
        self._weigh()

    def draw(self, randomness: Randomness) -> int:
        """Return candidate i with U between what those before it and those up to it weigh."""
        known = randomness.bits(DRAWN_BITS)
        total, slack = sum(self._sums), self._slack * self._n_left
        # U times the sum of all weights lies between these two.
        least = known * total >> DRAWN_BITS
        most = ((known + 1) * (total + slack) >> DRAWN_BITS) + 1
        candidate, before, weight = self._at(least)
        if before + slack <= least and most <= before + weight:
            return candidate
        return self._draw_exactly(Uniform(randomness, known=known, length=DRAWN_BITS))

    def remove(self, candidate: int) -> None:
        """Set a candidate aside, if it is not the last."""
        self._sums[candidate // SUMMED] -= self._weight(candidate)
        self._n_left -= self._multiplicity(candidate)
        self._lows[candidate] = 0
        self._removed[candidate] = True
        if sum(self._sums) < LEAST_TOTAL:
            self._weigh()

    def _weigh(self) -> None:
        """Enclose the weights of the candidates left, the best of which weighs 1."""
        left = ~self._removed
        self._best = int(self._utilities.max(where=left, initial=np.iinfo(np.int64).min))
        gaps = np.where(left, self._best - self._utilities, 0)
        self._lows, self._slack = enclosed_weights(gaps, self._scale)
        self._lows[self._removed] = 0
        starts = range(0, self._lows.size, SUMMED)
        sums = (np.add.reduceat(half, starts).tolist() for half in self._halves(slice(None)))
        self._sums = [(high << HALF_BITS) + low for high, low in zip(*sums, strict=True)]

    def _at(self, place: int) -> tuple[int, int, int]:
        """The candidate at a place in the sum of lower bounds, what is before it, and its own."""
        before = block = 0
        while before + self._sums[block] <= place:
            before += self._sums[block]
            block += 1
        start = block * SUMMED
        highs, lows = (np.cumsum(half) for half in self._halves(slice(start, start + SUMMED)))

        def up_to(one: int) -> int:
            return before + (int(highs[one]) << HALF_BITS) + int(lows[one])

        found = bisect_right(range(len(highs)), place, key=up_to)
        weight = self._weight(start + found)
        return start + found, up_to(found) - weight, weight

    def _halves(self, block: slice) -> tuple[NDArray[Any], NDArray[Any]]:
        """What candidates weigh at least, all that each stands for together, in two halves.

        A half of a thousand of them, or of as many as 31 bits number, adds up within 64 bits; past
        that Python's own integers do.
        """
        lows = self._lows[block]
        high, low = lows >> HALF_BITS, lows & HALF
        if self._multiplicities is None:
            return high, low
        times: NDArray[Any] = self._multiplicities[block]
        if self._n_left > HALF:
            times = times.astype(object)
        return high * times, low * times

    def _weight(self, candidate: int) -> int:
        return int(self._lows[candidate]) * self._multiplicity(candidate)

    def _multiplicity(self, candidate: int) -> int:
        return 1 if self._multiplicities is None else int(self._multiplicities[candidate])

    def _draw_exactly(self, uniform: Uniform) -> int:
        """The first candidate that U lies below, by enclosures as long as it takes."""
        left = np.flatnonzero(~self._removed)
        known: dict[int, list[Enclosure]] = {}

        def up_to(index: int) -> Real:
            def real(precision: int) -> Enclosure:
                if precision not in known:
                    known[precision] = self._cumulative(left, precision)
                return known[precision][index] / known[precision][-1]

            return real

        low, high = -1, left.size - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if uniform.is_below(up_to(middle)) else (middle, high)
        return int(left[high])

    def _cumulative(self, left: NDArray[np.intp], precision: int) -> list[Enclosure]:
        """The weights of the candidates left, added up; one of the best weighs 1."""
        distinct, places = np.unique(self._best - self._utilities[left], return_inverse=True)
        weights = [exp_minus(gap / self._scale, precision) for gap in distinct.tolist()]
        each = (
            weights[place].times(self._multiplicity(candidate))
            for place, candidate in zip(places.tolist(), left.tolist(), strict=True)
        )
        return list(accumulate(each))
