"""The pictures of Asif, Vaidya and Papakonstantinou (2020), drawn from what asif.py computes.

Where the paper prints numbers, they are drawn beside ours.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from _tables import Row
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from privod.outliers.crowds.anomalies import record_privacy
from privod.outliers.crowds.distance import CrowdIndex
from privod.questions.anomaly_labels.query import AnomalyLabels

Floats = NDArray[np.float64]
Curves = dict[str, dict[str, Floats]]

TABLE_2 = {
    "Credit Fraud": (1.1127e-21, 0.4750),
    "APS Trucks": (2.9719e-13, 0.4750),
    "Synthetic": (3.2e-5, 0.4750),
    "Mammography": (0.0022, 0.4749),
    "Thyroid": (0.0870, 0.4750),
}
TABLE_3 = {  # F1 of SP and DP
    "Credit Fraud": (0.997, 0.687),
    "APS Trucks": (0.994, 0.687),
    "Synthetic": (0.997, 0.687),
    "Mammography": (0.334, 0.044),
    "Thyroid": (0.461, 0.224),
}
SMALLEST_DRAWN = 1e-45
COLORS = {"SP": "#2563a8", "DP": "#c2571a", "B1": "#9aa4b1", "B2": "#5b6673"}


def draw_boxes(boxes: Curves) -> Figure:
    """The paper's Figure 3."""
    figure = Figure(figsize=(3.4 * len(boxes), 3.6), layout="constrained")
    for place, (name, some) in enumerate(boxes.items()):
        axes = figure.add_subplot(1, len(boxes), place + 1)
        axes.boxplot(list(some.values()), tick_labels=list(some))
        axes.tick_params(axis="x", rotation=60)
        axes.set_title(name)
    figure.axes[0].set_ylabel("probability of a wrong label")
    return figure


def draw_ranks(ranks: Curves) -> Figure:
    """The paper's Figure 4: the anomalies by their error, for each k, at epsilon 0.1."""
    figure = Figure(figsize=(3.4 * len(ranks), 3.6), layout="constrained")
    for place, (name, curves) in enumerate(ranks.items()):
        axes = figure.add_subplot(1, len(ranks), place + 1)
        for label, some in curves.items():
            style = "--" if label == "DP" else "-"
            drawn = np.maximum(some, SMALLEST_DRAWN)
            axes.plot(np.arange(1, len(some) + 1), drawn, style, label=label)
        axes.set_yscale("log")
        axes.set_title(name)
        axes.set_xlabel("anomalies, the largest error first")
    figure.axes[0].set_ylabel("probability of a wrong label")
    figure.axes[0].legend(fontsize=7)
    return figure


def draw_means(rows: list[Row], title: str) -> Figure:
    """Mean errors of SP and DP; for random queries (the paper's Table 2) beside the paper's."""
    figure = Figure(figsize=(max(6, 1.6 + 1.5 * len(rows)), 3.8), layout="constrained")
    axes = figure.add_subplot()
    places = np.arange(len(rows))
    for shift, law in ((-0.2, "SP"), (0.2, "DP")):
        heights = [max(row[f"{law} mean error"], SMALLEST_DRAWN) for row in rows]
        axes.bar(places + shift, heights, 0.38, color=COLORS[law], label=law)
        if "queries" in rows[0]:
            known = [TABLE_2.get(row["data"], (math.nan, math.nan)) for row in rows]
            theirs = [pair[law == "DP"] for pair in known]
            label = "the paper's" if law == "SP" else None
            axes.plot(places + shift, theirs, "_", color="black", markersize=18, label=label)
    axes.set_yscale("log")
    axes.set_xticks(places, [row["data"] for row in rows], rotation=20, fontsize=8)
    axes.set_ylabel("mean probability of a wrong label")
    axes.set_title(f"Error over {title}, epsilon 0.1")
    axes.legend(fontsize=8)
    return figure


def draw_scores(rows: list[Row]) -> Figure:
    """The paper's Table 3: precision, recall and F1 of every law; the paper's F1 as a line."""
    names = list(dict.fromkeys(row["data"] for row in rows))
    figure = Figure(figsize=(max(6, 1.6 + 1.7 * len(names)), 7.5), layout="constrained")
    for line, measure in enumerate(("precision", "recall", "F1")):
        axes = figure.add_subplot(3, 1, line + 1)
        for place, law in enumerate(COLORS):
            values = [row[measure] for row in rows if row["law"] == law]
            at = np.arange(len(names)) + 0.2 * (place - 1.5)
            axes.bar(at, values, 0.19, color=COLORS[law], label=law)
            if measure == "F1" and law in ("SP", "DP"):
                known = [TABLE_3.get(name, (math.nan, math.nan)) for name in names]
                theirs = [pair[law == "DP"] for pair in known]
                label = "the paper's" if law == "SP" else None
                axes.plot(at, theirs, "_", color="black", markersize=14, label=label)
        axes.set_ylim(0, 1.05)
        axes.set_ylabel(measure)
        axes.set_xticks(np.arange(len(names)), names, fontsize=8)
    figure.axes[-1].legend(fontsize=8, ncols=5)
    figure.axes[0].set_title("Labels of all records, epsilon 0.1")
    return figure


def maps(n: int) -> dict[str, Figure]:
    """The paper's Figures 1 and 2: a Gaussian in the plane, epsilon 0.25."""
    points = np.random.default_rng(0).normal(0, math.sqrt(2), (n, 2))
    beta, radius = round(1.2e-3 * n), 0.13 * math.sqrt(4)
    crowds = CrowdIndex(points).crowds(radius)
    laws = {"DP": None, "SP, k = 1": 1, "SP, k = 7": 7, "SP, k = 14": 14}
    labels = {
        law: _label(beta, margin) for law, margin in laws.items() if not margin or margin < beta
    }
    privacy = Figure(figsize=(4.2 * len(labels), 3.8), layout="constrained")
    for place, (law, label) in enumerate(labels.items()):
        known = {size: record_privacy(0.25, size, 1, label.edits, beta) for size in set(crowds)}
        kept = np.exp(-np.array([known[size] for size in crowds]))
        axes = privacy.add_subplot(1, len(labels), place + 1)
        dots = _map(axes, points, kept, law, least=0.0)
    privacy.colorbar(dots, ax=privacy.axes, label="exp(-eps_i): 1 is full privacy")
    accuracy = Figure(figsize=(9, 3.8), layout="constrained")
    for place, law in enumerate(("SP, k = 1", "DP")):
        known = {size: 1 - labels[law].error(size, 1) for size in set(crowds)}
        axes = accuracy.add_subplot(1, 2, place + 1)
        dots = _map(axes, points, np.array([known[size] for size in crowds]), law, least=0.5)
    accuracy.colorbar(dots, ax=accuracy.axes, label="probability of a right label")
    return {"privacy_map": privacy, "accuracy_map": accuracy}


def _label(beta: int, margin: int | None) -> AnomalyLabels:
    return AnomalyLabels(
        records=((0.0, 0.0),),
        columns=("x", "y"),
        near="distance(radius=1)",
        max_crowd=beta,
        epsilon="0.25",
        edit_margin=margin,
    )


def _map(axes: Axes, points: Floats, values: Floats, title: str, least: float) -> Any:
    order = np.argsort(-values)
    x, y = points[order].T
    axes.set_title(title)
    axes.set_aspect("equal")
    return axes.scatter(x, y, c=values[order], s=3, cmap="viridis", vmin=least, vmax=1)
