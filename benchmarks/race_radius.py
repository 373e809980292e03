"""How near does a private choice of radius come to the wanted share, on real data?

Run `python benchmarks/race_radius.py` (minutes), or with `--quick` (made-up data alone, under a
minute), with PRIVOD_DATA naming the folder of data sets. For each set: which share of the records
stands apart at the radius named, over many choices at epsilon 0.5 from one look at the rows.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.race_counts_error import table_of

from privod.data import Table
from privod.data.examples import hospital
from privod.mechanisms import secure
from privod.outliers.crowds.distance import CrowdIndex
from privod.query.crowd_bounds import GroupedCover, count_outliers
from privod.query.distances import Distances
from privod.questions.outlier_radius.query import OutlierRadius

SHARE, MAX_CROWD, EPSILON = "0.01", 5, "0.5"
CHOICES = 200
PERCENTILES = (5, 25, 50, 75, 95)
SETTINGS = [
    ("mammography", 2),
    ("credit_fraud", 2),
    ("mammography", 3),
    ("annthyroid", 3),
    ("credit_fraud", 4),
]


def shares(table: Table, columns: tuple[str, ...]) -> tuple[float, NDArray[np.float64]]:
    """The candidates' share nearest to the wanted one, and those that repeated choices name."""
    query = OutlierRadius(share=SHARE, max_crowd=MAX_CROWD, epsilon=EPSILON, columns=columns)
    over = Distances.over(table.domain, columns, query.scale, query.weights)
    points = over.points(table)
    index = CrowdIndex(points)
    edits = [
        query._edits(index, GroupedCover(points, radius, over.extent), radius, over)
        for radius in query.radii
    ]
    outlying = [count_outliers(points, radius, MAX_CROWD) / len(table) for radius in query.radii]
    worth = -np.array(edits)
    nearest = min(outlying, key=lambda share: abs(share - float(SHARE)))
    return nearest, np.array(
        [outlying[query.choice.choose(worth, secure())] for _ in range(CHOICES)]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="made-up data alone")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    given = parser.parse_args()
    sets: list[tuple[str, Table, tuple[str, ...]]] = [
        ("hospital", hospital(500) if given.smoke else hospital(), ("heart_rate", "pressure"))
    ]
    for name, n_columns in [] if given.quick or given.smoke else SETTINGS:
        table = table_of(Path(os.environ["PRIVOD_DATA"]), name, n_columns)
        sets.append((name, table, table.domain.numeric_names))
    figures: dict[str, float] = {}
    for name, table, columns in sets:
        nearest, named = shares(table, columns)
        found = np.percentile(named, PERCENTILES)
        print(f"{name}, {len(columns)} columns, {len(table)} records:", found.round(4), flush=True)
        stem = f"radius_share_{name}_{len(columns)}_columns"
        figures[f"{stem}_records"] = len(table)
        figures[f"{stem}_nearest"] = nearest
        for percent, share in zip(PERCENTILES, found.tolist(), strict=True):
            figures[f"{stem}_{percent}"] = share
    for key, value in figures.items():
        print(f"figure {key} {value:.6g}")


if __name__ == "__main__":
    main()
