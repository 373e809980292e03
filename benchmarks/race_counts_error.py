"""How far off are outlier counts at epsilon 1 on real data: hard counts and graded ones?

Run `python benchmarks/race_counts_error.py` (minutes), or with `--quick` (three settings, under a
minute), with PRIVOD_DATA naming the folder of data sets. For each setting, a data set with two or
three columns, a radius and a crowd: the standard deviation of outlier-count with global noise and
with what `auto` takes (over repeated answers, as it depends on the rows), and of graded-count with
its usual grades. The radius is a twentieth of the declared ranges' diagonal.
"""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

import numpy as np
import polars as pl

from privod.data import Domain, Numeric, Table
from privod.mechanisms import DiscreteLaplace, secure
from privod.queries.graded_count import GradedCount
from privod.queries.outlier_count import OutlierCount, count_sensitivity

EPSILON = 1
MOST_ROWS = 20_000  # the first so many of a set: the figure is noise, not detection
SETTINGS = [
    ("mammography", 2, 5),
    ("mammography", 2, 50),
    ("thyroid", 2, 5),
    ("thyroid", 3, 20),
    ("annthyroid", 2, 10),
    ("annthyroid", 2, 50),
    ("pima", 2, 5),
    ("wdbc", 2, 5),
    ("wdbc", 3, 10),
    ("ionosphere", 2, 5),
    ("credit_fraud", 2, 20),
    ("credit_fraud", 3, 50),
]
N_QUICK = 3


def table_of(folder: Path, name: str, n_columns: int) -> Table:
    """The first numeric columns with several values, ranges rounded out to whole numbers."""
    frame = pl.read_parquet(folder / f"{name}.parquet").head(MOST_ROWS)
    numeric = [
        column
        for column in frame.columns
        if frame[column].dtype.is_numeric() and frame[column].n_unique() > 10
    ]
    chosen = {column: frame[column].to_numpy().astype(float) for column in numeric[:n_columns]}
    domain = Domain(
        tuple(
            Numeric(column, math.floor(np.nanmin(values)), math.ceil(np.nanmax(values)))
            for column, values in chosen.items()
        )
    )
    return Table(domain, chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three settings, fewer answers")
    quick = parser.parse_args().quick
    folder = Path(os.environ["PRIVOD_DATA"])
    repeats = 20 if quick else 60
    figures: dict[str, float] = {}
    gains = []
    for name, n_columns, max_crowd in SETTINGS[:N_QUICK] if quick else SETTINGS:
        table = table_of(folder, name, n_columns)
        columns = table.domain.numeric_names
        ranges = [table.domain.numeric(columns)[place] for place in range(n_columns)]
        radius = math.sqrt(sum((c.high - c.low) ** 2 for c in ranges)) / 20
        hard = OutlierCount(
            radius=radius / math.sqrt(n_columns), max_crowd=max_crowd, epsilon=EPSILON
        )
        graded = GradedCount(radius=radius, max_crowd=max_crowd, epsilon=EPSILON)
        sensitivity = count_sensitivity(max_crowd, n_columns, hard.adjacency)
        answers = [hard.answer(table, secure()).value.count for _ in range(repeats)]
        label = f"{name}_{n_columns}_columns_crowd_{max_crowd}"
        figures[f"{label}_global"] = DiscreteLaplace.for_loss(EPSILON, sensitivity).deviation
        # Heavy noise is rarely seen whole in a sample: its middle half is, and is scaled to it.
        quartiles = np.percentile(answers, [25, 75])
        figures[f"{label}_auto_{hard.chosen_noise(n_columns)}"] = float(np.ptp(quartiles)) / 1.349
        figures[f"{label}_graded"] = graded.noise(n_columns).deviation / graded.n_grades
        gains.append(figures[f"{label}_global"] / figures[f"{label}_graded"])
        print(
            label, {key: round(value, 1) for key, value in list(figures.items())[-3:]}, flush=True
        )
    figures["graded_gain_least"], figures["graded_gain_most"] = min(gains), max(gains)
    for key, value in figures.items():
        print(f"figure {key} {value:.4g}")


if __name__ == "__main__":
    main()
