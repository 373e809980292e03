"""How does one flip a coin that lands heads once in 10^30 times? Exactly: by revealing bits.

Each coin compares a uniform number, revealed byte by byte, with certified digits of its
probability: docs/proofs/coins.md. How many bytes are revealed depends a little on the outcome and
on the probability; where that is private, the caller must not show the time taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from privod.errors import InvalidParameter
from privod.mechanisms.exact import Enclosure, Real, Uniform, exp_minus, rational
from privod.mechanisms.law import Law, Lost, Unlike
from privod.mechanisms.randomness import Randomness
from privod.privacy.certified import log_below


def bernoulli(probability: Fraction, randomness: Randomness) -> bool:
    """Return True with exactly the given rational probability."""
    if not 0 <= probability <= 1:
        way_out = "Try Fraction(1, 2)."
        raise InvalidParameter("probability", "must lie in [0, 1]", probability, way_out)
    return Uniform(randomness).is_below(lambda precision: rational(probability, precision))


def bernoulli_exp(exponent: Fraction, randomness: Randomness) -> bool:
    """Return True with probability exactly e^-exponent, for a rational exponent of at least 0."""
    exponent = _at_least_zero(exponent, "exponent")
    return Uniform(randomness).is_below(lambda precision: exp_minus(exponent, precision))


def damped_logistic(damping: Fraction, exponent: Fraction, randomness: Randomness) -> bool:
    """Return True with probability exactly e^-damping / (1 + e^exponent), both rational, >= 0."""
    damping = _at_least_zero(damping, "damping")
    exponent = _at_least_zero(exponent, "exponent")
    return Uniform(randomness).is_below(_damped_logistic(damping, exponent))


LAW_BITS = 192  # to which an audit knows the chance of a lie
ROUNDING = Fraction(1, 2**100)


@dataclass(frozen=True)
class EditCoin(Law):
    """A truth, but for a lie of probability e^(-epsilon (edits - 1)) / (1 + e^epsilon).

    Given are the truth and the edits. How many bits it takes follows a little from the edits.
    """

    epsilon: Fraction
    same_bits = False

    def sample(self, given: tuple[bool, int], bits: Randomness) -> bool:
        truth, edits = given
        return truth != damped_logistic(self.epsilon * (edits - 1), self.epsilon, bits)

    def largest_loss(self, seen: Any, other: Any, other_seen: Any) -> Lost:
        """The larger of the two ratios either way, up to 2^-100, from below."""
        if self != other:
            raise Unlike(f"{self} is {other}.")
        if seen == other_seen:
            return Lost()
        (one, less_one), (two, less_two) = self._chances(*seen), self._chances(*other_seen)
        ratios = (one / two, two / one, less_one / less_two, less_two / less_one)
        return Lost.pure(max(Fraction(0), log_below(max(ratios)) - ROUNDING))

    def _chances(self, truth: bool, edits: int) -> tuple[Fraction, Fraction]:
        """Of an outcome of True and of False."""
        real = _damped_logistic(self.epsilon * (edits - 1), self.epsilon)
        precision = LAW_BITS + int(2 * self.epsilon * edits)
        lie = Fraction(real(precision).low, 1 << precision)
        return (1 - lie, lie) if truth else (lie, 1 - lie)


def _damped_logistic(damping: Fraction, exponent: Fraction) -> Real:
    def real(precision: int) -> Enclosure:
        """Enclose e^-(damping + exponent) / (1 + e^-exponent)."""
        one = Enclosure(1 << precision, 1 << precision, precision)
        above = exp_minus(damping + exponent, precision)
        return above / (one + exp_minus(exponent, precision))

    return real


def _at_least_zero(number: Fraction, name: str) -> Fraction:
    if not isinstance(number, int | Fraction) or isinstance(number, bool):
        raise InvalidParameter(name, "must be a fraction", number, "Try Fraction(1, 2).")
    if number < 0:
        raise InvalidParameter(name, "must be at least 0", number, "Try 0.")
    return Fraction(number)
