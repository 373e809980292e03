"""How fast is outlier detection by hashing, beside exact counting and scikit-learn?

One round of hashing (50 tables of 4 hashes) on data of the shape of the paper's two largest sets:
10^6 x 3 and 275,000 x 60, clusters with a few strangers. The floor is the bare matrix product of
the projections, without codes, keys or bins. Exact: our crowd count, stopped at the threshold, of
every record. scikit-learn: a KD tree or ball tree asked for a sample of the records, scaled up.
Then the same over three parties in one process, everything but the network included. All of it is
timed in one run, the best of a few repeats.

    python benchmarks/race_lsh.py            # some minutes
    python benchmarks/race_lsh.py --quick    # 50,000 records
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import BallTree, KDTree

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.reference.hashing import HashedOutliers

from privod.data import Domain, Numeric, Table
from privod.joint.published.question import PublishedOutliers
from privod.joint.run import rehearse
from privod.outliers.crowds.distance import crowds
from privod.outliers.hashing.outliers import crowd_limit
from privod.outliers.hashing.tables import _threads, bin_records, draw_family, find_suspects

Floats = NDArray[np.float64]
FAR_FRACTION = 0.9988  # the paper's p_t
PEER_SAMPLE = 200


def clusters(n: int, d: int, seed: int = 0) -> tuple[Floats, float]:
    """Twenty clusters of unit spread and one stranger in two thousand; the radius to ask with."""
    generator = np.random.default_rng(seed)
    centers = generator.uniform(-40, 40, size=(20, d))
    points = centers[generator.integers(0, 20, n)] + generator.normal(size=(n, d))
    strangers = n // 2000
    points[:strangers] = generator.uniform(-100, 100, size=(strangers, d))
    generator.shuffle(points)
    return points, 6.0 if d == 3 else 4.5 * np.sqrt(d)


def best(action: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The shortest of several times, and the result."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        result = action()
        times.append(time.perf_counter() - started)
    return min(times), result


def race(name: str, n: int, d: int, repeats: int) -> None:
    """Time every stage and every peer on one set."""
    points, radius = clusters(n, d)
    question = HashedOutliers(radius=radius, far_fraction=FAR_FRACTION)
    plan = question.plan(n)
    limit = crowd_limit(FAR_FRACTION, n)
    family = draw_family(plan, d, b"race", origin=points.mean(axis=0))
    single = points.astype(np.float32)
    block = max(64, (1 << 18) // len(family.directions))

    def bare_product() -> None:
        with _threads() as pool:
            starts = range(0, n, block)
            list(pool.map(lambda at: family.directions @ single[at : at + block].T, starts))

    product, _ = best(bare_product, repeats)
    hashing, keys = best(lambda: family.keys(points), repeats)
    binning, bins = best(lambda: bin_records(keys), repeats)
    pruning, suspects = best(lambda: find_suspects(bins, limit, plan.min_shared_tables), repeats)
    whole = hashing + binning + pruning
    worked = time.process_time()
    find_suspects(bin_records(family.keys(points)), limit, plan.min_shared_tables)
    worked = time.process_time() - worked
    exact, counts = best(lambda: crowds(points, radius, cap=limit + 1), 1)
    outliers = np.flatnonzero(counts <= limit)
    tree = KDTree if d <= 8 else BallTree
    sample = points[np.random.default_rng(1).choice(n, PEER_SAMPLE, replace=False)]
    build, index = best(lambda: tree(points), 1)
    ask, _ = best(lambda: index.query_radius(sample, radius, count_only=True), 1)
    peer = build + ask * n / PEER_SAMPLE
    found = np.intersect1d(suspects.rows, outliers)
    false = len(suspects.rows) - len(found)
    figure(f"{name}_bare_product_s", product)
    figure(f"{name}_hashing_s", hashing)
    figure(f"{name}_hashing_over_product", hashing / product)
    figure(f"{name}_binning_s", binning)
    figure(f"{name}_pruning_s", pruning)
    figure(f"{name}_round_s", whole)
    figure(f"{name}_round_processor_s", worked)
    figure(f"{name}_exact_s", exact)
    figure(f"{name}_sklearn_s", peer)
    figure(f"{name}_exact_over_round", exact / whole)
    figure(f"{name}_sklearn_over_round", peer / whole)
    figure(f"{name}_detected_percent", 100 * len(found) / max(1, len(outliers)))
    figure(f"{name}_false_positive_percent", 100 * false / n)
    figure(f"{name}_processed_percent", 100 * suspects.processed / n)


def race_parties(n: int, d: int, repeats: int) -> None:
    """Three parties in one process, beside one holder of all rows."""
    points, radius = clusters(n, d)
    columns = tuple(f"x{number}" for number in range(d))
    tables = {
        f"p{number}": Table(
            Domain(tuple(Numeric(name, -110, 110, fill=0.0) for name in columns[number::3])),
            dict(zip(columns[number::3], points[:, number::3].T, strict=True)),
        )
        for number in range(3)
    }
    alone = HashedOutliers(radius=radius, far_fraction=FAR_FRACTION)
    central, _ = best(lambda: alone.find(points), repeats)
    asked = PublishedOutliers(
        partition="vertical", radius=radius, far_fraction=FAR_FRACTION, columns=columns
    )
    joint, run = best(lambda: rehearse(asked, tables), repeats)
    worked = [time.process_time()]
    alone.find(points)
    worked.append(time.process_time())
    rehearse(asked, tables)
    worked.append(time.process_time())
    ratio = (worked[2] - worked[1]) / (worked[1] - worked[0])
    figure("three_parties_central_s", central)
    figure("three_parties_joint_s", joint)
    figure("three_parties_over_central", joint / central)
    figure("three_parties_processor_over_central", ratio)
    figure("three_parties_sent_bytes_each", float(run.answers["p0"].traffic.sent))
    figure("three_parties_n2_d_bytes", 8.0 * n * n * d)


def figure(name: str, value: float) -> None:
    """Print one figure."""
    print(f"figure {name} {value:.4g}", flush=True)


def main() -> None:
    """Run the race."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="50,000 records")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    small, _ = clusters(2000, 3)
    HashedOutliers(radius=6.0, far_fraction=0.99, verify=True).find(small)  # compile
    if options.smoke:
        race("smoke_3", 2000, 3, 1)
        race_parties(2000, 8, 1)
        return
    if options.quick:
        race("quick_3", 50_000, 3, 2)
        race("quick_60", 50_000, 60, 2)
        race_parties(50_000, 8, 1)
        return
    race("million_3", 10**6, 3, options.repeats)
    race("landsat_60", 275_000, 60, options.repeats)
    race_parties(300_000, 8, options.repeats)


if __name__ == "__main__":
    main()
