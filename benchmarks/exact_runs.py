"""What does an exact joint run cost, and does the plan say so?

Three computing parties, two holders and an aggregator on this machine, in one process but for the
engines. Random rows in six columns; the radius leaves about half a percent of them outlying. Prints
core-seconds of all engines and forwarders, bytes that a computing party sends, and both beside the
plan. Needs `privod engine install spu`.

    python benchmarks/exact_runs.py [--rows 2000 10000] [--candidates 0.05] [--quick | --smoke]
"""

from __future__ import annotations

import argparse
import resource
from time import monotonic

import numpy as np

from privod.data import Domain, Numeric, Table
from privod.joint.exact.question import ExactOutliers
from privod.joint.run import rehearse
from privod.joint.transport.channel import Patience

COLUMNS = ("a", "b", "c", "d", "e", "f")
RANGE = (-10.0, 10.0)
OUTLYING = 0.005


def processor_seconds() -> float:
    """Of this process and of children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure(rows: int, candidates: float) -> None:
    """Run once, compare with pooled integers and with the plan."""
    rng = np.random.default_rng(rows)
    points = rng.standard_normal((rows, len(COLUMNS)))
    points[: rows // 400] *= 2.5
    points = rng.permutation(points).clip(*RANGE)
    limit = rows // 100
    chosen = points[rng.choice(rows, min(rows, 400), replace=False)]
    far = [np.partition(((points - one) ** 2).sum(1), limit)[limit] ** 0.5 for one in chosen]
    question = ExactOutliers(
        partition="horizontal",
        radius=float(np.quantile(far, 1 - OUTLYING)),
        far_fraction=0.99,
        ranges=dict.fromkeys(COLUMNS, RANGE),
        candidates=candidates,
    )
    domain = Domain(tuple(Numeric(name, *RANGE, fill=0) for name in COLUMNS))
    halves = {
        name: Table(domain, dict(zip(COLUMNS, part.T, strict=True)))
        for name, part in zip(("h1", "h2"), np.array_split(points, 2), strict=True)
    }
    before, started = processor_seconds(), monotonic()
    tables = {"c1": None, "c2": None, "c3": None, **halves}
    run = rehearse(question, tables, patience=Patience(600, 3600))
    took, wall = processor_seconds() - before, monotonic() - started
    integers = question.integers(points, COLUMNS).astype(np.float64)
    program = question.program(rows)
    lengths = (integers**2).sum(1)
    truth = []
    for low in range(0, rows, 500):
        block = integers[low : low + 500]
        squares = lengths[low : low + 500, None] + lengths - 2 * block @ integers.T
        truth += (squares <= program.squared_radius).sum(1).tolist()
    outlying = np.flatnonzero(np.array(truth) <= program.max_crowd)
    first, second = run.answers["h1"], run.answers["h2"]
    found = np.concatenate([first.rows, second.rows + len(halves["h1"])])
    sent = max(run.answers[name].traffic.sent for name in ("c1", "c2", "c3"))
    print(
        f"{rows} rows: {took:.0f} core-seconds (plan {program.core_seconds():.0f}),"
        f" {sent / 1e6:.0f} MB a computing party (plan {program.bytes_sent() / 1e6:.0f}),"
        f" {wall:.0f} s; bits {first.fits} {first.few}; {len(found)} of {len(outlying)} outliers,"
        f" {len(np.setxor1d(found, outlying))} differ"
    )
    for name, value in (
        ("seconds", took),
        ("planned_seconds", program.core_seconds()),
        ("megabytes", sent / 1e6),
        ("planned_megabytes", program.bytes_sent() / 1e6),
        ("differ", len(np.setxor1d(found, outlying))),
    ):
        print(f"figure exact_{rows}_{name} {value:.3g}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, nargs="+", default=[2000, 10000, 50000])
    parser.add_argument("--candidates", type=float, default=0.05)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    told = parser.parse_args()
    for each in [300] if told.smoke else [2000] if told.quick else told.rows:
        measure(each, told.candidates)
