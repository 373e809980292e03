"""The experiments of Raval et al. (2011): Tables I and III and Figures 1 to 3, on what we have.

Run `PRIVOD_DATA=folder nice python benchmarks/papers/raval.py` (half an hour), or with `--quick`.
Writes out/papers/raval/: `figure2.csv` (Table I and Figure 2: exchanges and bytes, measured, beside
the paper's orders of growth), `table3.csv` (the centralized algorithm, and the paper's bound on the
objects it processes), `figure1.csv` (bin threshold), `figure3.csv` (rounds), `parties.csv` (every
protocol with two or three parties, beside centralized), `iterations.csv` (bytes of the published
protocol's iterations, alone with `--iterations`), `algorithm3.csv` (false positives of Algorithm 3
on all rows beside those of one holder, alone with `--algorithm3`), and a picture.

As in the paper: p_t = 0.9988, approximation 2. The paper names neither its radius nor k, L and w;
here k = 4, L = 50, w = 4 R, b_t by the exact binomial tail, and the radius is twice the 99 %
quantile of the distance to the (1 - p_t) n-th neighbor, of a sample. Corel, Landsat and Household
are not to be had: Gaussian clusters of the same size stand in for them. KDD 99 stands in for the
DARPA traffic, and of MiniBooNE only a part of the signal is there. Columns are divided by their
standard deviation. Where a protocol would take hours on all rows of a set it gets fewer, drawn at
random, with outliers and crowds of their own: the column `rows` says how many.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import log
from typing import Any

import numpy as np
from _raval_sets import FAR_FRACTION, Set, real, synthetic
from _tables import Report, Row
from matplotlib.figure import Figure
from tests.reference.hashing import HashedOutliers

from privod.errors import PrivodError
from privod.joint.outliers import OutlierResult
from privod.joint.published.question import PublishedOutliers
from privod.joint.run import rehearse
from privod.outliers.crowds.distance import crowds
from privod.outliers.hashing.outliers import intersect_rounds
from privod.outliers.hashing.tables import bin_records, draw_family, find_suspects

SWEPT_ROWS = 100_000  # Figures 1 and 3 prune many times over
MANY_ROWS = 2_000_000
PAPER_ROWS = 50_000  # a word for every record and hash, in one message
OWN_ROWS = 20_000  # the paper's own k and L ask for many more hashes
UNION_ROWS = 5000  # a point of a curve for every bin, at every party
FEW_TABLES = 5  # of every one of a hundred iterations; with fewer no threshold is safe


@dataclass(frozen=True)
class Run:
    """A protocol to try: how many parties, which parameters, how many rows at most."""

    label: str
    partition: str
    n_parties: int
    changed: dict[str, Any]
    most_rows: int = MANY_ROWS


PAPER = {"hashes_per_table": 4, "n_tables": 50}
UNION = {**PAPER, "n_tables": 20}
OWN = {"hashes_per_table": None, "n_tables": None}
RUNS = [
    Run("horizontal, paper", "horizontal", 3, UNION, UNION_ROWS),
    Run("horizontal, paper, two players", "horizontal", 2, UNION, UNION_ROWS),
    Run("vertical, paper", "vertical", 3, PAPER, PAPER_ROWS),
    Run("vertical, paper, two players", "vertical", 2, PAPER, PAPER_ROWS),
    Run("vertical, paper, its k and L", "vertical", 2, OWN, OWN_ROWS),
]
PRINTED = {  # Table III: time, b_t, false positives %, processed %, threshold, their crowd
    "Corel": (30.77, 45, 0.011, 0.62, 82, 147),
    "MiniBooNE": (26.55, 40, 0.006, 0.04, 157, 366),
    "Landsat": (44.11, 30, 0.014, 0.36, 331, 929),
    "DARPA": (50.00, 30, 0.031, 0.68, 550, 1103),
    "Household": (61.63, 25, 0.009, 0.14, 1200, 1326),
}


def table3(data: Set) -> Row:
    """One row of Table III, and the bound of its section III-A3."""
    question = data.question()
    n, m = len(data.points), len(data.outliers)
    started, worked = time.perf_counter(), time.process_time()
    suspects = question.one_round(data.points, 0)
    seconds, processor = time.perf_counter() - started, time.process_time() - worked
    false = np.setdiff1d(suspects.rows, data.outliers)
    near = crowds(data.points, data.radius, at=data.points[false]) if len(false) else np.zeros(1)
    theirs = PRINTED.get(data.stands_for, ("",) * 6)
    return {
        "set": data.name,
        "stands for": data.stands_for,
        "rows": n,
        "columns": data.points.shape[1],
        "outliers": m,
        "seconds": seconds,
        "processor seconds": processor,
        "b_t": question.plan(n).min_shared_tables,
        **data.outcome(suspects.rows),
        "processed": suspects.processed,
        "bound": int((n - m - len(false)) / data.limit + m + len(false)),
        "processed %": 100 * suspects.processed / n,
        "threshold": data.limit,
        "crowd of false positives": float(near.mean()),
        "paper seconds": theirs[0],
        "paper b_t": theirs[1],
        "paper FP %": theirs[2],
        "paper processed %": theirs[3],
        "paper threshold": theirs[4],
        "paper crowd": theirs[5],
    }


def figure1(data: Set) -> list[Row]:
    """Bin threshold against false positives and detection, one set of bins."""
    plan = data.question().plan(len(data.points))
    origin = data.points.mean(axis=0)
    family = draw_family(plan, data.points.shape[1], b"figure 1", origin=origin)
    bins = bin_records(family.keys(data.points))
    return [
        {
            "set": data.name,
            "b_t": threshold,
            **data.outcome(find_suspects(bins, data.limit, threshold).rows),
        }
        for threshold in range(2, 31, 4)
    ]


def figure3(data: Set, most: int) -> list[Row]:
    """Rounds against false positives."""
    rounds = [data.question().one_round(data.points, number).rows for number in range(most)]
    return [
        {"set": data.name, "rounds": count, **data.outcome(intersect_rounds(rounds[:count]))}
        for count in range(1, most + 1)
    ]


def answers_of(data: Set, run: Run) -> dict[str, OutlierResult]:
    """Everybody's end of a run."""
    asked = PublishedOutliers(
        partition=run.partition,
        radius=data.radius,
        far_fraction=FAR_FRACTION,
        columns=tuple(f"x{number}" for number in range(data.points.shape[1])),
        **run.changed,
    )
    return rehearse(asked, data.tables(run.partition, run.n_parties)).answers


