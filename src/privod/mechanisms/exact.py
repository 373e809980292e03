"""How does one compare a random number with e^-x without a float? With integers that enclose both.

A real number is known by its `Enclosure`, at any precision that is asked for, a `Uniform` number by
its leading bits, of which it reveals more only while a comparison is undecided. So an event "U < p"
has probability exactly p: docs/proofs/coins.md, Theorem 1.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from privod.mechanisms.randomness import Randomness

REVEALED_AT_ONCE = 8  # a byte decides 255 of 256 comparisons
GUARD = 16  # bits by which a number is known better than the one it is compared with


class Enclosure:
    """A number of at least 0, known to lie in [low, high] / 2**precision; low and high integers.

    Sums, differences, products and quotients round outward, so they enclose the true result.
    Both operands of a sum, difference, product or quotient have the same precision.
    """

    __slots__ = ("high", "low", "precision")

    def __init__(self, low: int, high: int, precision: int) -> None:
        self.low = low
        self.high = high
        self.precision = precision

    def __repr__(self) -> str:
        return f"Enclosure({self.low}, {self.high}, precision={self.precision})"

    def __add__(self, other: Enclosure) -> Enclosure:
        return Enclosure(self.low + other.low, self.high + other.high, self.precision)

    def __sub__(self, other: Enclosure) -> Enclosure:
        """The difference, which the caller knows to be at least 0."""
        return Enclosure(max(0, self.low - other.high), self.high - other.low, self.precision)

    def __mul__(self, other: Enclosure) -> Enclosure:
        low = self.low * other.low >> self.precision
        high = -(-self.high * other.high >> self.precision)
        return Enclosure(low, high, self.precision)

    def __truediv__(self, other: Enclosure) -> Enclosure:
        low = (self.low << self.precision) // other.high
        high = -((-self.high << self.precision) // other.low)
        return Enclosure(low, high, self.precision)

    def times(self, numerator: int, denominator: int = 1) -> Enclosure:
        """The number times a fraction of at least 0."""
        low = self.low * numerator // denominator
        high = -(-self.high * numerator // denominator)
        return Enclosure(low, high, self.precision)

    def rounded(self, precision: int) -> Enclosure:
        """The same number, enclosed with fewer bits."""
        drop = self.precision - precision
        return Enclosure(self.low >> drop, -(-self.high >> drop), precision)


Real = Callable[[int], Enclosure]
"""A number known to any precision: asked with p, it answers with about p bits after the point."""


def rational(number: Fraction, precision: int) -> Enclosure:
    """Enclose a fraction of at least 0; the enclosure is a point where that is possible."""
    low, rest = divmod(number.numerator << precision, number.denominator)
    return Enclosure(low, low + (rest > 0), precision)


@lru_cache(maxsize=4096)
def exp_minus(exponent: Fraction, precision: int) -> Enclosure:
    """Enclose e^-exponent for a rational exponent of at least 0, within about 2**-precision.

    Halve the exponent until it is below 1/2, sum the alternating series, square back; every step
    rounds outward (docs/proofs/coins.md, Lemma 2).
    """
    above, below = exponent.numerator, exponent.denominator
    one = 1 << precision
    if above == 0:
        return Enclosure(one, one, precision)
    if above >= precision * below:  # e^-x < 2^-x <= 2^-precision
        return Enclosure(0, 1, precision)
    halvings = (above // below).bit_length() + 1
    working = precision + halvings + precision.bit_length() + 8
    small_low = (above << working) // (below << halvings)
    small_high = small_low + 1
    low = high = term_low = term_high = 1 << working
    index = 0
    while term_high > 1:
        index += 1
        term_low = term_low * small_low // index >> working
        term_high = (term_high * small_high // index >> working) + 1
        if index % 2:
            low, high = low - term_high, high - term_low
        else:
            low, high = low + term_low, high + term_high
    low, high = low - term_high, high + term_high  # the rest is smaller than the last term
    for _ in range(halvings):
        low, high = low * low >> working, (high * high >> working) + 1
    return Enclosure(low, min(high, 1 << working), working).rounded(precision)


@lru_cache(maxsize=256)
def powers(exponent: Fraction, count: int, precision: int) -> tuple[Enclosure, ...]:
    """Enclose e^(-j exponent) for j = 0 .. count, each from the one before."""
    working = precision + count.bit_length() + 4
    ratio = exp_minus(exponent, working)
    one = Enclosure(1 << working, 1 << working, working)
    found = [one]
    for _ in range(count):
        found.append(found[-1] * ratio)
    return tuple(power.rounded(precision) for power in found)


class Uniform:
    """A number uniform over [0, 1), revealed only as far as comparisons need."""

    __slots__ = ("_known", "_length", "_randomness")

    def __init__(self, randomness: Randomness, known: int = 0, length: int = 0) -> None:
        """Start from `length` leading bits that were drawn before and read `known`."""
        self._randomness = randomness
        self._known = known
        self._length = length

    def is_below(self, real: Real) -> bool:
        """Decide U < real: true with probability exactly real, if nothing is revealed yet."""
        while True:
            bound = real(self._length + GUARD)
            shift = bound.precision - self._length
            if (self._known + 1) << shift <= bound.low:
                return True
            if self._known << shift >= bound.high:
                return False
            revealed = self._randomness.bits(REVEALED_AT_ONCE)
            self._known = self._known << REVEALED_AT_ONCE | revealed
            self._length += REVEALED_AT_ONCE
