"""Where do random bits come from? One source: the system for releases, a seed for tests.

Every random choice of privod goes through a `Randomness` handed in as the last argument. What the
mechanisms assume of it is one thing: its bits are independent and fair. `secure()` asks the kernel
for every request and keeps nothing back, so that a fork or a second thread has no buffer to share.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from itertools import count

import numpy as np
from numpy.typing import NDArray

from privod.errors import InvalidParameter

__all__ = ["Randomness", "secure", "seeded"]

SEED_DOMAIN = b"privod seeded randomness 1"  # the stream of a seed never changes its meaning


HIDDEN_BITS = 128  # for bounds of up to 2^62: a draw is repeated less than once in 2^66 times


class Randomness(ABC):
    """A source of independent fair bits; a subclass provides `bytes`, the rest follows from it."""

    seeded: bool
    """True when the bits can be replayed: what is made of them may be tested, never published."""

    @abstractmethod
    def bytes(self, n: int) -> bytes:
        """Return `n` fresh random bytes."""

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return `n` independent words, uniform over 0 .. 2**64 - 1."""
        return np.frombuffer(self.bytes(8 * n), dtype="<u8").astype(np.uint64, copy=False)

    def halfwords(self, n: int) -> NDArray[np.uint16]:
        """Return `n` independent halfwords, uniform over 0 .. 2**16 - 1."""
        return np.frombuffer(self.bytes(2 * n), dtype="<u2").astype(np.uint16, copy=False)

    def bits(self, k: int) -> int:
        """Return an integer uniform over 0 .. 2**k - 1."""
        n_bytes = (k + 7) // 8
        return int.from_bytes(self.bytes(n_bytes), "little") >> (8 * n_bytes - k)

    def below(self, bound: int) -> int:
        """Return an integer exactly uniform over 0 .. bound - 1, by rejection."""
        if bound < 1:
            raise InvalidParameter("bound", "must be at least 1", bound, "Try 2 for a fair coin.")
        k = (bound - 1).bit_length()
        while (candidate := self.bits(k)) >= bound:
            pass
        return candidate

    def below_hidden(self, bound: int, n_bits: int = HIDDEN_BITS) -> int:
        """Return an integer exactly uniform over 0 .. bound - 1, from `n_bits` bits [Lemire 2019].

        Draws again with a probability below bound / 2**n_bits: where the number of bits is public
        and the bound is not, hardly ever drawing again keeps the bound out of the work.
        """
        if bound < 1:
            raise InvalidParameter("bound", "must be at least 1", bound, "Try 2 for a fair coin.")
        if bound > 1 << n_bits:
            rule = f"must be at most 2**{n_bits}"
            raise InvalidParameter("bound", rule, bound, "Draw more bits.")
        surplus = (1 << n_bits) % bound
        while True:
            scaled = self.bits(n_bits) * bound
            if scaled & (1 << n_bits) - 1 >= surplus:
                return scaled >> n_bits


class _OperatingSystem(Randomness):
    """Bits from the kernel's generator, one system call per request, nothing kept."""

    seeded = False

    def bytes(self, n: int) -> bytes:
        return os.urandom(n)

    def __repr__(self) -> str:
        return "secure()"


class _Seeded(Randomness):
    """Request number i of a seed is SHAKE-256(domain, seed, i): the same on every platform."""

    seeded = True

    def __init__(self, seed: int) -> None:
        self._key = hashlib.shake_256(SEED_DOMAIN)
        self._key.update(f" {seed} ".encode())
        self._requests = count()

    def bytes(self, n: int) -> bytes:
        stream = self._key.copy()
        stream.update(str(next(self._requests)).encode())
        return stream.digest(n)

    def __repr__(self) -> str:
        return "seeded(...)"


def secure() -> Randomness:
    """Return the operating system's randomness, the only one fit for a release."""
    return _OperatingSystem()


def seeded(seed: int) -> Randomness:
    """Return randomness that repeats itself for the same integer seed: for tests and figures."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InvalidParameter("seed", "must be an integer", seed, "Try 0.")
    return _Seeded(seed)
