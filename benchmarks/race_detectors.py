"""How good are private detectors by default, beside those that are not private?

    python benchmarks/race_detectors.py [--quick] [--alone] [--speed] [--rows 50000]

Every labeled set of the folder PRIVOD_DATA (and of its folder detection/) is fitted on all rows
without labels and the same rows are scored; the figure is the area under the ROC curve, and its
mean over the sets. Ranges are what somebody who knows the units would declare: rounded out to
powers of two from zero. Nothing else is given but epsilon. Of kdd99, whose attacks are the
majority, the normal rows with two rare kinds of attack and with a sample of all are taken. Large
sets are cut to 50,000 rows, or to `--rows`; k-NN and LOF take part on sets of up to 12,000, the
grid with up to 12 columns. Figures of private detectors are means over several fits where a set is
small. Detectors that did not take part in all sets are set beside IForest on the sets they did.
`--quick` takes the smaller sets and one epsilon, `--alone` leaves out all that are not private but
IForest, and speed; `--speed` takes speed alone.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from privod.data import Domain, Numeric, Table
from privod.estimators import GridKnnDetector, MarginalDetector, PrivateDetector
from privod.mechanisms import secure
from privod.questions.density_sketch.query import DensitySketch

Floats = NDArray[np.float64]

MOST_ROWS = 50_000
MOST_FOR_NEIGHBORS = 12_000
MOST_GRID_COLUMNS = 12
MOST_REPEATS = 24  # fits of a private detector to a small set: noise decides much there
SMALL = 30_000  # values
TARGET = 0.1  # of the rows, to be flagged
FACTOR = 1.5  # by which the share that is flagged may be off to count as met
U2R = ("buffer_overflow", "loadmodule", "perl", "rootkit")
R2L = (
    "ftp_write", "guess_passwd", "imap", "multihop", "phf", "spy", "warezclient", "warezmaster",
)  # fmt: skip
NOT_COLUMNS = ("label", "class", "income", "split", "attack_type")


class Labeled(NamedTuple):
    name: str
    frame: pd.DataFrame
    labels: NDArray[np.int64]
    bounds: dict[str, Any]


def labeled_sets(folder: Path, most_bytes: int, most_rows: int = MOST_ROWS) -> Iterator[Labeled]:
    for path in sorted([*folder.glob("*.parquet"), *folder.glob("detection/*.parquet")]):
        if path.stat().st_size > most_bytes:
            continue
        frame = pd.read_parquet(path)
        if "label" not in frame:
            continue
        if "attack_type" not in frame:
            yield prepared(path.stem, frame, most_rows)
            continue
        attack = frame["attack_type"].astype(str)
        normal = attack == "normal"
        few = np.random.default_rng(0).random(len(frame)) < 0.0025
        for name, kept in (
            ("kdd_u2r", attack.isin(U2R)),
            ("kdd_r2l", attack.isin(R2L)),
            ("kdd_any", few),
        ):
            yield prepared(name, frame[normal | kept], most_rows)


def prepared(name: str, frame: pd.DataFrame, most_rows: int) -> Labeled:
    if len(frame) > most_rows:
        frame = frame.iloc[np.random.default_rng(1).permutation(len(frame))[:most_rows]]
    labels = frame["label"].to_numpy(np.int64)
    frame = frame.drop(columns=[column for column in NOT_COLUMNS if column in frame])
    bounds: dict[str, Any] = {}
    for column in map(str, frame.columns):
        if isinstance(frame[column].dtype, pd.CategoricalDtype):
            bounds[column] = [str(value) for value in frame[column].cat.categories]
            frame[column] = frame[column].astype(str)
        else:
            low, high = float(frame[column].min()), float(frame[column].max())
            bounds[column] = (-outward(-low), outward(high) or 1.0)
    return Labeled(name, frame, labels, bounds)


def outward(value: float) -> float:
    return float(2.0 ** np.ceil(np.log2(value))) if value > 0 else 0.0


def auroc(labels: NDArray[np.int64], scores: Floats) -> float:
    ranks = rankdata(np.nan_to_num(scores))
    positive = int(labels.sum())
    above = ranks[labels == 1].sum() - positive * (positive + 1) / 2
    return float(above / (positive * (len(labels) - positive)))


def numbers(one: Labeled) -> tuple[Floats, tuple[Floats, Floats]]:
    """Codes for categories and medians for missing values: for detectors that need them."""
    columns, lows, highs = [], [], []
    for name, known in one.bounds.items():
        values = one.frame[name]
        if isinstance(known, list):
            columns.append(values.map({each: at for at, each in enumerate(known)}).astype(float))
            lows.append(0.0)
            highs.append(float(max(len(known) - 1, 1)))
        else:
            columns.append(values.astype(float))
            lows.append(known[0])
            highs.append(known[1])
    rows = np.column_stack([column.to_numpy() for column in columns])
    filled = np.where(np.isnan(rows), np.nanmedian(rows, axis=0), rows)
    return filled, (np.array(lows), np.array(highs))


def private_aurocs(one: Labeled, epsilon: float) -> tuple[dict[str, float], list[float]]:
    """Means over several fits, each with noise of its own, and which shares were flagged.

    Shares of the rows that PrivateDetector flags where 10 % are asked for, of the fits whose
    release says that a threshold for so few is no guess.
    """
    repeats = MOST_REPEATS if one.frame.size < SMALL else 2 if one.frame.size < 10 * SMALL else 1
    flagged: list[float] = []
    fits = [private_scores(one, epsilon, flagged) for _ in range(repeats)]
    means = {
        name: float(np.mean([auroc(one.labels, scores[name]) for scores in fits]))
        for name in fits[0]
    }
    return means, flagged


def private_scores(one: Labeled, epsilon: float, flagged: list[float]) -> dict[str, Floats]:
    rows, ranges = numbers(one)
    detector = PrivateDetector(epsilon, bounds=one.bounds, contamination=TARGET).fit(one.frame)
    scores = detector.score_samples(one.frame)
    if detector.release_.value.hidden_share < TARGET:
        flagged.append(float((scores < detector.offset_).mean()))
    found = {
        "PrivateDetector": -scores,
        "MarginalDetector": -MarginalDetector(epsilon, bounds=ranges).fit(rows).score_samples(rows),
    }
    grid = GridKnnDetector(epsilon, bounds=ranges)
    if rows.shape[1] <= MOST_GRID_COLUMNS:
        found["GridKnnDetector"] = -grid.fit(rows).score_samples(rows)
    found["GaussianNB"] = private_gaussian(one, rows, ranges, epsilon)
    return {name: scores for name, scores in found.items() if len(scores)}


def sketched(one: Labeled, epsilon: float) -> Floats:
    """Scores by a density sketch."""
    rows, (lows, highs) = numbers(one)
    limits = zip(one.bounds, lows, highs, strict=True)
    domain = Domain(tuple(Numeric(name, low, high) for name, low, high in limits))
    table = Table(domain, dict(zip(domain.names, rows.T, strict=True)))
    query = DensitySketch(columns=domain.names, epsilon=epsilon)
    return query.answer(table, secure()).value.scores(rows)


def private_gaussian(
    one: Labeled, rows: Floats, ranges: tuple[Floats, Floats], epsilon: float
) -> Floats:
    """diffprivlib's Gaussian naive Bayes of one class, where it is installed."""
    try:
        from diffprivlib.models import GaussianNB
    except ImportError:
        return np.zeros(0)
    model = GaussianNB(epsilon=epsilon, bounds=ranges, priors=[1.0])
    model.fit(rows, np.zeros(len(one.labels), dtype=int))
    return np.asarray(-model._joint_log_likelihood(rows)[:, 0])


