"""The experiment of Rauch, Olatunji and Khosla (2021) on its five sets, and one step beyond.

Run `PRIVOD_DATA=folder python benchmarks/papers/rauch.py` (some ten minutes), or with `--quick`.
Writes out/papers/rauch/: `sets.csv`, `cells.csv` (quality against cells per axis), `epsilon.csv`
(against epsilon), `ranges.csv` (wdbc with the paper's ranges, which are not private, and with
ours), `beyond.csv` (at equal epsilon: the paper's own mechanism, the same with the Gaussian noise
of (epsilon, 1e-6), and the detectors that we put beside it), `rauch.png` in the shape of the
paper's Figures 2 and 3, and `quality_*.png`. The noise is seeded, so a run that was cut, or made of
some sets at a time (`--only`), goes on with what it finds there; remove the folder to begin anew.
`--renew` measures some of the methods of `beyond.csv` alone, after they changed.

As in the paper: 80 % of the inliers are the reference, the rest and the first m minority rows the
test; ten repeats of the noise (six while b is varied); AUROC, average precision and precision at n.
Unlike the paper, ranges are public (`_rauch_sets.py`), not read off the data. The paper names
neither its k nor its depth: here k = 20, and above ten million cells the lazy grid walks a few
steps deep. Its heart set has 138 inliers, the Statlog set 150.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
from _curves import draw_quality
from _lazy_grid import lazy_scores
from _rauch_sets import MEASURES, RANGES, Floats, Split, load, quality, table_of
from _tables import Report, Row
from matplotlib.figure import Figure
from scipy.spatial import cKDTree

from privod.data import Numeric
from privod.mechanisms import seeded
from privod.outliers.grid.grid import Grid
from privod.progress import track
from privod.questions.detector_profile.query import DetectorProfile
from privod.questions.grid_knn.query import MOST_HELD_CELLS, GridKnn

Rows = list[Row]

EPSILONS = ("5", "2.5", "1.25", "0.6", "0.3", "0.15", "0.075", "0.035", "0.015")
CELLS = (2, 3, 4, 5, 6, 8, 10)
SWEEP_EPSILON = "1.25"  # at which the number of cells is varied and chosen
WITHIN = 0.02  # AUROC closer to the highest than this counts as the highest: ten runs say no more
PUBLISHED = Path(__file__).parents[2] / "docs/figures/rauch"
N_NEIGHBORS = 20
STEPS = {8: 4, 13: 3, 30: 2}  # columns to the lazy grid's depth, in steps
RANGES_CELLS, RANGES_NEIGHBORS, RANGES_EPSILONS = (2, 3), (1, 5, 20), ("5", "2.5", "1.25", "0.3")
DELTA = "1e-6"
QUICK = ("lymphography", "pima", "heart_statlog", "ranges")
BEYOND_EPSILONS = ("0.15", "0.6", "2.5")


def private_scores(
    split: Split,
    cells: int | None,
    epsilon: str,
    seed: int,
    n_neighbors: int = N_NEIGHBORS,
    delta: str = "0",
) -> dict[str, Floats]:
    """The paper's two scores and ours from one noisy grid; lazy where it cannot be held."""
    columns, n = split.columns, len(split.reference)
    query = GridKnn(
        columns=split.reference.domain.names,
        epsilon=epsilon,
        cells_per_axis=cells,
        expected_records=n,
        drop_below=None,
        noise="laplace" if delta == "0" else "gaussian",
        delta=delta,
    )
    if query.grid(split.reference.domain).n_cells <= MOST_HELD_CELLS:
        grid = query.answer(split.reference, seeded(seed)).value
        return grid.walk(split.test, n_neighbors)._asdict()
    depth = Fraction(STEPS[len(columns)], query.grid(split.reference.domain).cells_per_axis)
    asked = (split.reference, split.test, n_neighbors, depth, seeded(seed))
    return lazy_scores(query, *asked)._asdict()


