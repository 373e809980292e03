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
from numpy.typing import NDArray

from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms.noise import DiscreteLaplace
from privod.privacy import exact

__all__ = ["MergedNoise"]

Floats = NDArray[np.float64]

MOST_SCALES = 100_000  # different ones in one sum: more than anyone merges
PLACES_PER_DEVIATION = 256  # the law of a sum is tabulated this finely, or at every integer
TAIL_IN_SCALES = 40.0  # past these, and ten deviations, less than 1e-15 is left
TAIL_IN_DEVIATIONS = 10.0
LEAST_DENSITY = 1e-18  # the table's rounding


@dataclass(frozen=True)
class MergedNoise:
    """The sum of independent draws of discrete Laplace noise: the noise of a merged count.

    Parameters
    ----------
    parts : tuple of (Fraction, int)
        The scales, ascending, each with the number of draws of that scale.
    """

    parts: tuple[tuple[Fraction, int], ...]

    @classmethod
    def of(cls, noise: DiscreteLaplace) -> MergedNoise:
        """One draw."""
        return cls(((noise.scale, 1),))

    def __add__(self, other: MergedNoise) -> MergedNoise:
        times: Counter[Fraction] = Counter(dict(self.parts))
        times.update(dict(other.parts))
        return MergedNoise(tuple(sorted(times.items())))

    @property
    def n_draws(self) -> int:
        """How many draws are added up."""
        return sum(times for _, times in self.parts)

    @property
    def least_scale(self) -> Fraction:
        """The scale of the least noisy part, which sets the loss of a merge."""
        return self.parts[0][0]

    @property
    def scale(self) -> float:
        """The scale of one draw, or of one that would vary as much as the sum."""
        if self.n_draws == 1:
            return float(self.least_scale)
        return math.sqrt(sum(times * float(scale) ** 2 for scale, times in self.parts))

    @property
    def deviation(self) -> float:
        """The standard deviation: variances add up."""
        variances = (times * DiscreteLaplace(scale).deviation ** 2 for scale, times in self.parts)
        return math.sqrt(sum(variances))

    def quantile(self, confidence: float) -> int:
        """The smallest size that the noise stays within with at least this probability."""
        if self.n_draws == 1:
            return DiscreteLaplace(self.least_scale).quantile(confidence)
        if not 0 < confidence < 1:
            raise InvalidParameter("confidence", "must lie in (0, 1)", confidence, "Try 0.95.")
        step, law = _tabulated(self)
        middle = len(law) // 2
        within = law[middle] + 2 * law[middle + 1 :].cumsum()
        beyond = int(np.searchsorted(within, confidence)) + 1
        return 0 if law[middle] >= confidence else math.ceil(beyond * step)

    def density(self, sizes: Floats) -> Floats:
        """About how likely noise of each size is, per unit; for weighing, never for a promise."""
        if self.n_draws == 1:
            rate = 1 / float(self.least_scale)
            return np.asarray(math.tanh(rate / 2) * np.exp(-rate * np.abs(sizes)))
        step, law = _tabulated(self)
        places = (np.arange(len(law)) - len(law) // 2) * step
        return np.asarray(np.interp(sizes, places, law / step, LEAST_DENSITY, LEAST_DENSITY))

    def to_json(self) -> list[list[Any]]:
        """Scales as text, with their numbers of draws."""
        return [[str(scale), times] for scale, times in self.parts]

    @classmethod
    def from_json(cls, data: Any) -> MergedNoise:
        """Read back what `to_json` wrote."""
        wrong = InvalidData("The noise must be a list of ascending scales with numbers of draws.")
        if not isinstance(data, list) or not 0 < len(data) <= MOST_SCALES:
            raise wrong
        for entry in data:
            if not isinstance(entry, list) or len(entry) != 2 or type(entry[1]) is not int:
                raise wrong
        parts = tuple((DiscreteLaplace(exact(text, "scale")).scale, n) for text, n in data)
        scales = [scale for scale, _ in parts]
        if scales != sorted(set(scales)) or min(n for _, n in parts) < 1:
            raise wrong
        return cls(parts)


@lru_cache(maxsize=64)
def _tabulated(noise: MergedNoise) -> tuple[float, Floats]:
    """The law of the sum at the multiples of a step, from minus to plus its tails.

    The characteristic function of a draw is (1 - q)^2 / (1 - 2 q cos t + q^2); those of the parts
    are multiplied and the product is transformed back. On a lattice wider than the integers each
    draw is replaced by the discrete Laplace of that lattice.
    """
    step = max(1.0, noise.deviation / PLACES_PER_DEVIATION)
    widest = float(noise.parts[-1][0])
    reach = TAIL_IN_SCALES * widest + TAIL_IN_DEVIATIONS * noise.deviation
    n_places = 1 << math.ceil(math.log2(2 * reach / step + 2))
    angles = 2 * np.pi * np.arange(n_places // 2 + 1) / n_places
    logarithm = np.zeros(len(angles))
    for scale, times in noise.parts:
        ratio = math.exp(-step / float(scale))
        spread = 2 * ratio * (1 - np.cos(angles)) / (1 - ratio) ** 2
        logarithm -= times * np.log1p(spread)
    law = np.fft.fftshift(np.fft.irfft(np.exp(logarithm), n_places))
    return step, np.maximum(law, LEAST_DENSITY * step)
