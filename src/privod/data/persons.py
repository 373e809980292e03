"""Whose row is it? Persons are told apart exactly, in one stated form, or their column is refused.

If two persons were taken for one, the row of the second would come in where the first one's goes:
removing a person would move somebody else's rows. If one were taken for two, no cap would hold. So
persons are compared in one form (`privod.data.cells.names_of`): surrounding white space goes, and
what writes a number in digits is that number, so `7`, ` 7`, `07`, `+7` and `7.0` are one person, be
it in a text, an integer or a float. Everything else is a text, compared byte by byte.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["first_rows", "numbered"]

Ints = NDArray[np.int64]


def numbered(persons: Any) -> Ints:
    """Number persons (an Arrow array without gaps) in the order in which they first appear."""
    encoded = persons.dictionary_encode()
    if hasattr(encoded, "combine_chunks"):
        encoded = encoded.combine_chunks()
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def first_rows(numbers: Ints, most: int) -> NDArray[np.bool_]:
    """Mark the first `most` rows of each person; what one person has moves nobody else's."""
    by_person = np.argsort(numbers, kind="stable")
    owners = numbers[by_person]
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    position = np.arange(len(owners)) - np.repeat(starts, np.diff(starts, append=len(owners)))
    first = np.zeros(len(numbers), dtype=bool)
    first[by_person[position < most]] = True
    return first
