"""Does privacy cost speed? Fit and score times beside the libraries people use, in one run.

    python benchmarks/race_scoring.py            # up to 10^6 records, some minutes
    python benchmarks/race_scoring.py --quick    # under a minute

A row is: fit on 80 % of the records, score the other 20 %. Everyone gets one core, in the same run,
and what is measured is processor time, so that other work on the machine counts little: best of
some repeats. A peer that would take long scores a sample and its time is scaled up, as printed.
Ours draws exact noise from the operating system; ranges are declared. The detector also finds a
threshold, but only when asked for one; "privod grid alone" is the released grid and its scores,
without scikit-learn around it, and "all cells" is the grid that drops none, where it can be held.
"All peers" include HBOS, which adds up histograms; "neighbor peers" look at records together, as
the grid does. PyOD's k-NN also scores its training records while fitting, which is its way.
scikit-learn-intelex takes part where it can be imported; there is none for ARM.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pykdtree.kdtree import KDTree
from pyod.models.hbos import HBOS
from pyod.models.iforest import IForest
from pyod.models.knn import KNN
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from privod.data import Domain, Numeric, Table
from privod.estimators import PrivateDetector, QuestionDetector
from privod.mechanisms import DiscreteLaplace, secure
from privod.outliers.grid.grid import Grid
from privod.questions.grid_knn.query import MOST_HELD_CELLS, GridKnn
from privod.questions.grid_knn.release import NoisyGrid

Floats = NDArray[np.float64]

N_NEIGHBORS = 5
REACH = 12.0  # declared ranges, -REACH to REACH
PATIENCE = 30.0  # seconds that a peer may take before it scores a sample
WIDE = 9  # columns from which on nobody's tree prunes
MOST_FOR_PYOD = 6  # columns past which PyOD's k-NN is raced on few records only


def mixture(n: int, n_columns: int, seed: int) -> Floats:
    """Five Gaussians with a falling spectrum and 2.3 % uniform outliers."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(99).normal(0, 3, (5, n_columns))
    points = centers[rng.integers(0, 5, n)]
    points += rng.normal(size=(n, n_columns)) / np.sqrt(np.arange(1, n_columns + 1))
    outliers = rng.random(n) < 0.023
    points[outliers] = rng.uniform(-10, 10, (int(outliers.sum()), n_columns))
    return points


@dataclass(frozen=True)
class Racer:
    """A library: fit on records, then score others."""

    name: str
    fit: Callable[[Floats], Any]
    score: Callable[[Any, Floats], Any]
    most_records: int = 10**7
    scores_a_sample: bool = False


def _nearest(model: Any, points: Floats) -> Any:
    return model.kneighbors(points)[0][:, -1]


def _intelex() -> list[Racer]:
    if importlib.util.find_spec("sklearnex") is None:
        print("scikit-learn-intelex cannot be imported here and does not take part.")
        return []
    from sklearnex.neighbors import NearestNeighbors as Patched  # type: ignore[import-not-found]

    return [Racer("sklearnex", lambda x: Patched(n_neighbors=N_NEIGHBORS).fit(x), _nearest)]


def _all_cells(n_columns: int, n: int) -> list[Racer]:
    """The detector that drops no cell, where there are at most so many as can be held."""
    if _grid(n_columns, n).n_cells > MOST_HELD_CELLS:
        return []
    kept = _grid(n_columns, n, drop_below=None)
    return [
        Racer("privod grid all cells", lambda x: _fitted(kept, x), lambda m, x: m.score_samples(x))
    ]


def _grid(n_columns: int, n: int, **more: Any) -> GridKnn:
    names = tuple(f"x{axis}" for axis in range(n_columns))
    return GridKnn(columns=names, epsilon=1, expected_records=n, **more)


def _fitted(query: GridKnn, rows: Floats) -> QuestionDetector:
    settings = {"n_neighbors": N_NEIGHBORS}
    return QuestionDetector(query, bounds=(-REACH, REACH), settings=settings).fit(rows)


def _released(points: Floats, expected_records: int) -> NoisyGrid:
    columns = tuple(Numeric(f"x{axis}", -REACH, REACH) for axis in range(points.shape[1]))
    values = {column.name: points[:, axis] for axis, column in enumerate(columns)}
    query = GridKnn(columns=tuple(values), epsilon=1, expected_records=expected_records)
    return query.answer(Table(Domain(columns), values), secure()).value


def racers(n_columns: int, n: int) -> list[Racer]:
    """Ours and the peers."""
    slow = n_columns >= WIDE or n >= 10**6
    return [
        Racer(
            "privod grid",
            lambda x: _fitted(_grid(n_columns, n), x),
            lambda model, x: model.score_samples(x),
        ),
        Racer(
            "privod grid alone",
            lambda x: _released(x, n),
            lambda grid, x: grid.walk(x, N_NEIGHBORS),
        ),
        *_all_cells(n_columns, n),
        Racer(
            "privod profile",
            lambda x: PrivateDetector(bounds=(-REACH, REACH)).fit(x),
            lambda model, x: model.score_samples(x),
        ),
        Racer(
            "sklearn NearestNeighbors",
            lambda x: NearestNeighbors(n_neighbors=N_NEIGHBORS).fit(x),
            _nearest,
            scores_a_sample=slow,
        ),
        *_intelex(),
        Racer(
            "pykdtree",
            KDTree,
            lambda model, x: model.query(x, k=N_NEIGHBORS)[0][:, -1],
            scores_a_sample=slow,
        ),
        Racer(
            "pyod KNN",
            lambda x: KNN(n_neighbors=N_NEIGHBORS).fit(x),
            lambda model, x: model.decision_function(x),
            most_records=20_000 if n_columns > MOST_FOR_PYOD else 100_000,
        ),
        Racer("pyod HBOS", lambda x: HBOS().fit(x), lambda model, x: model.decision_function(x)),
        Racer(
            "pyod IForest",
            lambda x: IForest(random_state=0).fit(x),
            lambda model, x: model.decision_function(x),
            most_records=200_000,
        ),
    ]


