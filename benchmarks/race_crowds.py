"""How fast are crowds counted, beside the libraries people use?

For every shape of data, size and dimension: the crowd of every point at the radius where the
median crowd is 0.5 % of the points. Ours counts all points, except where that takes 10^13 products;
there, and where a peer would take long, a random sample of the query points is counted and the time
is scaled up (the sample is printed). Building the index is included on both sides. Ratios come from
one run at equal thread counts.

Last, how long one label of `anomaly-labels` takes once the index of its table is made.

The floor of a cap is what would remain for someone who knew the small crowds beforehand: build the
index and count only those, which no cap shortens.

    python benchmarks/race_crowds.py            # up to 10^6 points, about an hour
    python benchmarks/race_crowds.py --quick    # a minute
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import faiss
import napf
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from sklearn.neighbors import BallTree, KDTree
from threadpoolctl import threadpool_limits

from privod.data import Domain, Numeric, Table
from privod.mechanisms import secure
from privod.outliers.crowds.distance import CrowdIndex
from privod.questions.anomaly_labels.query import AnomalyLabels

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
CAP = 100
MEDIAN_SHARE = 0.005
MOST_PRODUCTS = 10**13  # coordinates of pairs past which ours is timed on a sample, too
SAMPLE = 10_000
CHECKED = 2_000  # counts of a peer that are compared with ours


@dataclass(frozen=True)
class Peer:
    """A library: build an index, then count the crowds of some points."""

    name: str
    build: Callable[[Floats], Any]
    count: Callable[[Any, Floats, float, int], Counts]


def _split(work: Callable[[Floats], Counts], asked: Floats, threads: int) -> Counts:
    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate(list(pool.map(work, np.array_split(asked, threads))))


def _napf_count(tree: Any, asked: Floats, radius: float, threads: int) -> Counts:
    found = tree.radius_search(asked, radius * radius, False, threads)[0]
    return np.fromiter((len(one) for one in found), np.int64, len(asked))


def _faiss_index(points: Floats) -> Any:
    index = faiss.IndexFlatL2(points.shape[1])
    index.add(points.astype(np.float32))
    return index


def _faiss_count(index: Any, asked: Floats, radius: float, threads: int) -> Counts:
    faiss.omp_set_num_threads(threads)
    limits = index.range_search(asked.astype(np.float32), radius * radius)[0]
    return np.asarray(np.diff(limits.astype(np.int64)), np.int64)


def _products(points: Floats) -> tuple[Floats, Floats]:
    return points, np.asarray((points * points).sum(1))


def _product_count(
    index: tuple[Floats, Floats], asked: Floats, radius: float, threads: int
) -> Counts:
    """A plain loop of matrix products: |q|^2 + |x|^2 - 2 <q, x>, in float32 for speed."""
    points, norms = index[0].astype(np.float32), index[1].astype(np.float32)
    small = asked.astype(np.float32)
    counts = []
    with threadpool_limits(threads):
        for start in range(0, len(small), 500):
            block = small[start : start + 500]
            square = norms[None] - 2 * (block @ points.T) + (block * block).sum(1)[:, None]
            counts.append((square <= radius * radius).sum(1))
    return np.concatenate(counts)


PEERS = (
    Peer(
        "scipy cKDTree",
        cKDTree,
        lambda tree, asked, radius, threads: np.asarray(
            tree.query_ball_point(asked, radius, return_length=True, workers=threads), np.int64
        ),
    ),
    Peer(
        "scikit-learn KDTree",
        KDTree,
        lambda tree, asked, radius, threads: _split(
            lambda part: tree.query_radius(part, radius, count_only=True), asked, threads
        ),
    ),
    Peer(
        "scikit-learn BallTree",
        BallTree,
        lambda tree, asked, radius, threads: _split(
            lambda part: tree.query_radius(part, radius, count_only=True), asked, threads
        ),
    ),
    Peer("napf (nanoflann)", lambda points: napf.KDT(points, metric=2), _napf_count),
    Peer("faiss flat", _faiss_index, _faiss_count),
    Peer("loop of products", _products, _product_count),
)


def make(kind: str, n: int, d: int) -> Floats:
    """Uniform, clustered or heavy-tailed points."""
    rng = np.random.default_rng(n + d)
    if kind == "uniform":
        return rng.random((n, d))
    if kind == "heavy":
        return rng.standard_t(2, (n, d))
    centers = rng.normal(size=(20, d)) * 4
    return np.asarray(centers[rng.integers(20, size=n)] + rng.normal(size=(n, d)))


def radius_of(points: Floats) -> float:
    """The radius at which the median crowd is about 0.5 % of the points."""
    rng = np.random.default_rng(0)
    asked = points[rng.choice(len(points), 300)]
    others = points[rng.choice(len(points), min(len(points), 20_000), replace=False)]
    gaps = np.stack([np.sqrt(((others - one) ** 2).sum(1)) for one in asked])
    return float(np.median(np.quantile(gaps, MEDIAN_SHARE, axis=1)))


def random_rows(points: Floats, count: int) -> Floats:
    """Some of the points, in random order."""
    chosen = np.random.default_rng(1).choice(len(points), count, replace=False)
    return np.ascontiguousarray(points[chosen])


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


FIGURES: dict[str, float] = {}


def race(kind: str, n: int, d: int, threads: int, patience: float) -> None:
    """One line of ratios for each way of counting."""
    points = make(kind, n, d)
    radius = radius_of(points)
    built, index = timed(lambda: CrowdIndex(points, threads=threads))
    asked = None if n * n * d < MOST_PRODUCTS else random_rows(points, SAMPLE)
    times = n / SAMPLE if asked is not None else 1.0
    counting, crowds = timed(lambda: index.crowds(radius, at=asked))
    stopping, short = timed(lambda: index.crowds(radius, at=asked, cap=CAP))
    if not np.array_equal(short, np.minimum(crowds, CAP)):
        raise SystemExit("capped counts differ from counts")
    small = (points if asked is None else asked)[crowds < CAP]
    alone, _ = timed(lambda: index.crowds(radius, at=small, cap=CAP))
    ours, capped, floor = (built + times * part for part in (counting, stopping, alone))
    print(
        f"{kind} {n} x {d}, {threads} thread(s): radius {radius:.4g}, median crowd"
        f" {np.median(crowds):.0f}, {np.mean(crowds < CAP):.1%} of crowds below {CAP}"
    )
    print(
        f"  ours {ours:9.3f} s   with a cap of {CAP} {capped:9.3f} s   its floor {floor:9.3f} s"
        f"   index alone {built:.3f} s{'' if asked is None else f'   (scaled from {SAMPLE})'}"
    )
    best_library, best_any = np.inf, np.inf
    for peer in PEERS:
        seconds, sample, wrong = _time_peer(peer, points, radius, threads, patience, index)
        note = "all points" if sample == n else f"scaled from {sample} of {n} query points"
        print(
            f"  {peer.name:22s} {seconds:9.3f} s   {seconds / ours:7.1f} x ours   ({note})"
            f"{f'   {wrong} counts differ (float32)' if wrong else ''}"
        )
        best_any = min(best_any, seconds)
        if peer.name != "loop of products":
            best_library = min(best_library, seconds)
    case = f"{kind}_{n}x{d}_{threads}_threads"
    FIGURES[f"crowds_{case}_vs_best_library"] = best_library / ours
    FIGURES[f"crowds_{case}_vs_best_of_all"] = best_any / ours
    FIGURES[f"crowds_{case}_capped_vs_best_library"] = best_library / capped
    FIGURES[f"crowds_{case}_capped_floor_vs_best_library"] = best_library / floor


def _time_peer(
    peer: Peer, points: Floats, radius: float, threads: int, patience: float, ours: CrowdIndex
) -> tuple[float, int, int]:
    built, index = timed(lambda: peer.build(points))
    n = len(points)
    sample = min(n, 200)
    while True:
        asked = random_rows(points, sample)
        seconds, found = timed(lambda a=asked: peer.count(index, a, radius, threads))  # type: ignore[misc]
        whole = seconds * n / sample
        if sample == n or seconds * 4 > patience:
            checked = ours.crowds(radius, at=asked[:CHECKED])
            return built + whole, sample, int((found[:CHECKED] != checked).sum())
        sample = min(n, max(2 * sample, int(sample * 0.8 * patience / max(seconds, 1e-6))))


def time_one_label(n: int, d: int) -> None:
    """How long a label takes that finds the index of its table made, beside the first one."""
    columns = {f"c{place}": values for place, values in enumerate(make("heavy", n, d).T)}
    table = Table(Domain(tuple(Numeric(name, -100, 100) for name in columns)), columns)
    asked = AnomalyLabels(
        records=((0.1,) * d,),
        columns=tuple(columns),
        near="distance(radius=1)",
        max_crowd=50,
        epsilon=1,
    )
    first, _ = timed(lambda: asked.answer(table, secure()))
    later = min(timed(lambda: asked.answer(table, secure()))[0] for _ in range(10))
    print(f"one label among {n} x {d}: first {first:.3f} s, later {1000 * later:.3f} ms")
    FIGURES[f"one_label_{n}x{d}_ms"] = 1000 * later
    FIGURES[f"one_label_{n}x{d}_first_vs_later"] = first / later


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small size, a minute")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--sizes", type=int, nargs="*", default=[10**4, 10**5, 10**6])
    parser.add_argument("--dimensions", type=int, nargs="*", default=[2, 3, 6, 32])
    parser.add_argument("--kinds", nargs="*", default=["uniform", "clustered", "heavy"])
    parser.add_argument("--patience", type=float, default=2.0, help="seconds a peer may take")
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.patience = [10**4], 0.5
    if options.smoke:
        options.sizes, options.dimensions, options.patience = [1000], [2, 6], 0.1
    warm = np.random.default_rng(0).random((2000, 2))
    CrowdIndex(warm).crowds(0.1)
    CrowdIndex(warm).crowds(0.1, cap=3)
    for n in options.sizes:
        for d in options.dimensions:
            for kind in options.kinds:
                for threads in options.threads:
                    race(kind, n, d, threads, options.patience)
    time_one_label(1000 if options.smoke else 100_000, 6)
    print()
    for name, value in FIGURES.items():
        print(f"figure {name} {value:.4g}")


if __name__ == "__main__":
    main()
