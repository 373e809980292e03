"""Certified logarithms and exponentials: fractions that are surely below or above the true value.

Every charge rounds up and every budget rounds down; both need e^x and ln x on the known side.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

BITS = 160  # binary places of every sum below; the guard covers their rounding
GUARD = 40
ONE = 1 << (BITS + GUARD)


def log_below(number: Fraction) -> Fraction:
    """A fraction at most ln(number) and hardly below it, for number > 0."""
    return _log(number)[0]


def log_above(number: Fraction) -> Fraction:
    """A fraction at least ln(number) and hardly above it, for number > 0."""
    return _log(number)[1]


def exp_below(exponent: Fraction) -> Fraction:
    """A fraction at most e^exponent and hardly below it."""
    return _exp(exponent)[0]


def exp_above(exponent: Fraction) -> Fraction:
    """A fraction at least e^exponent and hardly above it."""
    return _exp(exponent)[1]


def _log(number: Fraction) -> tuple[Fraction, Fraction]:
    """ln x = n ln 2 + 2 artanh((m - 1) / (m + 1)), x = 2^n m, m in [2/3, 4/3]."""
    if number <= 0:
        raise ValueError("a logarithm needs a number above 0")
    shift = number.numerator.bit_length() - number.denominator.bit_length()
    mantissa = number / Fraction(2) ** shift
    while mantissa > Fraction(4, 3):
        mantissa, shift = mantissa / 2, shift + 1
    low, high = _two_artanh((mantissa - 1) / (mantissa + 1))
    two_low, two_high = _log_2()
    ends = (shift * two_low, shift * two_high)
    return low + min(ends), high + max(ends)


def _two_artanh(x: Fraction) -> tuple[Fraction, Fraction]:
    """2 (x + x^3/3 + x^5/5 + ...) for |x| <= 1/3, enclosed."""
    sign, size = (-1, -x) if x < 0 else (1, x)
    low_x = (size.numerator * ONE) // size.denominator
    ends = []
    for value, up in ((low_x, 0), (low_x + 1, 1)):
        square = (value * value >> (BITS + GUARD)) + up
        power, total, index = value, 0, 1
        while power > 2:
            total += power // index + up
            power, index = (power * square >> (BITS + GUARD)) + up, index + 2
        ends.append(2 * (total + (4 if up else 0)))  # what is left out is below 9/8 of its first
    low, high = (Fraction(end, ONE) for end in ends)
    return (low, high) if sign > 0 else (-high, -low)


def _exp(exponent: Fraction) -> tuple[Fraction, Fraction]:
    """e^x for x of any sign: 1 / e^-x below 0; halve until small, sum, square back."""
    if exponent <= 0:
        low, high = _exp(-exponent) if exponent else (Fraction(1), Fraction(1))
        return 1 / high, 1 / low
    halvings = max(0, math.ceil(exponent)).bit_length()
    working = BITS + GUARD + 2 * halvings
    low_x = (exponent.numerator << working) // (exponent.denominator << halvings)
    ends = []
    for value, up in ((low_x, 0), (low_x + 1, 1)):
        term = total = 1 << working
        index = 0
        while term > 2:
            index += 1
            term = (term * value // index >> working) + up
            total += term
        total += 8 * up  # what is left out: terms fall by half or faster, from at most 2
        for _ in range(halvings):
            total = (total * total >> working) + up
        ends.append(Fraction(total, 1 << working))
    return ends[0], ends[1]


@lru_cache(maxsize=1)
def _log_2() -> tuple[Fraction, Fraction]:
    """ln 2 = ln(4/3) + ln(3/2) = 2 artanh(1/7) + 2 artanh(1/5)."""
    seventh, fifth = _two_artanh(Fraction(1, 7)), _two_artanh(Fraction(1, 5))
    return seventh[0] + fifth[0], seventh[1] + fifth[1]