def baselines(split: Split, cells: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Plain and weighted k-NN, and the grid without noise."""
    reference = split.unit(split.reference.numbers())
    ranks = np.arange(1, min(N_NEIGHBORS, len(reference)) + 1)
    distances = cKDTree(reference).query(split.unit(split.test), k=ranks)[0]
    yield "k-NN", quality(split.labels, distances[:, -1])
    yield "weighted k-NN", quality(split.labels, distances.sum(axis=1))
    grid = Grid(split.columns, cells)
    occupied = grid.occupied_counts(split.reference.numbers())
    walked = grid.walk_some(occupied, grid.cells_of(split.test), N_NEIGHBORS)
    yield "grid", quality(split.labels, walked.basic)
    yield "weighted grid", quality(split.labels, walked.weighted)


def summarized(found: list[dict[str, float]]) -> dict[str, float]:
    """Mean and deviation of each measure over the repeats."""
    return {
        f"{measure}{suffix}": float(take([one[measure] for one in found]))
        for measure in MEASURES
        for suffix, take in (("", np.mean), ("_deviation", np.std))
    }


def repeated(split: Split, cells: int | None, epsilon: str, repeats: int, delta: str = "0") -> Rows:
    """The noisy grid's quality, by the paper's two scores and by ours."""
    runs = [private_scores(split, cells, epsilon, seed, delta=delta) for seed in range(repeats)]
    names = {"basic": "DP grid", "weighted": "DP weighted grid", "graded": "DP graded grid (ours)"}
    return [
        {"method": name, **summarized([quality(split.labels, run[kind]) for run in runs])}
        for kind, name in names.items()
    ]


def by_cells(split: Split, cells: Sequence[int], repeats: int) -> Rows:
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
    exact = [{"method": name, **summarized([one])} for name, one in baselines(split, cells)]
    for epsilon in epsilons:
        said = {"set": split.name, "cells": cells, "epsilon": epsilon}
        rows += [{**said, **row} for row in exact]
        rows += [{**said, **row} for row in repeated(split, cells, epsilon, repeats)]
        basic, *_ = repeated(split, cells, epsilon, repeats, DELTA)
        rows.append({**said, **basic, "method": f"DP grid with delta {DELTA}"})
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
            said = {"set": split.name, "ranges": whose, "b": cells, "k": k}
            grid = Grid(ranged.columns, cells)
            occupied = grid.occupied_counts(ranged.reference.numbers())
            walked = grid.walk_some(occupied, grid.cells_of(ranged.test), k)
            exact = quality(split.labels, walked.basic)
            rows.append({**said, "epsilon": "without noise", **summarized([exact])})
            for epsilon in RANGES_EPSILONS:
                runs = [private_scores(ranged, cells, epsilon, seed, k) for seed in range(repeats)]
                found = summarized([quality(split.labels, run["basic"]) for run in runs])
                rows.append({**said, "epsilon": epsilon, **found})
    return rows


def beyond(split: Split, cells: int, repeats: int) -> Rows:
    """At equal epsilon: the paper's mechanism at its best b, and what we put beside it.

    `gain` is AUROC over that of the paper's basic score at the same epsilon.
    """
    rows: Rows = []
    for epsilon in BEYOND_EPSILONS:
        said = {"set": split.name, "epsilon": epsilon}
        own = repeated(split, cells, epsilon, repeats)
        *_, automatic = repeated(split, None, epsilon, repeats)
        own.append({**automatic, "method": "DP graded grid with automatic b (ours)"})
        basic, *_ = repeated(split, cells, epsilon, repeats, DELTA)
        own.append({**basic, "method": f"DP grid with delta {DELTA}"})
        for method, scores in OTHERS.items():
            runs = [scores(split, cells, epsilon, seed) for seed in range(repeats)]
            found = summarized([quality(split.labels, one) for one in runs])
            own.append({"method": method, **found})
        paper = own[0]["auroc"]
        rows += [{**said, **row, "gain": f"{row['auroc'] - paper:+.3f}"} for row in own]
    return rows


def sparse(split: Split, cells: int, epsilon: str, seed: int) -> Floats:
    """A grid that keeps the cells above its threshold only."""
    names, n = split.reference.domain.names, len(split.reference)
    every = GridKnn(columns=names, epsilon=epsilon, cells_per_axis=cells, expected_records=n)
    kept = replace(every, drop_below=every.automatic_threshold)
    grid = kept.answer(split.reference, seeded(seed)).value
    return grid.walk(split.test, N_NEIGHBORS).graded


def detector(split: Split, _: int, epsilon: str, seed: int) -> Floats:
    """The detector to begin with."""
    asked = DetectorProfile(columns=split.reference.domain.names, epsilon=epsilon)
    return asked.answer(split.reference, seeded(seed)).value.scores(split.test)


OTHERS: dict[str, Callable[[Split, int, str, int], Floats]] = {
    "sparse graded grid (ours)": sparse,
    "private detector (ours)": detector,
}


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


def studied(name: str, quick: bool, repeats: int) -> dict[str, Rows]:
    """Everything about one set."""
    split = load(name)
    swept = by_cells(split, CELLS[:repeats] if quick else CELLS, repeats // 2 + 1)
    chosen = best_cells(swept)
    said = {
        "set": name,
        "columns": len(split.columns),
        "reference": len(split.reference),
        "test": len(split.test),
        "outliers": int(split.labels.sum()),
        "best b": chosen,
    }
    return {
        "sets": [said],
        "cells": swept,
        "epsilon": by_epsilon(split, chosen, EPSILONS[::3] if quick else EPSILONS, repeats),
        "beyond": beyond(split, chosen, repeats),
    }


def ranges_studied(quick: bool, repeats: int) -> dict[str, Rows]:
    """What the paper's ranges explain, on one set."""
    split = load("heart_statlog" if quick else "wdbc")
    return {"ranges": by_ranges(split, repeats)}


def renewed(methods: Sequence[str]) -> Rows:
    """The published `beyond.csv`, with some of the methods measured anew."""
    with (PUBLISHED / "sets.csv").open(newline="", encoding="utf-8") as file:
        cells = {row["set"]: int(row["best b"]) for row in csv.DictReader(file)}
    with (PUBLISHED / "beyond.csv").open(newline="", encoding="utf-8") as file:
        rows: Rows = list(csv.DictReader(file))
    papers = {
        (row["set"], row["epsilon"]): float(row["auroc"])
        for row in rows
        if row["method"] == "DP grid"
    }
    splits = {name: load(name) for name in cells}
    for row in track([row for row in rows if row["method"] in methods], "measuring anew"):
        split, epsilon = splits[row["set"]], row["epsilon"]
        scores = OTHERS[row["method"]]
        runs = [scores(split, cells[split.name], epsilon, seed) for seed in range(10)]
        row.update(summarized([quality(split.labels, one) for one in runs]))
        row["gain"] = f"{row['auroc'] - papers[split.name, epsilon]:+.3f}"
    return rows


def resumed(folder: Path, name: str, compute: Callable[[], dict[str, Rows]]) -> dict[str, Rows]:
    """What an earlier run found of this part, or else what it finds now."""
    path = folder / f"{name}.json"
    if path.exists():
        known: dict[str, Rows] = json.loads(path.read_text(encoding="utf-8"))
        return known
    found = compute()
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found), encoding="utf-8")
    return found


