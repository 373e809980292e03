"""Which (epsilon, delta) does discrete Gaussian noise keep? Certified, and as tight as it is true.

One count that changes by one: a difference of two tails of the drawn law, summed [Canonne, Kamath
and Steinke 2020, Theorem 7]. Vectors: no more than the continuous Gaussian of slightly smaller
variance [after Peikert 2010; docs/proofs/discrete_gaussian.md]. Results round towards more loss.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from privod.errors import InvalidParameter
from privod.mechanisms.exact import Enclosure, exp_minus, rational
from privod.privacy.loss import rounded_up
from privod.privacy.zcdp import delta_of_rho

HUGE_SIGMA2 = 2**200  # that nobody draws
SUMMED_SIGMA2 = 4096  # up to here a unit shift is summed; past it the bound is as good
ROUNDED = Fraction(3, 2)  # of the variance, given up for rounding to integers
LATTICE = Fraction(3, 10**13)  # above 2 (e^(-2 pi^2 3/2) + e^(-8 pi^2 3/2) + ...), 2.8e-13
BITS = 192  # binary places; a delta of 1e-30 still has thirty digits
ARGUMENT_BITS = 64  # arguments of the normal law are multiples of 2^-64, rounded the safe way
LARGEST_EPSILON = 500  # past it, e^epsilon has too many digits and no promise is left
LARGEST_ARGUMENT = 40  # tails beyond 40 deviations count as those at 40
SEARCHED = 2.0**-26  # sigma2 is found to within this share
EPSILON_DIGITS = 6


@lru_cache(maxsize=1024)
def delta(sigma2: Fraction, epsilon: Fraction, squared_sensitivity: Fraction) -> Fraction:
    """A delta at which noise of this sigma2 keeps epsilon; an upper bound, rounded up."""
    changed = math.floor(squared_sensitivity)  # integers change by integers
    if changed == 0:
        return Fraction(0)
    if epsilon > LARGEST_EPSILON:
        rule = f"must be at most {LARGEST_EPSILON} for Gaussian noise"
        raise InvalidParameter("epsilon", rule, float(f"{float(epsilon):.6g}"), "Try 1.")
    if changed == 1 and sigma2 <= SUMMED_SIGMA2:
        return _rounded(_summed_delta(sigma2, epsilon))
    concentrated = delta_of_rho(changed / (2 * sigma2), epsilon)
    if sigma2 <= 2 * ROUNDED or changed * LATTICE >= Fraction(1, 10**3):
        return concentrated
    left = epsilon - 4 * LATTICE * changed  # ln((1 + t)^2 / (1 - t)) <= 4 t for t <= LATTICE
    if left <= 0:
        return concentrated
    factor = 1 + 2 * changed * LATTICE  # (1 + t)^changed, as changed t is below 1/1000
    continuous = _normal_delta(Fraction(changed) / (sigma2 - ROUNDED), left)
    return min(concentrated, _rounded(continuous * factor))


def epsilon(sigma2: Fraction, chance: Fraction, squared_sensitivity: Fraction) -> Fraction:
    """The least epsilon kept at this delta, rounded up to six digits."""
    low, high = Fraction(0), Fraction(1)
    while delta(sigma2, high, squared_sensitivity) > chance:
        low, high = high, 2 * high
    while high - low > high / 10 ** (EPSILON_DIGITS + 1):
        middle = (low + high) / 2
        if delta(sigma2, middle, squared_sensitivity) <= chance:
            high = middle
        else:
            low = middle
    place = Fraction(10) ** (math.floor(math.log10(high)) - EPSILON_DIGITS + 1)
    short = math.ceil(low / place) * place
    while delta(sigma2, short, squared_sensitivity) > chance:
        short += place
    return short


@lru_cache(maxsize=1024)
def least_sigma2(epsilon: Fraction, chance: Fraction, squared_sensitivity: Fraction) -> Fraction:
    """About the least sigma2 that is certified to keep (epsilon, delta), rounded up."""

    def keeps(sigma2: Fraction) -> bool:
        return delta(sigma2, epsilon, squared_sensitivity) <= chance

    changed = math.floor(squared_sensitivity)
    guess = _guessed_sigma2(float(epsilon), float(chance), changed)
    guess += float(ROUNDED) if changed > 1 or guess > SUMMED_SIGMA2 else 0.0
    step = 2.0**-20
    low, high = _short(guess * (1 - step)), _short(guess * (1 + step))
    while keeps(low):
        step *= 4
        low, high = _short(guess * max(1 - step, 0.0)) or low / 2, low
        if low < Fraction(1, 10**6):
            return high
    while not keeps(high):
        step *= 4
        low, high = high, _short(guess * (1 + step))
        if high > HUGE_SIGMA2:
            return high
    while high - low > high * Fraction(SEARCHED):
        middle = (low + high) / 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def _short(number: float) -> Fraction:
    """A float of few binary digits, as the fraction it is."""
    mantissa, exponent = math.frexp(number)
    return Fraction(math.ceil(mantissa * 2**32)) * Fraction(2) ** (exponent - 32)


def _guessed_sigma2(epsilon: float, chance: float, changed: int) -> float:
    """Where to look: the continuous law's variance, in floats [Balle and Wang 2018]."""
    low, high = -30.0, 60.0
    for _ in range(100):
        middle = (low + high) / 2
        shift = math.exp(-middle / 2)
        first = math.erfc((epsilon / shift - shift / 2) / math.sqrt(2)) / 2
        second = math.erfc((epsilon / shift + shift / 2) / math.sqrt(2)) / 2
        kept = first - (math.exp(epsilon) * second if second else 0.0) <= chance
        low, high = (low, middle) if kept else (middle, high)
    return max(1, changed) * math.exp(high)


