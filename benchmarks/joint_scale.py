"""How much memory, traffic and time does a run over rows take, and what does it find, at full size?

Every party is a process of its own and talks to the aggregator over mutual TLS on loopback
(`joint_columns.py` measures runs over columns, `joint_wan.py` puts a slow line between them).

    python benchmarks/joint_scale.py                    # every case; some 8 GB and ten minutes
    python benchmarks/joint_scale.py --case rows_3      # one of them
    python benchmarks/joint_scale.py --quick            # small ones, below a minute

A run that fails ends at once, with its reason and exit code 1, and leaves no process behind.

Memory per row is the largest resident size of a process less what it had before it made its rows,
over the rows it has (a party) or all have (the aggregator); the rows themselves, 8 bytes a value,
are in it. Seconds of processor time are a party's own, from its rows to its answer.

Rows are a cloud with a halo three times as wide: a density of which the crowd around any place is
known, so that the outliers among 30 million records are, too. Over columns there are fewer records:
there the crowds near the limit are counted.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import ncx2

from privod.data import Domain, Numeric, Table
from privod.errors import ProtocolAborted
from privod.joint.contributions import Contributions
from privod.joint.pki import make_identities
from privod.joint.question import JointOutliers
from privod.joint.roster import Identity, Roster
from privod.joint.run import aggregate, rehearse, take_part
from privod.joint.transport.channel import Meeting, Patience, attend, host
from privod.joint.transport.grpc import GrpcAggregator, GrpcChannel
from privod.outliers.crowds.distance import crowds
from privod.outliers.hashing.outliers import crowd_limit

PATIENCE = Patience(coming=3600, stalled=3600)
TOP = 60.0
HALO = 32  # one record in so many belongs to the halo,
WIDE = 3.0  # which is so many times as wide
NEAR_LIMIT = 0.2  # crowds so near their limit, relatively, are counted where they can be


@dataclass(frozen=True)
class Case:
    """A run to measure."""

    partition: str
    parties: int
    rows: int
    columns: int = 9
    tables: int = 50
    verify: bool = False

    def question(self) -> JointOutliers:
        """One crowd in a hundred."""
        return JointOutliers(
            partition=self.partition,
            radius=2.0 * self.columns**0.5,
            far_fraction=0.99,
            columns=tuple(f"x{number}" for number in range(self.columns)),
            n_tables=self.tables,
            verify=self.verify,
        )

    @property
    def everything(self) -> int:
        """How many records all parties have."""
        return self.rows if self.partition == "vertical" else self.rows * self.parties


CASES = {
    "rows_30": Case("horizontal", 30, 1_000_000, columns=3, tables=25),
    "rows_3": Case("horizontal", 3, 1_000_000),
}
QUICK = {"rows_3": Case("horizontal", 3, 20_000, tables=10)}


def values_of(seed: int, rows: int, n_columns: int) -> NDArray[np.float64]:
    """Some columns of the cloud and its halo."""
    points = np.random.default_rng(seed).normal(size=(n_columns, rows))
    points[:, ::HALO] *= WIDE
    return points


def table_of(points: NDArray[np.float64], columns: tuple[str, ...]) -> Table:
    """Rows with a public range."""
    domain = Domain(tuple(Numeric(name, -TOP, TOP, fill=0.0) for name in columns))
    return Table(domain, dict(zip(columns, points, strict=True)))


def share_near(squared: float, radius: float, n_columns: int) -> float:
    """The share of all records within the radius of a place this far from the middle, squared."""
    inner = ncx2.cdf(radius**2, n_columns, squared)
    outer = ncx2.cdf((radius / WIDE) ** 2, n_columns, squared / WIDE**2)
    return float(inner + (outer - inner) / HALO)


def outlying_from(case: Case, share: float) -> float:
    """The square of the distance from the middle beyond which fewer than this share are near."""
    radius = case.question().radius
    return float(brentq(lambda at: share_near(at, radius, case.columns) - share, 1e-9, TOP**2))


def held_by(place: int, case: Case) -> tuple[str, ...]:
    """Everybody's columns."""
    every = case.question().columns
    if case.partition == "horizontal":
        return every
    return tuple(np.array_split(np.array(every), case.parties)[place].tolist())


