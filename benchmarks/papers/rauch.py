"""The experiment of Rauch, Olatunji and Khosla (2021) on its five sets, and one step beyond.

Run `PRIVOD_DATA=folder python benchmarks/papers/rauch.py` (some ten minutes), or with `--quick`.
Writes out/papers/rauch/: `cells.csv` (quality against cells per axis), `epsilon.csv` (against
epsilon), `ranges.csv` (wdbc with the paper's ranges, which are not private, and with ours),
`beyond.csv` (at equal epsilon: what beats the paper's own mechanism; `PrivateDetector` and a grid
with the Gaussian noise of (epsilon, 1e-6) included), `rauch.png` in the shape of the paper's
Figures 2 and 3, and `quality_*.png`.

As in the paper: 80 % of the inliers are the reference, the rest and the first m minority rows the
test; ten repeats of the noise; AUROC, average precision and precision at n. Unlike the paper,
ranges are public (below), not read off the data. The paper names neither its k nor its depth: here
k = 20, and above ten million cells the lazy grid walks a few steps deep. Its heart set has 138
inliers, the Statlog set 150.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from _tables import Report, Row
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from privod.data import Domain, Numeric, Table
from privod.data.examples import data_frame
from privod.estimators import PrivateDetector
from privod.mechanisms import seeded
from privod.outliers.grid.grid import Grid, neighbor_scores
from privod.pictures.grid_knn import draw_quality
from privod.queries.bounds import PrivateBounds
from privod.queries.grid_knn.query import MOST_HELD_CELLS, GridKnn
from privod.queries.marginals.query import MarginalHistograms

Floats = NDArray[np.float64]

EPSILONS = ("5", "2.5", "1.25", "0.6", "0.3", "0.15", "0.075", "0.035", "0.015")
SWEEP_EPSILON = "1.25"  # at which the number of cells is varied and chosen
WITHIN = 0.02  # AUROC closer to the highest than this counts as the highest: ten runs say no more
N_NEIGHBORS = 20
STEPS = {8: 4, 13: 3, 30: 2}  # columns to the lazy grid's depth, in steps
RANGES_CELLS, RANGES_NEIGHBORS, RANGES_EPSILONS = (2, 3), (1, 5, 20), ("5", "2.5", "1.25", "0.3")
DELTA = "1e-6"
BEYOND_EPSILONS = ("0.15", "0.6", "2.5")
MEASURES = ("auroc", "ap", "p_at_n")

WDBC = (
    "radius 0 40, texture 0 50, perimeter 0 250, area 0 2500, smoothness 0 0.25, compactness 0 0.5,"
    " concavity 0 0.5, concave_points 0 0.25, symmetry 0 0.4, fractal_dimension 0 0.1"
)
WDBC_ERRORS = "3 5 25 300 0.05 0.15 0.4 0.06 0.1 0.03"
WDBC_WORST = "50 60 350 5000 0.3 1.5 1.5 0.4 0.7 0.25"


def _wdbc_ranges() -> str:
    means = [entry.split() for entry in WDBC.split(", ")]
    names = [name for name, _, _ in means]
    parts = [f"mean_{name} {low} {high}" for name, low, high in means]
    parts += [f"{n}_error 0 {high}" for n, high in zip(names, WDBC_ERRORS.split(), strict=True)]
    parts += [f"worst_{n} 0 {high}" for n, high in zip(names, WDBC_WORST.split(), strict=True)]
    return ", ".join(parts)


RANGES = {
    "lymphography": "Lym_nodes_dimin 0 4, Lym_nodes_enlar 0 5, No_of_nodes_in 0 9",
    "pima": "Preg 0 20, Plas 0 200, Pres 0 140, Skin 0 100, Insu 0 900, Mass 0 70, Pedi 0 2.5,"
    " Age 20 90",
    "wdbc": _wdbc_ranges(),
    "heart_statlog": "age 20 80, sex 0 1, cp 1 4, trestbps 80 200, chol 100 600, fbs 0 1,"
    " restecg 0 2, thalach 60 220, exang 0 1, oldpeak 0 7, slope 1 3, ca 0 3, thal 3 7",
    "adult": "age 15 95, fnlwgt 0 1500000, education-num 1 16, capital-gain 0 100000,"
    " capital-loss 0 5000, hours-per-week 0 100, sex 0 1",
}
"""Public ranges: what the measurements can be, in round numbers."""

N_OUTLIERS = {"lymphography": 6, "pima": 40, "wdbc": 10, "heart_statlog": 10, "adult": 100}


@dataclass(frozen=True)
class Split:
    """One set: a private reference of inliers, and a test of inliers and outliers."""

    name: str
    reference: Table
    test: Floats
    labels: NDArray[np.int64]

    @property
    def columns(self) -> tuple[Numeric, ...]:
        """The axes."""
        return self.reference.domain.numeric()

    def unit(self, points: Floats) -> Floats:
        """Points with every range mapped onto [0, 1]."""
        lows = np.array([column.low for column in self.columns])
        widths = np.array([column.high - column.low for column in self.columns])
        scaled: Floats = (points - lows) / widths
        return scaled


def load(name: str) -> Split:
    """Read a set and split it as the paper does, with a fixed shuffle."""
    frame = data_frame(name).to_pandas()
    if name == "adult":
        frame = frame[frame["split"] == "train"].copy()
        frame["sex"] = frame["sex"].astype(str).str.strip().eq("Male")
    parts = (entry.split() for entry in RANGES[name].split(", "))
    columns = tuple(Numeric(column, float(low), float(high)) for column, low, high in parts)
    points = frame[[column.name for column in columns]].to_numpy(dtype=np.float64)
    is_outlier = frame["label"].to_numpy() == 1
    inliers, outliers = points[~is_outlier], points[is_outlier][: N_OUTLIERS[name]]
    order = np.random.default_rng(0).permutation(len(inliers))
    cut = int(0.8 * len(inliers))
    test = np.vstack([inliers[order[cut:]], outliers])
    labels = np.r_[np.zeros(len(inliers) - cut, dtype=np.int64), np.ones(len(outliers), np.int64)]
    return Split(name, table_of(columns, inliers[order[:cut]]), test, labels)


def table_of(columns: tuple[Numeric, ...], rows: Floats) -> Table:
    """Rows inside ranges."""
    values = {column.name: rows[:, place] for place, column in enumerate(columns)}
    return Table(Domain(columns), values)


def quality(labels: NDArray[np.int64], scores: Floats) -> dict[str, float]:
    """AUROC, average precision, and precision among the n highest for n outliers."""
    n = int(labels.sum())
    last = np.sort(scores)[-n]
    surely, tied = scores > last, scores == last
    hits = labels[surely].sum() + (n - surely.sum()) * labels[tied].mean()  # ties share the places
    return {
        "auroc": float(roc_auc_score(labels, scores)),
        "ap": float(average_precision_score(labels, scores)),
        "p_at_n": float(hits / n),
    }


def private_scores(
    split: Split, cells: int | None, epsilon: str, seed: int, n_neighbors: int = N_NEIGHBORS
) -> dict[str, Floats]:
    """The paper's two scores and ours from one noisy grid; lazy where it cannot be held."""
    columns, n = split.columns, len(split.reference)
    query = GridKnn(
        columns=split.reference.domain.names,
        epsilon=epsilon,
        cells_per_axis=cells,
        expected_records=n,
        drop_below=None,
    )
    if query.grid(split.reference.domain).n_cells <= MOST_HELD_CELLS:
        grid = query.answer(split.reference, seeded(seed)).value
        return grid.scores(split.test, n_neighbors)._asdict()
    depth = Fraction(STEPS[len(columns)], query.grid(split.reference.domain).cells_per_axis)
    lazy = query.lazy(split.reference, seeded(seed))
    return lazy.scores(split.test, n_neighbors, depth)._asdict()