def clocked(racer: Racer, fitted: Floats, asked: Floats, repeats: int) -> tuple[float, float, int]:
    """Best seconds to fit and to score, and how many points were scored."""
    best_fit = best_score = np.inf
    sample = asked[:1000] if racer.scores_a_sample else asked
    for _ in range(repeats):
        start = time.process_time()
        model = racer.fit(fitted)
        middle = time.process_time()
        racer.score(model, sample)
        end = time.process_time()
        best_fit = min(best_fit, middle - start)
        best_score = min(best_score, (end - middle) * len(asked) / len(sample))
        if end - start > PATIENCE / 3:
            break
    return best_fit, best_score, len(sample)


def race(n: int, n_columns: int, repeats: int) -> None:
    """One size and dimension."""
    fitted, asked = mixture(n * 4 // 5, n_columns, 0), mixture(n // 5, n_columns, 1)
    print(f"\n{n} records x {n_columns} columns: fit {len(fitted)}, score {len(asked)}, one core")
    totals: dict[str, float] = {}
    for racer in racers(n_columns, n):
        if n > racer.most_records:
            print(f"  {racer.name:26s} left out: it would take minutes")
            continue
        racer.score(racer.fit(fitted[:2000]), asked[:100])  # compile and warm up
        fit, score, scored = clocked(racer, fitted, asked, repeats)
        totals[racer.name] = fit + score
        note = "" if scored == len(asked) else f"  (score scaled from {scored} points)"
        times = f"fit {fit:9.4f} s   score {score:9.4f} s   both {fit + score:9.4f} s"
        print(f"  {racer.name:26s} {times}{note}")
    peers = {name: total for name, total in totals.items() if not name.startswith("privod")}
    neighbors = {name: total for name, total in peers.items() if "HBOS" not in name}
    for name, total in totals.items():
        ours = f"{name.removeprefix('privod ').replace(' ', '_')}_{n}x{n_columns}"
        figure(f"{ours}_s", total)
        if name in peers:
            continue
        figure(f"{ours}_fastest_peer_s", min(peers.values()))
        figure(f"{ours}_fastest_neighbor_peer_s", min(neighbors.values()))


def speed_goals(n: int, asked_for: int) -> None:
    """The spec's own goals: points a second and core, fitting beside a plain pass, 10^7 x 6."""
    columns = tuple(Numeric(f"x{place}", -REACH, REACH) for place in range(6))
    grid = Grid(columns, 8)
    rng = np.random.default_rng(0)
    spread = rng.uniform(-REACH, REACH, (200_000, 6))
    for kind, reference, fresh in (
        ("mixture", mixture(100_000, 6, 0), mixture(100_000, 6, 1)),
        ("uniform", spread[:100_000], spread[100_000:]),
    ):
        noisy = DiscreteLaplace(Fraction(1)).add_to(grid.all_counts(reference), secure())
        asked = grid.cells_of(fresh[:asked_for])
        grid.walk(noisy, asked[:100], 10)
        seconds = min(_time(partial(grid.walk, noisy, asked, 10)) for _ in range(3))
        figure(f"scored_points_per_second_and_core_{kind}_d6_b8_k10", len(asked) / seconds)
    once = min(n, 10**6)
    points = np.tile(mixture(once, 6, 0), (n // once, 1))
    count = min(_time(lambda: grid.all_counts(points)) for _ in range(3))
    for name, action in (
        ("numpy_sum", lambda: points.sum()),
        ("numpy_min_by_column", lambda: points.min(axis=0)),
    ):
        figure(f"counting_over_{name}_{n}x6", count / min(_time(action) for _ in range(3)))
    figure(f"counting_{n}x6_s", count)
    values = {column.name: points[:, place] for place, column in enumerate(columns)}
    query = GridKnn(columns=tuple(values), epsilon=1, cells_per_axis=8)

    def release() -> None:
        query.answer(Table(Domain(columns), values), secure())

    figure(f"table_and_release_{n}x6_s", _time(release))
    figure("peak_gigabytes", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def _time(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def figure(name: str, value: float) -> None:
    """Print one figure for whoever collects them."""
    print(f"figure {name} {value:.4g}")


def main() -> None:
    """Race at every size."""
    parser = argparse.ArgumentParser(description="Fit and score times beside peers.")
    parser.add_argument("--quick", action="store_true", help="10^4 records only")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core for everyone
    with threadpool_limits(1):
        if given.smoke:
            speed_goals(10**4, 100)
            sizes = [(500, 2)]
        elif given.quick:
            speed_goals(10**6, 20_000)
            sizes = [(10**4, d) for d in (2, 6, 8, 30)]
        else:
            speed_goals(10**7, 100_000)
            sizes = [(10**5, d) for d in (2, 6, 8, 30)] + [(10**6, 6)]
        for n, n_columns in sizes:
            race(n, n_columns, repeats=1 if given.smoke else 3)


if __name__ == "__main__":
    main()
