"""Merged releases beside a joint run: what does the simplest way find, by parties and epsilon?

The simplest way needs no aggregator to trust: every holder releases a noisy grid, marginals or a
density sketch of its own, these are added up, and everybody scores its own records against the
sum. A sketch may also get its noise in shares (`joint-counts-1`): one secure sum, and the noise of
one release. A joint run (`joint-outliers-1`) adds up exact counts of fresh hashes under masks, with
one noise for all. All protect a record with the same epsilon: releases under AddRemove, the joint
run under Replace; it and noise in shares with delta 1e-6.

    PRIVOD_DATA=folder nice python benchmarks/papers/sketches.py    # a quarter of an hour
    python benchmarks/papers/sketches.py --quick                    # a smaller cloud, once

Writes out/papers/sketches/accuracy.csv: the share of exact outliers among the flagged (precision)
and the share of them that is flagged (recall), means of some repeats with the smallest and largest.
Every way flags as many records as the joint run suspects, or as there are outliers where that run
is refused.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from _tables import Report, Row
from numpy.typing import NDArray

from privod.data import Domain, Numeric, Table
from privod.data.examples import data_frame
from privod.errors import InvalidParameter, PrivodError
from privod.joint.counts import JointCounts, noisy_share
from privod.joint.question import JointOutliers
from privod.joint.run import rehearse
from privod.mechanisms.merged import MergedNoise
from privod.mechanisms.randomness import secure
from privod.outliers.crowds.distance import crowds
from privod.outliers.hashing.outliers import crowd_limit
from privod.questions.density_sketch.query import DensitySketch
from privod.questions.grid_knn.query import GridKnn
from privod.questions.marginals.query import MarginalHistograms

Floats = NDArray[np.float64]
Held = dict[str, Table]
FAR_FRACTION = 0.99
GRID_COLUMNS = 3  # a grid's cells multiply with every column
BINS = 20
REPEATS = 3
ROWS = 30_000


@dataclass(frozen=True, eq=False)
class Set:
    """Records, and which of them are outliers within which radius."""

    name: str
    points: Floats
    radius: float
    outliers: NDArray[np.int64]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"x{number}" for number in range(self.points.shape[1]))


def made(name: str, points: Floats) -> Set:
    """Choose the radius from a sample, and find the outliers by exact counts."""
    limit = crowd_limit(FAR_FRACTION, len(points))
    sample = points[np.random.default_rng(1).choice(len(points), 200, replace=False)]
    near = [np.partition(np.linalg.norm(points - one, axis=1), limit)[limit] for one in sample]
    radius = 1.5 * float(np.quantile(near, 0.98))
    outliers = np.flatnonzero(crowds(points, radius, cap=limit + 1) <= limit)
    return Set(f"{name} x {points.shape[1]}", points, radius, outliers)


def cloud(n: int) -> Floats:
    """Three clusters, and one stranger in two hundred."""
    generator = np.random.default_rng(0)
    centers = np.array([[0.0, 0, 0], [8, 8, 0], [-8, 4, 6]])
    points = centers[generator.integers(0, 3, n)] + generator.normal(size=(n, 3))
    points[: n // 200] = generator.uniform(-20, 20, (n // 200, 3))
    generator.shuffle(points)
    return points


def real(name: str) -> Floats:
    """Some rows of a set of the data folder, in deviations."""
    frame = data_frame(name).to_pandas().drop(columns="label", errors="ignore")
    points = frame.select_dtypes("number").to_numpy(np.float64)
    chosen = np.random.default_rng(0).permutation(len(points))[:ROWS]
    scaled: Floats = np.ascontiguousarray((points / points.std(axis=0))[np.sort(chosen)])
    return scaled


def dealt(data: Set, n_parties: int) -> Held:
    """Deal the rows to parties."""
    top = float(np.ceil(np.abs(data.points).max()))
    domain = Domain(tuple(Numeric(name, -top, top, fill=0.0) for name in data.columns))
    parts = [data.points[at::n_parties] for at in range(n_parties)]
    return {
        f"p{at:02}": Table(domain, dict(zip(data.columns, part.T, strict=True)))
        for at, part in enumerate(parts)
    }


def merged(query: Any, held: Held) -> Any:
    """Everybody's release, added up."""
    first, *others = [query.answer(table, secure()).value for table in held.values()]
    return first.merge(*others)