def baselines(split: Split, cells: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Plain and weighted k-NN, and the grid without noise."""
    reference = split.unit(split.reference.numbers())
    plain = neighbor_scores(reference, split.unit(split.test), N_NEIGHBORS)
    yield "k-NN", quality(split.labels, plain.basic)
    yield "weighted k-NN", quality(split.labels, plain.weighted)
    grid = Grid(split.columns, cells)
    occupied = grid.occupied_counts(split.reference.numbers())
    walked = grid.walk_some(occupied, split.test, N_NEIGHBORS)
    yield "grid", quality(split.labels, walked.basic)
    yield "weighted grid", quality(split.labels, walked.weighted)


Rows = list[Row]


def summarized(found: list[dict[str, float]]) -> dict[str, float]:
    """Mean and deviation of each measure over the repeats."""
    return {
        f"{measure}{suffix}": float(take([one[measure] for one in found]))
        for measure in MEASURES
        for suffix, take in (("", np.mean), ("_deviation", np.std))
    }


def repeated(split: Split, cells: int | None, epsilon: str, repeats: int) -> Rows:
    """The noisy grid's quality, by the paper's two scores and by ours."""
    runs = [private_scores(split, cells, epsilon, seed) for seed in range(repeats)]
    names = {"basic": "DP grid", "weighted": "DP weighted grid", "graded": "DP graded grid (ours)"}
    return [
        {"method": name, **summarized([quality(split.labels, run[kind]) for run in runs])}
        for kind, name in names.items()
    ]


def by_cells(split: Split, cells: range, repeats: int) -> Rows:
    """Quality against the number of cells per axis [Figure 2, left]."""
    rows: Rows = []
    for count in cells:
        said = {"set": split.name, "cells": count, "epsilon": SWEEP_EPSILON}
        rows += [{**said, "method": n, **summarized([q])} for n, q in baselines(split, count)]
        rows += [{**said, **row} for row in repeated(split, count, SWEEP_EPSILON, repeats)]
    return rows


def best_cells(rows: Rows) -> int:
    """The smallest number of cells with the highest AUROC of the private grid [Section 5.2]."""
    private = {row["cells"]: row["auroc"] for row in rows if row["method"] == "DP grid"}
    best = max(private.values()) - WITHIN
    return min(int(cells) for cells, auroc in private.items() if auroc >= best)


def by_epsilon(split: Split, cells: int, epsilons: tuple[str, ...], repeats: int) -> Rows:
    """Quality against epsilon [Figures 2, right, and 3]."""
    rows: Rows = []
    for epsilon in epsilons:
        said = {"set": split.name, "cells": cells, "epsilon": epsilon}
        rows += [{**said, "method": n, **summarized([q])} for n, q in baselines(split, cells)]
        rows += [{**said, **row} for row in repeated(split, cells, epsilon, repeats)]
    return rows


def ranges_of_the_paper(split: Split) -> Split:
    """Mean plus and minus the largest value [Section 4.1]: read off the rows, so not private."""
    rows = split.reference.numbers()
    means, largest = rows.mean(axis=0), np.abs(rows).max(axis=0)
    parts = zip(split.columns, (means - largest).tolist(), (means + largest).tolist(), strict=True)
    columns = tuple(Numeric(column.name, low, high) for column, low, high in parts)
    return Split(split.name, table_of(columns, rows), split.test, split.labels)


def by_ranges(split: Split, repeats: int) -> Rows:
    """What the paper's ranges explain: quality against epsilon, by ranges, cells and k."""
    rows: Rows = []
    for whose, ranged in (("the paper's", ranges_of_the_paper(split)), ("public", split)):
        for cells, k in itertools.product(RANGES_CELLS, RANGES_NEIGHBORS):
            said = {"set": split.name, "method": f"{whose} ranges, b = {cells}, k = {k}"}
            grid = Grid(ranged.columns, cells)
            walked = grid.walk_some(
                grid.occupied_counts(ranged.reference.numbers()), ranged.test, k
            )
            exact = quality(split.labels, walked.basic)
            rows.append({**said, "epsilon": "without noise", **summarized([exact])})
            for epsilon in RANGES_EPSILONS:
                runs = [private_scores(ranged, cells, epsilon, seed, k) for seed in range(repeats)]
                found = summarized([quality(split.labels, run["basic"]) for run in runs])
                rows.append({**said, "epsilon": epsilon, **found})
    return rows


def beyond(split: Split, cells: int, repeats: int) -> Rows:
    """At equal epsilon: the paper's mechanism, its weighted one, and what we put beside it."""
    rows: Rows = []
    names, n = split.reference.domain.names, len(split.reference)
    for epsilon in BEYOND_EPSILONS:
        said = {"set": split.name, "epsilon": epsilon}
        for row in repeated(split, cells, epsilon, repeats):
            rows.append({**said, **row, "method": f"{row['method']}, paper's b = {cells}"})
        for row in repeated(split, None, epsilon, repeats):
            rows.append({**said, **row, "method": f"{row['method']}, automatic b"})
        found: dict[str, list[dict[str, float]]] = {}
        for seed in range(repeats):
            sparse = GridKnn(
                columns=names, epsilon=epsilon, cells_per_axis=cells, expected_records=n
            )
            kept = replace(sparse, drop_below=sparse.automatic_threshold)
            thin = kept.answer(split.reference, seeded(seed)).value
            walked = thin.scores(split.test, N_NEIGHBORS)
            _note(found, "sparse grid, paper's b", quality(split.labels, walked.basic))
            _note(found, "sparse graded grid, paper's b", quality(split.labels, walked.graded))
            asked = MarginalHistograms(columns=names, epsilon=epsilon, expected_records=n)
            value = asked.answer(split.reference, seeded(seed)).value.scores(split.test)
            _note(found, "marginal histograms, density", quality(split.labels, value.density))
            _note(found, "marginal histograms, tail", quality(split.labels, value.tail))
            _note(found, "marginal histograms, bought ranges", bought(split, epsilon, seed))
            gaussian = replace(sparse, drop_below=None, noise="gaussian", delta=DELTA)
            if gaussian.grid(split.reference.domain).n_cells <= MOST_HELD_CELLS:
                grid = gaussian.answer(split.reference, seeded(seed)).value
                scores = grid.scores(split.test, N_NEIGHBORS)
                _note(found, f"DP grid, delta {DELTA}", quality(split.labels, scores.basic))
            detector = PrivateDetector(
                epsilon=Fraction(epsilon),
                bounds=[(column.low, column.high) for column in split.columns],
                random_state=seed,
            ).fit(split.reference.numbers())
            outlying = -detector.score_samples(split.test)
            _note(found, "PrivateDetector", quality(split.labels, outlying))
        rows += [{**said, "method": name, **summarized(runs)} for name, runs in found.items()]
    return rows


def _note(found: dict[str, list[dict[str, float]]], name: str, one: dict[str, float]) -> None:
    found.setdefault(name, []).append(one)


def bought(split: Split, epsilon: str, seed: int) -> dict[str, float]:
    """Marginal histograms whose ranges were bought with a quarter of epsilon."""
    names, rows = split.reference.domain.names, split.reference.numbers()
    wide = table_of(tuple(Numeric(name, -(2.0**64), 2.0**64) for name in names), rows)
    share = Fraction(epsilon) / 4
    ranges = PrivateBounds(columns=names, epsilon=share).answer(wide, seeded(seed)).value
    asked = MarginalHistograms(
        columns=names, epsilon=Fraction(epsilon) - share, expected_records=len(rows)
    )
    value = asked.answer(table_of(ranges, rows), seeded(seed)).value
    return quality(split.labels, value.scores(split.test).density)


def draw(cells: Rows, epsilons: Rows) -> Figure:
    """The paper's Figures 2 and 3: one row a set, quality against cells and against epsilon."""
    names = list(dict.fromkeys(row["set"] for row in cells))
    figure = Figure(figsize=(15, 3 * len(names)), layout="constrained")
    panels = figure.subplots(len(names), 4, squeeze=False)
    plots = [(cells, "cells", "auroc"), *((epsilons, "epsilon", measure) for measure in MEASURES)]
    for line, name in zip(panels, names, strict=True):
        for axes, (rows, across, measure) in zip(line, plots, strict=True):
            for method in dict.fromkeys(row["method"] for row in rows):
                chosen = [row for row in rows if (row["set"], row["method"]) == (name, method)]
                x = [float(row[across]) for row in chosen]
                y = [row[measure] for row in chosen]
                error = [row[f"{measure}_deviation"] for row in chosen]
                style = "-" if method.startswith("DP") else "--"
                axes.errorbar(x, y, yerr=error, label=method, linestyle=style, capsize=2)
            if across == "epsilon":
                axes.set_xscale("log")
            axes.set_title(f"{name}: {measure} against {across}", fontsize=9)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=7)
    return figure


