"""Is a grid worse for having dropped most of its cells? Side by side with one that keeps all.

    PRIVOD_DATA=folder python benchmarks/papers/rauch_dropping.py            # some minutes
    PRIVOD_DATA=folder python benchmarks/papers/rauch_dropping.py --quick    # under a minute

Writes out/papers/rauch_dropping/: `rows.csv`, the last column "all cells, some dropped", and
`figures.csv`, what they come to.

`GridKnn` drops cells by itself where there are many more of them than of many records. Both grids
have the same loss, cells and ranges; the one that drops pays for the number of records as well.
AUROC is of outliers against fresh inliers; means of some runs. Real sets need PRIVOD_DATA and are
left out without it. Their ranges are read off the rows, which nobody may do in earnest.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from _tables import Report, Row, data_frame
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from privod.data import Domain, Numeric, Table
from privod.mechanisms import secure
from privod.progress import track
from privod.questions.grid_knn.query import MOST_HELD_CELLS, GridKnn

Floats = NDArray[np.float64]

MOST_SCORED = 20_000
CLOUDS = ("normal", "correlated", "heavy tails")
RARE_ATTACKS = [
    "buffer_overflow", "loadmodule", "perl", "rootkit", "ftp_write", "guess_passwd", "imap",
    "multihop", "phf", "spy", "warezclient", "warezmaster",
]  # fmt: skip


class Scene(NamedTuple):
    """Reference records, fresh ones of the same kind, and outliers."""

    name: str
    reference: Floats
    fresh: Floats
    outliers: Floats


def made(n: int, n_columns: int) -> Iterator[Scene]:
    """Clouds: round, stretched, heavy-tailed; outliers are uniform."""
    rng = np.random.default_rng(n_columns)
    shape = (n + MOST_SCORED, n_columns)
    common = rng.normal(size=(shape[0], 1))
    clouds = (
        rng.normal(size=shape),
        0.8 * common + 0.6 * rng.normal(size=shape),
        np.clip(rng.standard_t(3, size=shape), -10, 10),
    )
    for name, cloud in zip(CLOUDS, clouds, strict=True):
        reach = float(np.abs(cloud).max())
        outliers = rng.uniform(-reach, reach, (2000, n_columns))
        yield Scene(name, cloud[:n], cloud[n:], outliers)


def real(quick: bool) -> Iterator[Scene]:
    """Sets of many records, with as many columns as leave a grid that can be held."""
    fraud = data_frame("credit_fraud").to_pandas()
    traffic = data_frame("kdd99_10percent").to_pandas()
    attack = traffic["attack_type"].astype(str).str.strip(".")
    traffic["label"] = attack.isin(RARE_ATTACKS).astype(int)
    traffic = traffic[attack.isin(["normal", *RARE_ATTACKS])]
    frames: dict[str, Any] = {
        "credit fraud": fraud,
        "network traffic": traffic,
        "adult": data_frame("adult").to_pandas(),
    }
    for name, frame in frames.items():
        labels = frame["label"].to_numpy() == 1
        numbers = frame.drop(columns="label").select_dtypes("number").to_numpy(np.float64)
        if name == "network traffic":
            numbers = np.log1p(np.maximum(numbers, 0))
        varied = numbers[:, numbers.std(axis=0) > 0]
        order = np.random.default_rng(0).permutation(np.flatnonzero(~labels))
        cut = len(order) * 4 // 5
        for n_columns in (6, 8) if quick else (6, 8, 10, 14, 18, 22):
            if n_columns <= varied.shape[1]:
                some = varied[:, :n_columns]
                fresh = some[order[cut:][:MOST_SCORED]]
                yield Scene(name, some[order[:cut]], fresh, some[labels][:2000])


def compared(scene: Scene, epsilon: str, repeats: int) -> Row | None:
    """AUROC with all cells and with some; None if none would be dropped."""
    low, high = scene.reference.min(axis=0), scene.reference.max(axis=0)
    margin = 0.02 * (high - low) + 1e-9
    columns = tuple(
        Numeric(f"x{axis}", float(low[axis] - margin[axis]), float(high[axis] + margin[axis]))
        for axis in range(len(low))
    )
    values = {column.name: scene.reference[:, axis] for axis, column in enumerate(columns)}
    table = Table(Domain(columns), values)
    query = GridKnn(columns=tuple(values), epsilon=epsilon, expected_records=len(table))
    if query.threshold is None or query.n_cells > MOST_HELD_CELLS:
        return None
    labels = np.repeat([0, 1], [len(scene.fresh), len(scene.outliers)])
    rows = []
    for drop_below in (None, query.threshold):
        asked = GridKnn(
            columns=query.columns,
            epsilon=epsilon,
            expected_records=len(table),
            drop_below=drop_below,
        )
        runs = []
        for _ in range(repeats):
            grid = asked.answer(table, secure()).value
            fresh, far = (grid.walk(some).graded for some in (scene.fresh, scene.outliers))
            runs.append(roc_auc_score(labels, np.concatenate([fresh, far])))
        rows.append(np.mean(runs))
    return {
        "set": scene.name,
        "columns": len(columns),
        "records": len(table),
        "epsilon": epsilon,
        "cells": f"{query.n_cells:.1e}",
        "threshold": query.threshold,
        "AUROC": ", ".join(f"{mean:.3f}" for mean in rows),
    }


def figures_of(rows: list[Row]) -> dict[str, float]:
    """What the table comes to."""
    pairs = np.array([[float(part) for part in row["AUROC"].split(",")] for row in rows])
    gains = pairs @ np.array([-1, 1])
    return {
        "dropped_cells_auroc_gain_mean": float(gains.mean()),
        "dropped_cells_auroc_gain_least": float(gains.min()),
    }


def main() -> None:
    """Print the table and the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    given = parser.parse_args()
    quick = given.quick or given.smoke
    report = Report("rauch_dropping", quick)
    said = []
    sizes = (
        [(20_000 if given.smoke else 50_000, 6)]
        if quick
        else [(50_000, 6), (100_000, 6), (50_000, 8), (100_000, 8)]
    )
    scenes = [scene for size in sizes for scene in made(*size)]
    if os.environ.get("PRIVOD_DATA") and not given.smoke:
        scenes += real(quick)
    for scene in track(scenes, "comparing"):
        for epsilon in ("1",) if quick else ("0.1", "1", "5"):
            one = compared(scene, epsilon, 1 if quick else 3)
            if one is not None:
                said.append(one)
    report.table("rows", said)
    figures = figures_of(said)
    report.table("figures", [{"figure": name, "value": v} for name, v in figures.items()])
    for name, value in figures.items():
        print(f"figure {name} {value:.4g}")


if __name__ == "__main__":
    main()
