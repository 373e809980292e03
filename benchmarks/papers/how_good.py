"""How good is each question? Its accuracy against epsilon and the number of records.

Run `PRIVOD_DATA=folder python benchmarks/papers/how_good.py` (some minutes), or with `--quick`, or
with `--only grid-knn` and others, which leaves the published figures of all others as they are.
Writes out/papers/how_good/: `accuracy.csv` (one line a question, size and epsilon) and a picture of
each measure beside what an answer without privacy has. `--draw` draws the pictures of the published
figures once more.

The detectors learn from card payments (credit_fraud, 28 columns, the rough ranges -100 to 100) and
must tell 20,000 other payments from the frauds; all other questions are asked of made-up stays in a
hospital (`hospital(n)`). Nothing is tuned: what is not said below is a default. Means of some
answers, with one deviation of them.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from _curves import Curve, draw_curves
from _tables import Report, Row, data_frame, small_png
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from privod.data import Domain, Numeric, Table
from privod.data.examples import HOSPITAL, hospital
from privod.errors import InvalidParameter
from privod.mechanisms import Randomness, secure
from privod.outliers.contexts.contexts import ContextSpace, population
from privod.outliers.contexts.detectors import detector
from privod.outliers.contexts.matching import look_from
from privod.outliers.crowds.distance import CrowdIndex
from privod.progress import track
from privod.query.crowd_bounds import count_outliers, graded_credits
from privod.query.likeness import Likeness
from privod.query.near import Alike, Distance
from privod.query.query import Query
from privod.questions.anomaly_labels.query import AnomalyLabels
from privod.questions.detector_profile.query import DetectorProfile
from privod.questions.graded_count.query import GradedCount
from privod.questions.grid_knn.query import GridKnn
from privod.questions.histogram.query import Histogram
from privod.questions.interactive_grid.query import InteractiveGrid
from privod.questions.novelty_labels.models import CrowdModel
from privod.questions.novelty_labels.query import NoveltyLabels
from privod.questions.outlier_context.query import OutlierContext
from privod.questions.outlier_count.query import OutlierCount
from privod.questions.outlier_radius.query import OutlierRadius
from privod.questions.outlier_subspaces.query import OutlierSubspaces
from privod.questions.private_bounds.query import PrivateBounds
from privod.questions.quantiles.query import Quantiles
from privod.questions.rare_counts.query import RareCounts

SIZES = (1_000, 10_000, 100_000)
EPSILONS = ("0.1", "0.3", "1", "3")
SIGNS = ("heart_rate", "pressure", "temperature")
RADIUS, CROWD = 12.0, 5
AGE_BINS = 24
PUBLISHED = Path(__file__).parents[2] / "docs/figures/how_good/accuracy.csv"
SURE = 10**6  # an epsilon at which the noise is nothing
CHOICES = 1000  # of a column: more than answers are given, since counting is done once


@dataclass(frozen=True)
class Measure:
    """What is measured of a question's answers: its name, how it reads, and how it is computed.

    A question's first picture has its name, others have something added to it. Where many answers
    are drawn at once, one call returns all of them. `plain` is what an answer without privacy has,
    for detectors an isolation forest over so many of the columns.
    """

    question: str
    reads: str
    of: Callable[[Table, str, Randomness], float | NDArray[np.float64]]
    detects: bool = False
    sizes: tuple[int, ...] = SIZES
    answers: int = 20
    added: str = ""
    plain: float | None = 0.0
    n_columns: int = 0

    def table(self, size: int) -> Table:
        """What is asked about, so many records of it."""
        return payments().table(size) if self.detects else hospital(size)


def septic(table: Table) -> NDArray[np.bool_]:
    """Who has fever and low pressure at once: the patients that were made septic."""
    signs = table.numbers(("temperature", "pressure"))
    return np.asarray((signs[:, 0] >= 39) & (signs[:, 1] <= 85))


def misplaced(noisy: NDArray[np.int64], table: Table, columns: tuple[str, ...]) -> float:
    """By how much all counts together are off, as a share of the records."""
    truth = Histogram(columns=columns, epsilon=10**6, bins=AGE_BINS).answer(table, secure()).value
    return float(np.abs(noisy - truth.counts).sum() / len(table))


def histogram(table: Table, epsilon: str, source: Randomness) -> float:
    columns = ("age", "ward")
    query = Histogram(columns=columns, epsilon=epsilon, bins=AGE_BINS)
    return misplaced(query.answer(table, source).value.counts, table, columns)


def rare_counts(table: Table, epsilon: str, source: Randomness) -> float:
    columns = HOSPITAL.categorical_names
    query = RareCounts(columns=columns, max_crowd=5, epsilon=epsilon)
    return misplaced(query.answer(table, source).value.counts, table, columns)


def one_rare_count(table: Table, epsilon: str, source: Randomness) -> float:
    """Off by how many copies, for the highest age."""
    ages = table.numbers(("age",))
    query = RareCounts(
        records=((float(ages.max()),),), columns=("age",), max_crowd=5, epsilon=epsilon
    )
    found = query.answer(table, source).value
    return float(abs(found.counts[0] - (ages == ages.max()).sum()))


def bounds_cut(table: Table, epsilon: str, source: Randomness) -> float:
    """The share of the records outside the bought range of a column, in the mean."""
    found = PrivateBounds(columns=SIGNS, epsilon=epsilon).answer(table, source).value
    values = table.numbers(SIGNS).T
    outside = [(v < c.low) | (v > c.high) for c, v in zip(found, values, strict=True)]
    return float(np.mean(outside))


def bounds_width(table: Table, epsilon: str, source: Randomness) -> float:
    """How many times as wide as the middle 98 % the bought ranges are, in the mean."""
    found = PrivateBounds(columns=SIGNS, epsilon=epsilon).answer(table, source).value
    bulk = np.ptp(np.quantile(table.numbers(SIGNS), (0.01, 0.99), axis=0), axis=0)
    return float(np.mean([(c.high - c.low) / w for c, w in zip(found, bulk, strict=True)]))


def quantiles(table: Table, epsilon: str, source: Randomness) -> float:
    """How far the deciles of a column are off, in shares of the records, in the mean."""
    query = Quantiles(columns=SIGNS[:1], epsilon=epsilon)
    found = query.answer(table, source).value.values[0]
    values = np.sort(table.numbers(SIGNS[:1])[:, 0])
    below = np.searchsorted(values, found) / max(len(values), 1)
    return float(np.abs(below - [float(share) for share in query.quantiles]).mean())


def outlier_count(table: Table, epsilon: str, source: Randomness) -> float:
    points = table.numbers(SIGNS[:2])
    query = OutlierCount(radius=RADIUS, max_crowd=CROWD, epsilon=epsilon, columns=SIGNS[:2])
    truth = count_outliers(points, RADIUS, CROWD)
    return abs(query.answer(table, source).value.count - truth) / truth


def graded_count(table: Table, epsilon: str, source: Randomness) -> float:
    query = GradedCount(radius=RADIUS, max_crowd=CROWD, epsilon=epsilon, columns=SIGNS[:2])
    credits = graded_credits(table.numbers(SIGNS[:2]), RADIUS, CROWD, query.n_grades)
    truth = float(credits.sum()) / query.n_grades
    return abs(query.answer(table, source).value.count - truth) / truth


def radius(table: Table, epsilon: str, source: Randomness) -> float:
    query = OutlierRadius(
        share="0.01",
        max_crowd=CROWD,
        epsilon=epsilon,
        columns=SIGNS[:2],
        scale="own",
        smallest=2,
        largest=100,
    )
    found = query.answer(table, source).value.radius
    return count_outliers(table.numbers(SIGNS[:2]), found, CROWD) / (0.01 * len(table))


def outliers_found(
    table: Table, epsilon: str, source: Randomness
) -> tuple[OutlierSubspaces, NDArray[np.float64], int]:
    """The outliers in the columns that are named, again and again; and those in the fullest."""
    query = OutlierSubspaces(
        radius_per_column=2, max_crowd=CROWD, epsilon=epsilon, n_subspaces=1, size=1
    )
    sets = [(name,) for name in HOSPITAL.numeric_names]
    counts = query.true_counts(table, list(sets))
    utilities = query.utilities(list(sets), counts)
    chosen = [query.selection.choose(utilities, source)[0] for _ in range(CHOICES)]
    return query, np.array(counts, dtype=np.float64)[chosen], max(counts)


def subspaces(table: Table, epsilon: str, source: Randomness) -> NDArray[np.float64]:
    """The outliers in the column found, as a share of those in the fullest one."""
    _, found, most = outliers_found(table, epsilon, source)
    return found / most


def subspaces_missed(table: Table, epsilon: str, source: Randomness) -> float:
    """By how much 95 of 100 choices fall short at most, over the bound said before paying."""
    query, found, most = outliers_found(table, epsilon, source)
    stated = query.surely_missing(1, len(HOSPITAL.numeric_names))
    return float(np.quantile(most - found, 0.95) / stated)


def labels(table: Table, epsilon: str, source: Randomness) -> float:
    """The share of right labels over 20 septic and 20 other patients."""
    ill = septic(table)
    points = table.numbers(SIGNS[:2])
    index = CrowdIndex(points)
    right = []
    for row in (*np.flatnonzero(ill)[:20], *np.flatnonzero(~ill)[:20]):
        record = tuple(points[row].tolist())
        query = AnomalyLabels(
            records=(record,),
            columns=SIGNS[:2],
            near=f"distance(radius={RADIUS})",
            max_crowd=CROWD * 4,
            epsilon=epsilon,
            edit_margin=CROWD,
        )
        truth = int(index.crowds(RADIUS, at=points[[row]])[0]) <= query.max_crowd
        right.append(query.answer(table, source).value[0] == truth)
    return float(np.mean(right))


def labels_alike(table: Table, epsilon: str, source: Randomness) -> float:
    """The share of right labels over 20 septic and 20 other patients, ward and sex compared too."""
    ill = septic(table)
    names = ("ward", "sex", *SIGNS[:2])
    rows = (*np.flatnonzero(ill)[:20], *np.flatnonzero(~ill)[:20])
    held = Likeness(names, 0).held(table)
    right = []
    for row in rows:
        query = AnomalyLabels(
            columns=names,
            records=(held.row(int(row)),),
            near=str(Alike(1, tuple((name, RADIUS) for name in SIGNS[:2]))),
            max_crowd=CROWD * 4,
            epsilon=epsilon,
            edit_margin=CROWD,
        )
        truth = replace(query, epsilon=SURE).answer(table, source).value[0]
        right.append(query.answer(table, source).value[0] == truth)
    return float(np.mean(right))


def newcomers() -> Table:
    """Patients who are not in the data, of whom some are septic."""
    return hospital(2_000, seed=1)


def right_labels(ask: Callable[[int], Query[Any]], table: Table, source: Randomness) -> float:
    """The share of right labels over 8 septic newcomers and 20 others, each asked by itself."""
    ill = septic(newcomers())
    right = []
    for row in (*np.flatnonzero(ill)[:8], *np.flatnonzero(~ill)[:20]):
        query = ask(int(row))
        truth = replace(query, epsilon=SURE).answer(table, source).value[0]  # type: ignore[type-var]
        right.append(query.answer(table, source).value[0] == truth)
    return float(np.mean(right))


def novelty_labels(table: Table, epsilon: str, source: Randomness) -> float:
    points = newcomers().numbers(SIGNS[:2])

    def ask(row: int) -> Query[Any]:
        return NoveltyLabels(
            columns=SIGNS[:2],
            records=(tuple(points[row].tolist()),),
            model=str(CrowdModel(4 * CROWD, Alike(0, tuple((n, RADIUS) for n in SIGNS[:2])))),
            epsilon=epsilon,
        )

    return right_labels(ask, table, source)


def novelty_by_distance(table: Table, epsilon: str, source: Randomness) -> float:
    points = newcomers().numbers(SIGNS[:2])

    def ask(row: int) -> Query[Any]:
        return NoveltyLabels(
            columns=SIGNS[:2],
            records=(tuple(points[row].tolist()),),
            model=str(CrowdModel(4 * CROWD, Distance(RADIUS))),
            epsilon=epsilon,
        )

    return right_labels(ask, table, source)


def groups(table: Table, epsilon: str, source: Randomness) -> float:
    """As `context`, with ages cut into four ranges."""
    row = int(np.argmin(table.numbers(("heart_rate",))[:, 0]))
    ward, admission = (str(table.columns()[name][row]) for name in ("ward", "admission"))
    age, rate = table.numbers(("age", "heart_rate"))[row].tolist()
    query = OutlierContext(
        group_columns=("ward", "admission", "age"),
        persons=((ward, admission, age, rate),),
        column="heart_rate",
        cuts=(("age", 18, 50, 75),),
        detector="grubbs(alpha=0.05)",
        epsilon=epsilon,
    )
    (found,) = query.answer(table, source).value
    (best,) = replace(query, epsilon=SURE).answer(table, source).value
    if not found.groups or not best.groups:
        return float(not best.groups)
    sizes = [population(one.groups[0], table).sum() for one in (found, best)]
    return float(sizes[0] / sizes[1])


def context(table: Table, epsilon: str, source: Randomness) -> float:
    """The population of the group found, as a share of the largest where the record stands out."""
    rule = "lof(n_neighbors=20, threshold=1.5)"
    row = int(np.argmin(table.numbers(("heart_rate",))[:, 0]))
    columns = table.columns()
    record = {name: str(columns[name][row]) for name in HOSPITAL.categorical_names}
    value = float(columns["heart_rate"][row])
    space = ContextSpace.around(table.domain, record)
    most = int(look_from(table, space, "heart_rate", value, detector(rule)).scan().max())
    query = OutlierContext(
        group_columns=tuple(record),
        persons=((*record.values(), value),),
        column="heart_rate",
        epsilon=epsilon,
        detector=rule,
    )
    (found,) = query.answer(table, source).value
    if not found.groups or most < 1:
        return 0.0
    return float(population(found.groups[0], table).sum() / most)


@dataclass(frozen=True)
class Payments:
    """Payments to learn from, and others to be told from frauds."""

    asked: NDArray[np.float64]
    labels: NDArray[np.int64]
    rows: NDArray[np.float64]

    def table(self, size: int) -> Table:
        """The first payments to learn from."""
        domain = Domain(tuple(Numeric(f"V{place + 1}", -100, 100) for place in range(28)))
        return Table(domain, dict(zip(domain.names, self.rows[:size].T, strict=True)))


@cache
def payments() -> Payments:
    frame = data_frame("credit_fraud").to_pandas()
    numbers = frame[[f"V{place + 1}" for place in range(28)]].to_numpy(float)
    fraud = frame["label"].to_numpy() == 1
    order = np.random.default_rng(0).permutation(len(numbers))
    numbers, fraud = numbers[order], fraud[order]
    asked = fraud.copy()
    asked[np.flatnonzero(~fraud)[:20_000]] = True
    return Payments(numbers[asked], fraud[asked].astype(np.int64), numbers[~asked])


def ranked(scores: NDArray[np.float64]) -> float:
    return float(roc_auc_score(payments().labels, scores))


def forest(n_columns: int) -> float:
    """The AUROC of an isolation forest that learns from 10,000 payments, without privacy."""
    model = IsolationForest(random_state=0).fit(payments().rows[:10_000, :n_columns])
    return ranked(-model.score_samples(payments().asked[:, :n_columns]))


def grid(table: Table, epsilon: str, source: Randomness) -> float:
    """Over six columns: more have no cell that many records share."""
    query = GridKnn(columns=table.domain.names[:6], epsilon=epsilon)
    return ranked(query.answer(table, source).value.walk(payments().asked[:, :6]).graded)


def detector_profile(table: Table, epsilon: str, source: Randomness) -> float:
    query = DetectorProfile(columns=table.domain.names, epsilon=epsilon)
    return ranked(query.answer(table, source).value.scores(payments().asked))


def interactive_grid(table: Table, epsilon: str, source: Randomness) -> float:
    """200 payments and 200 frauds, over three columns of 20 intervals."""
    labels = payments().labels
    rows = np.concatenate([np.flatnonzero(labels == label)[:200] for label in (0, 1)])
    query = InteractiveGrid(
        columns=table.domain.names[:3],
        cells_per_axis=20,
        epsilon=epsilon,
        records=tuple(tuple(row) for row in payments().asked[rows, :3].tolist()),
    )
    return float(roc_auc_score(labels[rows], query.answer(table, source).value.graded))


SHARE, RELATIVE, AUROC = "share of records misplaced", "relative error of the count", "AUROC"
RIGHT = "share of right labels"
LARGEST = "size of the group found over the largest"
MEASURES = (
    Measure("histogram", SHARE, histogram),
    Measure("rare-counts", SHARE, rare_counts),
    Measure("rare-counts", "copies that the count is off by", one_rare_count, added="-one"),
    Measure("private-bounds", "share of records outside the range", bounds_cut),
    Measure(
        "private-bounds",
        "width of the range over that of the bulk",
        bounds_width,
        added="-width",
        plain=None,
    ),
    Measure("quantiles", "share of records that a decile is off by", quantiles),
    Measure("outlier-count", RELATIVE, outlier_count),
    Measure("graded-count", RELATIVE, graded_count),
    Measure("outlier-radius", "share that stands apart over the one asked for", radius, plain=1),
    Measure(
        "outlier-subspaces",
        "outliers in the column found over the most",
        subspaces,
        answers=1,
        plain=1,
    ),
    Measure(
        "outlier-subspaces",
        "outliers missed over the bound stated",
        subspaces_missed,
        answers=1,
        added="-missed",
    ),
    Measure("anomaly-labels", RIGHT, labels, plain=1),
    Measure("anomaly-labels", f"{RIGHT}, by who is alike", labels_alike, added="-alike", plain=1),
    Measure("novelty-labels", RIGHT, novelty_labels, plain=1),
    Measure(
        "novelty-labels", f"{RIGHT}, by distance", novelty_by_distance, added="-distance", plain=1
    ),
    Measure("outlier-context", LARGEST, context, plain=1),
    Measure("outlier-context", f"{LARGEST}, with ranges", groups, added="-ranges", plain=1),
    Measure("grid-knn", AUROC, grid, detects=True, n_columns=6),
    Measure("interactive-grid", AUROC, interactive_grid, detects=True, n_columns=3),
    Measure("detector-profile", AUROC, detector_profile, detects=True, n_columns=28),
)


def measured(measure: Measure, table: Table, epsilon: str, repeats: int) -> list[Row]:
    """Some answers at one size and epsilon; none where the question is refused there."""
    source = secure()
    try:
        found = np.hstack([measure.of(table, epsilon, source) for _ in range(repeats)])
    except InvalidParameter:
        return []
    row = {
        "question": measure.question,
        "measure": measure.reads,
        "records": len(table),
        "epsilon": epsilon,
        "mean": float(found.mean()),
        "deviation": float(found.std()),
    }
    return [row]


def drawn(measure: Measure, rows: list[Row]) -> Figure:
    """One measure: a curve a size."""
    of = (measure.question, measure.reads)
    own = [row for row in rows if (row["question"], row["measure"]) == of]
    curves: dict[str, Curve] = {}
    for size in dict.fromkeys(int(row["records"]) for row in own):
        some = [row for row in own if int(row["records"]) == size]
        epsilons = [float(row["epsilon"]) for row in some]
        means, deviations = ([float(row[key]) for row in some] for key in ("mean", "deviation"))
        curves[f"{size:,} records"] = (epsilons, means, deviations)
    plain = forest(measure.n_columns) if measure.detects else measure.plain
    if plain is not None and own:
        ends = sorted({float(row["epsilon"]) for row in own})
        name = "isolation forest, not private" if measure.detects else "without privacy"
        curves[name] = (ends, [plain] * len(ends), [0.0] * len(ends))
    return draw_curves(measure.question, curves, measure.reads)


def main() -> None:
    """Ask every question at every size and epsilon."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one size, two answers each")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    known = list(dict.fromkeys(measure.question for measure in MEASURES))
    parser.add_argument("--only", nargs="+", choices=known, default=known, metavar="QUESTION")
    parser.add_argument("--draw", action="store_true", help="the published figures once more")
    options = parser.parse_args()
    if options.draw:
        with PUBLISHED.open(newline="", encoding="utf-8") as file:
            kept = list(csv.DictReader(file))
        for measure in MEASURES:
            name = f"{measure.question}{measure.added}.png"
            PUBLISHED.with_name(name).write_bytes(small_png(drawn(measure, kept)))
        return
    quick, answers = options.quick or options.smoke, 1 if options.smoke else 2 * options.quick
    chosen = [measure for measure in MEASURES if measure.question in options.only]
    made = json.loads(PUBLISHED.with_name("run.json").read_text())["accuracy"]["command"]
    report = Report("how_good", quick, after=made if len(chosen) < len(MEASURES) else "")
    rows = [
        row
        for measure in track(chosen, "asking")
        for table in map(measure.table, measure.sizes[:1] if quick else measure.sizes)
        for epsilon in (EPSILONS[-1:] if options.smoke else EPSILONS)
        for row in measured(measure, table, epsilon, answers or measure.answers)
    ]
    for measure in chosen[:1] if options.smoke else chosen:  # they are all drawn alike
        report.picture(measure.question + measure.added, drawn(measure, rows))
    if len(chosen) < len(MEASURES):
        with PUBLISHED.open(newline="", encoding="utf-8") as file:
            rows += [row for row in csv.DictReader(file) if row["question"] not in options.only]
    report.table("accuracy", sorted(rows, key=lambda row: known.index(row["question"])))


if __name__ == "__main__":
    main()
