"""How is one of many candidates chosen in private? A better one is likelier, by an exact law.

`PermuteAndFlip` has the loss of the `ExponentialMechanism` and never a worse expected utility
[McKenna and Sheldon 2020]. `Top` chooses several, without repeats. Utilities are integers, in a
unit that the caller fixes by public numbers. How many random bits a choice takes follows from the
number of candidates alone, but for one choice in 2^30 or fewer. Proofs: docs/proofs/selection.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms.exact import Uniform
from privod.mechanisms.law import Law, Lost, Unlike
from privod.mechanisms.noise import Geometric
from privod.mechanisms.randomness import Randomness
from privod.mechanisms.weighted_choice import WeightedChoice
from privod.mechanisms.weights import SUMMED, tables_of, true_weight
from privod.privacy import Loss, Number, Zcdp, positive

Utilities = NDArray[Any] | Sequence[int]
"""Integers, one for each candidate."""

LARGEST_UTILITY = 2**61  # so that a difference of two fits 64 bits
LARGEST_TOTAL = 2**62  # candidates, counted with their multiplicities
BYTE_BITS, WORD_BITS = 8, 64
# Words drawn for the coins that a byte leaves open: more are needed less than once in 2^115 times.
COINS_PER_WORD, SPARE_WORDS = 64, 64


class Options(ABC):
    """Candidates with their utilities, in whatever form they are held."""

    @abstractmethod
    def pick(self, choice: Any, bits: Randomness) -> Any:
        """Draw one of them, or several."""

    @abstractmethod
    def worths(self) -> dict[Any, int] | NDArray[np.int64]:
        """The utility of every candidate, by its name or in the order of places."""

    def name(self, drawn: Any) -> Any:
        """The candidate, of what `pick` gave."""
        return drawn

    def place(self, name: Any) -> Any:
        """What `pick` would give for a candidate."""
        return name


@dataclass(frozen=True)
class Listed(Options):
    """Candidates in a list, known by their names or, without any, by their places."""

    utilities: NDArray[np.int64]
    names: Sequence[Any] | None

    def pick(self, choice: Any, bits: Randomness) -> Any:
        return choice._choose(self.utilities, bits)

    def worths(self) -> dict[Any, int] | NDArray[np.int64]:
        if self.names is None:
            return self.utilities.copy()
        return dict(zip(self.names, self.utilities.tolist(), strict=True))

    def name(self, drawn: Any) -> Any:
        if self.names is None:
            return drawn
        return [self.names[one] for one in drawn] if isinstance(drawn, list) else self.names[drawn]

    def place(self, name: Any) -> Any:
        if self.names is None:
            return name
        places = {one: at for at, one in enumerate(self.names)}
        return [places[one] for one in name] if isinstance(name, list) else places[name]


class _Chosen(Law):
    """A choice among options: their utilities decide, by differences over a scale."""

    def sample(self, given: Options, bits: Randomness) -> Any:
        return given.pick(self, bits)

    def seen(self, given: Options) -> Any:
        return given.worths()

    def named(self, given: Options, drawn: Any) -> Any:
        return given.name(drawn)

    def placed(self, given: Options, name: Any) -> Any:
        return given.place(name)


def _span(law: Law, seen: Any, other: Law, other_seen: Any) -> int:
    """The range of the changes of utilities: no log-ratio passes it over the scale.

    Adding a number to all utilities changes no law, so a choice whose utilities change by numbers
    of this range is like a monotone one [docs/proofs/selection.md].
    """
    known, beside = (set(one) if isinstance(one, dict) else len(one) for one in (seen, other_seen))
    if law != other or known != beside:
        raise Unlike(f"{law} is made among other candidates, or as {other}.")
    if isinstance(seen, dict):
        seen, other_seen = (np.array([one[key] for key in seen]) for one in (seen, other_seen))
    changes = seen - other_seen
    return int(changes.max() - changes.min())


@dataclass(frozen=True)
class _Choice(_Chosen):
    """A choice whose law depends on differences of utilities divided by a scale."""

    near_best: ClassVar[float] = 1.0
    """The chance of a candidate just below the best is at most this."""

    scale: Fraction
    monotone: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", Geometric(self.scale).scale)

    @classmethod
    def for_loss(cls, epsilon: Number, sensitivity: Number, *, monotone: bool = False) -> Self:
        """The choice that loses exactly `epsilon`."""
        changes = 1 if monotone else 2
        scale = changes * positive(sensitivity, "sensitivity") / positive(epsilon, "epsilon")
        return cls(scale, monotone)

    def loss(self, sensitivity: Number) -> Loss:
        """What one choice loses when no utility changes by more than `sensitivity`."""
        changes = 1 if self.monotone else 2  # the chosen one falls while the others rise
        return Loss(changes * positive(sensitivity, "sensitivity") / self.scale)

    def zcdp(self, sensitivity: Number) -> Zcdp:
        """What one choice loses in the concentrated sense."""
        return Zcdp.of_loss(self.loss(sensitivity))

    def chance_at_most(self, shortfall: int) -> float:
        """How likely a candidate so far below the best is at most chosen, whatever the others."""
        return self.near_best * math.exp(-shortfall / self.scale) if shortfall > 0 else 1.0

    def surely_within(self, n_candidates: int, unsure: float) -> float:
        """One as far below the best, or farther, is chosen with a probability of at most `unsure`.

        Whatever the utilities of the candidates are [docs/proofs/selection.md, Theorem 5].
        """
        if n_candidates < 2:
            return 0.0
        return float(self.scale) * math.log(self.near_best * (n_candidates - 1) / unsure)

    def choose(
        self, utilities: Utilities, randomness: Randomness, names: Sequence[Any] | None = None
    ) -> int:
        """Return the index of the chosen candidate; names tell candidates apart from the rows."""
        return int(randomness.draw(self, Listed(_integers(utilities), names)))

    def largest_loss(self, seen: Any, other: Any, other_seen: Any) -> Lost:
        return Lost.pure(_span(self, seen, other, other_seen) / self.scale)

    @abstractmethod
    def _choose(self, utilities: NDArray[np.int64], randomness: Randomness) -> int:
        """Return the index of the chosen one of candidates that were checked."""


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

    def largest_loss(self, seen: Any, other: Any, other_seen: Any) -> Lost:
        epsilon = _span(self, seen, other, other_seen) / self.scale
        return Lost(epsilon, Zcdp.of_bounded_range(epsilon).rho)

    def choose_group(
        self, utilities: Utilities, multiplicities: NDArray[Any], randomness: Randomness
    ) -> int:
        """Return the group of the chosen candidate; group g stands for multiplicities[g] of them.

        The candidate itself is then any of the group: `randomness.below_hidden(multiplicity)`.
        """
        values = _integers(utilities)
        sizes = _checked(multiplicities, values)
        return WeightedChoice(values, self.scale, sizes).draw(randomness)

    def _choose(self, utilities: NDArray[np.int64], randomness: Randomness) -> int:
        return WeightedChoice(utilities, self.scale).draw(randomness)


@dataclass(frozen=True)
class PermuteAndFlip(_Choice):
    """In random order, take the first candidate whose coin e^(-(best - utility) / scale) lands.

    Guarantee and parameters are those of the `ExponentialMechanism`.
    """

    near_best: ClassVar[float] = 0.5  # its coin may land, but that of the best always does

    def _choose(self, utilities: NDArray[np.int64], randomness: Randomness) -> int:
        return _first_to_pass(utilities, self.scale, randomness)


@dataclass(frozen=True)
class Top(_Chosen):
    """Choose `n_chosen` different candidates: choose one, set it aside, choose again.

    Loses `n_chosen` times what one choice loses.
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
        return Zcdp(self.n_chosen * self.choice.zcdp(sensitivity).rho)

    def choose(
        self, utilities: Utilities, randomness: Randomness, names: Sequence[Any] | None = None
    ) -> list[int]:
        """Return the indices of the chosen candidates, in the order they were chosen."""
        values = _integers(utilities)
        if self.n_chosen > values.size:
            rule = f"must be at most the number of candidates, {values.size}"
            raise InvalidParameter("n_chosen", rule, self.n_chosen, "Choose fewer.")
        chosen: list[int] = randomness.draw(self, Listed(values, names))
        return chosen

    def largest_loss(self, seen: Any, other: Any, other_seen: Any) -> Lost:
        """As often as it chooses, each time at worst among all."""
        if self.n_chosen != getattr(other, "n_chosen", None):
            raise Unlike(f"{self} is {other}.")
        one = self.choice.largest_loss(seen, other.choice, other_seen)
        return Lost(self.n_chosen * one.epsilon, self.n_chosen * one.rho)

    def _choose(self, values: NDArray[np.int64], randomness: Randomness) -> list[int]:
        left, places, chosen = values.copy(), np.arange(values.size), []
        for last in range(values.size - 1, values.size - 1 - self.n_chosen, -1):
            index = self.choice._choose(left[: last + 1], randomness)
            chosen.append(int(places[index]))
            left[index], places[index] = left[last], places[last]  # the order does not matter
        return chosen


