"""Which outliers does PrivateDetector not see, and which of its parts is it that does not?

    python benchmarks/detector_parts.py [--quick]

Every labeled set of the folder PRIVOD_DATA (and of its folder detection/) with at most 200 columns,
cut to 5,000 rows, is fitted and the same rows are scored; ranges as in race_detectors.py. Figures
are areas under the ROC curve: of the best of Isolation Forest, LOF and ECOD; of the detector at
epsilon 1 (mean of four fits) and at 1000, where noise does not matter; at 1000 of its two parts
alone, the rarity of single values and the residual of correlations; and of the same two computed
from the rows without privacy: if a part were worse than that, it would have a fault. Beside these
the distance of Mahalanobis, without privacy, and other releases at epsilon 1: the distance of
mean-covariance, a density sketch, a grid (up to 12 columns).
`--quick` takes small sets.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
from benchmarks.race_detectors import Labeled, auroc, labeled_sets, numbers, sketched
from numpy.typing import NDArray

from privod.data import Domain, Numeric, Table
from privod.estimators import GridKnnDetector
from privod.estimators.bounds import coded, declared_columns
from privod.mechanisms import secure
from privod.questions.detector_profile.query import DetectorProfile
from privod.questions.mean_covariance.query import MeanCovariance

Floats = NDArray[np.float64]

MOST_ROWS, MOST_COLUMNS, MOST_GRID_COLUMNS = 5_000, 200, 12
FITS = 4
BINS = 30  # of the histograms without privacy, between the outermost two hundredths of the rows


def best_of_others(rows: Floats, scaled: Floats, labels: NDArray[np.int64]) -> float:
    from pyod.models.ecod import ECOD
    from pyod.models.iforest import IForest
    from pyod.models.lof import LOF

    fitted = (IForest(random_state=0).fit(rows), LOF().fit(scaled), ECOD().fit(rows))
    return max(auroc(labels, each.decision_scores_) for each in fitted)


def plain_rarity(rows: Floats) -> Floats:
    """Minus the log of the share of the rows in a row's bin, added up over the columns."""
    total = np.zeros(len(rows))
    for values in rows.T:
        low, high = np.quantile(values, [0.005, 0.995])
        width = (high - low) / BINS or 1.0
        cells = np.clip(np.floor((values - low) / width), -1, BINS).astype(np.int64) + 1
        total -= np.log(np.bincount(cells, minlength=BINS + 2)[cells] / len(rows))
    return total


def plain_residual(scaled: Floats) -> Floats:
    """How far a row is from the components of above-average variance, squared."""
    variances, directions = np.linalg.eigh(np.cov(scaled.T))
    rest = directions[:, variances <= variances.mean()]
    return np.asarray(((scaled @ rest) ** 2).sum(axis=1))


def plain_distance(scaled: Floats) -> Floats:
    """The distance of Mahalanobis from the mean, squared."""
    variances, directions = np.linalg.eigh(np.cov(scaled.T))
    return np.asarray(((scaled @ directions) ** 2 / (variances + 1e-6)).sum(axis=1))


def measured(one: Labeled) -> dict[str, float]:
    columns = declared_columns(one.bounds, tuple(map(str, one.frame.columns)))
    coded_rows = np.asarray(coded(one.frame, columns), dtype=np.float64)
    rows, (lows, highs) = numbers(one)
    deviations = rows.std(axis=0)
    scaled = (rows - rows.mean(axis=0)) / np.where(deviations > 0, deviations, 1)
    found = {"others": best_of_others(rows, scaled, one.labels)}

    def profile(epsilon: int) -> tuple[float, float, float]:
        query = DetectorProfile(columns=tuple(each.name for each in columns), epsilon=epsilon)
        value = query.answer_rows(Domain(columns), coded_rows, secure()).value
        components = value._components
        residual = np.nan
        if components is not None:
            residual = auroc(one.labels, components.distances(coded_rows))
        rarity = auroc(one.labels, value._rarity.by_column(coded_rows).sum(axis=1))
        return auroc(one.labels, value.scores(coded_rows)), rarity, residual

    found["detector_eps1"] = float(np.mean([profile(1)[0] for _ in range(FITS)]))
    found["detector_eps1000"], found["rarity_eps1000"], found["residual_eps1000"] = profile(1000)
    found["rarity_not_private"] = auroc(one.labels, plain_rarity(rows))
    found["residual_not_private"] = auroc(one.labels, plain_residual(scaled))
    found["distance_not_private"] = auroc(one.labels, plain_distance(scaled))
    limits = zip(one.bounds, lows.tolist(), highs.tolist(), strict=True)
    domain = Domain(tuple(Numeric(name, low, high) for name, low, high in limits))
    table = Table(domain, dict(zip(domain.names, rows.T, strict=True)))
    moments = MeanCovariance(columns=domain.names, epsilon=1)
    fits = [moments.answer(table, secure()).value.scores(rows) for _ in range(FITS)]
    found["moments_eps1"] = float(np.mean([auroc(one.labels, scores) for scores in fits]))
    found["sketch_eps1"] = auroc(one.labels, sketched(one, 1.0))
    if rows.shape[1] <= MOST_GRID_COLUMNS:
        grid = GridKnnDetector(1.0, bounds=(lows, highs)).fit(rows)
        found["grid_eps1"] = auroc(one.labels, -grid.score_samples(rows))
    return found


def main() -> None:
    """Measure every set, print its figures and the means."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    given = parser.parse_args()
    quick = given.quick or given.smoke
    folder = os.environ.get("PRIVOD_DATA")
    if not folder:
        sys.exit("Set PRIVOD_DATA to the folder of data sets.")
    warnings.simplefilter("ignore")
    every: dict[str, dict[str, float]] = {}
    sets = labeled_sets(Path(folder), 30_000 if quick else 2**40, MOST_ROWS)
    for one in islice(sets, 1 if given.smoke else None):
        if one.frame.shape[1] <= MOST_COLUMNS:
            every[one.name] = measured(one)
            for name, value in every[one.name].items():
                print(f"figure {one.name}_{name} {value:.3f}", flush=True)
    print(f"figure sets {len(every)}")
    gaps = {name: each["others"] - each["detector_eps1"] for name, each in every.items()}
    behind = [name for name, gap in gaps.items() if gap > 0.05]
    print(f"behind the best of the others by more than 0.05: {', '.join(behind)}")
    print(f"figure sets_behind_by_0.05 {len(behind)}")
    for name in ("others", "detector_eps1", "detector_eps1000", "moments_eps1", "sketch_eps1"):
        print(f"figure mean_{name} {np.mean([each[name] for each in every.values()]):.4f}")
    for part in ("rarity", "residual"):
        pairs = [(each[f"{part}_eps1000"], each[f"{part}_not_private"]) for each in every.values()]
        apart = np.nanmean([private - plain for private, plain in pairs])
        print(f"figure mean_{part}_less_not_private {apart:.4f}")


if __name__ == "__main__":
    main()
