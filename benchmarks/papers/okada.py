"""The experiments of Okada, Fukuchi, Kakizaki and Sakuma (2015), and what really comes out.

Run `PRIVOD_DATA=folder python benchmarks/papers/okada.py` (a few minutes), or with `--quick`.
Writes out/papers/okada/: `bounds.csv` (Figure 1), `covers.csv` (U_t of Theorem 6 in many columns),
`regimes.csv` (which radius gives which count),
`deviations.csv` (noise of every variant against epsilon, the paper's Figures 3 and 4), `errors.csv`
(mean absolute error), `subspaces.csv` (precision and recall, Figures 5 to 7), and pictures.

As in the paper: Replace with N public, delta 0.01, k = 3. Its radii belong to data that it does not
give, so each set is counted in three regimes: the radius it prints, the one that maximizes its
Equation 10 (accuracy against the labels; the smallest such), and the one that gives the number of
outliers it planted. The graded count is another statistic: its noise stands beside its distance
from the hard count.
Adult 1 and 2 have 7 columns there; the paper does not say which, here the five numeric ones but
fnlwgt, and sex and marital-status as codes. Columns are scaled to mean 0 and variance 1 over the
chosen rows, as there; that step is not private. Selection repeats draw from the same laws in
NumPy, for speed.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from _generators import okada_synthetic_1, okada_synthetic_2
from _tables import Report, Row, data_frame
from matplotlib.figure import Figure
from numpy.typing import NDArray

from privod.data import Table
from privod.mechanisms import DiscreteLaplace, seeded
from privod.mechanisms.smooth import SmoothGaussian, SmoothHeavy, SmoothLaplace, SmoothNoise
from privod.outliers.crowds.distance import CrowdIndex
from privod.outliers.crowds.packing import packing_number
from privod.pictures.canvas import MUTED, WARM, blank
from privod.privacy import Replace
from privod.query.crowd_bounds import (
    GroupedCover,
    count_outliers,
    count_sensitivity,
    count_with_bound,
    graded_credits,
    local_bound,
)
from privod.questions.graded_count.query import GradedCount

Floats = NDArray[np.float64]
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
    if noise == "gaussian":
        return SmoothGaussian.for_loss(epsilon, DELTA)
    return SmoothLaplace.for_loss(epsilon, DELTA)


@dataclass(frozen=True)
class Counted:
    """One set, its last rows planted as outliers, and the radius that a regime gives."""

    name: str
    points: Floats
    planted: int
    regime: str
    radius: float  # per column, as in the paper

    @property
    def d(self) -> int:
        """Its columns."""
        return int(self.points.shape[1])

    @property
    def scaled(self) -> float:
        """The Euclidean radius."""
        return self.radius * math.sqrt(self.d)

    @property
    def count(self) -> int:
        """The hard count."""
        return count_outliers(self.points, self.scaled, K)

    def accuracy(self) -> float:
        """Equation 10: the share of records whose verdict is their label."""
        verdict = CrowdIndex(self.points).crowds(self.scaled) <= K
        label = np.arange(len(self.points)) >= len(self.points) - self.planted
        return float((verdict == label).mean())

    def smooth(self, noise: str, epsilon: str) -> tuple[SmoothNoise, Fraction]:
        """A smooth noise, and its bound on these points."""
        smooth = smooth_noise(noise, epsilon)
        most = count_sensitivity(K, self.d, Replace(), len(self.points))
        cover = GroupedCover(self.points, self.scaled, EXTENT, cores=True)  # N is public
        _, rung = count_with_bound(self.points, self.scaled, K, smooth, Replace(), cover, most)
        return smooth, smooth.staircase.value(rung)

    def graded(self, epsilon: str) -> GradedCount:
        """The graded count at the same radius."""
        return GradedCount(radius=self.scaled, max_crowd=K, epsilon=epsilon, adjacency=Replace())


def regimes(name: str, points: Floats, planted: int, printed: float) -> list[Counted]:
    """The paper's radius, the one of its Equation 10, and the one that finds as many as planted."""
    away = np.sort(np.linalg.norm(points[:, None] - points[None], axis=2), axis=1)
    turns = np.unique(away[:, K]) / math.sqrt(points.shape[1])  # where a record becomes an inlier
    tried = [Counted(name, points, planted, "", float(np.nextafter(r, np.inf))) for r in turns]
    best = max(tried, key=lambda one: (round(one.accuracy(), 9), -one.radius))
    nearest = min(tried, key=lambda one: (abs(one.count - planted), one.radius))
    return [
        Counted(name, points, planted, "printed", printed),
        Counted(name, points, planted, "Equation 10", best.radius),
        Counted(name, points, planted, "planted number", nearest.radius),
    ]


