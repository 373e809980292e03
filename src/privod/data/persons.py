"""Whose row is it? Persons are told apart exactly, in one stated form, or their column is refused.

Were two persons taken for one, removing one would move the other's rows; were one taken for two, no
cap would hold. `7`, ` 7`, `07`, `+7` and `7.0` are one person, be it in a text, an integer or a
float (`privod.data.cells.names_of`). Everything else is a text, compared byte by byte.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privod.arrays import Ints, Words
from privod.data.cells import bytes_of
from privod.data.kernels.keyed import keyed_hashes
from privod.data.kernels.persons import EMPTY, mark_first, number_names


def new_key() -> Words:
    """A secret key to hash persons with, so that nobody can choose names that fall together."""
    return np.frombuffer(secrets.token_bytes(16), np.uint64)


def hashed(persons: pa.Array, key: Words) -> Words:
    """A keyed hash of each person (an Arrow array without gaps)."""
    data, offsets = bytes_of(persons)
    hashes = np.empty(len(persons), np.uint64)
    keyed_hashes(data, offsets, key, hashes)
    return hashes


def numbered(persons: pa.Array, hashes: Words | None = None) -> Ints:
    """Number persons (an Arrow array without gaps) in the order in which they first appear."""
    if hashes is None:
        hashes = hashed(persons, new_key())
    data, offsets = bytes_of(persons)
    bits = max(1, (2 * len(persons)).bit_length())
    slots: NDArray[Any] = np.full(
        1 << bits, EMPTY, np.int32 if len(persons) < 1 << 31 else np.int64
    )
    numbers = np.empty(len(persons), np.int64)
    number_names(data, offsets, hashes, slots, 64 - bits, numbers)
    return numbers


def first_rows(numbers: Ints, most: int, complete: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mark `most` rows of each person, complete ones first; what one has moves nobody else's."""
    first = np.empty(len(numbers), np.bool_)
    kept = min(most, len(numbers))  # a cap may be declared that no machine integer holds
    order = np.argsort(~complete, kind="stable")
    marked = np.empty(len(numbers), np.bool_)
    mark_first(numbers[order], kept, np.zeros(len(numbers), np.int64), marked)
    first[order] = marked
    return first


def hash_sums(keys: Words, rows: NDArray[np.float64]) -> Ints:
    """The sums of two keyed hashes of each row, which wrap around."""
    width = 8 * rows.shape[1]
    data = np.ascontiguousarray(rows + 0.0).view(np.uint8).reshape(-1)
    offsets = np.arange(len(rows) + 1, dtype=np.int64) * width
    sums = np.zeros(2, np.uint64)
    for place in range(2):
        hashes = np.empty(len(rows), np.uint64)
        keyed_hashes(data, offsets, keys[2 * place : 2 * place + 2], hashes)
        sums[place] = hashes.sum(dtype=np.uint64)
    return sums.view(np.int64)
