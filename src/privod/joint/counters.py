"""A keyed table of bin counts: what parties add up instead of uniting their bin names.

Every table's bins fall into slots by a keyed function that the aggregator does not have. Two bins
may fall into one slot, so a slot's count is never below a bin's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privod.errors import InvalidParameter
from privod.joint.question import suppression_floor
from privod.joint.sharing import keyed_tags

__all__ = ["Slots", "check_crowd", "count_slots", "heavy_tables", "publishable", "slots_of"]

Slots = NDArray[np.unsignedinteger]
"""The slot of every record in every table: (n_tables, n)."""

SMALLEST_CROWD = suppression_floor(0)


def slots_of(mixed: NDArray[np.uint32], key: bytes, bits: int) -> Slots:
    """Return the slot of every record in every table: (n_tables, n)."""
    return keyed_tags(mixed, key)[:, :, 0] >> np.uint64(64 - bits)


def count_slots(slots: Slots, bits: int) -> NDArray[np.uint32]:
    """Count the records per slot: (n_tables, 2**bits)."""
    counts = np.empty((len(slots), 1 << bits), np.uint32)
    for table, line in enumerate(slots):
        counts[table] = np.bincount(line, minlength=1 << bits)
    return counts


def publishable(counts: NDArray[np.int64], max_crowd: int) -> NDArray[np.int32]:
    """Suppress small counts and clip large ones, where no noise hides them."""
    shown = np.where(counts < suppression_floor(max_crowd), 0, counts)
    return np.minimum(shown, 2 * max_crowd).astype(np.int32)


def heavy_tables(published: NDArray[np.int32], slots: Slots, max_crowd: int) -> NDArray[np.int64]:
    """Return in how many tables each record's slot holds more than a crowd."""
    heavy = np.zeros(slots.shape[1], np.int64)
    for line, own in zip(published, slots, strict=True):
        heavy += line[own] > max_crowd
    return heavy


def check_crowd(max_crowd: int) -> None:
    """Refuse a run whose crowds are smaller than what is suppressed."""
    if max_crowd < SMALLEST_CROWD:
        raise InvalidParameter(
            "far_fraction",
            f"must leave crowds of at least {SMALLEST_CROWD} among the records of all parties",
            f"a crowd of {max_crowd}",
            "Use a smaller far_fraction; smaller counts are not published.",
        )
