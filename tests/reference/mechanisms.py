"""Slow, obvious twins of the mechanisms: tapes of given bits, a walk over all, exact laws."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import permutations
from typing import TypeVar

from privod.mechanisms import DiscreteGaussian, DiscreteLaplace
from privod.mechanisms.exact import Enclosure, exp_minus
from privod.mechanisms.randomness import HIDDEN_BITS, Randomness, seeded

Outcome = TypeVar("Outcome", bound=Hashable)
DIGITS = Context(prec=120, Emin=-(10**9), Emax=10**9)


class EndOfTape(Exception):
    """More bits are asked for than the tape holds."""


class Tape(Randomness):
    """Randomness that reads given bits, first bit first, and stops when they run out."""

    seeded = True

    def __init__(self, value: int, length: int) -> None:
        self._value = value
        self._left = length

    def bits(self, k: int) -> int:
        if k > self._left:
            raise EndOfTape
        self._left -= k
        return self._value >> self._left & (1 << k) - 1

    def bytes(self, n: int) -> bytes:
        return bytes(self.bits(8) for _ in range(n))

    def below_hidden(self, bound: int, n_bits: int = HIDDEN_BITS) -> int:
        """The same law from fewer bits, so that all tapes can be walked; its own has a test."""
        return self.below(bound) if n_bits == HIDDEN_BITS else super().below_hidden(bound, n_bits)


class Counted(Randomness):
    """Seeded randomness that remembers what was asked of it."""

    seeded = True

    def __init__(self, seed: int) -> None:
        self._source = seeded(seed)
        self.requests: list[int] = []

    def bytes(self, n: int) -> bytes:
        self.requests.append(n)
        return self._source.bytes(n)


def walk(
    act: Callable[[Randomness], Outcome], longest: int, step: int = 1, zeros: int = 0
) -> tuple[dict[Outcome, Fraction], Fraction]:
    """Run `act` on every tape: what each outcome surely weighs, and what stays undecided.

    A tape that runs out is prolonged in every way by `step` bits, up to `longest`. The true
    probability of an outcome lies between its sure weight and that plus the undecided rest. All
    tapes begin with as many zeros as asked for.
    """
    sure: defaultdict[Outcome, Fraction] = defaultdict(Fraction)
    undecided = Fraction(0)
    tapes = [(0, zeros)]
    while tapes:
        value, length = tapes.pop()
        try:
            outcome = act(Tape(value, length))
        except EndOfTape:
            if length < longest:
                tapes += [(value << step | more, length + step) for more in range(1 << step)]
            else:
                undecided += Fraction(1, 2**length)
        else:
            sure[outcome] += Fraction(1, 2**length)
    return dict(sure), undecided


def exp(exponent: Fraction) -> Fraction:
    """e^exponent to 120 digits, by the correctly rounded exponential of the decimal module."""
    with localcontext(DIGITS):
        return Fraction((Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp())


def discrete_laplace(value: int, scale: Fraction) -> Fraction:
    """(1 - q) / (1 + q) q^|value| with q = e^(-1/scale), to a hundred digits and more."""
    ratio = exp(-1 / scale)
    return (1 - ratio) / (1 + ratio) * exp(-abs(value) / scale)


def exponential_law(utilities: Sequence[int | Fraction], scale: Fraction) -> list[Fraction]:
    """Weights e^(utility / scale), divided by their sum."""
    best = max(utilities)
    weights = [exp(Fraction(utility - best) / scale) for utility in utilities]
    return [weight / sum(weights) for weight in weights]


def product_of_digits(gap: int, digits: Sequence[Sequence[int]]) -> int:
    """A weight by the tables of its scale, as the compiled loops find it, in unlimited integers."""
    low = 1 << 62
    for table in digits:
        high, rest = divmod(low, 1 << 31)
        other_high, other_rest = divmod(table[gap % 256], 1 << 31)
        low = high * other_high + (high * other_rest + rest * other_high >> 31)
        gap //= 256
    return 0 if gap else low


def permute_and_flip_law(utilities: Sequence[int | Fraction], scale: Fraction) -> list[Fraction]:
    """Sum over all orders of the chance that a candidate passes and all before it fail."""
    best = max(utilities)
    passing = [exp(Fraction(utility - best) / scale) for utility in utilities]
    law = [Fraction(0)] * len(utilities)
    orders = list(permutations(range(len(utilities))))
    for order in orders:
        still_open = Fraction(1, len(orders))
        for candidate in order:
            law[candidate] += still_open * passing[candidate]
            still_open *= 1 - passing[candidate]
    return law


def peeling_law(
    utilities: Sequence[int | Fraction],
    n_chosen: int,
    law: Callable[[Sequence[int | Fraction]], list[Fraction]],
) -> dict[tuple[int, ...], Fraction]:
    """The chance of every sequence of choices without repeats."""
    found: dict[tuple[int, ...], Fraction] = {(): Fraction(1)}
    for _ in range(n_chosen):
        longer: dict[tuple[int, ...], Fraction] = {}
        for chosen, chance in found.items():
            left = [index for index in range(len(utilities)) if index not in chosen]
            for index, weight in zip(left, law([utilities[i] for i in left]), strict=True):
                longer[(*chosen, index)] = chance * weight
        found = longer
    return found


def discrete_gaussian(sigma2: Fraction) -> Callable[[int], Fraction]:
    """The law proportional to e^(-k^2 / (2 sigma2)), to 110 decimal places, by summing it all."""
    places = 10**110

    def weight(value: int) -> int:
        exponent = -value * value / (2 * sigma2)
        return round(exp(exponent) * places) if exponent > -300 else 0

    total, value = weight(0), 1
    while more := weight(value):
        total, value = total + 2 * more, value + 1
    return lambda k: Fraction(weight(k), total)


def probability(
    noise: DiscreteLaplace | DiscreteGaussian, value: int, precision: int = 128
) -> Enclosure:
    """Enclose the probability of one value of discrete noise."""
    one = Enclosure(1 << precision, 1 << precision, precision)
    if isinstance(noise, DiscreteGaussian):
        half = _sum_from(noise.sigma2, 1, precision)
        return exp_minus(value * value / (2 * noise.sigma2), precision) / (one + half + half)
    ratio = exp_minus(1 / noise.scale, precision)
    return (one - ratio) / (one + ratio) * exp_minus(abs(value) / noise.scale, precision)


@lru_cache(maxsize=64)
def _sum_from(sigma2: Fraction, first: int, precision: int) -> Enclosure:
    """The weights from `first` >= 1 on; what is left out is below a geometric series."""
    working = precision + 64
    weight = exp_minus(first * first / (2 * sigma2), working)
    ratio = exp_minus((2 * first + 1) / (2 * sigma2), working)
    square = exp_minus(1 / sigma2, working)
    one = Enclosure(1 << working, 1 << working, working)
    total = Enclosure(0, 0, working)
    while weight.high > 1:
        total = total + weight
        weight, ratio = weight * ratio, ratio * square
    rest = weight / (one - ratio)
    return Enclosure(total.low, total.high + rest.high, working).rounded(precision)