def regime_row(one: Counted) -> Row:
    """What a radius finds."""
    credits = graded_credits(one.points, one.scaled, K, one.graded("1").n_grades)
    return {
        "data": one.name,
        "N": len(one.points),
        "columns": one.d,
        "regime": one.regime,
        "radius": one.radius,
        "planted": one.planted,
        "outliers": one.count,
        "accuracy": one.accuracy(),
        "graded count": float(credits.sum() / one.graded("1").n_grades),
    }


def deviations(one: Counted, epsilon: str) -> Row:
    """The standard deviation of the noise of every variant on these points."""
    n, d = len(one.points), one.d
    lower = min(n, 2 * d * K + 1)
    row: Row = {"data": one.name, "regime": one.regime, "epsilon": epsilon, "outliers": one.count}
    row["papers global"] = lower * math.sqrt(2 * math.log(2 / 0.01)) / float(epsilon)
    bound = count_sensitivity(K, d, Replace(), n)
    row["global"] = DiscreteLaplace.for_loss(epsilon, bound).deviation
    unsized = count_sensitivity(K, d, Replace())
    row["global, any size"] = DiscreteLaplace.for_loss(epsilon, unsized).deviation
    for noise in SMOOTH:
        smooth, value = one.smooth(noise, epsilon)
        row[noise] = smooth.deviation(float(value))
        row[f"S {noise}"] = float(value)
    graded = one.graded(epsilon)
    row["graded count"] = graded.noise(d).deviation / graded.n_grades
    counts = ("global", *SMOOTH)
    row["least of the count"] = min(counts, key=lambda key: row[key])
    row["floor of the paper's noise"] = 5 * math.sqrt(2 * math.log(2 / 0.01)) / float(epsilon)
    return row


def absolute_error(one: Counted, epsilon: str, noise: str, draws: int) -> float:
    """The mean absolute error of a noise on these points, by drawing it."""
    source = seeded(1)
    if noise == "global":
        bound = count_sensitivity(K, one.d, Replace(), len(one.points))
        drawn = DiscreteLaplace.for_loss(epsilon, bound).draw(draws, source)
        return float(np.abs(drawn).mean())
    smooth, value = one.smooth(noise, epsilon)
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


def draw_deviations(rows: list[Row]) -> Figure:
    """The paper's Figures 3 and 4, with every variant and regime."""
    places = list(dict.fromkeys((row["data"], row["regime"]) for row in rows))
    figure = Figure(figsize=(12, 3.4 * math.ceil(len(places) / 3)), layout="constrained")
    for place, (name, regime) in enumerate(places):
        axes = figure.add_subplot(math.ceil(len(places) / 3), 3, place + 1)
        some = [row for row in rows if (row["data"], row["regime"]) == (name, regime)]
        for key in (
            "papers global",
            "global",
            *SMOOTH,
            "graded count",
            "floor of the paper's noise",
        ):
            style = "--" if "paper" in key else "-"
            axes.plot([float(r["epsilon"]) for r in some], [r[key] for r in some], style, label=key)
        axes.set_yscale("log")
        axes.set_title(f"{name}, {regime} ({some[0]['outliers']} outliers)", fontsize=9)
        axes.set_xlabel("epsilon")
    figure.axes[0].set_ylabel("standard deviation of the noise")
    figure.axes[-1].legend(fontsize=7)
    return figure


def draw_errors(rows: list[Row]) -> Figure:
    """The mean absolute error of every noise on each set."""
    figure = Figure(figsize=(12, 4), layout="constrained")
    axes = figure.add_subplot()
    noises = ("global", *SMOOTH)
    for place, noise in enumerate(noises):
        heights = [row[noise] for row in rows]
        at = np.arange(len(rows)) + 0.2 * (place - 1.5)
        axes.bar_label(axes.bar(at, heights, 0.19, label=noise), fmt="%.3g", fontsize=7)
    names = [f"{row['data']},\n{row['regime']},\n{row['true count']} outliers" for row in rows]
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


def bounds() -> list[Row]:
    """Figure 1: the paper's lower bound of the global sensitivity, and what is proved above."""
    return [
        {
            "columns": d,
            "K": packing_number(d),
            "paper's lower bound": 2 * d * K + 1,
            "upper bound": packing_number(d) * K + 1,
        }
        for d in (1, 2, 3, 4, 6, 8, 12, 16, 24, 34)
    ]