def quality_of(name: str, rows: Rows) -> Figure:
    """One set: AUROC against epsilon."""
    curves: dict[str, tuple[list[float], list[float], list[float]]] = {}
    for row in rows:
        if row["set"] == name:
            epsilons, means, deviations = curves.setdefault(row["method"], ([], [], []))
            epsilons.append(float(row["epsilon"]))
            means.append(row["auroc"])
            deviations.append(row["auroc_deviation"])
    title = f"{name}: quality against epsilon"
    return draw_quality(title, curves)


def main() -> None:
    """Run everything, or a small part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="three sets, three repeats")
    quick = parser.parse_args().quick
    report = Report("rauch", quick)
    repeats = 3 if quick else 10
    names = ["lymphography", "pima", "heart_statlog"] if quick else list(RANGES)
    epsilons = EPSILONS[::3] if quick else EPSILONS
    cells_rows, epsilon_rows, beyond_rows = [], [], []
    ranges_rows = by_ranges(load("heart_statlog" if quick else "wdbc"), repeats)
    for name in names:
        split = load(name)
        swept = by_cells(split, range(2, 5) if quick else range(2, 11), repeats)
        chosen = best_cells(swept)
        print(f"{name}: reference {len(split.reference)}, test {len(split.test)}, b = {chosen}")
        cells_rows += swept
        epsilon_rows += by_epsilon(split, chosen, epsilons, repeats)
        beyond_rows += beyond(split, chosen, repeats)
    for table, rows in (
        ("cells", cells_rows),
        ("epsilon", epsilon_rows),
        ("ranges", ranges_rows),
        ("beyond", beyond_rows),
    ):
        report.table(table, rows)
    report.picture("rauch", draw(cells_rows, epsilon_rows))
    for name in names:
        report.picture(f"quality_{name}", quality_of(name, epsilon_rows))


if __name__ == "__main__":
    main()
