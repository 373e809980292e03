"""One story on one data set: 20,000 hospital stays that nobody may see, and what can be told."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from privod.arrays import Floats
from privod.curator import Curator
from privod.data import Table
from privod.data.examples import HOSPITAL, hospital, hospital_outliers
from privod.demo.page import Chapter, page
from privod.estimators import PrivateDetector
from privod.estimators.private import UnreliableFit
from privod.joint.detector.question import JointDetector
from privod.joint.run import rehearse
from privod.ledger.acts import AdmitPerson
from privod.pictures import draw, draw_budget, svg
from privod.pictures.canvas import blank
from privod.privacy import AddRemove, AdmittedContexts, Loss, SameContexts
from privod.progress import track
from privod.questions.graded_count.query import GradedCount
from privod.questions.histogram.query import Histogram
from privod.questions.outlier_context.query import OutlierContext
from privod.questions.outlier_subspaces.query import OutlierSubspaces

DATASET = "stays"
NUMBERS = HOSPITAL.numeric_names
N_NEW, N_SHOWN = 5_000, 5
GAMES, GAME_RECORDS = 60, 400  # fits with and without one person, and the records of each
EPSILON = "1"
INTRO = (
    "The records are made up and treated as private. Answers use differential privacy: any answer"
    " is at most e^epsilon times as likely with a person's record as without it, up to delta."
)


@dataclass(frozen=True)
class Story:
    """All chapters, as they are printed and as one page."""

    chapters: tuple[Chapter, ...]

    def to_json(self) -> list[dict[str, Any]]:
        """Everything but the pictures."""
        return [{"title": one.title, "lines": list(one.lines)} for one in self.chapters]

    def html(self) -> str:
        """One self-contained page."""
        return page("Outliers in 20,000 hospital stays that nobody may see", INTRO, self.chapters)


def tell(directory: Path) -> Story:
    """Set up a curator in the directory and go through the story."""
    stays = hospital()
    curator = Curator.open(directory)
    curator.register(DATASET, stays, HOSPITAL)
    curator.open_budget(DATASET, AddRemove(), Loss(4, "1e-5"))
    chapters = _chapters(curator, stays)
    return Story(tuple(track(chapters, "telling", 7)))


def _chapters(curator: Curator, stays: Table) -> Iterator[Chapter]:
    noisy_map = Histogram(columns=("heart_rate", "pressure"), bins=25, epsilon="0.1")
    yield Chapter(
        "20,000 hospital stays that nobody may see",
        (
            f"Each stay has {', '.join(HOSPITAL.names)}. About six in a thousand are unusual.",
            "We want to find such stays and reveal little about anybody: every answer below is"
            " noisy or a random choice. Counts state their margin of error. What the curator"
            " answers is charged to a privacy budget first.",
        ),
        svg(draw(curator.ask(noisy_map, DATASET).release)),
    )
    detector = PrivateDetector(EPSILON, contamination=0.01).fit(_points(stays))
    yield _detector(detector, stays)
    yield _attack(stays)
    yield _counts(curator)
    yield _person(curator)
    yield _together(stays)
    yield _ledger(curator)


def _points(table: Table) -> Floats:
    return table.numbers(NUMBERS)


@dataclass(frozen=True)
class Race:
    """New stays scored by the private detector and by one that sees every row."""

    fresh: Floats
    truth: NDArray[np.bool_]
    private: Floats
    forest: Floats

    def areas(self) -> tuple[float, float]:
        """The area under the ROC curve of each."""
        from sklearn.metrics import roc_auc_score

        private = float(roc_auc_score(self.truth, self.private))
        return private, float(roc_auc_score(self.truth, self.forest))

    def draw(self) -> Figure:
        """Both ROC curves on one axis."""
        from sklearn.metrics import roc_curve

        figure, axes = blank("New, held-out stays: how well are the unusual ones found?")
        names = f"private detector, epsilon {EPSILON}", "IsolationForest, not private"
        both = self.private, self.forest
        for name, scores, area in zip(names, both, self.areas(), strict=True):
            alarms, found, _ = roc_curve(self.truth, scores)
            axes.plot(alarms, found, label=f"{name}: AUROC {area:.3f}")
        axes.set(xlabel="false alarms (share)", ylabel="unusual stays found (share)")
        axes.legend(loc="lower right")
        return figure


def race(detector: PrivateDetector, stays: Table) -> Race:
    """Score new stays by a fitted private detector and by IsolationForest on the same rows."""
    from sklearn.ensemble import IsolationForest

    fresh, truth = _points(hospital(N_NEW, seed=1)), hospital_outliers(N_NEW, seed=1)
    forest = IsolationForest(random_state=0).fit(_points(stays))
    return Race(fresh, truth, -detector.score_samples(fresh), -forest.score_samples(fresh))


def _detector(detector: PrivateDetector, stays: Table) -> Chapter:
    ran = race(detector, stays)
    private, forest = ran.areas()
    flagged = np.flatnonzero(detector.predict(ran.fresh) == -1)
    first = sorted(flagged, key=lambda row: -ran.private[row])[:N_SHOWN]
    reasons = [
        f"Stay {row}: {_why(detector, ran.fresh[row])}{'' if ran.truth[row] else ' (false alarm)'}"
        for row in first
    ]
    return Chapter(
        "A detector trained on 20,000 stays with differential privacy",
        (
            f"AUROC on {N_NEW:,} new stays: private detector, epsilon {EPSILON}: {private:.3f};"
            f" IsolationForest, not private: {forest:.3f}.",
            f"It flags {len(flagged)} of them. The five most unusual:",
            *reasons,
        ),
        svg(ran.draw()),
    )


def _why(detector: PrivateDetector, record: Floats) -> str:
    told = detector.explain(record.reshape(1, -1))
    sides = {1: "high", -1: "low"}
    top = np.argsort(-told.shares[0])[:2]
    return ", ".join(
        f"{sides.get(int(told.sides[0][place]), 'unusual')} {NUMBERS[place]} ({record[place]:.3g})"
        for place in top
    )


def _attack(stays: Table) -> Chapter:
    """Guess from the release alone whether one person is in the data, many times over."""
    points = _points(stays)[:GAME_RECORDS]
    target = np.array([[100.0, 210.0, 50.0, 43.0, 58.0]])  # as unusual as can be: easiest to find
    bounds = ([one.low for one in HOSPITAL.numeric()], [one.high for one in HOSPITAL.numeric()])
    with_person, without = (
        np.array([_score_of(rows, target, bounds) for _ in range(GAMES)])
        for rows in (np.vstack([points, target]), points)
    )
    cuts = np.unique(np.concatenate([with_person, without]))
    hits = np.array([(with_person <= cut).mean() for cut in cuts])
    misses = np.array([(without <= cut).mean() for cut in cuts])
    best = float(np.max((hits + 1 - misses) / 2))
    limit = math.exp(1) / (1 + math.exp(1))
    figure, axes = blank("Is this person in the data? What the best attacker can reach")
    grid = np.linspace(0, 1, 200)
    bound = np.minimum(np.minimum(1, math.e * grid + 1e-6), 1 - (1 - grid - 1e-6) / math.e)
    axes.fill_between(grid, bound, 1, alpha=0.15, label="impossible at epsilon 1")
    axes.plot([0, 1], [0, 1], linestyle=":", label="guessing blindly")
    axes.plot(misses, hits, drawstyle="steps-post", label=f"our attack, {GAMES} fits on each side")
    axes.set(xlabel="wrongly said to be in the data", ylabel="rightly said to be in the data")
    axes.legend(loc="lower right")
    return Chapter(
        "What an attacker learns from it",
        (
            "The attacker knows all other records and asks whether one more, very unusual person"
            " was in the data.",
            f"Our attack guesses right {100 * best:.0f} % of the time, in-sample; the guarantee"
            f" allows {math.ceil(1000 * limit) / 10:.1f} % at epsilon 1, a coin flip gives 50 %.",
        ),
        svg(figure),
    )


def _score_of(rows: Floats, target: Floats, bounds: Any) -> float:
    with warnings.catch_warnings(action="ignore", category=UnreliableFit):  # of so few records
        fitted = PrivateDetector(EPSILON, bounds=bounds).fit(rows)
    return float(-fitted.score_samples(target)[0])


def _counts(curator: Curator) -> Chapter:
    """How many outliers there are, and in which columns they show."""
    count = GradedCount(columns=("heart_rate", "pressure"), radius=5, max_crowd=3, epsilon="1")
    where = OutlierSubspaces(
        columns=NUMBERS,
        radius_per_column=0.002,
        scale="range",
        max_crowd=3,
        n_subspaces=2,
        count_share="2/3",
        epsilon=2,
    )
    answers = [curator.ask(query, DATASET).release for query in (count, where)]
    return Chapter(
        "How many unusual stays there are, and in which columns",
        tuple(release.sentence() for release in answers),
        svg(draw(answers[1])),
    )


def _person(curator: Curator) -> Chapter:
    """In which group one person is unusual, under the narrower guarantee that this needs."""
    query = OutlierContext.examples(HOSPITAL)[0]
    curator.open_budget(DATASET, AdmittedContexts(), Loss(1), confirmed=True)
    person = query.guarantee().adjacency
    assert isinstance(person, SameContexts)  # noqa: S101 - told to the type checker
    admitted = AdmitPerson(DATASET, person, "the demo's person", isolating=True)
    curator.do(admitted, confirmed=True)
    release = curator.ask(query, DATASET).release
    return Chapter(
        "In which group one person is unusual",
        (release.sentence(), f"Not protected: {query.not_protected()}"),
        svg(draw(release)),
    )


def _together(stays: Table) -> Chapter:
    """Three hospitals with different patients, alone and together."""
    age, truth = stays.numbers(("age",))[:, 0], hospital_outliers(len(stays))
    groups = {"north": age < 50, "center": (age >= 50) & (age < 68), "south": age >= 68}
    columns = stays.columns()
    parts = {name: np.flatnonzero(rows) for name, rows in groups.items()}
    tables = {
        name: Table(HOSPITAL, {key: np.asarray(one)[rows] for key, one in columns.items()})
        for name, rows in parts.items()
    }
    run = rehearse(JointDetector(columns=NUMBERS, epsilon=1), tables)
    lines, bars = [], []
    for name, rows in parts.items():
        answer: Any = run.answers[name]
        unusual = set(np.flatnonzero(truth[rows]).tolist())
        alone, joint = (
            len(unusual & set(found.tolist())) / len(unusual)
            for found in (answer.alone, answer.rows)
        )
        bars.append((name, alone, joint))
        lines.append(f"{name}: {answer.sentences()[0]}")
    return Chapter(
        "Three hospitals together, without pooling a row",
        ("Each learns which of its own stays are unusual among all of them.", *lines),
        svg(_beside(bars)),
    )


def _beside(bars: Sequence[tuple[str, float, float]]) -> Figure:
    figure, axes = blank("Unusual stays that each hospital finds among its own")
    places = np.arange(len(bars))
    axes.bar(places - 0.2, [alone for _, alone, _ in bars], 0.4, label="alone")
    axes.bar(places + 0.2, [joint for *_, joint in bars], 0.4, label="together, epsilon 1")
    axes.set_xticks(places, [name for name, *_ in bars])
    axes.set(ylabel="share found", ylim=(0, 1))
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _ledger(curator: Curator) -> Chapter:
    """What was spent, and what is left."""
    states = curator.budget(DATASET)
    charges = [
        (entry.query["name"] if entry.query else "", entry.loss)
        for entry in curator.history(DATASET)
        if entry.kind == "charge" and entry.budget == states[0].number and entry.loss is not None
    ]
    lines = [
        f"{one.adjacency.name}: spent {one.spent} of {one.budget}, left {one.left}."
        for one in states
    ]
    checked = f"The ledger's {curator.verify().entries} entries were verified."
    return Chapter(
        "The ledger: what was spent, and what is left",
        (*lines, checked),
        svg(draw_budget("Privacy budget", states[0].budget, charges)),
    )