def _summed_delta(sigma2: Fraction, epsilon: Fraction) -> Fraction:
    """P(X > epsilon sigma2 - 1/2) - e^epsilon P(X > epsilon sigma2 + 1/2), from above."""
    first = math.floor(epsilon * sigma2 - Fraction(1, 2)) + 1
    second = math.floor(epsilon * sigma2 + Fraction(1, 2)) + 1
    sums = {first: _weights_from(sigma2, first), second: _weights_from(sigma2, second)}
    half = _weights_from(sigma2, 1)
    total_low = (1 << BITS) + 2 * half.low
    growth = Fraction(1 << BITS, exp_minus(epsilon, BITS).high)  # at most e^epsilon
    excess = sums[first].high - growth * sums[second].low
    return max(Fraction(0), excess / total_low)


@lru_cache(maxsize=64)
def _weights_from(sigma2: Fraction, first: int) -> Enclosure:
    """The sum of e^(-k^2 / (2 sigma2)) over k >= first, enclosed."""
    if first < 1:
        below = _weights_from(sigma2, 1 - first)  # the law is symmetric
        half = _weights_from(sigma2, 1)
        one = Enclosure(1 << BITS, 1 << BITS, BITS)
        return one + half + half - below
    working = BITS + 64
    weight = exp_minus(first * first / (2 * sigma2), working)
    ratio = exp_minus((2 * first + 1) / (2 * sigma2), working)
    square = exp_minus(1 / sigma2, working)
    low = high = 0
    while weight.high > 1:
        low, high = low + weight.low, high + weight.high
        weight, ratio = weight * ratio, ratio * square
    one = Enclosure(1 << working, 1 << working, working)
    rest = weight / (one - ratio)  # what is left out lies below a geometric series
    return Enclosure(low, high + rest.high, working).rounded(BITS)


def _normal_delta(squared_shift: Fraction, epsilon: Fraction) -> Fraction:
    """The continuous Gaussian's delta [Balle and Wang 2018, Theorem 8], from above.

    It grows with the shift, so the shift is rounded up; tails are taken at arguments rounded so.
    """
    scaled = math.ceil(squared_shift * 4**ARGUMENT_BITS)
    shift = Fraction(math.isqrt(scaled) + 1, 2**ARGUMENT_BITS)
    first = math.floor((epsilon / shift - shift / 2) * 2**ARGUMENT_BITS)
    second = math.ceil((epsilon / shift + shift / 2) * 2**ARGUMENT_BITS)
    above = normal_tail(Fraction(first, 2**ARGUMENT_BITS))
    below = normal_tail(Fraction(second, 2**ARGUMENT_BITS))
    growth = Fraction(1 << BITS, exp_minus(epsilon, BITS).high)
    return max(Fraction(0), (above.high - growth * below.low) / (1 << BITS))


def normal_tail(argument: Fraction) -> Enclosure:
    """Enclose P(N > argument) for a standard normal N, to 192 binary places.

    1/2 - phi(x) (x + x^3 / 3 + x^5 / (3 5) + ...), phi the density; all terms are positive.
    """
    if argument < 0:
        one = Enclosure(1 << BITS, 1 << BITS, BITS)
        return one - normal_tail(-argument)
    if argument > LARGEST_ARGUMENT:
        return Enclosure(0, normal_tail(Fraction(LARGEST_ARGUMENT)).high, BITS)
    working = BITS + math.ceil(argument * argument) + 64  # the sum grows like e^(x^2 / 2)
    x = rational(argument, working)
    square = x * x
    term, total, index = x, x, 1
    while term.high > 1 or square.high >= index << working:
        index += 2
        term = (term * square).times(1, index)
        total = total + term
    total = Enclosure(total.low, total.high + 2 * term.high + 2, working)
    root = _root_of_two_pi(working)
    density = exp_minus(argument * argument / 2, working) / root
    half = Enclosure(1 << working - 1, 1 << working - 1, working)
    return (half - density * total).rounded(BITS)


@lru_cache(maxsize=16)
def _root_of_two_pi(precision: int) -> Enclosure:
    """sqrt(2 pi), pi = 16 arctan(1/5) - 4 arctan(1/239) [Machin 1706]."""
    working = precision + 32
    low_5, high_5 = _arctan_of_inverse(5, working)
    low_239, high_239 = _arctan_of_inverse(239, working)
    low, high = 2 * (16 * low_5 - 4 * high_239), 2 * (16 * high_5 - 4 * low_239)
    roots = Enclosure(math.isqrt(low << working), math.isqrt(high << working) + 1, working)
    return roots.rounded(precision)


def _arctan_of_inverse(n: int, precision: int) -> tuple[int, int]:
    """arctan(1/n) in units of 2^-precision, from below and above."""
    power, index, total, terms = (1 << precision) // n, 1, 0, 0
    while power:
        total += power // index if index % 4 == 1 else -(power // index)
        power, index, terms = power // (n * n), index + 2, terms + 1
    return total - 2 * terms - 2, total + 2 * terms + 2  # each term is off by at most 2


def _rounded(number: Fraction) -> Fraction:
    return min(Fraction(1), rounded_up(number)) if number > 0 else Fraction(0)
