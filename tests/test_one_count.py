"""One count for everything about the same people: questions, fits, joint runs, twice the rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import BaggingRegressor
from sklearn.model_selection import KFold, cross_val_score
from typer.testing import CliRunner

from privod.cli import app
from privod.cli.joint import _charge
from privod.curator import Curator
from privod.data import Domain, Numeric
from privod.errors import BudgetExceeded, InvalidParameter, NoPromise
from privod.estimators import PrivateDetector, charged_to
from privod.estimators.spending import spending
from privod.joint.detector.question import JointDetector
from privod.joint.published.question import PublishedOutliers
from privod.ledger.acts import ChargeAhead, ChargeElsewhere
from privod.ledger.chain import Entry
from privod.privacy import AddRemove, Guarantee, Loss, Replace
from privod.questions.histogram.query import Histogram

DOMAIN = Domain((Numeric("x0", 0, 1), Numeric("x1", 0, 1)))
POINTS = np.random.default_rng(0).uniform(size=(60, 2))
JOINT = JointDetector(columns=("x0", "x1"), epsilon=1, adjacency=Replace())
ROWS = {"x0": POINTS[:, 0], "x1": POINTS[:, 1]}


@pytest.fixture
def curator(tmp_path: Path) -> Curator:
    curator = Curator.open(tmp_path / "curator")
    curator.register("people", ROWS, DOMAIN)
    curator.open_budget("people", AddRemove(), Loss(1))
    return curator


def spent(curator: Curator) -> Loss:
    return curator.budget("people")[0].spent


def charges(curator: Curator) -> list[Entry]:
    return [entry for entry in curator.history("people") if entry.kind == "charge"]


def test_fits_and_questions_have_one_count(curator: Curator) -> None:
    with charged_to(curator, "people", "detectors of the spring report"):
        PrivateDetector(epsilon="0.3", delta=0, bounds=(0, 1)).fit(POINTS)
        PrivateDetector(epsilon="0.2", delta=0).fit(POINTS)  # ranges included
        PrivateDetector(epsilon="0.1", bounds=(0, 1), delta=0).fit(POINTS)
    assert spent(curator) == Loss("0.6")
    curator.ask(Histogram(columns=("x0",), epsilon="0.3"), "people")
    with charged_to(curator, "people"), pytest.raises(BudgetExceeded):
        PrivateDetector(epsilon="0.3", delta=0, bounds=(0, 1)).fit(POINTS)
    PrivateDetector(epsilon="0.3", delta=0, bounds=(0, 1)).fit(POINTS)  # outside nothing is charged
    assert spent(curator) == Loss("0.9")
    reasons = [entry.query["reason"] for entry in charges(curator)[:3] if entry.query]
    assert reasons == ["detectors of the spring report"] * 3
    curator.verify()


def test_a_fit_is_charged_before_it_looks_and_a_refused_one_leaves_no_trace(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector = PrivateDetector(epsilon="2", delta=0, bounds=(0, 1))
    before = curator.head()
    with charged_to(curator, "people"), pytest.raises(BudgetExceeded):
        detector.fit(POINTS)
    assert curator.head() == before
    assert not hasattr(detector, "release_")

    def fails(*_: object) -> None:
        assert spent(curator) == Loss("0.5")
        raise MemoryError

    monkeypatch.setattr(
        "privod.questions.detector_profile.query.DetectorProfile.answer_rows", fails
    )
    with charged_to(curator, "people"), pytest.raises(MemoryError):
        PrivateDetector(epsilon="0.5", delta=0, bounds=(0, 1)).fit(POINTS)
    assert spent(curator) == Loss("0.5")


def test_each_batch_pays_for_itself(curator: Curator) -> None:
    detector = PrivateDetector(epsilon="0.2", delta=0, bounds=(0, 1))
    with charged_to(curator, "people"):
        for part in (POINTS[:30], POINTS[30:]):
            detector.partial_fit(part)
    assert spent(curator) == Loss("0.4")  # whether batches are disjoint is not for the curator


def test_a_fit_without_a_bound_under_an_open_budget_is_refused(curator: Curator) -> None:
    with charged_to(curator, "people"), pytest.raises(NoPromise, match="none under add-remove"):
        PrivateDetector(epsilon="0.1", delta=0, bounds=(0, 1), adjacency="replace").fit(POINTS)
    assert spent(curator) == Loss(0)


def test_a_joint_run_charges_the_table_that_it_publishes(tmp_path: Path) -> None:
    place = str(tmp_path / "curator")
    with Curator.open(place) as curator:
        curator.register("people", ROWS, DOMAIN)
        curator.open_budget("people", Replace(), Loss(2, "1e-5"), confirmed=True)
    _charge(JOINT, "people", ("a", "b", "c"), place)
    with Curator.open(place) as curator:
        assert spent(curator) == Loss(1, "1e-6")
        (entry,) = charges(curator)
        assert entry.query is not None
        assert entry.query["reason"] == "a joint run with 3 parties"
        curator.verify()
    with pytest.raises(BudgetExceeded):
        _charge(replace(JOINT, epsilon=2, delta="1e-6"), "people", ("a", "b", "c"), place)
    exact = PublishedOutliers(
        partition="horizontal", columns=("x0", "x1"), radius=0.1, far_fraction=0.5
    )
    with pytest.raises(InvalidParameter, match="no budget counts"):
        _charge(exact, "people", ("a", "b", "c"), place)


def test_charging_ahead_is_refused_where_charging_for_what_happened_is_not(
    curator: Curator,
) -> None:
    lost = Guarantee(Loss(3), AddRemove())
    with pytest.raises(BudgetExceeded):
        curator.do(ChargeAhead("people", lost, "a fit"))
    curator.do(ChargeElsewhere("people", lost, "it happened"), confirmed=True)
    assert spent(curator) == Loss(3)


def test_rows_under_two_names_are_told_to_the_owner(
    curator: Curator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert curator.register("other", {**ROWS, "x1": ROWS["x0"]}, DOMAIN).same_rows_as == ()
    twice = curator.register("again", ROWS, DOMAIN)
    assert twice.same_rows_as == ("people",)
    assert "registered as 'people' too" in twice.warning()
    version = curator.register("people-2", ROWS, DOMAIN, continues="people")
    assert version.same_rows_as == ("again",)  # versions share their budgets
    assert curator.same_rows_as("other") == ()
    monkeypatch.setenv("PRIVOD_AT", str(tmp_path / "curator"))
    (tmp_path / "domain.json").write_text(json.dumps(DOMAIN.to_json()))
    lines = "\n".join(f"{x!r},{y!r}" for x, y in POINTS.tolist())
    (tmp_path / "rows.csv").write_text(f"x0,x1\n{lines}\n")
    command = ["register", "third", str(tmp_path / "rows.csv")]
    result = CliRunner().invoke(app, [*command, "--domain", str(tmp_path / "domain.json")])
    assert result.exception is None, result.output
    assert "registered as 'people', 'again'" in " ".join(result.output.split())


SPLITTERS = [KFold(5), KFold(5, shuffle=True, random_state=0)]


@pytest.mark.parametrize("splitter", SPLITTERS, ids=["in order", "shuffled"])
@pytest.mark.filterwarnings("ignore::privod.estimators.PrivacyWarning")
def test_folds_are_refused_under_add_remove_and_charged_twice_under_replace(
    curator: Curator, tmp_path: Path, splitter: KFold
) -> None:
    detector = PrivateDetector(epsilon="0.1", bounds=(0, 1), delta=0)

    def validate() -> None:
        cross_val_score(detector, POINTS, cv=splitter, scoring=lambda *_: 0.0, error_score="raise")

    with charged_to(curator, "people"), pytest.raises(NoPromise, match="none under add-remove"):
        validate()
    assert spent(curator) == Loss(0)
    with Curator.open(tmp_path / "replaced") as other:
        other.register("people", ROWS, DOMAIN)
        other.open_budget("people", Replace(), Loss(2), confirmed=True)
        with charged_to(other, "people"), spending() as meter:
            validate()
        (budget,) = other.budget("people")
        assert budget.spent == Loss(1)  # five fits of 0.1, each twice: one row leaves, one comes
        assert meter.total.guarantee == Guarantee(Loss(1), Replace())


@pytest.mark.filterwarnings("ignore::privod.estimators.PrivacyWarning")
def test_an_ensemble_is_not_charged_but_refused(curator: Curator) -> None:
    bagged = BaggingRegressor(
        PrivateDetector(epsilon="0.1", bounds=(0, 1), delta=0), n_estimators=2
    )
    with charged_to(curator, "people"), pytest.raises(NoPromise, match="ensemble"):
        bagged.fit(POINTS, np.zeros(len(POINTS)))
    assert spent(curator) == Loss(0)
