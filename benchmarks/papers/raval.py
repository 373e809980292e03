"""The experiments of Raval et al. (2011): Table III and Figures 1 to 3, on the sets we have.

Run `PRIVOD_DATA=folder python benchmarks/papers/raval.py` (some minutes), or with `--quick`.
Writes out/papers/raval/: `table3.csv`, `figure1.csv` (bin threshold against false positives and
detection), `figure2.csv` (bytes against size), `figure3.csv` (rounds against false positives),
`parties.csv` (horizontal and vertical beside centralized), all of it as `report.md`, and a picture.

As in the paper: p_t = 0.9988, approximation 2. The paper names neither its radius nor k, L and w;
here k = 4, L = 50, w = 4 R, b_t by the exact binomial tail, and the radius is twice the 99 %
quantile of the distance to the (1 - p_t) n-th neighbor, of a sample. Corel, Landsat and the
network_of incomes are not to be had: Gaussian clusters of the same size stand in for them. KDD 99
stands in for the DARPA traffic, and of MiniBooNE only a part of the signal is there. Columns are
divided by their standard deviation.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from privod.data import Domain, Numeric, Table
from privod.data.examples import data_frame
from privod.errors import PrivodError
from privod.joint.planning import slot_bits
from privod.joint.question import JointOutliers
from privod.joint.run import rehearse
from privod.outliers.crowds.distance import crowds
from privod.outliers.hashing.outliers import HashedOutliers, crowd_limit, intersect_rounds
from privod.outliers.hashing.tables import bin_records, draw_family, find_suspects

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

OUT = Path("out/papers/raval")
FAR_FRACTION = 0.9988
SAMPLE = 100  # records whose neighbors decide the radius
POINT_BYTES = 32
N_PARTIES = 3
OPEN = {"epsilon": None}
NARROW = {"narrow_parties": True}
PAPER_SETTINGS = {"protocol": "paper", "hashes_per_table": 4, "n_tables": 50}
RUNS: list[tuple[str, str, int, dict[str, Any]]] = [
    ("horizontal, epsilon 1", "horizontal", 3, {}),
    ("horizontal, no noise", "horizontal", 3, OPEN),
    ("horizontal, no noise, verified", "horizontal", 3, {**OPEN, "verify": True}),
    ("horizontal, epsilon 1, verified", "horizontal", 3, {"verify": True}),
    ("vertical", "vertical", 3, NARROW),
    ("vertical, verified", "vertical", 3, {**NARROW, "verify": True}),
    ("vertical, paper", "vertical", 3, PAPER_SETTINGS),
    ("vertical, paper, two players", "vertical", 2, PAPER_SETTINGS),
    ("vertical, paper, its own k and L", "vertical", 2, {"protocol": "paper"}),
    ("horizontal, paper", "horizontal", 3, {**PAPER_SETTINGS, "n_tables": 20}),
    ("horizontal, paper, two players", "horizontal", 2, {**PAPER_SETTINGS, "n_tables": 20}),
]
SLOW = ("horizontal, paper", "horizontal, paper, two players", "vertical, verified")
SLOW_ROWS = 25_000  # a curve point per bin and party, or a distance per suspect and record
PAPER = {  # Table III: time, b_t, false positives %, processed %, threshold, their crowd
    "corel": (30.77, 45, 0.011, 0.62, 82, 147),
    "miniboone": (26.55, 40, 0.006, 0.04, 157, 366),
    "landsat": (44.11, 30, 0.014, 0.36, 331, 929),
    "darpa": (50.00, 30, 0.031, 0.68, 550, 1103),
    "network_of": (61.63, 25, 0.009, 0.14, 1200, 1326),
}


@dataclass(frozen=True)
class Set:
    """A data set, the paper's set it stands for, and the radius to ask with."""

    name: str
    stands_for: str
    points: Floats
    radius: float

    @property
    def limit(self) -> int:
        return crowd_limit(FAR_FRACTION, len(self.points))

    def question(self, **changed: Any) -> HashedOutliers:
        return HashedOutliers(radius=self.radius, far_fraction=FAR_FRACTION, **changed)