def resident() -> int:
    """Bytes in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def largest() -> int:
    """The most bytes that were ever in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def warm(case: Case) -> None:
    """Load and compile everything, so that it is not counted as memory for rows."""
    asked = replace(
        case.question(), partition="horizontal", n_tables=2, epsilon=None, delta=None, verify=False
    )
    points = [values_of(at, 2000, case.columns) for at in range(3)]
    rehearse(asked, {f"p{at}": table_of(each, asked.columns) for at, each in enumerate(points)})


def follow_parent() -> None:
    """End this process as soon as the one that started it has ended, however it did."""
    parent = parent_process()
    if parent is not None:
        ended = parent.sentinel

        def follow() -> None:
            wait([ended])
            os._exit(1)

        Thread(target=follow, daemon=True).start()


def party(
    place: int, case: Case, roster: Roster, identity: Identity, results: Queue[dict[str, Any]]
) -> None:
    """Take part in a process of one's own."""
    follow_parent()
    warm(case)
    asked, columns = case.question(), held_by(place, case)
    before = resident()
    points = values_of(place, case.rows, len(columns))
    truth = np.zeros(0, np.bool_)
    if case.partition == "horizontal":
        truth = (points**2).sum(axis=0) > outlying_from(case, 1 - asked.far_fraction)
    table = table_of(points, columns)
    del points
    started = time.process_time()
    try:
        answer = attend(
            GrpcChannel(roster, identity, PATIENCE),
            lambda channel: take_part(asked, table, channel, identity, roster, Contributions()),
        )
    except ProtocolAborted:
        raise SystemExit(1) from None  # the aggregator says why, once
    results.put(
        {
            "processor_seconds": time.process_time() - started,
            "bytes_per_row": (largest() - before) / case.rows,
            "peak": largest(),
            "sent": answer.traffic.sent,
            "received": answer.traffic.received,
            "suspects": len(answer.rows),
            "outliers": int(truth.sum()),
            "found": int(truth[answer.rows].sum()) if len(truth) else 0,
            "rows": answer.rows if case.partition == "vertical" and place == 0 else None,
        }
    )


class Watch(Thread):
    """Wait until everybody's process has ended; the first that ends badly ends the run."""

    def __init__(self, processes: dict[str, BaseProcess], meeting: Meeting) -> None:
        super().__init__(daemon=True)
        self._processes = processes
        self._meeting = meeting
        self.problem = ""

    def run(self) -> None:
        """Nobody else asks for exit codes: they can be read once."""
        left = dict(self._processes)
        while left:
            ended = wait([process.sentinel for process in left.values()])
            for name in [name for name, process in left.items() if process.sentinel in ended]:
                process = left.pop(name)
                process.join()  # it has closed its files; its code comes a moment later
                code = process.exitcode
                if code and not self.problem:
                    self.problem = f"The process of {name!r} ended with code {code}."
                    self._meeting.fail(self.problem)


@contextmanager
def started(processes: dict[str, BaseProcess], meeting: Meeting) -> Iterator[Watch]:
    """Everybody's process; nothing of them is left at the end, whatever happened."""
    for process in processes.values():
        process.start()
    watch = Watch(processes, meeting)
    watch.start()
    try:
        yield watch
    except BaseException:
        for process in processes.values():
            process.kill()
        raise
    finally:
        watch.join()


def gathered(results: Queue[dict[str, Any]], n: int, watch: Watch) -> list[dict[str, Any]]:
    """What everybody measured."""
    found: list[dict[str, Any]] = []
    while len(found) < n:
        try:
            found.append(results.get(timeout=1))
        except Empty:
            if watch.problem:
                raise ProtocolAborted(watch.problem) from None
    return found


def judged(case: Case, results: list[dict[str, Any]]) -> tuple[float, float]:
    """Precision and recall."""
    if case.partition == "horizontal":
        found, outliers, suspects = (
            sum(one[key] for one in results) for key in ("found", "outliers", "suspects")
        )
        return found / max(1, suspects), found / max(1, outliers)
    asked = case.question()
    widths = [len(held_by(place, case)) for place in range(case.parties)]
    points = np.vstack([values_of(at, case.rows, width) for at, width in enumerate(widths)])
    squared = (points**2).sum(axis=0)
    share = 1 - asked.far_fraction
    outlying = squared > outlying_from(case, share * (1 - NEAR_LIMIT))
    doubtful = ~outlying & (squared > outlying_from(case, share * (1 + NEAR_LIMIT)))
    limit = crowd_limit(asked.far_fraction, case.rows)
    records = np.ascontiguousarray(points.T)
    near = crowds(records, asked.radius, at=records[doubtful], cap=limit + 1)
    outlying[doubtful] = near <= limit
    rows = next(one["rows"] for one in results if one["rows"] is not None)
    found = int(outlying[rows].sum())
    return found / max(1, len(rows)), found / max(1, int(outlying.sum()))