def centralized(whole: Set) -> Row:
    """One holder of everything."""
    started = time.perf_counter()
    central = whole.question().one_round(whole.points, 0).rows
    seconds = time.perf_counter() - started
    head: Row = {"set": whole.name, "run": "centralized", "rows": len(whole.points)}
    return {**head, "outliers": len(whole.outliers), **whole.outcome(central), "seconds": seconds}


def parties(whole: Set, runs: list[Run]) -> list[Row]:
    """Every protocol."""
    rows: list[Row] = []
    for run in runs:
        data = whole.cut(run.most_rows)
        head: Row = {"set": whole.name, "run": run.label, "rows": len(data.points)}
        started = time.perf_counter()
        try:
            answers = answers_of(data, run)
        except PrivodError as problem:  # noise beside a small crowd is refused
            print(f"{whole.name}, {run.label}: {problem}")
            rows.append({**head, "note": "refused"})
            continue
        seconds = time.perf_counter() - started
        flagged = answers["p0"].rows
        if run.partition == "horizontal":
            flagged = np.concatenate(
                [answers[f"p{at}"].rows * run.n_parties + at for at in range(run.n_parties)]
            )
        traffic = answers["p0"].traffic
        rows.append(
            {
                **head,
                "outliers": len(data.outliers),
                **data.outcome(flagged),
                "seconds": seconds,
                "MB sent by each": traffic.sent / 1e6,
                "MB received": traffic.received / 1e6,
            }
        )
        print(rows[-1], flush=True)
    return rows


def algorithm3(whole: Set) -> list[Row]:
    """How many more false positives has Algorithm 3 than one holder of all rows?"""
    alone, joint = centralized(whole), *parties(whole, [Run("Algorithm 3", "horizontal", 2, PAPER)])
    more = joint["false positives %"] - alone["false positives %"]
    print(f"figure raval_algorithm3_more_false_positives_percent {more:.4f}", flush=True)
    return [alone, {**joint, "more than centralized": more}]


def n_bins(data: Set, run: Run) -> int:
    """How many bins of all tables are not empty: N_b L of Table I."""
    plan = data.question(n_tables=run.changed.get("n_tables", 50)).plan(len(data.points))
    origin = data.points.mean(axis=0)
    keys = draw_family(plan, data.points.shape[1], b"bins", origin=origin).keys(data.points)
    return sum(len(np.unique(line)) for line in keys)


def bytes_against_size(data: Set, sizes: list[int]) -> list[Row]:
    """Figure 2 and Table I: what one of two players of the paper, or of three parties, sends."""
    chosen = [
        Run("horizontal, paper", "horizontal", 2, UNION, 2 * UNION_ROWS),
        Run("vertical, paper", "vertical", 2, PAPER, 2 * PAPER_ROWS),
    ]
    rows = []
    for run in chosen:
        for size in sizes:
            if size > run.most_rows:
                continue
            some = data.cut(size)
            n, d = some.points.shape
            answer = answers_of(some, run)["p0"]
            order = n_bins(some, run) * log(n) if run.partition == "horizontal" else n * 50
            older = n * n * d if run.partition == "horizontal" else n * n
            rows.append(
                {
                    "protocol": run.label,
                    "parties": run.n_parties,
                    "rows": n,
                    "exchanges": answer.traffic.exchanges,
                    "MB sent": answer.traffic.sent / 1e6,
                    "MB received": answer.traffic.received / 1e6,
                    "order": round(order),
                    "bytes per unit of the order": answer.traffic.sent / order,
                    "MB of the older protocol": 8 * older / 1e6,
                }
            )
            print(rows[-1], flush=True)
    return rows


