"""The compiled loops of locality-sensitive hashing: codes to keys, keys to bins, bins to suspects."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privod.outliers.kernels.hashing_types import Counts, Flags, Keys, Rows, Words


@njit(cache=True, nogil=True)
def mix_codes(
    projected: NDArray[np.float32], multipliers: Words, constants: Words, mixed: Words
) -> None:
    """Write into `mixed` (tables, words, records) the multilinear hash of each record's codes.

    `projected` is (tables * hashes, records), `multipliers` (words, hashes), `constants`
    (tables, words). A code is the floor of a projection; sums are modulo 2**32.
    """
    tables, words, records = mixed.shape
    hashes = multipliers.shape[1]
    for table in range(tables):
        for word in range(words):
            mixed[table, word, :] = constants[table, word]
        for hash_ in range(hashes):
            line = projected[table * hashes + hash_]
            for word in range(words):
                total = mixed[table, word]
                multiplier = multipliers[word, hash_]
                for record in range(records):
                    code = np.uint32(np.int32(np.floor(line[record])))
                    total[record] += code * multiplier


@njit(cache=True, nogil=True)
def join_words(mixed: Words, keys: Keys) -> None:
    """Make one scrambled 64-bit key of each pair of 32-bit words: (tables, 2, records)."""
    tables, _, records = mixed.shape
    for table in range(tables):
        for record in range(records):
            key = (np.uint64(mixed[table, 0, record]) << np.uint64(32)) | np.uint64(
                mixed[table, 1, record]
            )
            # the finalizer of MurmurHash3: a bijection whose low bits depend on every bit
            key ^= key >> np.uint64(33)
            key *= np.uint64(0xFF51AFD7ED558CCD)
            key ^= key >> np.uint64(33)
            key *= np.uint64(0xC4CEB9FE1A85EC53)
            key ^= key >> np.uint64(33)
            keys[table, record] = key


@njit(cache=True, nogil=True)
def fill_bins(
    keys: NDArray[np.uint64], shift: int, starts: Rows, members: Rows, prints: Words
) -> None:
    """Sort one table's records by the high bits of their keys (a counting sort, stable).

    `starts` has one more entry than there are buckets. A bucket may hold several bins: `prints`
    keeps the low 32 bits of each member's key to tell them apart.
    """
    starts[:] = 0
    bits = np.uint64(shift)
    for key in keys:
        starts[np.int64(key >> bits) + 1] += 1
    for bucket in range(1, len(starts)):
        starts[bucket] += starts[bucket - 1]
    free = starts[:-1].copy()
    for record in range(len(keys)):
        bucket = np.int64(keys[record] >> bits)
        place = free[bucket]
        free[bucket] += 1
        members[place] = record
        prints[place] = np.uint32(keys[record] & np.uint64(0xFFFFFFFF))


@njit(cache=True, nogil=True)
def prune(
    keys: Keys,
    shift: int,
    starts: NDArray[np.int32],
    members: NDArray[np.int32],
    prints: NDArray[np.uint32],
    max_crowd: int,
    min_shared_tables: int,
) -> tuple[Flags, Rows, int]:
    """Algorithm 2 of [Raval 2011]: which records no crowd could be shown for.

    Returns the suspects, the neighbors counted for each (0 for a record that was not processed)
    and how many records were processed.
    """
    tables, records = keys.shape
    bits = np.uint64(shift)
    pruned = np.zeros(records, np.bool_)
    suspects = np.zeros(records, np.bool_)
    neighbors = np.zeros(records, np.int32)
    shared = np.zeros(records, np.uint16)
    touched = np.empty(records, np.int32)
    processed = 0
    for record in range(records):
        if pruned[record]:
            continue
        processed += 1
        n_touched = 0
        crowd = 0
        for table in range(tables):
            key = keys[table, record]
            bucket = np.int64(key >> bits)
            mark = np.uint32(key & np.uint64(0xFFFFFFFF))
            for place in range(starts[table, bucket], starts[table, bucket + 1]):
                if prints[table, place] == mark:
                    other = members[table, place]
                    if shared[other] == 0:
                        touched[n_touched] = other
                        n_touched += 1
                    shared[other] += 1
                    if shared[other] == min_shared_tables:
                        crowd += 1
        inlier = crowd > max_crowd
        for place in range(n_touched):
            other = touched[place]
            if inlier and shared[other] >= min_shared_tables:
                pruned[other] = True
            shared[other] = 0
        suspects[record] = not inlier
        neighbors[record] = crowd
    return suspects, neighbors, processed


@njit(cache=True, nogil=True)
def count_bins(keys: Keys, counts: Counts) -> None:
    """Count, for every table and record, the records of that record's bin; keys come sorted."""
    tables, records = keys.shape
    for table in range(tables):
        first = 0
        for record in range(1, records + 1):
            if record == records or keys[table, record] != keys[table, first]:
                counts[table, first:record] = record - first
                first = record
