"""What is random in an answer? Draws from laws, each given something, so that they can be replayed.

Every random step of a question goes through `Randomness.draw(law, given)`. What is drawn depends on
the rows through `given` alone, and the law says exactly how much its outcome tells of a change
there. Proof: docs/proofs/replay.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from privod.mechanisms.randomness import Randomness


class Unlike(Exception):
    """Two draws whose outcomes tell their tables apart with certainty."""


@dataclass(frozen=True)
class Lost:
    """What draws lose at most between two tables, whatever comes of them.

    The pure loss of all laws but Gaussian noise, the zero-concentrated loss of all of them, what
    may exceed it, and for Gaussian noise its sigma2 with the sum of the squared changes.
    """

    epsilon: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    gaussian: tuple[tuple[Fraction, int], ...] = ()

    @classmethod
    def pure(cls, epsilon: Fraction, delta: Fraction = Fraction(0)) -> Lost:
        """Of a law of which nothing but its epsilon is known [Bun and Steinke 2016, Prop. 3.3]."""
        return cls(epsilon, min(epsilon**2 / 2, epsilon), delta)

    @property
    def concentrated(self) -> Fraction:
        """The zero-concentrated loss: of pure draws alone, no more than their epsilons' sum."""
        return self.rho if self.gaussian or self.delta else min(self.rho, self.epsilon)

    def __add__(self, other: Lost) -> Lost:
        return Lost(
            self.epsilon + other.epsilon,
            self.rho + other.rho,
            self.delta + other.delta,
            self.gaussian + other.gaussian,
        )


class Law(ABC):
    """A random step; equal laws draw alike from what they are given."""

    same_bits: ClassVar[bool] = True
    """Whether adjacent tables draw as many random bits."""

    @abstractmethod
    def sample(self, given: Any, bits: Randomness) -> Any:
        """Draw."""

    @abstractmethod
    def largest_loss(self, seen: Any, other: Any, other_seen: Any) -> Lost:
        """What the likeliest-to-tell outcome of this draw loses beside that of another table."""

    def seen(self, given: Any) -> Any:
        """What was given, by identity and not by place, as it is now."""
        return np.array(given) if isinstance(given, np.ndarray) else given

    def named(self, given: Any, drawn: Any) -> Any:  # noqa: ARG002 - most outcomes are names
        """The outcome by its identity."""
        return drawn.copy() if isinstance(drawn, np.ndarray) else drawn

    def placed(self, given: Any, name: Any) -> Any:  # noqa: ARG002 - most outcomes are names
        """The outcome of that identity, as `sample` would give it."""
        return name.copy() if isinstance(name, np.ndarray) else name


@dataclass(frozen=True)
class Even(Law):
    """One of the places of a list, all alike, 0 for an empty one; or one of so many numbers."""

    def sample(self, given: Sequence[Any] | int, bits: Randomness) -> int:
        if isinstance(given, int):
            return bits.below(given)
        return bits.below_hidden(max(1, len(given)))

    def seen(self, given: Sequence[Any] | int) -> Any:
        return given if isinstance(given, int) else tuple(given)

    def largest_loss(self, seen: Any, other: Any, other_seen: Any) -> Lost:
        if (self, seen) != (other, other_seen):
            raise Unlike("An even choice is made among others.")
        return Lost()


def changes_of(
    law: Law, seen: NDArray[np.int64], other: Law, other_seen: NDArray[np.int64]
) -> list[int]:
    """By how much each number changes that gets noise; the noise must be the same."""
    if law != other or seen.shape != other_seen.shape:
        raise Unlike(f"{law} on {seen.shape} numbers is {other} on {other_seen.shape}.")
    changed = seen != other_seen
    pairs = zip(seen[changed].tolist(), other_seen[changed].tolist(), strict=True)
    return [abs(one - two) for one, two in pairs]
