"""How good are private detectors by default, beside those that are not private?

    python -m benchmarks.race_detectors [--quick] [--smoke] [--speed] [--rows 20000] [--fits 10]
                                        [--protocol contaminated|novelty] [--sets 6]
                                        [--kept-aside]

Every labeled set of the folder PRIVOD_DATA (and of its folder detection/), by two protocols.
*Contaminated*: all rows are fitted without labels and the same rows are scored. *Novelty*: half of
the inliers are fitted and all other rows are scored. Figures are the area under the ROC curve,
average precision and precision at n (n outliers), as means over sets, of ten fits a set for private
detectors. Ranges are what somebody who knows the units would declare, rounded out to powers of two
from zero, or none ("open"). Nothing else is given but epsilon. Of kdd99, whose attacks are the
majority, the normal rows with two rare kinds of attack and with a sample of all are taken. Large
sets are cut to 20,000 rows, or to `--rows`. Private rivals (private_rivals.py) take part where mbi,
diffprivlib or Opacus can be imported, with one fit a set, MST on sets of up to 30 columns.

`--kept-aside` takes 150 tables of macrOData instead, by novelty with their own split. They lie in
the folder PRIVOD_TABLES, and no constant was chosen on them (see choose_detector.py). `--quick`
takes the smaller sets and three fits, `--smoke` one set and one fit, `--speed` the time beside HBOS
alone.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.private_rivals import RIVALS, rivals

from privod.estimators import PrivateDetector

Floats = NDArray[np.float64]

PROTOCOLS = ("contaminated", "novelty")
MOST_ROWS = 20_000
KEPT_ASIDE = 150
FITS_OF_RIVALS = 1  # which take seconds to minutes
TARGET = 0.1  # of the rows, to be flagged
FACTOR = 2  # by which the share that is flagged may be off to count as met
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


class Split(NamedTuple):
    """Rows to fit and rows to score, as frames and as numbers."""

    fitted: pd.DataFrame
    scored: pd.DataFrame
    labels: NDArray[np.int64]
    rows: Floats
    asked: Floats


def split(one: Labeled, protocol: str) -> Split:
    rows, _ = numbers(one)
    if protocol == "contaminated":
        return Split(one.frame, one.frame, one.labels, rows, rows)
    inliers = np.random.default_rng(2).permutation(np.flatnonzero(one.labels == 0))
    kept = np.sort(inliers[: len(inliers) // 2])
    rest = np.setdiff1d(np.arange(len(rows)), kept)
    frames = one.frame.iloc[kept], one.frame.iloc[rest]
    return Split(*frames, one.labels[rest], rows[kept], rows[rest])


def peers(part: Split) -> dict[str, Floats]:
    """The scores of detectors that are not private."""
    from pyod.models.ecod import ECOD
    from pyod.models.iforest import IForest
    from pyod.models.knn import KNN
    from pyod.models.lof import LOF

    deviations = part.rows.std(axis=0)
    scales = np.where(deviations > 0, deviations, 1)
    scaled, asked = ((rows - part.rows.mean(axis=0)) / scales for rows in (part.rows, part.asked))
    found = {
        "IForest": IForest(random_state=0).fit(part.rows).decision_function(part.asked),
        "ECOD": ECOD().fit(part.rows).decision_function(part.asked),
    }
    same = part.rows is part.asked
    for name, model in (("kNN", KNN()), ("LOF", LOF(novelty=True))):
        model.fit(scaled)
        found[name] = model.decision_scores_ if same else model.decision_function(asked)
    return found


def private(
    one: Labeled,
    part: Split,
    epsilon: str,
    flagged: dict[str, list[tuple[float, bool]]],
    *,
    others: bool,
) -> dict[str, Floats]:
    """The scores of private detectors, of one fit each."""
    _, ranges = numbers(one)
    listed = {name: known for name, known in one.bounds.items() if isinstance(known, list)}
    found: dict[str, Floats] = {}
    ways: dict[str, dict[str, Any]] = {
        "PrivateDetector": {"bounds": one.bounds},
        "PrivateDetector open": {"bounds": listed or None},
        "PrivateDetector pure": {"bounds": one.bounds, "delta": 0},
    }
    for name, more in ways.items():
        detector = PrivateDetector(epsilon, contamination=TARGET, **more).fit(part.fitted)
        found[name] = -detector.score_samples(part.scored)
        share = float((detector.score_samples(part.fitted) < detector.offset_).mean())
        warned = bool(detector.health().serious("threshold"))
        flagged.setdefault(f"{name} {epsilon}", []).append((share, warned))
    return found | (rivals(part.rows, part.asked, ranges, epsilon) if others else {})


def measures(labels: NDArray[np.int64], scores: Floats) -> tuple[float, float, float]:
    """The area under the ROC curve, average precision, and precision at n."""
    from sklearn.metrics import average_precision_score

    finite = np.nan_to_num(scores)
    n = int(labels.sum())
    top = np.argsort(-finite, kind="stable")[:n]
    precise = float(average_precision_score(labels, finite))
    return auroc(labels, finite), precise, float(labels[top].mean())


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


def even(path: Path) -> bool:
    """Whether a table of macrOData is for choosing constants; the others are for judging."""
    return int(hashlib.sha256(path.stem.encode()).hexdigest()[-1], 16) % 2 == 0


def kept_aside(folder: Path, most_rows: int) -> Iterator[tuple[Labeled, Split]]:
    """Tables that are for judging alone, in random order: fitted rows are inliers."""
    paths = sorted(path for path in folder.rglob("*.npz") if not even(path))
    for place in np.random.default_rng(0).permutation(len(paths)):
        path = paths[place]
        with np.load(path, allow_pickle=False) as held:
            rows, asked = (
                np.clip(held[name].astype(float), -1e15, 1e15) for name in ("train", "test")
            )
            labels = held["test_labels"].astype(np.int64)
        if not 0 < labels.sum() < len(labels) or not np.isfinite(np.vstack([rows, asked])).all():
            continue
        rows, names = rows[:most_rows], [f"x{at}" for at in range(rows.shape[1])]
        some = np.random.default_rng(0).permutation(len(asked))[:most_rows]
        if 0 < labels[some].sum() < len(some):
            asked, labels = asked[some], labels[some]
        frame = pd.DataFrame(np.vstack([rows, asked]), columns=names)
        whole = prepared(path.stem, frame.assign(label=0), len(frame))
        fitted, scored = (pd.DataFrame(part, columns=names) for part in (rows, asked))
        yield whole, Split(fitted, scored, labels, rows, asked)


def race(
    sets: Iterator[tuple[Labeled, Split]], epsilons: tuple[str, ...], fits: int, label: str
) -> None:
    """Measure all detectors on all sets, and print means and figures."""
    found: dict[str, dict[str, tuple[float, float, float]]] = {}
    flagged: dict[str, list[tuple[float, bool]]] = {}
    for one, part in sets:
        for name, scores in peers(part).items():
            found.setdefault(name, {})[one.name] = measures(part.labels, scores)
        for epsilon in epsilons:
            several: dict[str, list[tuple[float, float, float]]] = {}
            for fit in range(fits):
                others = fit < FITS_OF_RIVALS
                for name, scores in private(one, part, epsilon, flagged, others=others).items():
                    several.setdefault(name, []).append(measures(part.labels, scores))
            for name, figures in several.items():
                mean = np.mean(figures, axis=0).tolist()
                found.setdefault(f"{name} {epsilon}", {})[one.name] = tuple(mean)
        shown = (
            f"{name} {values[one.name][0]:.3f}"
            for name, values in found.items()
            if one.name in values
        )
        print(f"{label} {one.name} {part.fitted.shape}: {', '.join(shown)}", flush=True)
    forest = found["IForest"]
    for name, values in found.items():
        means = np.mean(list(values.values()), axis=0)
        apart = [values[key][0] - forest[key][0] for key in values]
        error = np.std(apart) / np.sqrt(len(apart))
        print(f"{label} {name}: AUROC {means[0]:.4f}, AP {means[1]:.4f}, P@n {means[2]:.4f}, of"
              f" {len(values)} sets, less IForest {np.mean(apart):+.4f} ({error:.4f})")  # fmt: skip
        short = name.replace(" ", "_")
        for kind, mean in zip(("auroc", "ap", "precision_at_n"), means, strict=True):
            print(f"figure {label}_{kind}_{short} {mean:.4f}")
        print(f"figure {label}_less_IForest_{short} {np.mean(apart):.4f}")
        print(f"figure {label}_sets_{short} {len(values)}")
    for name, values in found.items():
        rival, _, epsilon = name.rpartition(" ")
        if rival in RIVALS:
            ours = found[f"PrivateDetector {epsilon}"]
            ahead = np.mean([ours[key][0] - values[key][0] for key in values])
            print(f"figure {label}_ahead_of_{rival}_{epsilon} {ahead:.4f}")
    for name, fits_of in flagged.items():
        good = [TARGET / FACTOR <= share <= TARGET * FACTOR for share, _ in fits_of]
        warned = [told for _, told in fits_of]
        either = np.mean(np.array(good) | np.array(warned))
        short = name.replace(" ", "_")
        print(f"figure {label}_flagged_within_2_or_warned_{short} {either:.3f}")
        print(f"figure {label}_warned_{short} {np.mean(warned):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--rows", type=int, default=MOST_ROWS, help="of a set, at most")
    parser.add_argument("--fits", type=int, default=10)
    parser.add_argument("--protocol", choices=PROTOCOLS, action="append")
    parser.add_argument("--kept-aside", action="store_true", help="tables of PRIVOD_TABLES instead")
    parser.add_argument("--sets", type=int, help="the so many smallest sets alone")
    parser.add_argument("--speed", action="store_true", help="the time beside HBOS alone")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.speed:
        n_rows = 100_000 if options.quick else 1_000_000
        print(f"figure time_to_hbos_{n_rows}x30 {race_speed(n_rows, 30):.2f}")
        return
    small = options.quick or options.smoke
    epsilons = ("1",) if small else ("0.1", "1")
    fits = 1 if options.smoke else min(options.fits, 3) if options.quick else options.fits
    if options.kept_aside:
        held = os.environ.get("PRIVOD_TABLES")
        if not held:
            sys.exit("Set PRIVOD_TABLES to the folder of macrOData tables.")
        judged = kept_aside(Path(held), options.rows)
        race(islice(judged, 6 if small else KEPT_ASIDE), epsilons, fits, "kept_aside")
        return
    folder = os.environ.get("PRIVOD_DATA")
    if not folder:
        sys.exit("Set PRIVOD_DATA to the folder of data sets.")
    for protocol in options.protocol or PROTOCOLS:
        sets = labeled_sets(Path(folder), 40_000 if small else 2**40, options.rows)
        taken: Iterator[Labeled] = islice(sets, 1 if options.smoke else None)
        if options.sets:
            taken = iter(sorted(taken, key=lambda one: one.frame.size)[: options.sets])
        race(((one, split(one, protocol)) for one in taken), epsilons, fits, protocol)


if __name__ == "__main__":
    main()