def peer_scores(one: Labeled, alone: bool) -> dict[str, Floats]:
    from pyod.models.ecod import ECOD
    from pyod.models.hbos import HBOS
    from pyod.models.iforest import IForest
    from pyod.models.knn import KNN
    from pyod.models.lof import LOF

    rows, _ = numbers(one)
    deviations = rows.std(axis=0)
    scaled = (rows - rows.mean(axis=0)) / np.where(deviations > 0, deviations, 1)
    found = {"IForest": IForest(random_state=0).fit(rows).decision_scores_}
    if alone:
        return found
    found |= {
        "HBOS": HBOS().fit(rows).decision_scores_,
        "ECOD": ECOD().fit(rows).decision_scores_,
    }
    if len(rows) <= MOST_FOR_NEIGHBORS:
        found["KNN"] = KNN().fit(scaled).decision_scores_
        found["LOF"] = LOF().fit(scaled).decision_scores_
    return found


def race_speed(n_rows: int, n_columns: int) -> float:
    """How many times as long as HBOS fitting and scoring takes, side by side, best of three."""
    from pyod.models.hbos import HBOS

    rows = np.random.default_rng(0).normal(size=(n_rows, n_columns))
    PrivateDetector(bounds=(-8, 8)).fit(rows[:2000]).score_samples(rows[:2000])  # compiles
    best = {"private": np.inf, "hbos": np.inf}
    for _ in range(3):
        begun = time.perf_counter()
        PrivateDetector(bounds=(-8, 8)).fit(rows).score_samples(rows)
        best["private"] = min(best["private"], time.perf_counter() - begun)
        begun = time.perf_counter()
        HBOS().fit(rows).decision_function(rows)
        best["hbos"] = min(best["hbos"], time.perf_counter() - begun)
    return best["private"] / best["hbos"]


