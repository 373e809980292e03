"""Noise that follows a smooth bound of the local sensitivity, on integers, by exact laws.

The noise of a count is scaled to the value of a rung of a `Staircase`; no float stands between
count and noise. Proofs: docs/proofs/smooth.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privod.errors import InvalidParameter
from privod.mechanisms.coins import bernoulli, bernoulli_exp, damped_logistic
from privod.mechanisms.law import Law, Lost, Unlike
from privod.mechanisms.noise import LARGEST_SCALE, DiscreteLaplace, Geometric
from privod.mechanisms.randomness import Randomness
from privod.mechanisms.staircase import SMALLEST_GROWTH, Staircase
from privod.privacy import Loss, Number, positive
from privod.privacy.certified import exp_above, exp_below, log_above

MOST_STEPS = 64  # records that an audit changes at once
LAW_ROUNDING = 1e-9  # of sums of an audit's floats


@dataclass(frozen=True)
class SmoothNoise(Law):
    """Integer noise whose scale is `spread` times a smooth bound.

    The bound may grow by `growth`, above 1, from one data set to an adjacent one.
    """

    spread: Fraction
    growth: Fraction

    same_bits: ClassVar[bool] = False
    """The scale follows the rows, and with it how often a draw is repeated."""

    reach_in_scales: ClassVar[int]
    places: ClassVar[int]
    """How far an audit looks at the law, and at how many outcomes to a scale."""

    @cached_property
    def staircase(self) -> Staircase:
        """The rungs that the bound is rounded up to."""
        return Staircase(self.growth)

    def loss(self) -> Loss:
        """What one noisy count loses, whatever it counts, if the bound is smooth."""
        return self._certified

    @cached_property
    @abstractmethod
    def _certified(self) -> Loss:
        """The loss, checked once."""

    def add_to(self, count: int, bound: Fraction, randomness: Randomness) -> int:
        """The count with a draw for its bound added."""
        return int(randomness.draw(self, (count, bound)))

    def sample(self, given: tuple[int, Fraction], bits: Randomness) -> int:
        count, bound = given
        return count + self.draw(bound, bits)

    def largest_loss(self, seen: Any, other: Any, other_seen: Any) -> Lost:
        """The epsilon that is claimed, and the delta by which one law exceeds the other there.

        Where several records must have changed, the epsilon of as many.
        In floats, rounded to within a billionth; sums of probabilities, law against law.
        """
        if self != other:
            raise Unlike(f"{self} is {other}.")
        if seen == other_seen:
            return Lost()
        epsilon = self.loss().epsilon * self._steps(seen, other_seen)
        return Lost.pure(epsilon, self._excess(seen, other_seen, float(epsilon)))

    def _steps(self, one: tuple[int, Fraction], two: tuple[int, Fraction]) -> int:
        """The least number of records whose change explains that of the count and its bound."""
        low, high = sorted((one[1], two[1]))
        reached, grown = low, low * self.growth
        for steps in range(1, MOST_STEPS):
            if high <= grown and abs(one[0] - two[0]) <= reached:
                return steps
            reached, grown = reached + grown, grown * self.growth
        raise Unlike("A count or its bound changes by more than records explain.")

    def _excess(
        self, one: tuple[int, Fraction], two: tuple[int, Fraction], epsilon: float
    ) -> Fraction:
        """The sum over all outcomes of max(0, P - e^epsilon P'), either way, at worst."""
        scales = [float(self.spread * bound) for _, bound in (one, two)]
        step = max(1, math.floor(min(scales) / self.places))
        farthest = self.reach_in_scales * max(scales) + abs(one[0] - two[0])
        outcomes = one[0] + step * np.arange(-math.ceil(farthest / step), farthest // step + 1)
        first, second = (
            self.log_weights((outcomes - count) / scale)
            for (count, _), scale in zip((one, two), scales, strict=True)
        )
        first, second = (law - math.log(np.exp(law).sum()) for law in (first, second))
        exceeding = [
            float((np.exp(law) * -np.expm1(np.minimum(epsilon - law + beside, 0.0))).sum())
            for law, beside in ((first, second), (second, first))
        ]
        return Fraction(max(0.0, max(exceeding) - LAW_ROUNDING))

    @abstractmethod
    def log_weights(self, away: NDArray[np.float64]) -> NDArray[np.float64]:
        """The logarithm of the law at so many scales from its middle, up to a number."""

    @abstractmethod
    def draw(self, bound: Fraction, randomness: Randomness) -> int:
        """One draw for a bound."""

    @abstractmethod
    def deviation(self, bound: float) -> float:
        """The standard deviation at a bound, for humans."""

    @abstractmethod
    def margin(self, bound: float, doubt: float) -> float:
        """What the noise at a bound passes with probability `doubt` at most, for humans."""


@dataclass(frozen=True)
class SmoothLaplace(SmoothNoise):
    """Discrete Laplace noise of scale spread * bound.

    Guarantee
    ---------
    Loses epsilon = 1 / spread + (growth - 1) * L and delta, for every L >= 1 at which e^-L times
    the share of the far tail that a change of scale brings is at most delta (`reach`, certified;
    0: the least L that is a multiple of 1/1000).
    """

    reach_in_scales = 60
    places = 1000

    delta: Fraction
    reach: Fraction = Fraction(0)

    @classmethod
    def for_loss(cls, epsilon: Number, delta: Number) -> SmoothLaplace:
        """Half of epsilon for the count, half for the bound: scale 2 S / epsilon."""
        half, chance = positive(epsilon, "epsilon") / 2, _chance(delta)
        return _laplace_for_loss(half, chance)

    @cached_property
    def _certified(self) -> Loss:
        reach = self.reach or max(self._least_reach(), Fraction(1))
        if reach < max(self._least_reach(), Fraction(1)):
            way_out = "Build it by for_loss."
            raise InvalidParameter("reach", "must be larger", float(reach), way_out)
        return Loss(1 / self.spread + (self.growth - 1) * reach, self.delta)

    def _least_reach(self) -> Fraction:
        """ln(tail / delta), tail = 2 (1 - q^(growth - 1)) / ((1 + q) (1 - q^growth)), rounded up.

        q = e^(-1 / spread), the least scale's [docs/proofs/smooth.md, Theorem 1].
        """
        rate = 1 / self.spread
        above = 1 - _power_below((self.growth - 1) * rate)
        below = (1 + _power_below(rate)) * (1 - _power_above(self.growth * rate))
        tail = min(2 * above / below, Fraction(2)) if below > 0 else Fraction(2)
        if tail <= self.delta:
            return Fraction(0)
        return Fraction(math.ceil(log_above(tail / self.delta) * 1000), 1000)

    def log_weights(self, away: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-np.abs(away))

    def draw(self, bound: Fraction, randomness: Randomness) -> int:
        return discrete_laplace(self.spread * bound, randomness)

    def deviation(self, bound: float) -> float:
        return math.sqrt(2) * float(self.spread) * bound

    def margin(self, bound: float, doubt: float) -> float:
        return -math.log(doubt) * float(self.spread) * bound


@lru_cache(maxsize=256)
def _laplace_for_loss(half: Fraction, delta: Fraction) -> SmoothLaplace:
    """The least reach of 1/1000 steps that the growth it leaves keeps; less reach, more growth."""

    def built(thousandths: int) -> SmoothLaplace:
        reach = Fraction(thousandths, 1000)
        return SmoothLaplace(1 / half, 1 + half / reach, delta, reach)

    return built(_least_step(lambda step: built(step)._least_reach() <= built(step).reach, 1000))


HEAVY_SLIDE = Fraction(2280, 1000)  # above 3^(3/4), the steepest slope of ln(1 + x^4)
HEAVY_POWER = 4


@dataclass(frozen=True)
class SmoothHeavy(SmoothNoise):
    """Integers k with probability proportional to 1 / (1 + (k / s)^4), s = spread * bound.

    Guarantee
    ---------
    Loses at most epsilon = 2.28 / spread + 4 (growth - 1), and no delta: its tails are heavy
    enough. As both parts are never lost at once it loses less, `share` of that if so certified.
    """

    reach_in_scales = 2000
    places = 100

    share: Fraction = Fraction(1)

    @classmethod
    def for_loss(cls, epsilon: Number) -> SmoothHeavy:
        """Count and bound in equal parts of what is lost in all."""
        return _heavy_for_loss(positive(epsilon, "epsilon"))

    @cached_property
    def _certified(self) -> Loss:
        both = HEAVY_SLIDE / self.spread + HEAVY_POWER * (self.growth - 1)
        if self.share != 1 and not self._keeps(both * self.share):
            way_out = "Build it by for_loss."
            raise InvalidParameter("share", "must be larger", float(self.share), way_out)
        return Loss(both * self.share)

    def _keeps(self, epsilon: Fraction) -> bool:
        """Whether no ratio of probabilities passes e^epsilon [docs/proofs/smooth.md, Theorem 2].

        The worst ones are at the ends of what the bound may do; there a polynomial of degree 4
        must have no real zero, which Sturm's chain decides in fractions.
        """
        if self.spread < 1:
            return False
        q = _power_above(HEAVY_DECAY * self.spread)
        lattice = HEAVY_WAVES * q / (1 - q)  # by how much sums over integers waver
        left = epsilon - 2 * lattice / (1 - lattice)
        if left <= 0:
            return False
        most = Fraction(math.floor(exp_below(left) * 2**64), 2**64)
        g, shift = self.growth, 1 / self.spread
        for ratio, moved in ((1 / g, shift / g), (Fraction(1), shift), (g, shift)):
            lead = most * ratio**3
            polynomial = [
                lead - ratio**4 - moved**4,
                -4 * moved**3,
                -6 * moved**2,
                -4 * moved,
                lead - 1,
            ]
            if polynomial[-1] <= 0 or polynomial[0] <= 0 or has_real_zero(polynomial):
                return False
        return True

    def log_weights(self, away: NDArray[np.float64]) -> NDArray[np.float64]:
        # HEAVY_POWER by squares: `**` would take forty times as long
        return np.asarray(-np.log1p(np.square(np.square(away))))

    def draw(self, bound: Fraction, randomness: Randomness) -> int:
        scale = self.spread * bound
        whole = max(1, math.ceil(scale))
        while True:
            size = _half_open(whole, randomness)
            law = 1 / (1 + (size / scale) ** HEAVY_POWER)
            proposal = Fraction(whole * whole, (size + whole) * (size + whole + 1))
            if bernoulli(law / (HEAVY_REJECTION * proposal), randomness):
                negative = bernoulli(Fraction(1, 2), randomness)
                if not (negative and size == 0):  # 0 must not count twice
                    return -size if negative else size

    def deviation(self, bound: float) -> float:
        return float(self.spread) * bound  # of 1 / (1 + x^4), whose variance is exactly 1

    def margin(self, bound: float, doubt: float) -> float:
        return heavy_quantile(doubt) * float(self.spread) * bound


HEAVY_DECAY = Fraction(444, 100)  # below sqrt(2) pi
HEAVY_WAVES = Fraction(283, 100)  # above 2 sqrt(2)
HEAVY_SHARES = 256  # shares are multiples of 1/256


@lru_cache(maxsize=256)
def _heavy_for_loss(epsilon: Fraction) -> SmoothHeavy:
    """The least share that is certified; at 1 nothing has to be."""

    def built(part: int) -> SmoothHeavy:
        share = Fraction(part, HEAVY_SHARES)
        half = epsilon / share / 2
        return SmoothHeavy(HEAVY_SLIDE / half, 1 + half / HEAVY_POWER, share)

    return built(
        _least_step(
            lambda part: part >= HEAVY_SHARES or built(part)._keeps(epsilon), HEAVY_SHARES // 4 + 1
        )
    )


@lru_cache(maxsize=64)
def heavy_quantile(doubt: float) -> float:
    """What the law sqrt(2) / pi / (1 + x^4) passes on either side with this probability.

    The sum over integers beyond m is at most the integral from m on, as the law falls.
    """
    root = math.sqrt(2)

    def beyond(x: float) -> float:
        bend = math.log((x * x + root * x + 1) / (x * x - root * x + 1)) / 2
        turn = math.atan(root * x + 1) + math.atan(root * x - 1)
        return 1 - (bend + turn) / math.pi

    low, high = 0.0, 1.0
    while beyond(high) > doubt:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle) > doubt else (low, middle)
    return high


def has_real_zero(polynomial: list[Fraction]) -> bool:
    """Whether a polynomial, lowest coefficient first, has a real zero [Sturm 1829]."""
    slope = [place * value for place, value in enumerate(polynomial)][1:]
    chain = [polynomial, slope]
    while any(chain[-1]):
        rest, divisor = list(chain[-2]), chain[-1]
        while len(rest) >= len(divisor):
            factor = rest[-1] / divisor[-1]
            for place, value in enumerate(divisor):
                rest[len(rest) - len(divisor) + place] -= factor * value
            rest.pop()
        while rest and rest[-1] == 0:
            rest.pop()
        if not rest:
            break
        chain.append([-value for value in rest])
    ends = [
        [(part[-1] > 0) ^ (side < 0 and len(part) % 2 == 0) for part in chain] for side in (-1, 1)
    ]
    changes = [sum(a != b for a, b in pairwise(signs)) for signs in ends]
    return changes[0] != changes[1]


HEAVY_REJECTION = 4  # (1 + y)(2 + y) <= 4 (1 + y^4) for all y >= 0


def _half_open(scale: int, randomness: Randomness) -> int:
    """k >= 0 with P(k or more) = scale / (k + scale): floor(scale / U) - scale for a uniform U."""
    bits, precision = randomness.bits(64), 64
    while True:
        if bits > 0:
            most = (scale << precision) // bits
            if most == (scale << precision) // (bits + 1):  # no bit yet to come changes it
                return most - scale
        bits, precision = (bits << 64) | randomness.bits(64), precision + 64


@dataclass(frozen=True)
class SmoothGaussian(SmoothNoise):
    """Discrete Gaussian noise of standard deviation spread * bound: Okada's choice.

    Guarantee
    ---------
    Loses (epsilon, delta), half of epsilon by the change of place and half by that of scale; that
    both excesses together stay below delta is certified by `loss`.
    """

    reach_in_scales = 20
    places = 1000

    epsilon: Fraction
    delta: Fraction

    @classmethod
    def for_loss(cls, epsilon: Number, delta: Number) -> SmoothGaussian:
        """The least spread and the most growth, in steps, that take half of delta each."""
        whole, chance = positive(epsilon, "epsilon"), _chance(delta)
        if not LEAST_GAUSSIAN_EPSILON <= whole <= GAUSSIAN_EPSILON:
            rule = f"must be 1/10000 to {GAUSSIAN_EPSILON} for gaussian noise"
            raise InvalidParameter("epsilon", rule, epsilon, "Ask for heavy noise.")
        return _gaussian_for_loss(whole, chance)

    @cached_property
    def _certified(self) -> Loss:
        weight = exp_above(self.epsilon / 2)  # of what a move exceeds after a change of scale
        if self._moving() * weight + self._swelling() > self.delta:
            way_out = "Build it by for_loss."
            raise InvalidParameter("spread", "must be larger", float(self.spread), way_out)
        return Loss(self.epsilon, self.delta)

    def _moving(self) -> Fraction:
        """At most what a move by the bound exceeds e^(epsilon / 2) by [smooth.md, Theorem 3]."""
        c = self.spread
        z = c * self.epsilon / 2 - 1 / (2 * c)
        if z <= 0:
            return Fraction(1)
        return _bell_above(z) * (1 / (c * z**2) + 1 / (EULER_BELOW * c**2 * z))

    def _swelling(self) -> Fraction:
        """At most what the largest change of scale exceeds e^(epsilon / 2) by."""
        half = self.epsilon / 2
        if self.growth > exp_below(half):
            return Fraction(1)
        squared = self.epsilon / (self.growth**2 - 1)
        z = _root_below(squared)
        inside = 1 / z**3 + 1 / z**5
        at_most = (1 / EULER_BELOW + 2 / (EULER_BELOW**2 * squared)) / (z**2 * self.spread)
        return 4 * half * _bell_above(z) * (inside + at_most)

    def log_weights(self, away: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-(away**2) / 2)

    def draw(self, bound: Fraction, randomness: Randomness) -> int:
        return discrete_gaussian((self.spread * bound) ** 2, randomness)

    def deviation(self, bound: float) -> float:
        return float(self.spread) * bound

    def margin(self, bound: float, doubt: float) -> float:
        return NormalDist().inv_cdf(1 - doubt / 2) * float(self.spread) * bound


LEAST_GAUSSIAN_EPSILON = SMALLEST_GROWTH  # e^(epsilon / 2) is at least 1 + its own
GAUSSIAN_EPSILON = 20  # nobody asks for more, and e^20 still is short as a fraction
GAUSSIAN_STEPS = 256  # to a unit of the spread, and of the root of what the growth follows from
EULER_BELOW = Fraction(271828, 100000)
BELL_ABOVE = Fraction(39895, 100000)  # at least 1 / sqrt(2 pi)


@lru_cache(maxsize=256)
def _gaussian_for_loss(epsilon: Fraction, delta: Fraction) -> SmoothGaussian:
    """Both conditions ease with their parameter, so that halving finds the least step."""
    room = delta / 2 / exp_above(epsilon / 2)

    def spread_of(step: int) -> Fraction:
        return Fraction(step, GAUSSIAN_STEPS)

    def growth_of(step: int) -> Fraction:
        """With z = step / 256 deviations, z^2 = epsilon / (growth^2 - 1), rounded down."""
        return _root_below(1 + epsilon / Fraction(step, GAUSSIAN_STEPS) ** 2)

    def moves_little(step: int) -> bool:
        return SmoothGaussian(spread_of(step), Fraction(2), epsilon, delta)._moving() <= room

    spread = spread_of(_least_step(moves_little, GAUSSIAN_STEPS))

    def swells_little(step: int) -> bool:
        growth = growth_of(step)
        return SmoothGaussian(spread, growth, epsilon, delta)._swelling() <= delta / 2

    growth = growth_of(_least_step(swells_little, GAUSSIAN_STEPS))
    return SmoothGaussian(spread, growth, epsilon, delta)


def _least_step(does: Callable[[int], bool], low: int) -> int:
    """The least number of at least `low` that does, where every larger one does too."""
    high = low
    while not does(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if does(middle) else (middle, high)
    return high


def _bell_above(z: Fraction) -> Fraction:
    """At least e^(-z^2 / 2) / sqrt(2 pi)."""
    return BELL_ABOVE * _power_above(z**2 / 2)


def _root_below(number: Fraction) -> Fraction:
    """At most the square root, in 40 binary places."""
    return Fraction(math.isqrt(math.floor(number * 2**80)), 2**40)


def discrete_laplace(scale: Fraction, randomness: Randomness) -> int:
    """k with probability proportional to e^(-|k| / scale), at any scale: none may fail for rows.

    Past the largest scale of `DiscreteLaplace`, split off a low digit [discrete_laplace.md].
    """
    if scale <= LARGEST_SCALE:
        return int(DiscreteLaplace(scale).draw(1, randomness)[0])
    unit = 1 << math.floor(scale / LARGEST_SCALE).bit_length()
    low = randomness.below(unit)
    while not bernoulli_exp(low / scale, randomness):
        low = randomness.below(unit)
    size = low + unit * int(Geometric(scale / unit).draw(1, randomness)[0])
    return ~size if damped_logistic(Fraction(0), 1 / scale, randomness) else size


def discrete_gaussian(variance: Fraction, randomness: Randomness) -> int:
    """k with probability proportional to e^(-k^2 / (2 variance)) [Canonne et al. 2020]."""
    scale = math.isqrt(math.floor(variance)) + 1
    while True:
        drawn = discrete_laplace(Fraction(scale), randomness)
        gap = abs(drawn) - variance / scale
        if bernoulli_exp(gap * gap / (2 * variance), randomness):
            return drawn


FARTHEST_POWER = 200  # e^-200 is next to nothing, and much smaller ones have too many digits


def _power_below(exponent: Fraction) -> Fraction:
    """At most e^-exponent."""
    return exp_below(-exponent) if exponent < FARTHEST_POWER else Fraction(0)


def _power_above(exponent: Fraction) -> Fraction:
    """At least e^-exponent."""
    return exp_above(-min(exponent, Fraction(FARTHEST_POWER)))


def _chance(delta: Number) -> Fraction:
    number = positive(delta, "delta")
    if number > Fraction(1, 2):
        raise InvalidParameter("delta", "must be at most 1/2", delta, "Try 1e-6.")
    return number
