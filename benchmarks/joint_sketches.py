"""Merged noisy grids beside a joint run: what does the simplest way find, by parties and epsilon?

The simplest way needs no aggregator to trust: every holder releases a noisy grid of its own
(`grid-knn-1`), the grids are added up, and everybody scores its own records against the sum. A
joint run (`joint-outliers-1`, with noise) adds up exact counts under masks and one noise for all.
Both protect a record with the same epsilon; the grid under AddRemove, the run under Replace with
delta 1e-6.

    PRIVOD_DATA=folder python benchmarks/joint_sketches.py    # a cloud, and Mammography if there
    python benchmarks/joint_sketches.py --quick               # a smaller cloud, below a minute

Of both the share of exact outliers among the flagged (precision) and the share of them that is
flagged (recall); the grid flags as many records as the joint run suspects, or as there are outliers
where the joint run is refused.
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain, Numeric, Table
from privod.data.examples import data_frame
from privod.errors import InvalidParameter, PrivodError
from privod.joint.question import JointOutliers
from privod.joint.run import rehearse
from privod.mechanisms.randomness import secure
from privod.outliers.crowds.distance import crowds
from privod.outliers.hashing.outliers import crowd_limit
from privod.queries.grid_knn.query import GridKnn
from privod.queries.grid_knn.release import NoisyGrid

Floats = NDArray[np.float64]
COLUMNS = ("x", "y", "z")
FAR_FRACTION = 0.99


def cloud(n: int) -> Floats:
    """Three clusters, and one stranger in two hundred."""
    generator = np.random.default_rng(0)
    centers = np.array([[0.0, 0, 0], [8, 8, 0], [-8, 4, 6]])
    points = centers[generator.integers(0, 3, n)] + generator.normal(size=(n, 3))
    points[: n // 200] = generator.uniform(-20, 20, (n // 200, 3))
    generator.shuffle(points)
    return points


def mammography() -> Floats:
    """Its first three columns, in deviations."""
    frame = data_frame("mammography").to_pandas().drop(columns="label", errors="ignore")
    points = frame.select_dtypes("number").to_numpy(np.float64)[:, :3]
    scaled: Floats = points / points.std(axis=0)
    return scaled


def tables(points: Floats, n_parties: int) -> dict[str, Table]:
    """Deal the rows to parties."""
    top = float(np.ceil(np.abs(points).max()))
    domain = Domain(tuple(Numeric(name, -top, top, fill=0.0) for name in COLUMNS))
    return {
        f"p{at:02}": Table(domain, dict(zip(COLUMNS, points[at::n_parties].T, strict=True)))
        for at in range(n_parties)
    }


def merged(held: dict[str, Table], epsilon: float, n: int) -> NoisyGrid:
    """Everybody's grid, added up."""
    query = GridKnn(columns=COLUMNS, epsilon=epsilon, expected_records=n, drop_below=None)
    first, *others = [query.answer(table, secure()).value for table in held.values()]
    return first.merge(*others)


def judged(flagged: NDArray[np.int64], outliers: NDArray[np.int64]) -> tuple[float, float]:
    """Precision and recall."""
    right = len(np.intersect1d(flagged, outliers))
    return right / max(1, len(flagged)), right / max(1, len(outliers))


def compare(name: str, points: Floats, n_parties: int, epsilon: float) -> None:
    """One line of figures for each way."""
    n = len(points)
    limit = crowd_limit(FAR_FRACTION, n)
    sample = points[np.random.default_rng(1).choice(n, 200, replace=False)]
    near = [np.partition(np.linalg.norm(points - one, axis=1), limit)[limit] for one in sample]
    radius = 1.5 * float(np.quantile(near, 0.98))
    outliers = np.flatnonzero(crowds(points, radius, cap=limit + 1) <= limit)
    held = tables(points, n_parties)
    label = f"{name}_{n_parties}parties_epsilon{epsilon:g}"
    asked = JointOutliers(
        partition="horizontal",
        radius=radius,
        far_fraction=FAR_FRACTION,
        columns=COLUMNS,
        epsilon=str(epsilon),
        delta="1e-6",
    )
    n_flagged = len(outliers)
    try:
        answers = rehearse(asked, held).answers
    except InvalidParameter as problem:  # noise beside a small crowd
        print(f"{label}: the joint run is refused: {problem}")
    else:
        flagged = np.concatenate(
            [answer.rows * n_parties + int(party[1:]) for party, answer in answers.items()]
        )
        n_flagged = len(flagged)
        precision, recall = judged(flagged, outliers)
        print(f"figure sketches_{label}_joint_precision {precision:.3g}")
        print(f"figure sketches_{label}_joint_recall {recall:.3g}")
    scores = merged(held, epsilon, n).scores(points, limit).graded
    flagged = np.argsort(-scores, kind="stable")[:n_flagged]
    precision, recall = judged(flagged, outliers)
    print(f"figure sketches_{label}_merged_precision {precision:.3g}")
    print(f"figure sketches_{label}_merged_recall {recall:.3g}", flush=True)


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smaller cloud, below a minute")
    quick = parser.parse_args().quick
    sets = {"cloud": cloud(6000 if quick else 30_000)}
    if not quick:
        try:
            sets["mammography"] = mammography()
        except PrivodError as problem:
            print(f"left out mammography: {problem}")
    parties, epsilons = ((3,), (1.0,)) if quick else ((3, 10, 30), (0.5, 1.0, 4.0))
    for (name, points), n_parties, epsilon in product(sets.items(), parties, epsilons):
        compare(name, points, n_parties, epsilon)


if __name__ == "__main__":
    main()