def _first_to_pass(utilities: NDArray[np.int64], scale: Fraction, randomness: Randomness) -> int:
    """Flip all coins; of those that land, each is as likely to come first in a random order.

    A coin of probability e^(-gap / scale) is flipped by a byte. If that is the first byte of the
    probability too, as one of 256 is, a word goes on with it, and further bits if a word does not
    decide, once in 2^57 times or fewer. Words are drawn for more coins than ever need one.
    """
    from privod.mechanisms.kernels.choosing import flip, nth, prolong  # numba: noise needs none

    n, best = utilities.size, int(utilities.max())
    firsts = np.frombuffer(randomness.bytes(n), np.uint8)
    landed, counts = np.empty(n, np.bool_), np.empty(-(-n // SUMMED), np.int64)
    edges = np.empty(n, np.int64)
    edges = edges[: flip(utilities, best, borders_of(scale), firsts, landed, counts, edges)]
    words = randomness.words(max(n // COINS_PER_WORD + SPARE_WORDS, edges.size))
    coins = utilities, best, *tables_of(scale), firsts, words, landed, counts, edges
    number = prolong(*coins, 0)
    while number < edges.size:
        index = edges[number]
        known = int(firsts[index]) << WORD_BITS | int(words[number])
        uniform = Uniform(randomness, known=known, length=BYTE_BITS + WORD_BITS)
        landed[index] = uniform.is_below(true_weight(best - int(utilities[index]), scale))
        counts[index // SUMMED] += landed[index]
        number = prolong(*coins, number + 1)
    return nth(landed, counts, randomness.below_hidden(int(counts.sum())))  # the best has landed


def borders_of(scale: Fraction) -> NDArray[np.uint64]:
    """For each first byte of a coin, below which gap it lands, and up to which it may."""
    return _borders(scale.numerator, scale.denominator)


@lru_cache(maxsize=64)
def _borders(numerator: int, denominator: int) -> NDArray[np.uint64]:
    from privod.mechanisms.kernels.choosing import find_borders  # numba: noise needs none

    borders = np.empty((256, 2), np.uint64)
    find_borders(*tables_of(Fraction(numerator, denominator)), borders)
    return borders


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
    return np.require(array, np.int64, ["C", "W"])  # the kind that loops are compiled for


def _checked(multiplicities: NDArray[Any], values: NDArray[np.int64]) -> NDArray[np.int64]:
    array = np.asarray(multiplicities)
    if array.shape != values.shape or array.dtype.kind not in "iu" or int(array.min()) < 1:
        raise InvalidData("multiplicities must be positive integers, one for each utility.")
    if array.sum(dtype=np.float64) > LARGEST_TOTAL:  # a factor 2 below what 64 bits hold
        raise InvalidData("multiplicities must sum to at most 2^62.")
    return np.require(array, np.int64, ["C", "W"])  # the kind that loops are compiled for
