"""How long does a private outlier count take, from the table to the answer?

Normal records of which one in a hundred is five times as wide, smooth Laplace noise: the crowds of
all records, the smooth bound and the noise. Small and large crowds, in the plane, where the cover
is exact, and in seven dimensions, where it is bounded. Okada tries all subsets of the records,
so there is no peer to race; the goal is a minute on two cores and 4 GB.

    python benchmarks/race_counts.py            # 10^6 x 2 and 10^5 x 7
    python benchmarks/race_counts.py --quick    # a hundredth of the records
"""

from __future__ import annotations

import argparse
import math
import resource
import time

import numpy as np

from privod.data import Domain, Numeric, Table
from privod.mechanisms import secure
from privod.questions.outlier_count.query import OutlierCount

GOAL = 60.0
CASES = ((10**6, 2, 0.02), (10**5, 7, 0.5))
CROWDS = (3, 10, 30, 100)


def made(n: int, d: int) -> Table:
    """Normal records, a few of them wide."""
    points = np.random.default_rng(0).normal(size=(n, d))
    points[::100] *= 5
    names = [f"x{j + 1}" for j in range(d)]
    domain = Domain(tuple(Numeric(name, -100, 100) for name in names))
    return Table(domain, {name: points[:, j] for j, name in enumerate(names)})


def seconds_of(table: Table, radius: float, max_crowd: int) -> float:
    """How long one answer takes."""
    wide = radius * math.sqrt(len(table.domain.numeric_names))  # given per column
    query = OutlierCount(radius=wide, max_crowd=max_crowd, epsilon=1, delta="1e-6", noise="laplace")
    start = time.perf_counter()
    query.answer(table, secure())
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the records")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    given = parser.parse_args()
    figures: dict[str, float] = {}
    for full, d, radius in CASES:
        n = full // (1000 if given.smoke else 100 if given.quick else 1)
        table = made(n, d)
        seconds_of(made(200, d), radius, 3)  # compiles
        for max_crowd in CROWDS:
            seconds = seconds_of(table, radius, max_crowd)
            figures[f"count_{n}x{d}_crowd_{max_crowd}_seconds"] = seconds
            verdict = "below" if seconds < GOAL else "ABOVE"
            print(
                f"{n} x {d}, radius {radius}, max_crowd {max_crowd}:"
                f" {seconds:.2f} s, {verdict} a minute"
            )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    figures["count_peak_memory_gb"] = peak
    print(f"The most memory held: {peak:.2f} GB\n")
    for name, value in figures.items():
        print(f"figure {name} {value:.4g}")


if __name__ == "__main__":
    main()
