"""Noise that several parties draw in shares: Skellam, the difference of two Poisson numbers.

Poisson numbers add up to Poisson numbers, so shares drawn independently add up to Skellam noise of
the summed variance, and nobody knows all of it. Shares are drawn exactly (but for a tail below
2**-160, which is charged to delta); the loss is that of the drawn law: the Renyi divergence of one
unit shift, summed, never approximated by a Gaussian's (docs/proofs/joint_outliers.md, "Skellam").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ive

from privod.errors import InvalidParameter
from privod.mechanisms.exact import Enclosure, exp_minus
from privod.mechanisms.inversion import InversionTable
from privod.mechanisms.randomness import Randomness
from privod.privacy import Loss, Number, exact, positive

__all__ = ["Poisson", "SkellamShares"]

LARGEST_MEAN = 20_000  # of one Poisson number; its table holds 16-bit outcomes
TAIL_BITS = 160  # an outcome past the table has probability below 2**-160
ORDERS = tuple(1 + 2.0**power for power in np.arange(-4, 9, 0.125))
FLOAT_SLACK = 1e-9  # on every sum of floats below; a hundred thousand times its rounding error
WARM_UP = 4000  # steps of the recurrence before its ratios are used
BLOCK = 1 << 17


@dataclass(frozen=True)
class Poisson:
    """Numbers k = 0, 1, 2, ... with probability e^-mean mean^k / k!, cut off below 2**-160.

    Parameters
    ----------
    mean : number
        Above 0, at most 20,000; read as an exact fraction.
    """

    mean: Fraction

    def __post_init__(self) -> None:
        mean = positive(self.mean, "mean")
        if mean > LARGEST_MEAN:
            rule = f"must be at most {LARGEST_MEAN}"
            raise InvalidParameter("mean", rule, float(mean), "Ask for a larger epsilon.")
        object.__setattr__(self, "mean", mean)

    def draw(self, n: int, randomness: Randomness) -> NDArray[np.int64]:
        """Return `n` independent draws."""
        table = _poisson_table(self.mean)
        drawn = np.empty(n, np.int64)
        for start in range(0, n, BLOCK):
            block = drawn[start : start + BLOCK]
            block[:] = table.draw(len(block), randomness)
        return drawn


@lru_cache(maxsize=8)
def _poisson_table(mean: Fraction) -> InversionTable:
    last = _last_outcome(mean)

    def thresholds(precision: int) -> list[Enclosure]:
        # e^-mean is tiny and then multiplied up: that many more bits are carried along
        working = precision + math.ceil(float(mean) * 1.4427) + 64 + last.bit_length()
        term = exp_minus(mean, working)
        total = term
        found = []
        for outcome in range(1, last + 1):
            found.append(total)
            term = term.times(mean.numerator, mean.denominator * outcome)
            total = total + term
        one = 1 << precision
        rounded = [bound.rounded(precision) for bound in found]
        return [Enclosure(bound.low, min(bound.high, one), precision) for bound in rounded]

    return InversionTable(thresholds, np.arange(last + 1, dtype=np.int16))


def _last_outcome(mean: Fraction) -> int:
    """Return K with P(X > K) < 2**-160: Chernoff, P(X >= k) <= e^-mean (e mean / k)^k."""
    average = float(mean)
    last = math.ceil(average) + 1
    while -average + last * (1 + math.log(average / last)) > -(TAIL_BITS + 1) * math.log(2):
        last += 1 + last // 64
    return last


@dataclass(frozen=True)
class SkellamShares:
    """Integer noise for a vector, drawn in shares of which `honest` stay unknown to an attacker.

    Guarantee
    ---------
    Integers of which at most `unit_shifts` differ between adjacent data sets, each by one, each
    with its own noise from at least `honest` shares, lose `loss(...)`.

    Parameters
    ----------
    variance : int
        Of the noise of all honest shares together.
    honest : int
        How many shares that variance is spread over.
    """

    variance: int
    honest: int

    def __post_init__(self) -> None:
        if self.honest < 1:
            way_out = "Tolerate fewer colluders."
            raise InvalidParameter("honest", "must be at least 1", self.honest, way_out)
        if self.variance < 1:
            way_out = "Ask for a smaller epsilon."
            raise InvalidParameter("variance", "must be at least 1", self.variance, way_out)

    @classmethod
    def for_loss(
        cls, epsilon: Number, delta: Number, unit_shifts: int, n_values: int, honest: int
    ) -> SkellamShares:
        """Return the least noise whose loss is within epsilon and delta."""
        allowed = Loss(positive(epsilon, "epsilon"), positive(delta, "delta"))
        low, high = 0, 1
        while not _within(cls(high, honest), allowed, unit_shifts, n_values):
            low, high = high, 2 * high
            if high > 2 * LARGEST_MEAN * honest:
                raise InvalidParameter(
                    "epsilon",
                    "must leave room for noise that fits its table",
                    float(allowed.epsilon),
                    "Ask for a larger epsilon, fewer tables or fewer rounds.",
                )
        while high - low > 1:
            middle = (low + high) // 2
            if _within(cls(middle, honest), allowed, unit_shifts, n_values):
                high = middle
            else:
                low = middle
        return cls(high, honest)

    @property
    def deviation(self) -> float:
        """The standard deviation of the honest shares' sum."""
        return math.sqrt(self.variance)

    @property
    def largest_share(self) -> int:
        """The largest absolute value that one party's share of one value can take."""
        return _last_outcome(Fraction(self.variance, 2 * self.honest))

    def delta(self, epsilon: Number, unit_shifts: int, n_values: int) -> float:
        """Return a delta at which the noise keeps epsilon; an upper bound, rounded up.

        Renyi losses of independent values add up; then [Canonne, Kamath, Steinke 2020, Prop 12].
        """
        limit = float(exact(epsilon, "epsilon"))
        best = 1.0
        for order in ORDERS:
            renyi = unit_shifts * unit_shift_divergence(self.variance, order)
            exponent = (order - 1) * (renyi - limit) + order * math.log1p(-1 / order)
            if exponent < 0:
                best = min(best, math.exp(exponent) / (order - 1))
        cut = 2.0 ** (1 - TAIL_BITS) * n_values * self.honest  # two cut Poisson tails per share
        return min(1.0, best * (1 + FLOAT_SLACK) + cut * (1 + math.exp(min(limit, 50.0))))

    def draw_share(self, n_values: int, randomness: Randomness) -> NDArray[np.int64]:
        """Return one party's share of the noise of every value."""
        mean = Fraction(self.variance, 2 * self.honest)
        poisson = Poisson(mean)
        return poisson.draw(n_values, randomness) - poisson.draw(n_values, randomness)


