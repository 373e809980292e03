"""The five sets of Rauch, Olatunji and Khosla (2021), split as they do, and their measures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from _tables import data_frame
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from privod.data import Domain, Numeric, Table

__all__ = ["MEASURES", "RANGES", "Floats", "Split", "load", "quality", "table_of"]

Floats = NDArray[np.float64]
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
