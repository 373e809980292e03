"""How are a million draws from an exact law made quickly? By looking up the first bits of each.

Sixteen bits of a uniform number usually settle how many thresholds of the law are at most it; else
sixty-four do, or as many more as it takes against longer certified digits. No outcome is ever
guessed: docs/proofs/discrete_laplace.md, Theorem 1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from privod.mechanisms.exact import Enclosure, Real, Uniform
from privod.mechanisms.randomness import Randomness

Thresholds = Callable[[int], list[Enclosure]]
"""The thresholds of a law, T_1 <= ... <= T_K, each known to the precision asked for."""

UNDECIDED = np.iinfo(np.int16).min
WORD_BITS = 64
PREFIX_BITS = 16
REST_BITS = WORD_BITS - PREFIX_BITS
FIRST_PRECISION = 128  # of the digits from which 64 are certified; raised if that does not do


class InversionTable:
    """An exact law, ready for many draws; an outcome j is reported as its code, codes[j]."""

    def __init__(self, thresholds: Thresholds, codes: NDArray[np.int16]) -> None:
        self._thresholds = thresholds
        self._codes = codes
        self._floors = _certified_floors(thresholds)
        prefixes = (self._floors >> np.uint64(REST_BITS)).astype(np.intp)
        within = np.bincount(prefixes, minlength=1 << PREFIX_BITS)
        below = np.cumsum(within) - within
        self._guide = np.where(within > 0, np.int16(UNDECIDED), codes[below])

    def draw(self, n: int, randomness: Randomness) -> NDArray[np.int16]:
        """Return the codes of `n` independent outcomes."""
        prefixes = randomness.halfwords(n)
        drawn = self._guide.take(prefixes)
        undecided = np.flatnonzero(drawn == UNDECIDED)
        if undecided.size:
            drawn[undecided] = self._settle(prefixes[undecided], randomness)
        return drawn

    def _settle(self, prefixes: NDArray[np.uint16], randomness: Randomness) -> NDArray[np.int16]:
        """Extend each prefix to a word, and a word equal to a floor by as many bits as needed."""
        rest = randomness.words(prefixes.size) >> np.uint64(PREFIX_BITS)
        words = prefixes.astype(np.uint64) << np.uint64(REST_BITS) | rest
        outcomes = np.searchsorted(self._floors, words, side="left")
        ends = np.searchsorted(self._floors, words, side="right")
        for tie in np.flatnonzero(outcomes != ends):
            uniform = Uniform(randomness, known=int(words[tie]), length=WORD_BITS)
            for index in range(outcomes[tie], ends[tie]):
                if uniform.is_below(self._threshold(index)):
                    break
                outcomes[tie] += 1
        return self._codes[outcomes]

    def _threshold(self, index: int) -> Real:
        return lambda precision: self._thresholds(precision)[index]


def _certified_floors(thresholds: Thresholds) -> NDArray[np.uint64]:
    """Integers f_j with f_j <= T_j 2^64 <= f_j + 1, not assumed but enclosed."""
    precision = FIRST_PRECISION
    while True:
        found = thresholds(precision)
        floors = [bound.low >> bound.precision - WORD_BITS for bound in found]
        if all(
            # A threshold is a probability: what encloses it beyond 1 encloses it up to 1.
            min(bound.high, 1 << bound.precision) <= floor + 1 << bound.precision - WORD_BITS
            for bound, floor in zip(found, floors, strict=True)
        ):
            return np.array(floors, dtype=np.uint64)
        precision *= 2
