"""A keyed table of bin counts: what parties add up instead of uniting their bin labels.

Every table's bins fall into `DEPTH` rows of slots by a keyed function that the aggregator does not
have. Two bins may fall into one slot, so a slot's count is never below a bin's; the smaller of the
rows' counts is used (count-min).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from privod.errors import InvalidParameter
from privod.joint.question import DEPTH, suppression_floor
from privod.joint.sharing import keyed_tags

__all__ = ["check_crowd", "count_slots", "others_in_bins", "publishable", "slot_bits", "slots_of"]

SMALLEST_BITS, LARGEST_BITS = 10, 20
FALSELY_CLEARED = 1e-6  # probability that collisions alone clear an outlier
SMALLEST_CROWD = suppression_floor(0)
LOAD = 30  # slots are so many that strangers fill them to a thirtieth of a crowd on average


def slot_bits(n_records: int, max_crowd: int, n_tables: int, min_shared_tables: int) -> int:
    """Return the smallest size, as a power of two, at which collisions do not matter.

    A bin is falsely valid only if all its slots also hold a heavy bin, of which there are at most
    n / max_crowd per table; `min_shared_tables` of them must be.
    """
    for bits in range(SMALLEST_BITS, LARGEST_BITS + 1):
        size = 1 << bits
        heavy = n_records / max(1, max_crowd) / size
        falsely = bdtrc(min_shared_tables - 1, n_tables, min(1.0, heavy) ** DEPTH)
        if falsely <= FALSELY_CLEARED and n_records / size <= max_crowd / LOAD:
            return bits
    return LARGEST_BITS


def slots_of(mixed: NDArray[np.uint32], key: bytes, bits: int) -> NDArray[np.int64]:
    """Return the slots of every record in every table: (n_tables, n, DEPTH)."""
    return (keyed_tags(mixed, key) >> np.uint64(64 - bits)).astype(np.int64)


def count_slots(slots: NDArray[np.int64], bits: int) -> NDArray[np.uint32]:
    """Count the records per slot: (n_tables, DEPTH, 2**bits)."""
    counts = np.empty((len(slots), DEPTH, 1 << bits), np.uint32)
    for table, line in enumerate(slots):
        for row in range(DEPTH):
            counts[table, row] = np.bincount(line[:, row], minlength=1 << bits)
    return counts


def publishable(counts: NDArray[np.int64], max_crowd: int) -> NDArray[np.uint32]:
    """Suppress small counts and clip large ones: what is left decides, and points at nobody."""
    shown = np.where(counts < suppression_floor(max_crowd), 0, counts)
    return np.minimum(shown, 2 * max_crowd).astype(np.uint32)


def others_in_bins(
    published: NDArray[np.uint32],
    own: NDArray[np.uint32],
    slots: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return how many records of others each table's bin of each row shows: (tables, rows)."""
    others = np.maximum(published.astype(np.int64) - own, 0)
    tables = np.arange(len(slots))[:, None, None]
    depth = np.arange(DEPTH)[None, None, :]
    found: NDArray[np.int64] = others[tables, depth, slots[:, rows]].min(axis=2)
    return found


def check_crowd(max_crowd: int) -> None:
    """Refuse a run whose crowds are smaller than what is suppressed."""
    if max_crowd < SMALLEST_CROWD:
        raise InvalidParameter(
            "far_fraction",
            f"must leave crowds of at least {SMALLEST_CROWD} among the records of all parties",
            f"a crowd of {max_crowd}",
            "Use a smaller far_fraction; smaller counts are not published.",
        )