def main() -> None:
    """Run everything, or a small part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="three sets, three repeats")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    every = [*RANGES, "ranges"]
    parser.add_argument("--only", nargs="+", choices=every, help="some of the sets, and ranges")
    again = "some methods of beyond.csv, beside what is published of the others"
    parser.add_argument("--renew", nargs="+", choices=list(OTHERS), help=again)
    asked = parser.parse_args()
    quick = asked.quick or asked.smoke
    report = Report("rauch", quick)
    if asked.renew:
        report.table("beyond", renewed(asked.renew))
        return
    repeats = 1 if asked.smoke else 3 if quick else 10
    parts = {name: partial(studied, name, quick, repeats) for name in RANGES}
    parts["ranges"] = partial(ranges_studied, quick, repeats)
    kept = report.folder / ("parts_quick" if quick else "parts")
    chosen = asked.only or (QUICK[:1] if asked.smoke else QUICK if quick else every)
    found = {name: resumed(kept, name, parts[name]) for name in track(chosen, "studying")}
    tables: dict[str, Rows] = {}
    for some in found.values():
        for table, rows in some.items():
            tables.setdefault(table, []).extend(rows)
    for table, rows in tables.items():
        report.table(table, rows)
    if "cells" in tables:
        report.picture("rauch", draw(tables["cells"], tables["epsilon"]))
    for row in tables.get("sets", []):
        report.picture(f"quality_{row['set']}", quality_of(row["set"], tables["epsilon"]))


if __name__ == "__main__":
    main()
