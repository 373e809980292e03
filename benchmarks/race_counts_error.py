"""How far off are outlier counts at epsilon 1 on real data, and what do they say about it?

Run `python benchmarks/race_counts_error.py` (two minutes), or with `--quick` (three settings, under
a minute), with PRIVOD_DATA naming the folder of data sets. For each setting, a data set with two or
three columns and a crowd, at a radius of a twentieth of the declared ranges' diagonal: the standard
deviation of outlier-count's global and heavy noise on this very data (heavy noise follows the
rows), and the 95 % margins stated by global noise, by heavy noise (the middle one of many answers,
as it is noisy itself), by what auto takes, and by graded-count with its usual grades.
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
from privod.query.crowd_bounds import GroupedCover, count_sensitivity, count_with_bound
from privod.query.distances import Distances
from privod.questions.graded_count.query import GradedCount
from privod.questions.outlier_count.query import OutlierCount

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
ANSWERS = 201
HEADER = ("setting", "outliers", "global sd", "heavy sd", "global", "heavy", "auto", "graded")


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


def heavy_noise(table: Table, query: OutlierCount) -> tuple[int, float, float]:
    """The count, the deviation of heavy noise on these rows, and the middle of its margins."""
    over = Distances.over(table.domain, query.columns, query.scale, query.weights)
    points, noise = over.points(table), query._smooth("heavy")
    most = count_sensitivity(query.max_crowd, over.dimensions, query.adjacency)
    cover = GroupedCover(points, query.radius, over.extent)
    count, rung = count_with_bound(
        points, query.radius, query.max_crowd, noise, query.adjacency, cover, most
    )
    drawn = rung + query._rung_noise(noise).draw(ANSWERS, secure())
    margins = [query._smooth_margin("heavy", int(one), most) for one in drawn]
    deviation = noise.deviation(float(noise.staircase.value(rung)))
    return count, deviation, float(np.median(margins))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three settings")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    given = parser.parse_args()
    some = SETTINGS[:1] if given.smoke else SETTINGS[:N_QUICK] if given.quick else SETTINGS
    folder = Path(os.environ["PRIVOD_DATA"])
    figures: dict[str, float] = {}
    print(("{:<28}" + "{:>10}" * 7).format(*HEADER), flush=True)
    for name, n_columns, max_crowd in some:
        table = table_of(folder, name, n_columns)
        ranges = table.domain.numeric()
        radius = math.sqrt(sum((c.high - c.low) ** 2 for c in ranges)) / 20
        hard = OutlierCount(radius=radius, max_crowd=max_crowd, epsilon=EPSILON)
        graded = GradedCount(radius=radius, max_crowd=max_crowd, epsilon=EPSILON)
        sensitivity = count_sensitivity(max_crowd, n_columns, hard.adjacency)
        worst = DiscreteLaplace.for_loss(EPSILON, sensitivity)
        count, deviation, margin = heavy_noise(table, hard)
        taken = hard.chosen_noise(n_columns)
        stated = {"global": float(worst.quantile(0.95)), "heavy": margin}
        label = f"{name}_{n_columns}_columns_crowd_{max_crowd}"
        row = {
            "deviation_global": worst.deviation,
            "deviation_heavy": deviation,
            "margin_global": stated["global"],
            "margin_heavy": stated["heavy"],
            "margin_auto": stated[taken],
            "margin_graded": graded.margin(n_columns),
        }
        figures[f"{label}_outliers"] = count
        figures |= {f"{label}_{key}": value for key, value in row.items()}
        figures[f"{label}_regret"] = stated[taken] / min(stated.values())
        shown = [f"{value:.3g}" for value in row.values()]
        setting = f"{name}, {n_columns}d, k {max_crowd}"
        print(("{:<28}" + "{:>10}" * 7).format(setting, count, *shown), flush=True)
    regrets = [value for key, value in figures.items() if key.endswith("_regret")]
    figures["auto_regret_most"] = max(regrets)
    for key, value in figures.items():
        print(f"figure {key} {value:.4g}")


if __name__ == "__main__":
    main()
