"""Masks that hide numbers and cancel in their sum, and reals in fixed point: pure functions.

Two parties that share a key stretch it into the same stream of words; one adds the stream, the
other subtracts it, modulo a power of two. Whoever sees one masked vector sees uniform words;
whoever adds up all of them sees the exact sum (docs/proofs/published_outliers.md, "Secure sum").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from privod.errors import ProtocolAborted

STREAM_BYTES = 1 << 20  # of a mask at a time, so that it stays in the cache
ONES_BYTES = 16  # of constant words 1 at the end of every sum: each must be the number of parties
FEWEST_ONES = 4
FIXED_BITS = 20  # fractional bits of a real
LARGEST_REAL = 2.0**42  # times 2**20 leaves one bit of room in 64 for the sum of two

Word = TypeVar("Word", np.uint8, np.uint16, np.uint32, np.uint64)


def masked(words: NDArray[Word], own: str, keys: Mapping[str, bytes], step: int) -> NDArray[Word]:
    """Hide the words from everyone: add the mask shared with each later peer, subtract the others.

    A key and a step are used once: a second vector under the same mask would reveal a difference.
    """
    hidden = words.copy()
    for peer, key in sorted(keys.items()):
        _add_stream(hidden, key, step, negate=peer < own)
    return hidden


def _add_stream(words: NDArray[Word], key: bytes, step: int, *, negate: bool) -> None:
    counter = step.to_bytes(8, "big") + bytes(8)
    cipher = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()
    zeros = memoryview(bytes(STREAM_BYTES))
    buffer = bytearray(STREAM_BYTES + 16)
    stream = np.frombuffer(buffer, words.dtype.newbyteorder("<"), STREAM_BYTES // words.itemsize)
    for start in range(0, len(words), len(stream)):
        part = words[start : start + len(stream)]
        cipher.update_into(zeros[: part.nbytes], buffer)
        if negate:
            np.subtract(part, stream[: len(part)], out=part)
        else:
            np.add(part, stream[: len(part)], out=part)


def n_ones(itemsize: int) -> int:
    """Return how many constant words are appended: 128 bits at least."""
    return max(FEWEST_ONES, ONES_BYTES // itemsize)


def with_ones(words: NDArray[Word]) -> NDArray[Word]:
    """Append the constant words by which a wrong sum is noticed."""
    return np.concatenate([words, np.ones(n_ones(words.itemsize), words.dtype)])


def without_ones(total: NDArray[Word], n_parties: int) -> NDArray[Word]:
    """Check and remove the constant words of a sum."""
    ones = n_ones(total.itemsize)
    if not (total[-ones:] == n_parties % (1 << (8 * total.itemsize))).all():
        raise ProtocolAborted(
            "The masks did not cancel: a party used other keys or another vector. This sum was"
            " not opened. Earlier rounds count; run again with the same roster."
        )
    return total[:-ones]


def check_fixed(largest: NDArray[np.float64], n_parties: int) -> None:
    """Raise unless sums of reals up to `largest`, which must be public, fit in fixed point."""
    if not np.all(largest * n_parties < 2 * LARGEST_REAL):
        raise ProtocolAborted(
            "The columns are too wide for the sum in fixed point. Rescale the columns."
        )


def to_fixed(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Write reals as integers modulo 2**64 with 20 fractional bits: masked floats do not cancel."""
    return np.rint(values * 2.0**FIXED_BITS).astype(np.int64).view(np.uint64)


def from_fixed(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Read back a sum of fixed-point numbers."""
    return words.view(np.int64).astype(np.float64) / 2.0**FIXED_BITS