def bytes_of_rounds(data: Set, sizes: list[int], rounds: list[int]) -> list[Row]:
    """Figure 2 as the paper has it: two players, the published protocol, many iterations."""
    rows = []
    for size in sizes:
        some = data.cut(size)
        n, d = some.points.shape
        for count in rounds:
            run = Run(
                "horizontal, paper",
                "horizontal",
                2,
                {**UNION, "n_tables": FEW_TABLES, "n_rounds": count},
            )
            traffic = answers_of(some, run)["p0"].traffic
            rows.append(
                {
                    "rows": n,
                    "iterations": count,
                    "MB sent": traffic.sent / 1e6,
                    "MB received": traffic.received / 1e6,
                    "MB of the older protocol": 8 * n * n * d / 1e6,
                }
            )
            print(rows[-1], flush=True)
    return rows


def picture(first: list[Row], second: list[Row], third: list[Row]) -> Figure:
    """The three figures side by side."""
    drawn = Figure(figsize=(15, 4), layout="constrained")
    left, middle, right = drawn.subplots(1, 3)
    for name in dict.fromkeys(row["set"] for row in first):
        rows = [row for row in first if row["set"] == name]
        axis = [row["b_t"] for row in rows]
        left.plot(axis, [row["false positives %"] for row in rows], label=f"{name}: FP %")
        left.plot(axis, [100 * row["recall"] for row in rows], "--", label=f"{name}: found %")
    left.set(title="Figure 1: bin threshold", xlabel="b_t", yscale="symlog")
    for name in dict.fromkeys(row["protocol"] for row in second):
        rows = [row for row in second if row["protocol"] == name]
        middle.plot([row["rows"] for row in rows], [row["MB sent"] for row in rows], label=name)
    middle.set(title="Figure 2: MB per party", xlabel="records", xscale="log", yscale="log")
    for name in dict.fromkeys(row["set"] for row in third):
        rows = [row for row in third if row["set"] == name]
        axis = [row["rounds"] for row in rows]
        right.plot(axis, [row["false positives %"] for row in rows], label=name)
    right.set(title="Figure 3: rounds", xlabel="rounds", ylabel="false positives, %")
    for axes in (left, middle, right):
        axes.legend(fontsize=7)
    return drawn


def main() -> None:
    """Run every experiment; what a set gave is written before the next one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small set, below a minute")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    parser.add_argument("--algorithm3", action="store_true", help="Algorithm 3 on all rows alone")
    parser.add_argument("--iterations", action="store_true", help="bytes of iterations alone")
    asked = parser.parse_args()
    quick = asked.quick or asked.smoke
    report = Report("raval", quick)
    few = 1000 if asked.smoke else 2000
    cut = few // 8 if asked.smoke else few
    claimed = synthetic("Corel", few, 8).cut(cut) if quick else real("credit_fraud", "")
    if claimed is not None and not asked.iterations:
        whole = algorithm3(claimed)
        report.table("algorithm3", whole, "Algorithm 3 on all rows beside one holder")
    if asked.algorithm3:
        return
    household = partial(synthetic, "Household", d=3)
    spent = bytes_of_rounds(household(few), [few // 8], [1, 2] if quick else [1, 10, 100])
    report.table("iterations", spent, "Figure 2: bytes of two players' iterations")
    if asked.iterations:
        return
    sets: list[Callable[[], Set | None]] = [
        partial(real, "miniboone_signal", "MiniBooNE", ("emmott_difficulty",)),
        partial(synthetic, "Corel", 68_040, 32),
        partial(synthetic, "Landsat", 275_465, 60),
        partial(real, "credit_fraud", ""),
        partial(real, "kdd99_10percent", "DARPA"),
        partial(synthetic, "Household", 1_000_000, 3),
    ]
    runs, sizes = RUNS, [9000, 100_000, 1_000_000]
    if quick:
        n = few if asked.smoke else 12_000
        sets, sizes = [partial(synthetic, "Corel", n, 8)], [cut if asked.smoke else 9000]
        runs = [run for run in RUNS if run.n_parties > 2]
        if asked.smoke:
            runs = [replace(run, most_rows=cut) for run in runs]
    small = np.random.default_rng(0).normal(size=(few, 3))
    HashedOutliers(radius=1.0, far_fraction=0.99).find(small)  # compiled before anything is timed
    second = bytes_against_size(household(max(few, *sizes)), sizes)
    report.table("figure2", second, "Table I and Figure 2: exchanges and bytes of one party")
    table, first, third, joint = [], [], [], []
    for load in sets:
        data = load()
        if data is None:
            continue
        table.append(table3(data))
        report.table("table3", table, "Table III: the centralized algorithm")
        if len(data.points) <= SWEPT_ROWS:
            first += figure1(data)
            third += figure3(data, 3 if quick else 6)
            report.table("figure1", first, "Figure 1: the bin threshold")
            report.table("figure3", third, "Figure 3: rounds")
        joint += [centralized(data), *parties(data, runs)]
        report.table("parties", joint, "Every protocol beside one holder")
    report.picture("raval", picture(first, second, third))


if __name__ == "__main__":
    main()