def covers() -> list[Row]:
    """U_t above the plane (Theorem 6), by lattices alone and with the cores of near pairs."""
    rows = []
    for name, points, planted in (("Adult 1", adult(45, 5), 5), ("Ionosphere", ionosphere(), 10)):
        one = regimes(name, points, planted, 1.0)[1]
        most = count_sensitivity(K, one.d, Replace(), len(points))
        crowds = CrowdIndex(points).crowds(one.scaled)
        for cores, cover in ((False, "lattices"), (True, "cores of near pairs")):
            grouped = GroupedCover(points, one.scaled, EXTENT, cores=cores)
            bound = local_bound(crowds, grouped, K, most, Replace())
            row: Row = {"data": name, "columns": one.d, "cover": cover}
            rows.append(row | {f"U_{t}": bound(t) for t in range(4)})
    return rows


def main() -> None:
    """Count in every regime, then search for subspaces."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="synthetic sets only, few repeats")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    parser.add_argument("--bounds", action="store_true", help="the sensitivities alone (Figure 1)")
    given = parser.parse_args()
    quick = given.quick or given.smoke
    report = Report("okada", quick)
    report.table("bounds", bounds(), "Bounds of the global sensitivity, k = 3 (Figure 1)")
    if not quick:
        report.table("covers", covers(), "U_t above the plane, in the regime of Equation 10")
    if given.bounds:
        return
    repeats = (5, 10) if given.smoke else (50, 100) if quick else (400, 1000)
    epsilons = ["0.1", "0.5", "0.9"] if quick else [f"0.{tenth}" for tenth in range(1, 10)]
    counted = regimes("Synthetic 1", numbers_raw(okada_synthetic_1()), 5, 1.1)
    searched = {"Synthetic 2": (numbers_raw(okada_synthetic_2()), 0.13)}
    if not quick:
        counted += regimes("Adult 1", adult(45, 5), 5, 0.35)
        counted += regimes("Ionosphere", ionosphere(), 10, 0.06)
        searched |= {"Adult 2": (adult(369, 10), 0.02), "Ionosphere": (ionosphere(), 0.06)}
    report.table("regimes", [regime_row(one) for one in counted], "Which radius gives which count")
    rows = [deviations(one, epsilon) for one in counted for epsilon in epsilons]
    report.table("deviations", rows, "Deviation of the noise, Replace, delta 0.01")
    report.picture("deviations", draw_deviations(rows))
    errors = [
        {
            "data": one.name,
            "regime": one.regime,
            "columns": one.d,
            "epsilon": "0.7",
            "true count": one.count,
            **{
                noise: absolute_error(one, "0.7", noise, repeats[0])
                for noise in ("global", *SMOOTH)
            },
        }
        for one in counted
    ]
    report.table("errors", errors, "Mean absolute error at epsilon 0.7")
    report.picture("errors", draw_errors(errors))
    found: list[Row] = []
    for name, (points, radius) in searched.items():
        true_sets = [0, 1] if name == "Synthetic 2" else fullest(points, radius)
        some, chances = subspace_rows(name, points, radius, true_sets, repeats[1])
        found += some
        names = [f"column {j + 1}" for j in range(points.shape[1])]
        title = f"{name}: h = 2, epsilon 3.2 (the two true sets in color)"
        chart = draw_chances(names, chances, {names[j] for j in true_sets}, title)
        report.picture(f"chances_{name.replace(' ', '_').lower()}", chart)
    report.table("subspaces", found, "Subspaces of one column: precision and recall")
    report.picture("subspaces", draw_recall(found, list(searched)))


def draw_chances(names: list[str], chances: Floats, true_sets: set[str], title: str) -> Figure:
    """How likely each set is among those chosen: it depends on the rows."""
    figure, axes = blank(title, height=max(4.0, 0.25 * len(names)))
    order = np.argsort(-chances, kind="stable")
    colors = [WARM if names[place] in true_sets else MUTED for place in order]
    axes.barh([names[place] for place in order], chances[order], color=colors)
    axes.set_xlim(0, 1)
    axes.set_xlabel("chance to be among the sets chosen")
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    return figure


def numbers_raw(table: Table) -> Floats:
    """All columns of a synthetic table, as they are."""
    return np.ascontiguousarray(table.numbers(table.domain.numeric_names))


def fullest(points: Floats, radius: float) -> list[int]:
    """The two columns with most outliers."""
    counts = [count_outliers(points[:, [j]].copy(), radius, K) for j in range(points.shape[1])]
    return [int(place) for place in np.argsort(-np.array(counts), kind="stable")[:2]]


if __name__ == "__main__":
    main()
