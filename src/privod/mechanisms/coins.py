"""How does one flip a coin that lands heads once in 10^30 times? Exactly: by revealing bits.

Each coin compares a uniform number, revealed byte by byte, with certified digits of its
probability. There is no float, hence no smallest probability, and the law is exact:
docs/proofs/coins.md.

The number of bytes revealed, and so the running time, depends a little on the outcome and on the
probability (a rare event fails as early as any other); where the probability is private, the
caller must not show the time taken.
"""

from __future__ import annotations

from fractions import Fraction

from privod.errors import InvalidParameter
from privod.mechanisms.exact import Enclosure, Real, Uniform, exp_minus, rational
from privod.mechanisms.randomness import Randomness

__all__ = ["bernoulli", "bernoulli_exp", "damped_logistic", "logistic"]


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


def logistic(exponent: Fraction, randomness: Randomness) -> bool:
    """Return True with probability exactly 1 / (1 + e^exponent), for a rational exponent >= 0.

    This is the lie of randomized response at loss `exponent`.
    """
    return damped_logistic(Fraction(0), exponent, randomness)


def damped_logistic(damping: Fraction, exponent: Fraction, randomness: Randomness) -> bool:
    """Return True with probability exactly e^-damping / (1 + e^exponent), both rational, >= 0."""
    damping = _at_least_zero(damping, "damping")
    exponent = _at_least_zero(exponent, "exponent")
    return Uniform(randomness).is_below(_damped_logistic(damping, exponent))


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
