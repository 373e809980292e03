"""How is one of many candidates chosen in private? A better one is likelier, by an exact law.

`ExponentialMechanism` chooses candidate i with probability proportional to e^(utility_i / scale).
`PermuteAndFlip` goes through the candidates in random order and takes the first one that passes a
coin of probability e^(-(best - utility_i) / scale): same loss, never a worse expected utility
[McKenna and Sheldon 2020]. `Top` chooses several, without repeats, one after another. Utilities are
integers, in a unit that the caller fixes by public numbers: a common denominator of the utilities
themselves would let the scale, and whether it can be drawn at, depend on rows. Nothing underflows,
and the order of candidates does not matter to the law. How many random bits a choice takes follows
from the number of candidates alone, but for one choice in 2^30 or fewer. Proofs:
docs/proofs/selection.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms.exact import Enclosure, Real, Uniform, exp_minus
from privod.mechanisms.noise import Geometric
from privod.mechanisms.randomness import Randomness
from privod.mechanisms.weighted_choice import WEIGHT_BITS, WeightedChoice, enclosed_weights
from privod.privacy import Loss, Number, Zcdp, positive

__all__ = ["ExponentialMechanism", "PermuteAndFlip", "Top", "Utilities"]

Utilities = NDArray[Any] | Sequence[int]
"""Integers, one for each candidate."""

LARGEST_UTILITY = 2**61  # so that a difference of two fits 64 bits
LARGEST_TOTAL = 2**62  # candidates, counted with their multiplicities
BLOCK = 1 << 17  # candidates at a time, so that memory stays flat
WORD_BITS = 64


@dataclass(frozen=True)
class _Choice(ABC):
    """A choice whose law depends on differences of utilities divided by a scale."""

    scale: Fraction
    monotone: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", Geometric(self.scale).scale)

    @classmethod
    def for_loss(cls, epsilon: Number, sensitivity: Number, *, monotone: bool = False) -> Self:
        """The choice that loses exactly `epsilon`."""
        return cls(_scale_for(epsilon, sensitivity, monotone), monotone)

    def loss(self, sensitivity: Number) -> Loss:
        """What one choice loses when no utility changes by more than `sensitivity`."""
        changes = 1 if self.monotone else 2  # the chosen one falls while the others rise
        return Loss(changes * positive(sensitivity, "sensitivity") / self.scale)

    def zcdp(self, sensitivity: Number) -> Zcdp:
        """What one choice loses in the concentrated sense."""
        return Zcdp.of_loss(self.loss(sensitivity))

    def choose(self, utilities: Utilities, randomness: Randomness) -> int:
        """Return the index of the chosen candidate."""
        return self._peel(_integers(utilities), 1, randomness)[0]

    @abstractmethod
    def _peel(
        self, utilities: NDArray[np.int64], n_chosen: int, randomness: Randomness
    ) -> list[int]:
        """Choose, set the chosen one aside, choose again."""


@dataclass(frozen=True)
class ExponentialMechanism(_Choice):
    """Choose candidate i with probability proportional to e^(utility_i / scale), exactly.

    Guarantee
    ---------
    If no utility changes by more than `sensitivity` between adjacent data sets, a choice loses
    epsilon = 2 sensitivity / scale; half of it if `monotone`.

    Parameters
    ----------
    scale : number
        Between 1/10^9 and 2^40, read as an exact fraction.
    monotone : bool
        Whether it is proved that between adjacent data sets either no utility rises or none falls.
    """

    def zcdp(self, sensitivity: Number) -> Zcdp:
        """An eighth of the square: its log-odds span epsilon [docs/proofs/zcdp.md, Lemma 3]."""
        return Zcdp.of_bounded_range(self.loss(sensitivity).epsilon)

    def choose_group(
        self, utilities: Utilities, multiplicities: NDArray[Any], randomness: Randomness
    ) -> int:
        """Return the group of the chosen candidate; group g stands for multiplicities[g] of them.

        The candidate itself is then any of the group: `randomness.below_hidden(multiplicity)`.
        """
        values = _integers(utilities)
        sizes = _checked(multiplicities, values)
        return WeightedChoice(values, self.scale, sizes).draw(randomness)

    def _peel(
        self, utilities: NDArray[np.int64], n_chosen: int, randomness: Randomness
    ) -> list[int]:
        weighted = WeightedChoice(utilities, self.scale)
        chosen = [weighted.draw(randomness)]
        while len(chosen) < n_chosen:
            weighted.remove(chosen[-1])
            chosen.append(weighted.draw(randomness))
        return chosen


@dataclass(frozen=True)
class PermuteAndFlip(_Choice):
    """In random order, take the first candidate whose coin e^(-(best - utility) / scale) lands.

    Guarantee
    ---------
    If no utility changes by more than `sensitivity` between adjacent data sets, a choice loses
    epsilon = 2 sensitivity / scale; half of it if `monotone`.

    Parameters
    ----------
    scale : number
        Between 1/10^9 and 2^40, read as an exact fraction.
    monotone : bool
        Whether it is proved that between adjacent data sets either no utility rises or none falls.
    """

    def _peel(
        self, utilities: NDArray[np.int64], n_chosen: int, randomness: Randomness
    ) -> list[int]:
        chosen: list[int] = []
        while len(chosen) < n_chosen:
            here = np.delete(utilities, chosen) if chosen else utilities
            found = _first_to_pass(here, self.scale, randomness)
            for earlier in sorted(chosen):  # count the ones set aside back in
                found += earlier <= found
            chosen.append(found)
        return chosen


@dataclass(frozen=True)
class Top:
    """Choose `n_chosen` different candidates: choose one, set it aside, choose again.

    Guarantee
    ---------
    Loses `n_chosen` times what one choice loses.

    Parameters
    ----------
    n_chosen : int
        At least 1.
    choice : ExponentialMechanism or PermuteAndFlip
        How each of them is chosen.
    """

    n_chosen: int
    choice: ExponentialMechanism | PermuteAndFlip

    def __post_init__(self) -> None:
        if self.n_chosen < 1:
            raise InvalidParameter("n_chosen", "must be at least 1", self.n_chosen, "Try 1.")

    def loss(self, sensitivity: Number) -> Loss:
        """What all choices together lose when no utility changes by more than `sensitivity`."""
        return self.choice.loss(sensitivity) * self.n_chosen

    def zcdp(self, sensitivity: Number) -> Zcdp:
        """What all choices together lose in the concentrated sense."""
        return Zcdp(self.n_chosen * self.choice.zcdp(sensitivity).rho)

    def choose(self, utilities: Utilities, randomness: Randomness) -> list[int]:
        """Return the indices of the chosen candidates, in the order they were chosen."""
        values = _integers(utilities)
        if self.n_chosen > values.size:
            rule = f"must be at most the number of candidates, {values.size}"
            raise InvalidParameter("n_chosen", rule, self.n_chosen, "Choose fewer.")
        return self.choice._peel(values, self.n_chosen, randomness)


def _first_to_pass(utilities: NDArray[np.int64], scale: Fraction, randomness: Randomness) -> int:
    """Flip all coins; of those that land, each is as likely to come first in a random order."""
    best = int(utilities.max())
    places = []
    for start in range(0, utilities.size, BLOCK):
        gaps = best - utilities[start : start + BLOCK]
        places.append(start + np.flatnonzero(_lands(gaps, scale, randomness)))
    passing = np.concatenate(places)  # the best is among them
    return int(passing[randomness.below_hidden(passing.size)])


def _lands(gaps: NDArray[np.int64], scale: Fraction, randomness: Randomness) -> NDArray[np.bool_]:
    """Flip a coin of probability e^(-gap / scale) for each gap, of a word each.

    A word next to a probability, one of 2^57 or fewer, is prolonged until it decides.
    """
    words = (randomness.words(gaps.size) >> np.uint64(WORD_BITS - WEIGHT_BITS)).astype(np.int64)
    lows, slack = enclosed_weights(gaps, scale)
    lands = words < lows
    for index in np.flatnonzero(~lands & (words < lows + slack)):
        uniform = Uniform(randomness, known=int(words[index]), length=WEIGHT_BITS)
        lands[index] = uniform.is_below(_weight(int(gaps[index]), scale))
    return lands


def _weight(gap: int, scale: Fraction) -> Real:
    def real(precision: int) -> Enclosure:
        return exp_minus(gap / scale, precision)

    return real


def _scale_for(epsilon: Number, sensitivity: Number, monotone: bool) -> Fraction:
    changes = 1 if monotone else 2
    return changes * positive(sensitivity, "sensitivity") / positive(epsilon, "epsilon")


def _integers(utilities: Utilities) -> NDArray[np.int64]:
    if isinstance(utilities, np.ndarray):
        array, whole = utilities, utilities.dtype.kind in "iu"
    else:
        array = np.array(utilities, dtype=object)
        whole = all(isinstance(value, Integral) for value in utilities)
    if not whole:
        raise InvalidData("utilities must be integers. Multiply fractions by a public number.")
    if array.ndim != 1 or not array.size:
        raise InvalidData("utilities must be a list of at least one number.")
    if max(-int(array.min()), int(array.max())) > LARGEST_UTILITY:
        raise InvalidData("utilities must lie within 2^61 of 0.")
    return array.astype(np.int64, copy=False)


def _checked(multiplicities: NDArray[Any], values: NDArray[np.int64]) -> NDArray[np.int64]:
    array = np.asarray(multiplicities)
    if array.shape != values.shape or array.dtype.kind not in "iu" or int(array.min()) < 1:
        raise InvalidData("multiplicities must be positive integers, one for each utility.")
    if array.sum(dtype=np.float64) > LARGEST_TOTAL:  # a factor 2 below what 64 bits hold
        raise InvalidData("multiplicities must sum to at most 2^62.")
    return array.astype(np.int64, copy=False)
