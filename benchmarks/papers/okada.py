"""The experiments of Okada, Fukuchi, Kakizaki and Sakuma (2015), and what really comes out.

Run `PRIVOD_DATA=folder python benchmarks/papers/okada.py` (a few minutes), or with `--quick`.
Writes out/papers/okada/: `deviations.csv` (noise of every variant against epsilon, the paper's
Figures 3 and 4), `errors.csv` (mean absolute error on real sets), `subspaces.csv` (precision and
recall, Figures 5 to 7), `report.md` with all of them, and pictures.

As in the paper: Replace with N public, delta 0.01, k = 3 and the radii of its Tables 1 and 2.
Adult 1 and 2 have 7 columns there; the paper does not say which, here the five numeric ones but
fnlwgt, and sex and marital-status as codes. Columns are scaled to mean 0 and variance 1 over the
chosen rows, as there; that step is not private. Selection repeats draw from the same laws in
NumPy, for speed.
"""

from __future__ import annotations

import argparse
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from _tables import write_table
from matplotlib.figure import Figure
from numpy.typing import NDArray

from privod.data.examples import data_frame, okada_synthetic_1, okada_synthetic_2
from privod.mechanisms import DiscreteLaplace, seeded
from privod.mechanisms.smooth import SmoothGaussian, SmoothHeavy, SmoothLaplace, SmoothNoise
from privod.pictures import png
from privod.pictures.subspaces import draw_chances
from privod.privacy import Replace
from privod.queries.crowd_bounds import (
    GroupedCover,
    count_outliers,
    count_sensitivity,
    count_with_bound,
)
from privod.queries.outlier_count import OutlierCount

Floats = NDArray[np.float64]
Row = dict[str, Any]
OUT = Path("out/papers/okada")
DELTA = "0.01"
K = 3
EXTENT = 1e3
SMOOTH = ("laplace", "heavy", "gaussian")
SUBSPACE_EPSILONS = (0.2, 0.4, 0.8, 1.6, 3.2)


def standardized(points: Floats) -> Floats:
    """Mean 0 and variance 1 in each column."""
    spread = points.std(axis=0)
    return np.ascontiguousarray((points - points.mean(axis=0)) / np.where(spread > 0, spread, 1))