def _within(noise: SkellamShares, allowed: Loss, unit_shifts: int, n_values: int) -> bool:
    return noise.delta(allowed.epsilon, unit_shifts, n_values) <= float(allowed.delta)


@lru_cache(maxsize=65536)
def unit_shift_divergence(variance: int, order: float) -> float:
    """Renyi divergence between Skellam noise and the same noise plus one, from above.

    D = log(sum_k P(k)^order P(k-1)^(1-order)) / (order - 1), P(k) = e^-v I_k(v). What lies beyond
    the summed range is bounded by the moment generating function (docs/proofs, Lemma 3).
    """
    reach = math.ceil(4 * (order - 1) + 10 * math.sqrt(variance) + 40)
    half = _log_probabilities(variance)[: reach + 2]
    logs = np.concatenate([half[:0:-1], half[:-1]])  # of -reach - 1 .. reach
    exponents = order * logs[1:] + (1 - order) * logs[:-1]
    top = float(exponents.max())
    slope = 2 * (order - 1) / variance
    tilt = math.asinh(reach / variance)
    rest = slope + variance * (math.cosh(tilt) - 1) - (tilt - slope) * reach
    if not (np.isfinite(exponents).all() and tilt > slope and rest < 0):
        return math.inf
    log_sum = top + math.log(float(np.exp(exponents - top).sum()))
    log_sum += 2 * math.exp(rest) + FLOAT_SLACK * (order - 1) / variance
    return max(0.0, log_sum / (order - 1)) * (1 + FLOAT_SLACK)


@lru_cache(maxsize=256)
def _log_probabilities(variance: int) -> NDArray[np.float64]:
    """log P(k) for k = 0, 1, ...: ratios I_(k+1) / I_k by the backward recurrence, which forgets
    its start and never underflows.
    """
    length = math.ceil(4 * ORDERS[-1] + 10 * math.sqrt(variance) + 44)
    ratio = 0.0
    ratios = np.empty(length)
    for index in range(length + WARM_UP, 0, -1):
        ratio = 1 / (2 * index / variance + ratio)  # I_index / I_(index-1)
        if index <= length:
            ratios[index - 1] = ratio
    return math.log(ive(0, variance)) + np.concatenate([[0.0], np.cumsum(np.log(ratios))])
