"""What does an exact joint run cost, and does the plan say so?

Three computing parties, two holders and an aggregator on this machine, in one process but for the
engines. Random rows in six columns; the radius leaves about half a percent of them outlying. Prints
core-seconds of all engines and forwarders, bytes that a computing party sends, and both beside the
plan; `worst_factor` is how far apart a plan and its run are. Needs `privod engine install spu`, and
about 300 core-seconds, 1,300 for 50,000 rows.

    python -m scripts.run_benchmark benchmarks/exact_runs.py [--rows N ...] [--quick | --smoke]
    python -m scripts.run_benchmark --table large benchmarks/exact_runs.py --rows 50000
    python -m scripts.run_benchmark --table sets benchmarks/exact_runs.py --sets pima wdbc thyroid
"""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks._folder import data_frame

from privod.data import Domain, Numeric, Table
from privod.joint.exact.question import ExactOutliers
from privod.joint.run import rehearse
from privod.joint.transport.channel import Patience

COLUMNS = ("a", "b", "c", "d", "e", "f")
RANGE = (-10.0, 10.0)
OUTLYING = 0.005
CANDIDATES = {10_000: 0.1, 50_000: 0.03}  # the share of rows whose crowds are counted exactly
PATIENCE = Patience(600, 3600)
Points = NDArray[np.float64]


def processor_seconds() -> float:
    """Of this process and of children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def pooled(question: ExactOutliers, points: Points) -> NDArray[np.int64]:
    """The outliers among integers in one place."""
    integers = question.integers(points, question.columns)
    program = question.program(len(points))
    found = []
    for low in range(0, len(points), 100):
        squares = np.zeros((len(integers[low : low + 100]), len(points)), np.int64)
        for column in integers.T:
            squares += (column[low : low + 100, None] - column) ** 2
        found.append((squares <= program.squared_radius).sum(1) <= program.max_crowd)
    return np.flatnonzero(np.concatenate(found))


def asked(points: Points, ranges: dict[str, tuple[float, float]], **other: Any) -> ExactOutliers:
    """A question with a radius that leaves about half a percent of the records outlying."""
    rng, limit = np.random.default_rng(0), len(points) // 100
    chosen = points[rng.choice(len(points), min(len(points), 400), replace=False)]
    far = [np.partition(((points - one) ** 2).sum(1), limit)[limit] ** 0.5 for one in chosen]
    told = {"radius": float(np.quantile(far, 1 - OUTLYING)), "far_fraction": 0.99, **other}
    return ExactOutliers(ranges=ranges, **told)


def held(points: Points, names: Sequence[str], ranges: Mapping[str, tuple[float, float]]) -> Table:
    """Some rows and columns as a holder has them."""
    domain = Domain(tuple(Numeric(name, *ranges[name], fill=ranges[name][0]) for name in names))
    return Table(domain, dict(zip(names, points.T, strict=True)))


def measure(rows: int) -> float:
    """Run once, compare with pooled integers and with the plan; by what factor that is off."""
    rng = np.random.default_rng(rows)
    points = rng.standard_normal((rows, len(COLUMNS)))
    points[: rows // 400] *= 2.5
    points = rng.permutation(points).clip(*RANGE)
    ranges = dict.fromkeys(COLUMNS, RANGE)
    question = asked(points, ranges, partition="horizontal", candidates=CANDIDATES.get(rows, 0.05))
    halves = [held(part, COLUMNS, ranges) for part in np.array_split(points, 2)]
    before, started = processor_seconds(), monotonic()
    tables = {"c1": None, "c2": None, "c3": None, "h1": halves[0], "h2": halves[1]}
    run = rehearse(question, tables, patience=PATIENCE)
    took, wall = processor_seconds() - before, monotonic() - started
    first, second = run.answers["h1"], run.answers["h2"]
    assert first.fits, "more rows were candidates than the question allows: no verdict was opened"
    assert first.few
    found = np.concatenate([first.rows, second.rows + len(halves[0])])
    outlying = pooled(question, points)
    differ = len(np.setxor1d(found, outlying))
    sent = max(run.answers[name].traffic.sent for name in ("c1", "c2", "c3"))
    program = question.program(rows)
    print(
        f"{rows} rows: {took:.0f} core-seconds (plan {program.core_seconds():.0f}),"
        f" {sent / 1e6:.0f} MB a computing party (plan {program.bytes_sent() / 1e6:.0f}),"
        f" {wall:.0f} s; bits {first.fits} {first.few}; {len(found)} of {len(outlying)} outliers,"
        f" {differ} differ",
        flush=True,
    )
    for name, value in (
        ("seconds", took),
        ("planned_seconds", program.core_seconds()),
        ("megabytes", sent / 1e6),
        ("planned_megabytes", program.bytes_sent() / 1e6),
        ("differ", differ),
    ):
        print(f"figure exact_{rows}_{name} {value:.4g}", flush=True)
    pairs = (took, program.core_seconds()), (sent, program.bytes_sent())
    return max(max(one / other, other / one) for one, other in pairs)


def compare(name: str) -> None:
    """Three splits of one data set: random rows, skewed rows, columns."""
    frame = data_frame(name).to_pandas().select_dtypes("number").drop(columns="label")
    values = frame.to_numpy(np.float64)
    values = values[:, values.std(0) > 0] / values.std(0)[values.std(0) > 0]
    names = [f"c{place}" for place in range(values.shape[1])]
    ranges = {
        one: (float(np.floor(column.min())), float(np.ceil(column.max())))
        for one, column in zip(names, values.T, strict=True)
    }
    rng = np.random.default_rng(0)
    orders = {
        "random": rng.permutation(len(values)),
        "skewed": np.argsort(values[:, 0] + 0.3 * rng.standard_normal(len(values))),
        "columns": np.arange(len(values)),
    }
    for split, order in orders.items():
        points = values[order]
        over = split == "columns"
        question = asked(points, ranges, partition="vertical" if over else "horizontal")
        if over:
            parts = np.array_split(np.arange(len(names)), 3)
            tables = [held(points[:, one], [names[at] for at in one], ranges) for one in parts]
        else:
            tables = [held(part, names, ranges) for part in np.array_split(points, 3)]
        ids = [str(row) for row in range(len(points))]
        act: Any = lambda seat, q=question, i=ids: q.take_part(replace(seat, ids=i))  # noqa: E731
        parties = dict(zip("abc", tables, strict=True))
        answers = rehearse(question, parties, patience=PATIENCE, acts=dict.fromkeys("abc", act))
        found, start = [], 0
        for one, table in zip("abc", tables, strict=True):
            found.append(answers.answers[one].rows + start)
            start += 0 if over else len(table)
        told = np.unique(np.concatenate(found))
        outlying = pooled(question, points)
        differ = len(np.setxor1d(told, outlying))
        bits = answers.answers["a"].fits, answers.answers["a"].few
        alone = sum(len(answers.answers[one].alone) for one in "abc")
        print(
            f"{name} {split}: {len(points)} x {len(names)}, bits {bits}, {len(told)} of"
            f" {len(outlying)} outliers, {differ} differ; alone {alone}",
            flush=True,
        )
        print(f"figure exact_{name}_{split}_differ {differ}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, nargs="+", default=[2000, 10000])
    parser.add_argument("--sets", nargs="*", help="data sets of PRIVOD_DATA to compare on")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    told = parser.parse_args()
    for each in told.sets or []:
        compare(each)
    rows = [300] if told.smoke else [2000] if told.quick else told.rows
    if not told.sets:
        print(f"figure exact_worst_factor {max(map(measure, rows)):.3g}")
