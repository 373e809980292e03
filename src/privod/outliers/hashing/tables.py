"""Which records have no crowd near them? Random projections tell, without n**2 distances.

Records that share many bins of p-stable hashes are probably near each other [Datar 2004]. A record
with a crowd of such neighbors is an inlier, and so are they; the few left are suspects
[Raval 2011].
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from threadpoolctl import threadpool_limits

from privod.errors import InvalidParameter
from privod.outliers.hashing.kernels.bins import (
    Bins,
    count_neighbors,
    fill_bins,
    join_words,
    mix_codes,
    prune_around,
)
from privod.outliers.hashing.plan import HashPlan
from privod.threads import available_threads, thread_pool

LARGEST_CODE = 2.0**17  # single precision then still resolves 1/64 of a bucket
BLOCK_VALUES = 1 << 18  # projections per block: 1 MiB, so that they stay in the cache
MOST_BUCKETS = 1 << 20  # of the counting sort; more would only add cache misses
KEY_BITS = 64
WORDS = 2  # of a key
LARGEST_BATCH = 512  # records settled together
LOOK_AHEAD = 1 << 16


@dataclass(frozen=True, eq=False)
class HashFamily:
    """The random choices of one round: a.v + b over w for every hash of every table.

    Directions are Gaussian vectors divided by the bucket width, a row for each hash, table by
    table; offsets are uniform in [0, 1). The origin is subtracted from every record first, which
    only moves the offsets. Odd multipliers, shape (words, hashes_per_table), turn a table's codes
    into words; the constants, shape (n_tables, words), are what these sums start from.
    """

    directions: NDArray[np.float32]
    offsets: NDArray[np.float32]
    origin: NDArray[np.float64]
    multipliers: NDArray[np.uint32]
    constants: NDArray[np.uint32]

    def keys(self, points: NDArray[np.float64]) -> NDArray[np.uint64]:
        """Return the key of every record's bin in every table: (n_tables, n)."""
        keys = np.empty((len(self.constants), len(points)), np.uint64)
        n = len(points)
        size = min(n, max(64, BLOCK_VALUES // len(self.directions)))
        workers = available_threads()

        def hash_part(worker: int) -> None:
            # buffers of its own, used again and again: fresh pages would cost as much as the work
            projected = np.empty((len(self.directions), size), np.float32)
            block = np.empty((*self.constants.shape, size), np.uint32)
            for start in range(worker * size, n, workers * size):
                rows = slice(start, min(start + size, n))
                centered = (points[rows] - self.origin).astype(np.float32)
                if len(centered) < size:
                    projected = np.empty((len(self.directions), len(centered)), np.float32)
                    block = np.empty((*self.constants.shape, len(centered)), np.uint32)
                np.matmul(self.directions, centered.T, out=projected)
                mix_codes(projected, self.offsets, self.multipliers, self.constants, block)
                join_words(block, keys[:, rows])

        with _threads() as pool:
            list(pool.map(hash_part, range(workers if n else 0)))
        return keys

    def check_reach(self, lows: NDArray[np.float64], highs: NDArray[np.float64]) -> None:
        """Raise unless all records in these ranges can be told apart in single precision.

        Among parties the ranges must be the declared ones: what a run refuses is seen by all.
        """
        farthest = np.maximum(highs - self.origin, self.origin - lows)
        reach = float((np.abs(self.directions) @ farthest).max()) + 1
        if not isfinite(reach) or reach >= LARGEST_CODE:
            raise InvalidParameter(
                "radius",
                "must not be a tiny part of the columns' range when records are hashed",
                "less than about a millionth of it",
                "Rescale the columns, use a larger radius, or count crowds exactly.",
            )


@dataclass(frozen=True, eq=False)
class Suspects:
    """The records for which no crowd was found, ascending."""

    rows: NDArray[np.int64]
    neighbors: NDArray[np.int64]
    processed: int


def draw_family(
    plan: HashPlan, n_columns: int, seed: bytes, *, origin: NDArray[np.float64] | None = None
) -> HashFamily:
    """Expand a seed into the hashes of one round, alike on every machine."""
    n_hashes = plan.n_tables * plan.hashes_per_table
    gaussians = ndtri(_uniforms(seed, b"directions", n_hashes * n_columns))
    multipliers = _words(seed, b"multipliers", WORDS * plan.hashes_per_table) | np.uint32(1)
    return HashFamily(
        (gaussians.reshape(n_hashes, n_columns) / plan.bucket_width).astype(np.float32),
        _uniforms(seed, b"offsets", n_hashes).astype(np.float32),
        np.zeros(n_columns) if origin is None else origin,
        multipliers.reshape(WORDS, plan.hashes_per_table),
        _words(seed, b"constants", plan.n_tables * WORDS).reshape(plan.n_tables, WORDS),
    )


def bin_records(keys: NDArray[np.uint64]) -> Bins:
    """Sort the records of every table by bin; `keys` is (n_tables, n)."""
    n_tables, n = keys.shape
    bits = min(max(n, 2).bit_length(), MOST_BUCKETS.bit_length() - 1)
    starts = np.empty((n_tables, (1 << bits) + 1), np.int32)
    members = np.empty((n_tables, n), np.int32)
    prints = np.empty((n_tables, n), np.uint32)
    shift = KEY_BITS - bits

    def sort_table(table: int) -> None:
        fill_bins(keys[table], shift, starts[table], members[table], prints[table])

    with _threads() as pool:
        list(pool.map(sort_table, range(n_tables)))
    return Bins(keys, shift, starts, members, prints)


def find_suspects(bins: Bins, max_crowd: int, min_shared_tables: int) -> Suspects:
    """Prune everyone who has, or belongs to, a crowd [Raval 2011, Algorithm 2]."""
    n = bins.keys.shape[1]
    pruned = np.zeros(n, np.bool_)
    flags = np.zeros(n, np.bool_)
    neighbors = np.zeros(n, np.int32)
    processed = 0
    at, size = 0, 1
    with thread_pool() as pool:
        while at < n:
            ahead = np.flatnonzero(~pruned[at : at + LOOK_AHEAD])[:size].astype(np.int32)
            if len(ahead) == 0:
                at += LOOK_AHEAD
                continue
            batch = ahead + np.int32(at)
            counted = np.full(1, -1, np.int32)
            if len(batch) > 1:
                counted = _neighbors(bins, batch, max_crowd, min_shared_tables, pool)
            settled = prune_around(
                batch, counted, bins, max_crowd, min_shared_tables, pruned, flags
            )
            neighbors[batch] = counted
            processed += settled
            at = int(batch[-1]) + 1
            size = min(2 * size, LARGEST_BATCH) if settled == len(batch) else max(1, settled)
    rows = np.flatnonzero(flags)
    return Suspects(rows, neighbors[rows].astype(np.int64), processed)


def _neighbors(
    bins: Bins,
    rows: NDArray[np.int32],
    max_crowd: int,
    min_shared_tables: int,
    pool: ThreadPoolExecutor,
) -> NDArray[np.int32]:
    """Count the records that share enough tables with each of `rows`, up to about `max_crowd`."""
    counted = np.empty(len(rows), np.int32)
    step = -(-len(rows) // available_threads())

    def count(start: int) -> None:
        part = slice(start, start + step)
        count_neighbors(rows[part], bins, min_shared_tables, max_crowd, counted[part])

    list(pool.map(count, range(0, len(rows), step)))
    return counted


def _uniforms(seed: bytes, purpose: bytes, count: int) -> NDArray[np.float64]:
    """Stretch a seed into numbers strictly between 0 and 1."""
    words = np.frombuffer(hashlib.shake_256(purpose + b"|" + seed).digest(8 * count), "<u8")
    return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _words(seed: bytes, purpose: bytes, count: int) -> NDArray[np.uint32]:
    digest = hashlib.shake_256(purpose + b"|" + seed).digest(4 * count)
    return np.frombuffer(digest, "<u4").astype(np.uint32)


_blas_lock = Lock()
_blas_users = 0
_blas_limits: list[threadpool_limits] = []


@contextmanager
def _threads() -> Iterator[ThreadPoolExecutor]:
    """One thread per core, each with its own single-threaded BLAS.

    Two pools that both want every core spin against each other; so the matrix products run inside
    our threads. The limit is the process's, hence the count of its users.
    """
    global _blas_users
    with _blas_lock:
        if _blas_users == 0:
            _blas_limits.append(threadpool_limits(1, user_api="blas"))
        _blas_users += 1
    try:
        with thread_pool() as pool:
            yield pool
    finally:
        with _blas_lock:
            _blas_users -= 1
            if _blas_users == 0:
                _blas_limits.pop().restore_original_limits()
