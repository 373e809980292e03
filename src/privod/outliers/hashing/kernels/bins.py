"""The compiled loops of hashing: codes to keys, keys to bins, bins to suspects."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Bools, Smalls
from privod.compiling import njit

Words = NDArray[np.uint32]
Keys = NDArray[np.uint64]


class Bins(NamedTuple):
    """Every table's records sorted by bin."""

    keys: Keys
    shift: int
    starts: Smalls
    members: Smalls
    prints: Words


@njit(cache=True, nogil=True)
def mix_codes(
    projected: NDArray[np.float32],
    offsets: NDArray[np.float32],
    multipliers: Words,
    constants: Words,
    mixed: Words,
) -> None:
    """Write into `mixed` (tables, words, records) the multilinear hash of each record's codes.

    `projected` is (tables * hashes, records), `multipliers` (words, hashes), `constants`
    (tables, words). A code is the floor of a projection plus its offset; sums are modulo 2**32.
    """
    tables, words, records = mixed.shape
    hashes = multipliers.shape[1]
    codes = np.empty(records, np.uint32)
    for table in range(tables):
        for word in range(words):
            mixed[table, word, :] = constants[table, word]
        for hash_ in range(hashes):
            line = projected[table * hashes + hash_]
            offset = offsets[table * hashes + hash_]
            for record in range(records):
                codes[record] = np.uint32(np.int32(np.floor(line[record] + offset)))
            for word in range(words):
                total = mixed[table, word]
                multiplier = multipliers[word, hash_]
                for record in range(records):
                    total[record] += codes[record] * multiplier


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
def fill_bins(keys: Keys, shift: int, starts: Smalls, members: Smalls, prints: Words) -> None:
    """Sort one table's records by the high bits of their keys (a counting sort, stable).

    `starts` has one more entry than there are buckets. A bucket may hold several bins: `prints`
    keeps the low 32 bits of each member's key to tell them apart.
    """
    starts[:] = 0
    bits = np.uint64(shift)
    for key in keys:
        starts[np.int64(key >> bits) + 1] += 1
    for following in range(1, len(starts)):
        starts[following] += starts[following - 1]
    free = starts[:-1].copy()
    for record in range(len(keys)):
        bucket = np.int64(keys[record] >> bits)
        place = free[bucket]
        free[bucket] += 1
        members[place] = record
        prints[place] = np.uint32(keys[record] & np.uint64(0xFFFFFFFF))


@njit(cache=True, nogil=True)
def _walk(
    record: int,
    bins: Bins,
    min_shared_tables: int,
    enough: int,
    shared: NDArray[np.uint16],
    touched: Smalls,
) -> tuple[int, int]:
    """Count into `shared` the tables each other record shares; return the crowd and the touched.

    Stops after the table in which the crowd passes `enough`. The touched records are listed only
    as long as the list has room: past it, all may be touched.
    """
    keys, shift, starts, members, prints = bins
    bits = np.uint64(shift)
    n_touched = 0
    crowd = 0
    for table in range(len(keys)):
        key = keys[table, record]
        bucket = np.int64(key >> bits)
        mark = np.uint32(key & np.uint64(0xFFFFFFFF))
        for place in range(starts[table, bucket], starts[table, bucket + 1]):
            if prints[table, place] == mark:
                other = members[table, place]
                times = shared[other] + 1
                shared[other] = times
                if times == 1:
                    if n_touched < len(touched):
                        touched[n_touched] = other
                    n_touched += 1
                if times == min_shared_tables:
                    crowd += 1
        if crowd > enough:
            break
    return crowd, n_touched


@njit(cache=True, nogil=True)
def count_neighbors(
    records: Smalls, bins: Bins, min_shared_tables: int, enough: int, neighbors: Smalls
) -> None:
    """Write how many records share enough tables with each of `records`, itself included.

    A number above `enough` may be too small: that it is above is all one needs to know.
    """
    everyone = bins.keys.shape[1]
    shared = np.zeros(everyone, np.uint16)
    touched = np.empty(max(1, everyone // 16), np.int32)
    for place in range(len(records)):
        crowd, n_touched = _walk(records[place], bins, min_shared_tables, enough, shared, touched)
        neighbors[place] = crowd
        if n_touched > len(touched):
            shared[:] = 0
        else:
            for other in touched[:n_touched]:
                shared[other] = 0


@njit(cache=True, nogil=True)
def prune_around(
    records: Smalls,
    neighbors: Smalls,
    bins: Bins,
    max_crowd: int,
    min_shared_tables: int,
    pruned: Bools,
    suspects: Bools,
) -> int:
    """Settle `records` in order [Raval 2011, Algorithm 2, lines 3 to 13]; return the processed.

    `neighbors` of a record is how many it has if that is at most `max_crowd`; anything above, or
    -1, means that it must be walked.
    """
    everyone = bins.keys.shape[1]
    shared = np.zeros(everyone, np.uint16)
    touched = np.empty(0, np.int32)
    processed = 0
    for place in range(len(records)):
        record = records[place]
        if pruned[record]:
            continue
        processed += 1
        if 0 <= neighbors[place] <= max_crowd:
            suspects[record] = True
            continue
        crowd, _ = _walk(record, bins, min_shared_tables, everyone, shared, touched)
        neighbors[place] = crowd
        suspects[record] = crowd <= max_crowd
        for other in range(everyone):
            if crowd > max_crowd and shared[other] >= min_shared_tables:
                pruned[other] = True
            shared[other] = 0
    return processed
