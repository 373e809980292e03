"""Do answers keep to the memory that they are counted to take, on tables as hard as they come?

    python benchmarks/soak_limits.py [--quick]

A server ends a worker that takes more memory than the question counts for the largest table of the
declared size (`Query.most_bytes`, docs/proofs/limits.md). Here every question of the catalog, and
some with parameters made to be costly, is answered on tables made to be hard (all records equal,
all far apart, all on a line, half in one crowd) in a process whose memory is limited to what is
counted for a table of exactly that size, and 64 MB for threads and small things where a server
allows 2 GB. An answer that does not come about is a mistake in the count: the script then fails.
The largest share of the limit that was taken is printed, and the processor time beside what was
estimated: no clock ends an answer, so that is no limit.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import os
import platform
import resource
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.data import Categorical, Domain, Numeric, Table
from privod.mechanisms import secure
from privod.query.catalog import QUERIES
from privod.query.query import Query, canonical_json
from privod.questions.grid_knn.query import GridKnn
from privod.questions.outlier_count.query import OutlierCount
from privod.questions.outlier_radius.query import OutlierRadius
from privod.server.jobs.worker import M_MMAP_THRESHOLD, MAPPED_BYTES

COLUMNS = 4
DOMAIN = Domain(
    (
        *(Numeric(f"c{place}", 0, 1) for place in range(COLUMNS)),
        Categorical("kind", ("one", "two", "three")),
    )
)
SPARE_BYTES = 64 * 2**20
LEAST_SECONDS = 1.0  # estimates of less are taken as this: starting takes longer than the work
LOOK_SECONDS = 0.005
TINY = 1e-4  # a radius at which records that lie apart are alone
HARD: tuple[Query[Any], ...] = (
    *(
        OutlierCount(
            columns=names, radius=radius, max_crowd=3, epsilon=1, noise="heavy", scale="range"
        )
        for names in (DOMAIN.numeric_names[:size] for size in range(1, COLUMNS + 1))
        for radius in (TINY, 0.1)
    ),
    OutlierRadius(
        columns=DOMAIN.numeric_names[:3], share="0.01", max_crowd=5, epsilon=1, n_radii=3
    ),
    GridKnn(columns=DOMAIN.numeric_names, epsilon=9, cells_per_axis=30, drop_below=1),
)


def shapes(records: int) -> dict[str, NDArray[np.float64]]:
    """Tables that indexes and early ends do not help with."""
    draw = np.random.default_rng(1)
    line = np.repeat(np.linspace(0, 1, records)[:, None], COLUMNS, axis=1)
    apart = draw.random((records, COLUMNS))
    half = np.where(np.arange(records)[:, None] % 2 == 0, 0.5, apart)
    return {"apart": apart, "equal": np.full((records, COLUMNS), 0.5), "line": line, "half": half}


def table_of(points: NDArray[np.float64]) -> Table:
    """The points as a table."""
    values: dict[str, Any] = dict(zip(DOMAIN.names, points.T, strict=False))
    return Table(DOMAIN, {**values, "kind": ["one"] * len(points)})


def questions() -> Iterator[Query[Any]]:
    """Those that are measured."""
    for kind in QUERIES.values():
        yield from kind.examples(DOMAIN)[:1]
    yield from HARD


def data_bytes(process: int | str = "self") -> int:
    """What a process has allocated."""
    pages = Path(f"/proc/{process}/statm").read_text().split()[5]
    return int(pages) * resource.getpagesize()


def answered(query: Query[Any], points: NDArray[np.float64], channel: Any) -> None:
    """Answer in this process as a worker does, within the limit; tell the processor time."""
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES)
    table = table_of(points)
    held = data_bytes()
    limit = held + query.most_bytes(DOMAIN, len(points)) + SPARE_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    channel.send((held, limit))
    began = time.process_time()
    try:
        canonical_json(query.answer(table, secure()).to_json()).encode()
    except (MemoryError, RuntimeError, OSError):
        channel.send(None)
    else:
        channel.send(time.process_time() - began)


def measured(
    query: Query[Any], points: NDArray[np.float64], between: float = LOOK_SECONDS
) -> tuple[float | None, float]:
    """The seconds it took, None if it did not come about, and the share of the limit it took.

    The share is looked at so many seconds apart.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=answered, args=(query, points, theirs))
    process.start()
    theirs.close()
    held, limit = ours.recv()
    most = held
    while not ours.poll(between):
        most = max(most, data_bytes(str(process.pid)))
    try:
        seconds = ours.recv()
    except EOFError:  # it died
        seconds = None
    process.join()
    return seconds, (most - held) / (limit - held)


def fits(query: Query[Any], records: int, names: tuple[str, ...] = ("apart", "equal")) -> bool:
    """Whether a question is answered within its count on such tables."""
    query.check(DOMAIN)
    query.answer(table_of(np.full((3, COLUMNS), 0.5)), secure())  # compiles, before the fork
    tables = shapes(records)
    return all(measured(query, tables[name], 60.0)[0] is not None for name in names)


def main() -> None:
    """Measure every question on every shape; exit with an error if a limit is met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--quick", action="store_true", help="fewer records")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    given = parser.parse_args()
    records = 500 if given.smoke else 10_000 if given.quick else given.records
    print(f"{platform.machine()}, {os.cpu_count()} cores, {records} records, {COLUMNS + 1} columns")
    largest, longest, failed = 0.0, 0.0, 0
    for query in questions():
        query.check(DOMAIN)
        query.answer(table_of(np.full((3, COLUMNS), 0.5)), secure())
        estimate = max(LEAST_SECONDS, query.work(DOMAIN, records) / 1e9)
        for name, points in islice(shapes(records).items(), 2 if given.smoke else None):
            seconds, share = measured(query, points)
            failed += seconds is None
            largest, longest = max(largest, share), max(longest, (seconds or 0) / estimate)
            told = "DID NOT FIT" if seconds is None else f"{seconds:.2f} s"
            print(f"{query.name} {name}: {told}, {share:.1%} of its memory", flush=True)
    print(f"figure largest_share_of_memory {largest:.3g}")
    print(f"figure largest_time_to_estimate {longest:.3g}")
    print(f"figure answers_that_did_not_fit {failed}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
