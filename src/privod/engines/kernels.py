"""Universal hashes of the pieces of a file."""

from __future__ import annotations

import numpy as np

from privod.arrays import Words
from privod.compiling import njit

HALF, LOW = np.uint64(32), np.uint64(2**32 - 1)


@njit(cache=True, nogil=True)
def universal_hash(words: Words, key: Words) -> tuple[np.uint64, np.uint64]:
    """NH twice, the key shifted by a word: other words hash alike with a probability of 2^-64.

    Sums of products of the two halves of every word, each with its half of the key added, modulo
    2^64 [Black 1999, Theorem 4.2 and Section 5.3]. `key` has one word more than `words`.
    """
    first, second = np.uint64(0), np.uint64(0)
    for at in range(words.size):
        word, one, other = words[at], key[at], key[at + 1]
        first += ((word + one) & LOW) * (((word >> HALF) + (one >> HALF)) & LOW)
        second += ((word + other) & LOW) * (((word >> HALF) + (other >> HALF)) & LOW)
    return first, second


@njit(cache=True, nogil=True)
def universal_hashes(words: Words, key: Words) -> Words:
    """Both hashes of each piece, shape (pieces, 2); the second made odd, so that none is zeros."""
    size = key.size - 1
    hashes = np.empty((words.size // size, 2), dtype=np.uint64)
    for piece in range(hashes.shape[0]):
        first, second = universal_hash(words[piece * size : (piece + 1) * size], key)
        hashes[piece, 0], hashes[piece, 1] = first, second | np.uint64(1)
    return hashes