def in_shares(query: DensitySketch, held: Held) -> Any:
    """One sketch of all records, with everybody's share of the noise; masks would cancel."""
    asked = JointCounts(of=query)
    domain = next(iter(held.values())).domain
    shape = asked.shape(domain)
    noise = asked.noise(int(np.prod(shape)), len(held))
    shares = [
        noisy_share(query.counts_before_noise(table), noise, secure()) for table in held.values()
    ]
    counts = np.stack(shares).sum(axis=0, dtype=np.uint64).astype(np.int64).reshape(shape)
    drawn = MergedNoise.of_shares(noise, len(held))
    return query.value_of(domain, counts, drawn, asked.table_guarantee(), seeded=False)


def scores(data: Set, held: Held, epsilon: float) -> dict[str, Callable[[], Floats]]:
    """How outlying every record is, in every way that a merged release tells."""
    sketch = DensitySketch(columns=data.columns, epsilon=epsilon)
    marginals = MarginalHistograms(columns=data.columns, epsilon=epsilon, bins=BINS)
    ways: dict[str, Callable[[], Floats]] = {
        "merged marginals": lambda: merged(marginals, held).scores(data.points),
        "merged sketches": lambda: merged(sketch, held).scores(data.points),
        "sketch, noise in shares": lambda: in_shares(sketch, held).scores(data.points),
    }
    if len(data.columns) <= GRID_COLUMNS:
        n = len(data.points)
        grid = GridKnn(columns=data.columns, epsilon=epsilon, expected_records=n, drop_below=None)
        limit = crowd_limit(FAR_FRACTION, n)
        ways["merged grids"] = lambda: merged(grid, held).walk(data.points, limit).graded
    return ways


def suspects(data: Set, held: Held, epsilon: float) -> NDArray[np.int64] | None:
    """What a joint run flags; None where it is refused."""
    asked = JointOutliers(
        partition="horizontal",
        radius=data.radius,
        far_fraction=FAR_FRACTION,
        columns=data.columns,
        epsilon=str(epsilon),
        delta="1e-6",
    )
    try:
        answers = rehearse(asked, held).answers
    except InvalidParameter as problem:  # noise beside a small crowd
        print(f"{data.name}: the joint run is refused: {problem}")
        return None
    return np.concatenate(
        [answer.rows * len(held) + int(party[1:]) for party, answer in answers.items()]
    )


def compare(data: Set, n_parties: int, epsilon: float, repeats: int) -> list[Row]:
    """Precision and recall of every way."""
    held = dealt(data, n_parties)
    found: dict[str, list[tuple[float, float]]] = {}

    def judge(way: str, flagged: NDArray[np.int64]) -> None:
        right = len(np.intersect1d(flagged, data.outliers))
        pair = right / max(1, len(flagged)), right / max(1, len(data.outliers))
        found.setdefault(way, []).append(pair)

    for _ in range(repeats):
        flagged = suspects(data, held, epsilon)
        if flagged is not None:
            judge("joint run", flagged)
        n_flagged = len(data.outliers) if flagged is None else len(flagged)
        for way, score in scores(data, held, epsilon).items():
            judge(way, np.argsort(-score(), kind="stable")[:n_flagged])
    rows = []
    for way, pairs in found.items():
        precision, recall = np.array(pairs).T
        rows.append(
            {
                "set": data.name,
                "parties": n_parties,
                "epsilon": f"{epsilon:g}",
                "way": way,
                "precision": float(precision.mean()),
                "recall": float(recall.mean()),
                "lowest recall": float(recall.min()),
                "highest recall": float(recall.max()),
                "shown": f"{precision.mean():.2f} / {recall.mean():.2f}",
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Compare and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smaller cloud, once")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    given = parser.parse_args()
    quick = given.quick or given.smoke
    report = Report("sketches", quick)
    sets = [made("cloud", cloud(600 if given.smoke else 6000 if quick else ROWS))]
    for name in () if quick else ("mammography", "credit_fraud"):
        try:
            points = real(name)
        except PrivodError as problem:
            print(f"left out {name}: {problem}")
            continue
        if name == "mammography":
            sets.append(made(name, np.ascontiguousarray(points[:, :GRID_COLUMNS])))
        sets.append(made(name, points))
    parties, epsilons = ((3,), (1.0,)) if quick else ((3, 10, 30), (0.5, 1.0, 4.0))
    rows: list[Row] = []
    for data, n_parties, epsilon in product(sets, parties, epsilons):
        rows += compare(data, n_parties, epsilon, 1 if quick else REPEATS)
    report.table("accuracy", rows, "Merged releases beside a joint run")


if __name__ == "__main__":
    main()
