"""How is candidate i drawn in proportion to e^(utility_i / scale) among millions? Bin by bin.

Candidates are binned by how many steps they stand below the best one. A bin is proposed in
proportion to its size times e^(-its upper edge / scale), a candidate uniformly from the bin, and
accepted with e^(-what it lies below that edge / scale). A step is about the scale times log 2, so
every other proposal or more is accepted. One pass bins all; a candidate takes one byte
(docs/proofs/selection.md, Theorem 1).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privod.mechanisms.coins import bernoulli_exp
from privod.mechanisms.exact import Enclosure, Real, Uniform, powers
from privod.mechanisms.randomness import Randomness

__all__ = ["Ladder"]

STEP = Fraction(7, 10)  # of a scale: e^-0.7 is about 1/2, so most proposals are accepted
LAST_STEP = 128  # all from here down share a bin, proposed next to never: it weighs 2^-128 apiece
REBUILD_STEP = 64  # the best one left has fallen this far: measure from it anew
REMOVED = LAST_STEP + 1
BLOCK = 1 << 17  # candidates at a time, so that they stay in the processor's cache


class Ladder:
    """Candidates, each standing for `multiplicities[i]` equal ones, ready to be drawn from."""

    def __init__(
        self,
        utilities: NDArray[np.int64],
        scale: Fraction,
        multiplicities: NDArray[np.int64] | None = None,
    ) -> None:
        self._utilities = utilities
        self._scale = scale
        self._multiplicities = multiplicities
        self._width = math.ceil(STEP * scale)
        self._bins = np.zeros(utilities.size, dtype=np.uint8)
        self._bin_below(int(utilities.max()))

    def draw(self, randomness: Randomness) -> int:
        """Propose until a proposal is accepted."""
        while True:
            step = self._draw_bin(randomness)
            candidate = self._draw_member(step, randomness)
            below_edge = self._best - int(self._utilities[candidate]) - step * self._width
            if bernoulli_exp(below_edge / self._scale, randomness):
                return candidate

    def remove(self, candidate: int) -> None:
        """Set a candidate aside, if it is not the last."""
        self._sizes[self._bins[candidate]] -= 1
        self._bins[candidate] = REMOVED
        if not self._sizes[:REBUILD_STEP].any():
            self._bin_below(int(self._utilities[self._bins != REMOVED].max()))

    def _bin_below(self, best: int) -> None:
        """Bin all candidates but the removed ones by their steps below `best`."""
        self._best = best
        self._sizes = np.zeros(REMOVED + 1, dtype=np.int64)
        for start in range(0, self._bins.size, BLOCK):
            block = slice(start, start + BLOCK)
            bins = np.minimum((best - self._utilities[block]) // self._width, LAST_STEP)
            bins[self._bins[block] == REMOVED] = REMOVED
            self._bins[block] = bins
            if self._multiplicities is None:
                self._sizes += np.bincount(bins, minlength=REMOVED + 1)
            else:
                np.add.at(self._sizes, bins, self._multiplicities[block])
        self._sizes[REMOVED] = 0

    def _draw_bin(self, randomness: Randomness) -> int:
        filled = [int(step) for step in np.flatnonzero(self._sizes)]
        known: dict[int, list[Enclosure]] = {}

        def up_to(index: int) -> Real:
            def real(precision: int) -> Enclosure:
                if precision not in known:
                    known[precision] = self._cumulative(filled, precision)
                return known[precision][index] / known[precision][-1]

            return real

        uniform = Uniform(randomness)
        for index, step in enumerate(filled[:-1]):
            if uniform.is_below(up_to(index)):
                return step
        return filled[-1]

    def _cumulative(self, filled: list[int], precision: int) -> list[Enclosure]:
        """The weights of the filled bins, added up; a member of the first one weighs 1."""
        decay = powers(self._width / self._scale, LAST_STEP, precision)
        total = Enclosure(0, 0, precision)
        found = []
        for step in filled:
            total = total + decay[step - filled[0]].times(int(self._sizes[step]))
            found.append(total)
        return found

    def _draw_member(self, step: int, randomness: Randomness) -> int:
        members = np.flatnonzero(self._bins == step)
        place = randomness.below_hidden(int(self._sizes[step]))
        if self._multiplicities is not None:
            ends = np.cumsum(self._multiplicities[members])
            place = int(np.searchsorted(ends, place, side="right"))
        return int(members[place])
