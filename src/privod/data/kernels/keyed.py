"""Which partition does a name belong to? A keyed hash of its bytes, SipHash-1-3 [Aumasson 2012].

It chooses a partition and nothing else: names are compared by their bytes. The key is secret and
used once, so that nobody can choose names that all fall into one partition.
"""

from __future__ import annotations

import numpy as np

from privod.arrays import Bytes, Ints, Words
from privod.compiling import njit


@njit(cache=True, nogil=True)
def _turned(word: np.uint64, bits: int) -> np.uint64:
    return np.uint64((word << np.uint64(bits)) | (word >> np.uint64(64 - bits)))


@njit(cache=True, nogil=True)
def _round(v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64) -> tuple[np.uint64, ...]:
    v0 = np.uint64(v0 + v1)
    v1 = np.uint64(_turned(v1, 13) ^ v0)
    v0 = _turned(v0, 32)
    v2 = np.uint64(v2 + v3)
    v3 = np.uint64(_turned(v3, 16) ^ v2)
    v0 = np.uint64(v0 + v3)
    v3 = np.uint64(_turned(v3, 21) ^ v0)
    v2 = np.uint64(v2 + v1)
    v1 = np.uint64(_turned(v1, 17) ^ v2)
    v2 = _turned(v2, 32)
    return v0, v1, v2, v3


@njit(cache=True, nogil=True)
def _begun(key: Words) -> tuple[np.uint64, ...]:
    return (
        np.uint64(key[0] ^ np.uint64(0x736F6D6570736575)),
        np.uint64(key[1] ^ np.uint64(0x646F72616E646F6D)),
        np.uint64(key[0] ^ np.uint64(0x6C7967656E657261)),
        np.uint64(key[1] ^ np.uint64(0x7465646279746573)),
    )


@njit(cache=True, nogil=True)
def _ended(v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64) -> np.uint64:
    v2 = np.uint64(v2 ^ np.uint64(255))
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return np.uint64(v0 ^ v1 ^ v2 ^ v3)


@njit(cache=True, nogil=True)
def lane_sum(rows: Ints, words: Words, key: Words) -> np.uint64:
    """The sum of keyed hashes of the number and the word of each row, whatever their order."""
    total = np.uint64(0)
    for place in range(rows.size):
        v0, v1, v2, v3 = _begun(key)
        for word in (np.uint64(rows[place]), words[place]):
            v3 ^= word
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
            v0 ^= word
        total += _ended(v0, v1, v2, v3)
    return total


@njit(cache=True, nogil=True)
def keyed_hashes(data: Bytes, offsets: Ints, key: Words, hashes: Words) -> None:
    """Write the hash of each name; name i lies from offsets[i] to offsets[i + 1] in `data`."""
    for name in range(offsets.size - 1):
        start, end = offsets[name], offsets[name + 1]
        length = end - start
        v0, v1, v2, v3 = _begun(key)
        n_words = length // 8 + 1  # the last one holds the rest and the length
        for place in range(n_words):
            first = start + 8 * place
            word = np.uint64(0)
            for byte in range(min(8, end - first)):
                word |= np.uint64(data[first + byte]) << np.uint64(8 * byte)
            if place == n_words - 1:
                word |= np.uint64(length & 255) << np.uint64(56)
            v3 ^= word
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
            v0 ^= word
        hashes[name] = _ended(v0, v1, v2, v3)