def report(figures: dict[str, dict[str, float]]) -> None:
    """Means over the sets, and how often the forest is good and the private detector is not."""
    forest = figures["IForest"]
    for name, values in figures.items():
        mean, same = (np.mean([table[key] for key in values]) for table in (values, forest))
        print(f"{name}: {mean:.4f} over {len(values)} sets, IForest on the same {same:.4f}")
    for name, values in figures.items():
        short = name.replace("PrivateDetector", "private_default")
        print(f"figure auroc_{short} {np.mean(list(values.values())):.4f}")
        if short != name:
            failed = [key for key in values if forest[key] >= 0.9 and values[key] < 0.6]
            if failed:
                print(f"{name} below 0.6 where IForest has 0.9: {', '.join(failed)}")
            print(f"figure sets_failed_{short} {len(failed)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--alone", action="store_true", help="private detectors and IForest alone")
    parser.add_argument("--rows", type=int, default=MOST_ROWS, help="of a set, at most")
    parser.add_argument("--speed", action="store_true", help="the time beside HBOS alone")
    options = parser.parse_args()
    quick = options.quick
    if not options.alone:
        n_rows = 100_000 if quick else 1_000_000
        print(f"figure time_to_hbos_{n_rows}x30 {race_speed(n_rows, 30):.2f}")
    if options.speed:
        return
    folder = os.environ.get("PRIVOD_DATA")
    if not folder:
        sys.exit("Set PRIVOD_DATA to the folder of data sets.")
    warnings.simplefilter("ignore")
    epsilons = (1.0,) if quick else (0.1, 1.0, 10.0)
    figures: dict[str, dict[str, float]] = {}
    flagged_by_detector: dict[float, list[float]] = {epsilon: [] for epsilon in epsilons}
    for one in labeled_sets(Path(folder), 40_000 if quick else 2**40, options.rows):
        found = {
            name: auroc(one.labels, scores)
            for name, scores in peer_scores(one, options.alone).items()
        }
        for epsilon in epsilons:
            means, shares = private_aurocs(one, epsilon)
            flagged_by_detector[epsilon] += shares
            for name, value in means.items():
                found[f"{name}_eps{epsilon:g}"] = value
            found[f"DensitySketch_eps{epsilon:g}"] = auroc(one.labels, sketched(one, epsilon))
        for name, value in found.items():
            figures.setdefault(name, {})[one.name] = value
        shown = " ".join(f"{name} {value:.3f}" for name, value in found.items())
        print(f"{one.name} {one.frame.shape}: {shown}", flush=True)
    report(figures)
    for epsilon, shares in flagged_by_detector.items():
        met = [TARGET / FACTOR < share < TARGET * FACTOR for share in shares]
        print(f"figure detector_flagged_within_1.5_eps{epsilon:g} {np.mean(met):.3f}")
        print(f"figure detector_flagged_fits_eps{epsilon:g} {len(met)}")


if __name__ == "__main__":
    main()
