"""How far off is a count that was added up of several noisy ones?

A merged count carries the noise of all its parts. Their variances add up, so its error bars must
come from the sum of the draws, not from the least noisy of them.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from privod.arrays import Floats
from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms.gaussian import DiscreteGaussian
from privod.mechanisms.noise import DiscreteLaplace
from privod.mechanisms.shared import SharedGaussian
from privod.privacy import exact

Parts = tuple[tuple[Fraction, int], ...]

MOST_SCALES = 100_000  # different ones in one sum: more than anyone merges
MOST_DRAWS = 2**53  # of one scale, which a float still counts
PLACES_PER_DEVIATION = 256  # the law of a sum is tabulated this finely, or at every integer
TAIL_IN_SCALES = 40.0  # past these, and ten deviations, less than 1e-15 is left
TAIL_IN_DEVIATIONS = 10.0
KINDS = {2: (), 3: ("gaussian", "beside")}  # how entries of so many values begin in JSON


@dataclass(frozen=True)
class MergedNoise:
    """The sum of independent draws of discrete noise: the noise of a merged count.

    Scales of Laplace draws, ascending, each with the number of draws of that scale; the same for
    Gaussian draws and their sigma2; and more Gaussian noise `beside`, which no guarantee counts on:
    the third share of noise of which two are counted on.
    """

    parts: Parts
    gaussian: Parts = ()
    beside: Parts = ()

    @classmethod
    def of(cls, noise: DiscreteLaplace | DiscreteGaussian) -> MergedNoise:
        """One draw."""
        if isinstance(noise, DiscreteGaussian):
            return cls((), ((noise.sigma2, 1),))
        return cls(((noise.scale, 1),))

    @classmethod
    def of_shares(cls, noise: DiscreteLaplace | DiscreteGaussian) -> MergedNoise:
        """Noise that three computing parties drew in shares, two of which are counted on."""
        if not isinstance(noise, DiscreteGaussian):
            rule = "must be gaussian to be drawn in shares"
            raise InvalidParameter("noise", rule, "laplace", "Ask with a delta.")
        shared = SharedGaussian(noise.sigma2)
        return cls((), ((noise.sigma2, 1),), ((shared.uncounted, 1),))

    def __add__(self, other: MergedNoise) -> MergedNoise:
        return MergedNoise(
            _both(self.parts, other.parts),
            _both(self.gaussian, other.gaussian),
            _both(self.beside, other.beside),
        )

    @property
    def n_draws(self) -> int:
        """How many draws that are counted on are added up."""
        return sum(times for _, times in (*self.parts, *self.gaussian))

    @property
    def single(self) -> DiscreteLaplace | DiscreteGaussian | None:
        """The noise itself, where it is one draw."""
        if self.n_draws > 1 or self.beside:
            return None
        if self.gaussian:
            return DiscreteGaussian(self.gaussian[0][0])
        return DiscreteLaplace(self.parts[0][0])

    @property
    def least_scale(self) -> Fraction:
        """The scale of the least noisy part, which sets the loss of a merge."""
        return self.parts[0][0]

    @property
    def scale(self) -> float:
        """The scale of one Laplace draw, or of one that would vary as much as the sum."""
        if self.n_draws == 1 and self.parts:
            return float(self.least_scale)
        squares = sum(times * float(scale) ** 2 for scale, times in self.parts)
        all_gaussian = (*self.gaussian, *self.beside)
        squares += sum(times * float(sigma2) / 2 for sigma2, times in all_gaussian)
        return math.sqrt(squares)

    @property
    def deviation(self) -> float:
        """The standard deviation: variances add up."""
        laplace = (times * DiscreteLaplace(scale).deviation ** 2 for scale, times in self.parts)
        all_gaussian = (*self.gaussian, *self.beside)
        others = (times * DiscreteGaussian(s2).deviation ** 2 for s2, times in all_gaussian)
        return math.sqrt(sum(laplace) + sum(others))

    def quantile(self, confidence: float) -> int:
        if self.single is not None:
            return self.single.quantile(confidence)
        if not 0 < confidence < 1:
            raise InvalidParameter("confidence", "must lie in (0, 1)", confidence, "Try 0.95.")
        step, law = _tabulated(self)
        middle = len(law) // 2
        within = law[middle] + 2 * law[middle + 1 :].cumsum()
        beyond = int(np.searchsorted(within, confidence)) + 1
        return 0 if law[middle] >= confidence else math.ceil(beyond * step)

    def to_json(self) -> list[list[Any]]:
        """Scales as text, with their numbers of draws; other kinds say so, with their variances."""
        gaussian = [["gaussian", str(sigma2), times] for sigma2, times in self.gaussian]
        beside = [["beside", str(sigma2), times] for sigma2, times in self.beside]
        return [[str(scale), times] for scale, times in self.parts] + gaussian + beside

    @classmethod
    def from_json(cls, data: Any) -> MergedNoise:
        wrong = InvalidData("The noise must be a list of ascending scales with numbers of draws.")
        if not isinstance(data, list) or not 0 < len(data) <= MOST_SCALES:
            raise wrong
        for entry in data:
            if not isinstance(entry, list) or type(entry[-1] if entry else None) is not int:
                raise wrong
            if len(entry) not in KINDS or (len(entry) == 3 and entry[0] not in KINDS[3]):
                raise wrong
        parts = tuple(
            (DiscreteLaplace(exact(entry[0], "scale")).scale, entry[1])
            for entry in data
            if len(entry) == 2
        )
        gaussian, beside = (
            tuple(
                (DiscreteGaussian(exact(entry[1], "sigma2")).sigma2, entry[2])
                for entry in data
                if entry[0] == kind
            )
            for kind in KINDS[3]
        )
        if not parts and not gaussian:
            raise wrong
        for some in (parts, gaussian, beside):
            scales = [scale for scale, _ in some]
            if scales != sorted(set(scales)) or any(not 1 <= n <= MOST_DRAWS for _, n in some):
                raise wrong
        return cls(parts, gaussian, beside)


def _both(some: Parts, others: Parts) -> Parts:
    times: Counter[Fraction] = Counter(dict(some))
    times.update(dict(others))
    return tuple(sorted(times.items()))


@lru_cache(maxsize=64)
def _tabulated(noise: MergedNoise) -> tuple[float, Floats]:
    """The law of the sum at the multiples of a step, from minus to plus its tails.

    The characteristic function of a draw is (1 - q)^2 / (1 - 2 q cos t + q^2); those of the parts
    are multiplied and the product is transformed back. That of a Gaussian draw is a sum of
    Gaussians by Poisson's formula. On a lattice wider than the integers each draw is replaced by
    the same law on that lattice.
    """
    step = max(1.0, noise.deviation / PLACES_PER_DEVIATION)
    widest = float(noise.parts[-1][0]) if noise.parts else 0.0
    reach = TAIL_IN_SCALES * widest + TAIL_IN_DEVIATIONS * noise.deviation
    n_places = 1 << math.ceil(math.log2(2 * reach / step + 2))
    angles = 2 * np.pi * np.arange(n_places // 2 + 1) / n_places
    logarithm = np.zeros(len(angles))
    for scale, times in noise.parts:
        ratio = math.exp(-step / float(scale))
        spread = 2 * ratio * (1 - np.cos(angles)) / (1 - ratio) ** 2
        logarithm -= times * np.log1p(spread)
    for sigma2, times in (*noise.gaussian, *noise.beside):
        logarithm += times * _gaussian_logarithm(float(sigma2) / step**2, angles)
    law = np.fft.fftshift(np.fft.irfft(np.exp(logarithm), n_places))
    return step, np.maximum(law, 0.0)


def _gaussian_logarithm(sigma2: float, angles: Floats) -> Floats:
    """The logarithm of the characteristic function of a discrete Gaussian, at angles up to pi."""
    if sigma2 < 1:  # few integers: sum over these
        sizes = np.arange(-40.0, 41.0)
        weights = np.exp(-(sizes**2) / (2 * sigma2))
        return np.asarray(np.log((weights / weights.sum()) @ np.cos(np.outer(sizes, angles))))
    turns = 2 * np.pi * np.arange(-3.0, 4.0)[:, None]
    above = np.logaddexp.reduce(-sigma2 * (angles + turns) ** 2 / 2, axis=0)
    return np.asarray(above - np.logaddexp.reduce(-sigma2 * turns**2 / 2, axis=0))