def measure(name: str, case: Case, reach: Callable[[int], int]) -> None:
    """One run; print its figures. `reach` says at which port parties find the aggregator's."""
    follow_parent()
    names = [f"p{place:02}" for place in range(case.parties)]
    roster, identities = make_identities(names, "hub", "127.0.0.1:0")
    asked = case.question()
    domain = table_of(values_of(0, 10, case.columns), asked.columns).domain
    context = get_context("forkserver")  # parties share the pages of what is imported
    context.set_forkserver_preload(["privod.joint.run", "privod.joint.transport.grpc", "scipy"])
    results: Queue[dict[str, Any]] = context.Queue()
    warm(case)
    before = resident()
    began = time.process_time()
    with GrpcAggregator(roster, identities["hub"], "127.0.0.1:0", PATIENCE) as hub:
        at = replace(roster, address=f"127.0.0.1:{reach(hub.port)}")
        processes: dict[str, BaseProcess] = {
            one: context.Process(target=party, args=(place, case, at, identities[one], results))
            for place, one in enumerate(names)
        }
        try:
            with started(processes, hub.meeting) as watch:
                done = host(
                    hub.meeting,
                    lambda meeting: aggregate(asked, meeting, identities["hub"], roster, domain),
                )
                found = gathered(results, len(names), watch)
        except ProtocolAborted as problem:
            raise SystemExit(f"{name} failed. {problem}") from None
    if done.n_records != case.everything:
        raise SystemExit(f"{done.n_records} records were counted of {case.everything}.")
    aggregator = largest() - before
    spent = time.process_time() - began
    precision, recall = judged(case, found)
    steps = hub.meeting.traffic.steps[1:]  # without the wait until everybody has come
    figures = {
        "seconds": sum(step.worked + step.waited for step in steps),
        "party_processor_seconds": max(one["processor_seconds"] for one in found),
        "aggregator_processor_seconds": spent,
        "party_bytes_per_row": max(one["bytes_per_row"] for one in found),
        "party_peak_megabytes": max(one["peak"] for one in found) / 1e6,
        "aggregator_bytes_per_row": aggregator / case.everything,
        "aggregator_megabytes": aggregator / 1e6,
        "sent_megabytes_per_party": max(one["sent"] for one in found) / 1e6,
        "received_megabytes_per_party": max(one["received"] for one in found) / 1e6,
        "precision": precision,
        "recall": recall,
    }
    for key, value in figures.items():
        print(f"figure {name}_{key} {value:.4g}", flush=True)


def in_own_process(name: str, case: Case, reach: Callable[[int], int]) -> None:
    """Measure with an aggregator that has done nothing before, so that its memory is the run's."""
    process = get_context("spawn").Process(target=measure, args=(name, case, reach))
    process.start()
    process.join()
    if process.exitcode == 1:
        raise SystemExit(1)  # it said why
    if process.exitcode:
        raise SystemExit(f"{name} failed. Its aggregator ended with code {process.exitcode}.")


def measure_all(
    description: str,
    every: dict[str, Case],
    quick: dict[str, Case],
    reach: Callable[[int], int] = int,
) -> None:
    """Read the arguments, run, print."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--case", choices=tuple(every), help="one case instead of all")
    parser.add_argument("--rows", type=int, help="other numbers of rows, to try a case out")
    parser.add_argument("--quick", action="store_true", help="small, below a minute")
    given = parser.parse_args()
    for name, case in (quick if given.quick else every).items():
        if given.case in (None, name):
            in_own_process(name, replace(case, rows=given.rows) if given.rows else case, reach)


if __name__ == "__main__":
    measure_all(__doc__ or "", CASES, QUICK)