def real(name: str, stands_for: str, drop: tuple[str, ...] = ()) -> Set | None:
    """A set of the data folder, its numeric columns scaled; None if it is not there."""
    try:
        frame = data_frame(name)
    except PrivodError as problem:
        print(f"left out {name}: {problem}")
        return None
    kept = frame.to_pandas().drop(columns=["label", *drop], errors="ignore")
    numeric = kept.select_dtypes("number")
    points = numeric.to_numpy(np.float64)
    spread = points.std(axis=0)
    return made(name, stands_for, points[:, spread > 0] / spread[spread > 0])


def synthetic(name: str, n: int, d: int) -> Set:
    """Twenty clusters and one stranger in two thousand."""
    generator = np.random.default_rng(0)
    centers = generator.uniform(-12, 12, size=(20, d))
    points = centers[generator.integers(0, 20, n)] + generator.normal(size=(n, d))
    strangers = n // 2000
    points[:strangers] = generator.uniform(-30, 30, size=(strangers, d))
    generator.shuffle(points)
    return made(f"clusters {n} x {d}", name, points)


def made(name: str, stands_for: str, points: Floats) -> Set:
    """Choose the radius from a sample."""
    n = len(points)
    sample = points[np.random.default_rng(1).choice(n, SAMPLE, replace=False)]
    limit = crowd_limit(FAR_FRACTION, n)
    nearest = [
        np.partition(cdist(sample[at : at + 20], points), limit, axis=1)[:, limit]
        for at in range(0, SAMPLE, 20)
    ]
    radius = 2 * float(np.quantile(np.concatenate(nearest), 0.99))
    return Set(name, stands_for, np.ascontiguousarray(points), radius)


def outcome(data: Set, flagged: Rows, outliers: Rows) -> dict[str, float]:
    """Precision and recall; then false positives, in percent of all records, and detection."""
    found = np.intersect1d(flagged, outliers)
    false = len(flagged) - len(found)
    return {
        "precision": len(found) / max(1, len(flagged)),
        "recall": len(found) / max(1, len(outliers)),
        "false_positive_percent": 100 * false / len(data.points),
        "detection_percent": 100 * len(found) / max(1, len(outliers)),
    }


def table3(data: Set, outliers: Rows) -> dict[str, Any]:
    """One row of Table III."""
    question = data.question()
    started, worked = time.perf_counter(), time.process_time()
    suspects = question.one_round(data.points, 0)
    seconds, processor = time.perf_counter() - started, time.process_time() - worked
    false = np.setdiff1d(suspects.rows, outliers)
    average = (
        float(crowds(data.points, data.radius, at=data.points[false]).mean()) if len(false) else 0.0
    )
    theirs = PAPER.get(data.stands_for, ("",) * 6)
    return {
        "set": data.name,
        "stands for": data.stands_for,
        "rows": len(data.points),
        "columns": data.points.shape[1],
        "seconds": round(seconds, 2),
        "processor seconds": round(processor, 2),
        "b_t": question.plan(len(data.points)).min_shared_tables,
        **{key: round(value, 4) for key, value in outcome(data, suspects.rows, outliers).items()},
        "processed_percent": round(100 * suspects.processed / len(data.points), 3),
        "threshold": data.limit,
        "crowd of false positives": round(average, 1),
        "outliers": len(outliers),
        "paper: seconds": theirs[0],
        "paper: b_t": theirs[1],
        "paper: FP %": theirs[2],
        "paper: processed %": theirs[3],
        "paper: threshold": theirs[4],
        "paper: their crowd": theirs[5],
    }


def figure1(data: Set, outliers: Rows) -> list[dict[str, Any]]:
    """Bin threshold against false positives and detection, one set of bins."""
    plan = data.question().plan(len(data.points))
    origin = data.points.mean(axis=0)
    family = draw_family(plan, data.points.shape[1], b"figure 1", origin=origin)
    bins = bin_records(family.keys(data.points))
    return [
        {
            "set": data.name,
            "b_t": threshold,
            **outcome(data, find_suspects(bins, data.limit, threshold).rows, outliers),
        }
        for threshold in range(2, 31, 4)
    ]