def adult(inliers: int, outliers: int) -> Floats:
    """Some rows of Adult: the paper's inliers earn more than 50K, its outliers do not."""
    frame = data_frame("adult").to_pandas()
    names = ["age", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
    columns = [frame[name].to_numpy(float) for name in names]
    columns += [frame[name].cat.codes.to_numpy(float) for name in ("sex", "marital-status")]
    points, label = np.stack(columns, 1), frame["label"].to_numpy()
    chosen = np.concatenate(
        [np.flatnonzero(label == 1)[:inliers], np.flatnonzero(label == 0)[:outliers]]
    )
    return standardized(points[chosen])


def ionosphere() -> Floats:
    """225 good radar returns and 10 bad ones."""
    frame = data_frame("ionosphere").to_pandas()
    label = frame["label"].to_numpy()
    points = frame.drop(columns="label").to_numpy(float)
    chosen = np.concatenate([np.flatnonzero(label == 0), np.flatnonzero(label == 1)[:10]])
    return standardized(points[chosen])


def smooth_noise(noise: str, epsilon: str) -> SmoothNoise:
    """A smooth noise that takes all of epsilon, as the paper's does: no margin is bought."""
    if noise == "heavy":
        return SmoothHeavy.for_loss(epsilon)
    if noise == "laplace":
        return SmoothLaplace.for_loss(epsilon, DELTA)
    return SmoothGaussian.for_loss(epsilon, DELTA)


def smooth_bound(points: Floats, radius: float, noise: SmoothNoise) -> Fraction:
    """The smooth bound of the count on these points."""
    most = count_sensitivity(K, points.shape[1], Replace(), len(points))
    cover = GroupedCover(points, radius, EXTENT)
    _, rung = count_with_bound(points, radius, K, noise, Replace(), cover, most)
    return noise.staircase.value(rung)


def deviations(points: Floats, radius: float, epsilon: str) -> Row:
    """The standard deviation of the noise of every variant on these points."""
    d = points.shape[1]
    scaled = radius * math.sqrt(d)
    bound = count_sensitivity(K, d, Replace(), len(points))
    lower = min(len(points), 2 * d * K + 1)
    row: Row = {"epsilon": epsilon, "outliers": count_outliers(points, scaled, K)}
    row["papers global"] = lower * math.sqrt(2 * math.log(2 / 0.01)) / float(epsilon)
    row["global"] = DiscreteLaplace.for_loss(epsilon, bound).deviation
    unsized = count_sensitivity(K, d, Replace())
    row["global, any size"] = DiscreteLaplace.for_loss(epsilon, unsized).deviation
    for noise in SMOOTH:
        smooth = smooth_noise(noise, epsilon)
        value = float(smooth_bound(points, scaled, smooth))
        row[noise] = smooth.deviation(value)
        row[f"S {noise}"] = value
    row["auto"] = OutlierCount(
        radius=scaled, max_crowd=K, epsilon=epsilon, delta=DELTA, adjacency=Replace()
    ).chosen_noise(d, len(points))
    row["floor of the paper's noise"] = 5 * math.sqrt(2 * math.log(2 / 0.01)) / float(epsilon)
    return row


def absolute_error(points: Floats, radius: float, epsilon: str, noise: str, draws: int) -> float:
    """The mean absolute error of a noise on these points, by drawing it."""
    d, source = points.shape[1], seeded(1)
    if noise == "global":
        bound = count_sensitivity(K, d, Replace(), len(points))
        drawn = DiscreteLaplace.for_loss(epsilon, bound).draw(draws, source)
        return float(np.abs(drawn).mean())
    scaled = radius * math.sqrt(d)  # the paper's distances are per column
    smooth = smooth_noise(noise, epsilon)
    value = smooth_bound(points, scaled, smooth)
    return float(np.mean([abs(smooth.draw(value, source)) for _ in range(draws)]))


def found_sets(
    utilities: Floats, rate: float, h: int, repeats: int, flip: bool, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Chosen sets, (repeats, h): peeling with Gumbel (exponential) or exponential noise (flip)."""
    alive = np.zeros((repeats, len(utilities)))
    chosen = np.empty((repeats, h), np.int64)
    for place in range(h):
        noise = rng.exponential(size=alive.shape) if flip else rng.gumbel(size=alive.shape)
        chosen[:, place] = np.argmax(rate * utilities + noise + alive, axis=1)
        alive[np.arange(repeats), chosen[:, place]] = -np.inf
    return chosen


def subspace_rows(
    name: str, points: Floats, radius: float, true_sets: list[int], repeats: int
) -> tuple[list[Row], Floats]:
    """Precision and recall of the one-column sets found."""
    counts = np.array(
        [count_outliers(points[:, [j]].copy(), radius, K) for j in range(points.shape[1])]
    )
    utilities = counts / count_sensitivity(K, 1, Replace())
    rng, rows = np.random.default_rng(0), []
    for epsilon in SUBSPACE_EPSILONS:
        for h in range(1, 6):
            for law, flip, rate in (
                ("exponential", False, epsilon / (2 * h)),
                ("permute-and-flip", True, epsilon / (2 * h)),
                ("the paper's (costs 2 epsilon)", False, epsilon / h),
            ):
                chosen = found_sets(utilities, rate, h, repeats, flip, rng)
                hits = np.isin(chosen, true_sets).sum(axis=1)
                rows.append(
                    {
                        "data": name,
                        "law": law,
                        "epsilon": epsilon,
                        "h": h,
                        "precision": round(float(hits.mean() / h), 4),
                        "recall": round(float(hits.mean() / len(true_sets)), 4),
                    }
                )
    final = found_sets(utilities, 3.2 / 4, 2, repeats, True, rng)
    return rows, np.array([(final == j).any(axis=1).mean() for j in range(len(counts))])


def draw_deviations(tables: dict[str, list[Row]]) -> Figure:
    """The paper's Figures 3 and 4, with every variant."""
    figure = Figure(figsize=(5 * len(tables), 4), layout="constrained")
    for place, (name, rows) in enumerate(tables.items()):
        axes = figure.add_subplot(1, len(tables), place + 1)
        for key in (
            "papers global",
            "global",
            "global, any size",
            *SMOOTH,
            "floor of the paper's noise",
        ):
            style = "--" if "paper" in key else "-"
            axes.plot([float(r["epsilon"]) for r in rows], [r[key] for r in rows], style, label=key)
        axes.set_yscale("log")
        axes.set_title(f"{name} ({rows[0]['outliers']} outliers)")
        axes.set_xlabel("epsilon")
    figure.axes[0].set_ylabel("standard deviation of the noise")
    figure.axes[-1].legend(fontsize=7)
    return figure


def draw_errors(rows: list[Row]) -> Figure:
    """The mean absolute error of every noise on each set."""
    figure = Figure(figsize=(7, 3.8), layout="constrained")
    axes = figure.add_subplot()
    noises = ("global", *SMOOTH)
    for place, noise in enumerate(noises):
        heights = [row[noise] if row[noise] != "" else math.nan for row in rows]
        at = np.arange(len(rows)) + 0.2 * (place - 1.5)
        axes.bar_label(axes.bar(at, heights, 0.19, label=noise), fmt="%.3g", fontsize=7)
    names = [
        f"{row['data']}, {row['dimensions']} columns,\n{row['true count']} outliers" for row in rows
    ]
    axes.set_xticks(np.arange(len(rows)), names, fontsize=8)
    axes.set_yscale("log")
    axes.set_ylabel("mean absolute error of the count")
    axes.set_title(f"Replace, epsilon {rows[0]['epsilon']}, delta {DELTA}")
    axes.legend(fontsize=8)
    return figure


def draw_recall(rows: list[Row], names: list[str]) -> Figure:
    """The paper's Figures 5 to 7: precision and recall against epsilon, a line for each h."""
    figure = Figure(figsize=(4 * len(names), 6), layout="constrained")
    for column, name in enumerate(names):
        for line, measure in enumerate(("precision", "recall")):
            axes = figure.add_subplot(2, len(names), line * len(names) + column + 1)
            for h in range(1, 6):
                some = [r for r in rows if r["data"] == name and r["h"] == h]
                some = [r for r in some if r["law"] == "permute-and-flip"]
                axes.plot(
                    [r["epsilon"] for r in some], [r[measure] for r in some], label=f"h = {h}"
                )
            axes.set_title(f"{name}: {measure}", fontsize=9)
            axes.set_ylim(0, 1.05)
    figure.axes[0].legend(fontsize=7)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="synthetic sets only, few repeats")
    quick = parser.parse_args().quick
    OUT.mkdir(parents=True, exist_ok=True)
    epsilons = ["0.1", "0.5", "0.9"] if quick else [f"0.{tenth}" for tenth in range(1, 10)]
    counted = {"Synthetic 1": (numbers_raw(okada_synthetic_1()), 1.1)}
    searched = {"Synthetic 2": (numbers_raw(okada_synthetic_2()), 0.13)}
    if not quick:
        counted |= {"Adult 1": (adult(45, 5), 0.35), "Ionosphere": (ionosphere(), 0.06)}
        searched |= {"Adult 2": (adult(369, 10), 0.02), "Ionosphere": (ionosphere(), 0.06)}
    tables = {
        name: [deviations(points, radius, epsilon) for epsilon in epsilons]
        for name, (points, radius) in counted.items()
    }
    parts = [
        "# Okada et al. 2015, repeated",
        "## Standard deviation of the noise, Replace, delta 0.01",
        write_table(
            OUT, "deviations", [{"data": n, **r} for n, rows in tables.items() for r in rows]
        ),
    ]
    (OUT / "deviations.png").write_bytes(png(draw_deviations(tables)))
    errors = [
        {
            "data": name,
            "dimensions": points.shape[1],
            "epsilon": "0.7",
            "true count": count_outliers(points, radius * math.sqrt(points.shape[1]), K),
            **{
                noise: absolute_error(points, radius, "0.7", noise, 50 if quick else 400)
                for noise in ("global", *SMOOTH)
            },
        }
        for name, (points, radius) in counted.items()
    ]
    errors = [{key: row.get(key, "") for key in errors[0]} for row in errors]
    parts += ["## Mean absolute error at epsilon 0.7", write_table(OUT, "errors", errors)]
    (OUT / "errors.png").write_bytes(png(draw_errors(errors)))
    rows: list[Row] = []
    for name, (points, radius) in searched.items():
        true_sets = [0, 1] if name == "Synthetic 2" else fullest(points, radius)
        some, chances = subspace_rows(name, points, radius, true_sets, 100 if quick else 1000)
        rows += some
        names = [f"column {j + 1}" for j in range(points.shape[1])]
        title = f"{name}: h = 2, epsilon 3.2 (the two true sets in color)"
        chart = draw_chances(names, chances, {names[j] for j in true_sets}, title)
        (OUT / f"chances_{name.replace(' ', '_').lower()}.png").write_bytes(png(chart))
    parts += [
        "## Subspaces of one column: precision and recall",
        write_table(OUT, "subspaces", rows),
    ]
    (OUT / "subspaces.png").write_bytes(png(draw_recall(rows, list(searched))))
    (OUT / "report.md").write_text("\n\n".join(parts) + "\n")
    print("\n\n".join(parts[:5]))
    print(f"Written to {OUT}.")


def numbers_raw(table: Any) -> Floats:
    """All columns of a synthetic table, as they are."""
    return np.ascontiguousarray(table.numbers(table.domain.numeric_names))


def fullest(points: Floats, radius: float) -> list[int]:
    """The two columns with most outliers."""
    counts = [count_outliers(points[:, [j]].copy(), radius, K) for j in range(points.shape[1])]
    return [int(place) for place in np.argsort(-np.array(counts), kind="stable")[:2]]


if __name__ == "__main__":
    main()
