"""How is candidate i drawn in proportion to e^(utility_i / scale), from a fixed number of bits?

All weights e^(-(best - utility_i) / scale) are enclosed by 62-bit integers and added up, and a
uniform number of a fixed length is compared with their sums. That decides nearly always unless very
many candidates lie far below the best one; else longer enclosures do and, less than once in 2^120
draws, more bits (docs/proofs/selection.md, Theorem 1 and "Work").
"""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate

import numpy as np

from privod.arrays import Ints
from privod.mechanisms.exact import Enclosure, Real, Uniform, exp_minus
from privod.mechanisms.randomness import Randomness
from privod.mechanisms.weights import SUMMED, tables_of

DRAWN_BITS = 192  # of a draw; it takes more less than once in 2^120 times
WORD_BITS = 64
WORD = (1 << WORD_BITS) - 1
EACH_ONE = np.empty(0, np.int64)  # multiplicities of 1, for all candidates


class WeightedChoice:
    """Candidates, each standing for `multiplicities[i]` equal ones, ready to be drawn from."""

    def __init__(self, utilities: Ints, scale: Fraction, multiplicities: Ints = EACH_ONE) -> None:
        from privod.mechanisms.kernels.choosing import add_up  # loads numba, unlike noise

        self._utilities = utilities
        self._scale = scale
        self._multiplicities = multiplicities
        self._best = int(utilities.max())
        n_blocks = -(-utilities.size // SUMMED)
        self._sums = np.empty((n_blocks, 2), np.uint64)
        digits, slack = tables_of(scale)
        total = add_up(utilities, self._best, digits, multiplicities, self._sums)
        self._total = _joined(total)
        n_weighed = int(multiplicities.sum()) if multiplicities.size else utilities.size
        self._slack = int(slack) * n_weighed

    def draw(self, randomness: Randomness) -> int:
        """Return candidate i with U between what those before it and those up to it weigh."""
        known = randomness.bits(DRAWN_BITS)
        # U times the sum of all weights lies between these two.
        least = known * self._total >> DRAWN_BITS
        most = ((known + 1) * (self._total + self._slack) >> DRAWN_BITS) + 1
        candidate, before, mass = self._at(least)
        if before + self._slack <= least and most <= before + mass:
            return candidate
        return self._draw_exactly(Uniform(randomness, known=known, length=DRAWN_BITS))

    def _at(self, place: int) -> tuple[int, int, int]:
        """The candidate at a place in the sum of lower bounds, what is before it, and its own."""
        from privod.mechanisms.kernels.choosing import locate

        digits, _ = tables_of(self._scale)
        candidate, before, mass = locate(
            self._utilities,
            self._best,
            digits,
            self._multiplicities,
            self._sums,
            np.uint64(place >> WORD_BITS),
            np.uint64(place & WORD),
        )
        return candidate, _joined(before), _joined(mass)

    def _draw_exactly(self, uniform: Uniform) -> int:
        """The first candidate that U lies below, by enclosures as long as it takes."""
        known: dict[int, list[Enclosure]] = {}

        def up_to(index: int) -> Real:
            def real(precision: int) -> Enclosure:
                if precision not in known:
                    known[precision] = self._cumulative(precision)
                return known[precision][index] / known[precision][-1]

            return real

        low, high = -1, self._utilities.size - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if uniform.is_below(up_to(middle)) else (middle, high)
        return high

    def _cumulative(self, precision: int) -> list[Enclosure]:
        """The weights of the candidates, added up; one of the best weighs 1."""
        distinct, places = np.unique(self._best - self._utilities, return_inverse=True)
        weights = [exp_minus(gap / self._scale, precision) for gap in distinct.tolist()]
        each = [weights[place] for place in places.tolist()]
        if self._multiplicities.size:
            sizes = self._multiplicities.tolist()
            each = [one.times(size) for one, size in zip(each, sizes, strict=True)]
        return list(accumulate(each))


def _joined(words: tuple[np.uint64, np.uint64]) -> int:
    high, low = words
    return (int(high) << WORD_BITS) + int(low)