def figure3(data: Set, outliers: Rows, most: int) -> list[dict[str, Any]]:
    """Rounds against false positives."""
    rounds = [data.question().one_round(data.points, number).rows for number in range(most)]
    return [
        {
            "set": data.name,
            "rounds": count,
            **outcome(data, intersect_rounds(rounds[:count]), outliers),
        }
        for count in range(1, most + 1)
    ]


def figure2(data: Set, sizes: list[int]) -> list[dict[str, Any]]:
    """Bytes that one of three parties sends, against the number of records of all."""
    rows = []
    for size in sizes:
        points = data.points[:size]
        d = points.shape[1]
        plan = data.question().plan(size)
        family = draw_family(plan, d, b"figure 2", origin=points.mean(axis=0))
        bins = [len(np.unique(line)) for line in family.keys(points[::N_PARTIES])]
        limit = crowd_limit(FAR_FRACTION, size)
        bits = slot_bits(size, limit)
        hashes = plan.n_tables * plan.hashes_per_table
        rows.append(
            {
                "rows": size,
                "horizontal sealed": 4 * plan.n_tables << bits,
                # every batch passes every party, is merged and opened, then counts are added
                "horizontal paper": sum(bins) * (POINT_BYTES * (N_PARTIES + 2) + 8),
                "vertical sealed": 8 * size * plan.n_tables,
                "vertical paper": 8 * size * hashes,
                "n^2 d of the older horizontal protocol": 8 * size * size * d,
                "n^2 of the older vertical protocol": 8 * size * size,
            }
        )
    return rows


def parties(data: Set, outliers: Rows) -> list[dict[str, Any]]:
    """Horizontal and vertical runs of three parties, beside the centralized algorithm."""
    names = tuple(f"x{number}" for number in range(data.points.shape[1]))
    top = float(np.abs(data.points).max()) + 1
    columns = [Numeric(name, -top, top, fill=0.0) for name in names]
    started = time.perf_counter()
    central = data.question().one_round(data.points, 0).rows
    seconds = time.perf_counter() - started
    rows = [{"run": "centralized", "seconds": seconds, **outcome(data, central, outliers)}]
    for label, partition, n_parties, changed in RUNS:
        if label in SLOW and len(data.points) > SLOW_ROWS:
            continue
        held = [np.arange(len(names))] * n_parties
        parts = [data.points[number::n_parties] for number in range(n_parties)]
        if partition == "vertical":
            held = np.array_split(np.arange(len(names)), n_parties)
            parts = [data.points[:, each] for each in held]
        tables = {
            f"p{number}": Table(
                Domain(tuple(columns[at] for at in held[number])),
                {names[at]: part[:, place] for place, at in enumerate(held[number])},
            )
            for number, part in enumerate(parts)
        }
        asked = JointOutliers(
            partition=partition,
            radius=data.radius,
            far_fraction=FAR_FRACTION,
            columns=names,
            **changed,
        )
        started = time.perf_counter()
        try:
            answers = rehearse(asked, tables).answers
        except PrivodError as problem:  # noise beside a small crowd is refused
            rows.append({"run": f"{label}: {problem}"})
            continue
        seconds = time.perf_counter() - started
        flagged = answers["p0"].rows
        if partition == "horizontal":
            flagged = np.concatenate(
                [answers[f"p{at}"].rows * n_parties + at for at in range(n_parties)]
            )
        plan = answers["p0"].plan
        rows.append(
            {
                "run": label,
                "seconds": seconds,
                "bytes sent by each": answers["p0"].traffic.sent,
                "expected precision": "" if plan is None else plan.precision,
                "expected recall": "" if plan is None else plan.found,
                **outcome(data, flagged, outliers),
            }
        )
        print(data.name, rows[-1], flush=True)
    return [{"set": data.name, **row} for row in rows]


