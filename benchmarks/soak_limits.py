"""Do the limits of a server suffice for tables that are as hard as they come?

    python benchmarks/soak_limits.py [--quick]

A worker is ended when it takes several times what the largest table of a declared size is estimated
to take (`privod.server.jobs.estimates`). Here every question of the catalog is answered on tables
made to be hard (all records equal, all far apart, all on a line, half in one crowd) in a process of
its own, and its processor time and the memory it takes beyond an empty table's are put beside what
it would be allowed if the table's own size had been declared. The largest shares are printed: they
must stay below 1. This measures; it is no proof for every table.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import resource
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.data import Categorical, Domain, Numeric, Table
from privod.mechanisms import secure
from privod.queries.catalog import QUERIES
from privod.queries.interactive_grid.kept import looked
from privod.queries.query import Query
from privod.server.jobs.estimates import BYTES_A_VALUE, LOADED_BYTES, SLACK

COLUMNS = 4
DOMAIN = Domain(
    (
        *(Numeric(f"c{place}", 0, 1) for place in range(COLUMNS)),
        Categorical("kind", ("one", "two", "three")),
    )
)
LEAST_SECONDS = 1.0  # estimates of less are taken as this: starting takes longer than the work


def shapes(records: int) -> dict[str, NDArray[np.float64]]:
    """Tables that indexes and early ends do not help with."""
    draw = np.random.default_rng(1)
    line = np.repeat(np.linspace(0, 1, records)[:, None], COLUMNS, axis=1)
    apart = draw.random((records, COLUMNS))
    half = np.where(np.arange(records)[:, None] % 2 == 0, 0.5, apart)
    return {"equal": np.full((records, COLUMNS), 0.5), "apart": apart, "line": line, "half": half}


def table_of(points: NDArray[np.float64]) -> Table:
    """The points as a table."""
    values: dict[str, Any] = dict(zip(DOMAIN.names, points.T, strict=False))
    return Table(DOMAIN, {**values, "kind": ["one"] * len(points)})


def answered(query: Query[Any], points: NDArray[np.float64], channel: Any) -> None:
    """Answer in this process; tell the processor time and the largest memory."""
    table = table_of(points)
    began = time.process_time()
    looked(query, table, secure())
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    channel.send((time.process_time() - began, 1024 * kilobytes))


def measured(query: Query[Any], points: NDArray[np.float64]) -> tuple[float, int]:
    """The same in a process of its own, since what a process once took it keeps."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=answered, args=(query, points, theirs))
    process.start()
    theirs.close()
    seconds, size = ours.recv()
    process.join()
    return seconds, size


def main() -> None:
    """Measure every question on every shape; exit with an error if a limit would be met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--quick", action="store_true", help="fewer records")
    given = parser.parse_args()
    records = 5_000 if given.quick else given.records
    print(f"{platform.machine()}, {os.cpu_count()} cores, {records} records, {COLUMNS + 1} columns")
    worst_time = worst_memory = 0.0
    nothing = np.full((1, COLUMNS), 0.5)
    for kind in QUERIES.values():
        for query in kind.examples(DOMAIN)[:1]:
            looked(query, table_of(nothing), secure())  # compiles what it needs, before the fork
            _, empty = measured(query, nothing)
            estimate = max(LEAST_SECONDS, query.work(DOMAIN, records) / 1e9)
            for name, points in shapes(records).items():
                seconds, size = measured(query, points)
                share = seconds / (SLACK * estimate)
                taken = size / (LOADED_BYTES + BYTES_A_VALUE * records * len(DOMAIN.columns))
                worst_time, worst_memory = max(worst_time, share), max(worst_memory, taken)
                print(
                    f"{query.name} {name}: {seconds:.2f} s, {share:.1%} of the time allowed;"
                    f" {(size - empty) / 2**20:.0f} MB more than for one record, {taken:.0%} of"
                    " the memory",
                    flush=True,
                )
    print(f"figure largest_share_of_time {worst_time:.3g}")
    print(f"figure largest_share_of_memory {worst_memory:.3g}")
    sys.exit(max(worst_time, worst_memory) >= 1)


if __name__ == "__main__":
    main()
