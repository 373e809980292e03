"""By how much can a count change, smoothly? Rungs that no change of one record climbs fast.

A bound U(t) says by how much a count can change once `t` records have changed. Its smooth
version is a rung of a public `Staircase`: adjacent data sets stand at most `per_edit` rungs apart,
whatever the rows [Nissim, Raskhodnikova and Smith 2007, in integers].
Proofs: docs/proofs/smooth.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count, takewhile

from privod.errors import InvalidParameter

RUNGS_PER_EDIT = 8  # rounding a bound up to its rung then costs at most 1/8 of one edit's growth
RUNG_BITS = 40  # binary places of a rung
POWER_BITS = 128  # binary places of the powers that rungs are rounded from
ONE = 1 << POWER_BITS
SMALLEST_GROWTH = Fraction(1, 10_000)  # below it rounding rungs could pass the growth


@dataclass(frozen=True)
class Staircase:
    """Rungs 1 = v_0 < v_1 < ...; v_(i + per_edit) is at most `growth` times v_i.

    From one data set to an adjacent one the smooth bound may grow by `growth`, above 1.
    """

    growth: Fraction
    per_edit: int = RUNGS_PER_EDIT

    def __post_init__(self) -> None:
        if self.growth < 1 + SMALLEST_GROWTH:
            way_out = "Ask for a larger epsilon, or for global noise."
            raise InvalidParameter("growth", "must be at least 1.0001", float(self.growth), way_out)

    @cached_property
    def step(self) -> Fraction:
        """(1 + x / m)^m <= e^x <= growth for x = 1 - 1 / growth and m = per_edit."""
        return 1 + (1 - 1 / self.growth) / self.per_edit

    def value(self, rung: int) -> Fraction:
        """The bound that a rung stands for: step^rung, rounded down."""
        power = ONE
        for place in reversed(range(rung.bit_length())):
            if rung >> place & 1:
                power = power * self._square(place) >> POWER_BITS
        return Fraction(power >> (POWER_BITS - RUNG_BITS), 1 << RUNG_BITS)

    def reaching(self, bound: int) -> int:
        """The first rung whose value is at least `bound`."""
        if bound <= 1:
            return 0
        goal = bound << POWER_BITS
        squares = takewhile(lambda place: self._square(place) < goal, count())
        below, power = 0, ONE  # the last rung known to be below, built up as in `value`
        for place in reversed(list(squares)):
            higher = power * self._square(place) >> POWER_BITS
            if higher < goal:
                below, power = below | 1 << place, higher
        return below + 1

    def _square(self, place: int) -> int:
        """step^(2^place) in units of 2^-128, every product rounded down."""
        found = self._squares
        if place not in found:
            root = self._square(place - 1)
            found[place] = root * root >> POWER_BITS
        return found[place]

    @cached_property
    def _squares(self) -> dict[int, int]:
        """Those asked for so far; each depends on the step alone."""
        return {0: math.floor(self.step * ONE)}

    def farthest(self, most: Callable[[int], int]) -> int:
        """A t beyond which no bound of at most most(t) matters; most(2 t) <= 2 most(t)."""
        t = 1
        while self.reaching(most(2 * t)) > self.per_edit * t:
            t *= 2
        return t

    def smooth(self, bound: Callable[[int], int], farthest: int) -> int:
        """The rung max over t of reaching(bound(t)) - per_edit * t; bound must not fall with t."""
        known: dict[int, int] = {}

        def height(t: int) -> int:
            if t not in known:
                known[t] = self.reaching(bound(t))
            return known[t]

        best = max(0, height(0))
        spans = [(0, farthest)]
        while spans:
            low, high = spans.pop()
            if high <= low or height(high) - self.per_edit * (low + 1) <= best:
                continue
            best = max(best, height(high) - self.per_edit * high)
            middle = (low + high) // 2
            best = max(best, height(middle) - self.per_edit * middle)
            if middle > low:
                spans += [(middle, high), (low, middle)]
        return best