def write(name: str, rows: list[dict[str, Any]]) -> str:
    """Write a table as CSV and return it as Markdown."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    with (OUT / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, keys)
        writer.writeheader()
        writer.writerows(rows)
    lines = ["| " + " | ".join(keys) + " |", "|" + " --- |" * len(keys)]
    lines += ["| " + " | ".join(_text(row.get(key, "")) for key in keys) + " |" for row in rows]
    return "\n".join(lines)


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def picture(first: list[dict[str, Any]], second: list[Any], third: list[Any]) -> None:
    """The three figures side by side."""
    drawn = Figure(figsize=(15, 4), layout="constrained")
    left, middle, right = drawn.subplots(1, 3)
    for name in dict.fromkeys(row["set"] for row in first):
        rows = [row for row in first if row["set"] == name]
        axis = [row["b_t"] for row in rows]
        left.plot(axis, [row["false_positive_percent"] for row in rows], label=f"{name}: FP %")
        left.plot(axis, [row["detection_percent"] for row in rows], "--", label=f"{name}: found %")
    left.set(title="Figure 1: bin threshold", xlabel="b_t", yscale="symlog")
    for key in list(second[0])[1:]:
        middle.plot([row["rows"] for row in second], [row[key] for row in second], label=key)
    middle.set(title="Figure 2: bytes per party", xlabel="records", xscale="log", yscale="log")
    for name in dict.fromkeys(row["set"] for row in third):
        rows = [row for row in third if row["set"] == name]
        axis = [row["rounds"] for row in rows]
        right.plot(axis, [row["false_positive_percent"] for row in rows], label=name)
    right.set(title="Figure 3: rounds", xlabel="rounds", ylabel="false positives, %")
    for axes in (left, middle, right):
        axes.legend(fontsize=7)
    drawn.savefig(OUT / "raval.png", dpi=120)


def main() -> None:
    """Run every experiment and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two small sets, some minutes")
    quick = parser.parse_args().quick
    OUT.mkdir(parents=True, exist_ok=True)
    miniboone = partial(real, "miniboone_signal", "miniboone", ("emmott_difficulty",))
    sets: list[Callable[[], Set | None]] = [
        partial(synthetic, "corel", 68_040, 32),
        miniboone,
        partial(real, "credit_fraud", ""),
        partial(synthetic, "landsat", 275_465, 60),
        partial(real, "kdd99_10percent", "darpa"),
        partial(synthetic, "network_of", 1_000_000, 3),
    ]
    if quick:
        sets = [partial(synthetic, "corel", 20_000, 32), miniboone]
    small = np.random.default_rng(0).normal(size=(2000, 3))
    HashedOutliers(radius=1.0, far_fraction=0.99).find(small)  # compiled before anything is timed
    table, first, third, joint = [], [], [], []
    chosen: list[Set] = []
    for load in sets:
        data = load()
        if data is None:
            continue
        chosen.append(data)
        exact = crowds(data.points, data.radius, cap=data.limit + 1)
        outliers = np.flatnonzero(exact <= data.limit)
        table.append(table3(data, outliers))
        print(table[-1], flush=True)
        if len(data.points) <= 100_000:  # the sweeps prune many times over
            third += figure3(data, outliers, 3 if quick else 6)
            first += figure1(data, outliers)
        joint += parties(data, outliers)
    largest = max(chosen, key=lambda data: len(data.points))
    sizes = [size for size in (2000, 10_000, 100_000, 1_000_000) if size <= len(largest.points)]
    second = figure2(largest, sizes)
    report = [
        "# Raval et al. 2011, Table III and Figures 1 to 3",
        write("table3", table),
        "\n## Figure 1: the bin threshold\n" + write("figure1", first),
        f"\n## Figure 2: bytes sent by one of {N_PARTIES} parties, one round\n"
        + write("figure2", second),
        "\n## Figure 3: rounds\n" + write("figure3", third),
        f"\n## {N_PARTIES} parties beside one\n" + write("parties", joint),
    ]
    (OUT / "report.md").write_text("\n".join(report) + "\n")
    picture(first, second, third)
    print(f"wrote {OUT / 'report.md'}")


if __name__ == "__main__":
    main()
