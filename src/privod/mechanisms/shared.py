"""Gaussian noise that three computing parties draw in shares, so that nobody knows all of it.

Integers are doubled, every party adds discrete Gaussian noise of twice the variance that is asked
for, and the sum is halved (docs/proofs/joint_detector.md, "Shares of noise").
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from privod.arrays import Ints
from privod.mechanisms.gaussian import DiscreteGaussian
from privod.mechanisms.randomness import Randomness
from privod.privacy import Number

SHARES = 3  # that are drawn
COUNTED_ON = 2  # that nobody but their own party knows, where one party is curious
ROUNDING = Fraction(1, 8)  # variance that halving adds: a half, either way, every other time


@dataclass(frozen=True)
class SharedGaussian:
    """Three shares of integer noise, any two of which keep the guarantee of one draw.

    Against whoever knows one share, integers lose what `DiscreteGaussian(sigma2)` loses, no more:
    rho = squared_sensitivity / (2 sigma2). Against whoever knows two shares they lose twice that.
    """

    sigma2: Fraction

    @property
    def share(self) -> DiscreteGaussian:
        """One party's noise for the doubled integers."""
        return DiscreteGaussian(2 * self.sigma2)

    @property
    def uncounted(self) -> Fraction:
        """The variance beside that of the two shares: of the third one, and of halving."""
        return self.sigma2 / COUNTED_ON * (SHARES - COUNTED_ON) + ROUNDING

    def rho(self, squared_sensitivity: Number, known: int = 1) -> Fraction:
        """What is lost against somebody who knows so many of the shares, fewer than all."""
        whole = DiscreteGaussian(self.sigma2).rho(squared_sensitivity)
        return whole * COUNTED_ON / (SHARES - known)

    def draw(self, size: int, randomness: Randomness) -> Ints:
        """One party's share of the noise of so many doubled integers."""
        return self.share.draw(size, randomness)


def doubled(sums: Ints) -> Ints:
    """Integers as shares of noise are added to them."""
    return 2 * sums


def halved(total: Ints) -> Ints:
    """The noisy integers; of a half, the even neighbor."""
    floor = total >> 1
    return floor + (total & floor & 1)
