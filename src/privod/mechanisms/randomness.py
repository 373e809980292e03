"""Where do random bits come from? The system, or a key of it, for releases; a seed for tests.

What the mechanisms assume is that bits are independent and fair. `secure()` asks the kernel for
every request and keeps nothing back, so that a fork or a second thread has no buffer to share.
`keyed` is for an answer that a server may have to begin again, `shared` for questions that look at
the same noise.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.errors import InvalidParameter
from privod.mechanisms.law import Law

SEED_DOMAIN = b"privod seeded randomness 1"  # the stream of a seed never changes its meaning
KEY_DOMAIN = b"privod keyed randomness 1"
SHARED_DOMAIN = b"privod shared randomness 1"
NAMED = b"/"  # no digit: no request of a source is one of its named streams
KEY_BYTES = 32


HIDDEN_BITS = 128  # for bounds of up to 2^62: a draw is repeated less than once in 2^66 times


class Randomness(ABC):
    """A source of independent fair bits; a subclass provides `bytes`, the rest follows from it."""

    seeded: bool
    """True when the bits can be replayed: what is made of them may be tested, never published."""

    @abstractmethod
    def bytes(self, n: int) -> bytes:
        """Return `n` fresh random bytes."""

    def draw(self, law: Law, given: Any) -> Any:
        """Draw from a law; every random step of a question does so, so that it can be replayed."""
        return law.sample(given, self)

    def stream(self, name: str) -> Randomness:  # noqa: ARG002 - fresh bits need no name
        """Return a source for one named thing; where bits repeat, the same name repeats them."""
        return self

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


class _Expanded(Randomness):
    """Request number i of a start is SHAKE-256(start, i): the same on every platform."""

    def __init__(self, start: bytes, *, seeded: bool) -> None:
        self.seeded = seeded
        self._begin = start
        self._start = hashlib.shake_256(start)
        self._requests = count()

    def bytes(self, n: int) -> bytes:
        stream = self._start.copy()
        stream.update(str(next(self._requests)).encode())
        return stream.digest(n)

    def stream(self, name: str) -> Randomness:
        digest = hashlib.sha256(name.encode()).digest()
        return _Expanded(self._begin + NAMED + digest, seeded=self.seeded)

    def __repr__(self) -> str:
        return "seeded(...)" if self.seeded else "keyed(...)"


def secure() -> Randomness:
    """Return the operating system's randomness; a server's answers take theirs from a key of it."""
    return _OperatingSystem()


def keyed(key: bytes, salt: bytes, question: str) -> Randomness:
    """Return the bits that a key stands for: fair to whoever lacks the key or the salt.

    The curator alone makes keys, 32 bytes each for one charged answer, and erases them. The salt,
    32 bytes more, never leaves the folder of the rows. Another question has other bits from the
    same key. Proof: docs/proofs/again.md.
    """
    _check_length("key", key, "Draw it by os.urandom.")
    _check_length("salt", salt, "Restore the rows from a backup.")
    asked = hashlib.sha256(question.encode()).digest()
    return _Expanded(KEY_DOMAIN + key + salt + asked, seeded=False)


def shared(salt: bytes, state: str) -> Randomness:
    """Return the bits that questions of one state share, about rows with this salt.

    They are the same in every process and in every copy of the rows, and fair to anyone who lacks
    the salt, 32 bytes which never leave the folder of the rows. Another state has other bits.
    Proof: docs/proofs/interactive_grid.md.
    """
    _check_length("salt", salt, "Restore the rows from a backup.")
    return _Expanded(SHARED_DOMAIN + salt + hashlib.sha256(state.encode()).digest(), seeded=False)


def _check_length(what: str, secret: bytes, way_out: str) -> None:
    if len(secret) != KEY_BYTES:
        raise InvalidParameter(what, f"must have {KEY_BYTES} bytes", len(secret), way_out)


def seeded(seed: int) -> Randomness:
    """Return randomness that repeats itself for the same integer seed: for tests and figures."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InvalidParameter("seed", "must be an integer", seed, "Try 0.")
    return _Expanded(SEED_DOMAIN + f" {seed} ".encode(), seeded=True)
