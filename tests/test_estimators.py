"""The estimators: scikit-learn's own checks, and nothing of the rows stays."""

from __future__ import annotations

# slow: left out by `make quick`
import io
import json
import pickle
import re
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.metrics import make_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidData, InvalidParameter
from privod.estimators import (
    PrivacyWarning,
    PrivateDetector,
    QuestionDetector,
    Spending,
    search_loss,
    spending,
)
from privod.mechanisms import seeded
from privod.privacy import Guarantee, Loss, Replace
from privod.query.catalog import release_from_json
from privod.questions.detector_profile.query import DetectorProfile
from privod.questions.grid_knn.query import GridKnn

Floats = NDArray[np.float64]

both = pytest.mark.parametrize("kind", [PrivateDetector])


def cloud(n: int, n_columns: int = 2, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=(n, n_columns))


@both
def test_far_rows_are_flagged_and_near_ones_are_not(kind: Any) -> None:
    detector = kind(epsilon=2, random_state=0).fit(cloud(2000))
    fresh = cloud(500, seed=1)
    assert (detector.predict(fresh) == 1).mean() > 0.7
    assert detector.predict([[9.0, 9.0], [-8.0, 7.0]]).tolist() == [-1, -1]
    assert (
        detector.decision_function([[9.0, 9.0]]) < detector.decision_function([[0.0, 0.0]])
    ).all()


@both
def test_nothing_of_the_rows_stays_in_a_pickle(kind: Any) -> None:
    rows = cloud(300, 4)
    # Among 1,200 values of four bytes one is found in fresh noise by accident, once in a thousand.
    detector = kind(epsilon=1, random_state=0).fit(rows)
    joblib.dump(detector, file := io.BytesIO())
    for content in (pickle.dumps(detector), file.getvalue()):
        _contains_no_row(content, rows)
    assert set(vars(detector)) - set(detector.get_params()) == {
        "release_",
        "guarantee_",
        "_threshold",
        "_batches",
        "n_features_in_",
    }


@both
def test_a_threshold_asked_for_late_is_that_of_the_fit(kind: Any) -> None:
    early, late = (kind(bounds=(-4, 4), random_state=0).fit(cloud(200)) for _ in range(2))
    assert np.isfinite(early.offset_)
    early.set_params(contamination=0.4)
    late.set_params(contamination=0.4)
    assert pickle.loads(pickle.dumps(late)).offset_ == late.offset_ == early.offset_  # noqa: S301


def _contains_no_row(content: bytes, rows: Floats) -> None:
    for kind in ("<f8", ">f8", "<f4"):
        for row in rows.astype(kind):
            assert row.tobytes() not in content
            for value in row:
                assert value.tobytes() not in content


@both
def test_a_random_state_repeats_and_marks_and_nothing_else_does(kind: Any) -> None:
    rows = cloud(100)
    first, second = (kind(random_state=3).fit(rows) for _ in range(2))
    assert first.release_.value == second.release_.value
    assert first.release_.seeded
    assert first.release_.value.seeded
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        private = kind().fit(rows)
    assert not private.release_.seeded
    assert not private.bounds_release_.seeded
    assert kind().fit(rows).release_.value != private.release_.value


@both
def test_another_share_is_flagged_without_another_look(kind: Any) -> None:
    detector = kind(epsilon=5, delta=0, random_state=0).fit(cloud(3000))
    release = detector.release_
    fresh = cloud(2000, seed=1)
    few = (detector.retarget(0.02).predict(fresh) == -1).mean()
    many = (detector.retarget(0.3).predict(fresh) == -1).mean()
    assert few < 0.1 < many < 0.5
    assert detector.release_ is release
    for wrong in (2.0, Fraction(2), Fraction(0), "half"):
        with pytest.raises(ValueError, match="contamination"):
            detector.retarget(wrong)
    assert detector.contamination == 0.3
    assert (detector.predict(fresh) == -1).mean() == many
    assert detector.retarget(Fraction(3, 10)).offset_ == detector.retarget(0.3).offset_


TOO_LATE: list[dict[str, Any]] = [
    {"contamination": Fraction(1, 10**400)},
    {"delta": Fraction(3, 2)},
    {"epsilon": "much"},
    {"adjacency": "none"},
]


@both
@pytest.mark.parametrize("wrong", TOO_LATE)
@pytest.mark.parametrize("bounds", [None, (-4, 4)])
def test_a_wrong_parameter_is_refused_before_anything_is_asked(
    kind: Any, wrong: Any, bounds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(*_: object) -> None:
        raise AssertionError("the rows were looked at")

    fitted = kind(random_state=0, bounds=bounds).fit(cloud(100))
    fresh = kind(bounds=bounds, **wrong)
    before = dict(vars(fitted))
    monkeypatch.setattr(DetectorProfile, "answer_rows", look)
    with pytest.raises(ValueError, match=r"|".join(wrong)):
        fresh.fit(cloud(100, 3))
    assert set(vars(fresh)) == set(fresh.get_params())
    fitted.set_params(**wrong)
    with pytest.raises(ValueError, match=r"|".join(wrong)):
        fitted.fit(cloud(100, 3))
    assert vars(fitted) == {**before, **wrong}


@both
@pytest.mark.parametrize("third", [Fraction(1, 3), "1/3"])
def test_epsilon_is_read_as_the_questions_read_it(kind: Any, third: Any) -> None:
    detector = kind(epsilon=third, delta=0).fit(cloud(50))
    assert detector.guarantee_.loss == Loss(Fraction(1, 3))
    assert detector.partial_fit(cloud(50)).guarantee_.loss == Loss(Fraction(1, 3))
    assert clone(detector).epsilon == third


@both
@pytest.mark.parametrize("bounds", [None, (-4, 4)])
@pytest.mark.parametrize("wrong", [1e-30, 1e30, Fraction(-1), "0", "much"])
def test_an_error_about_epsilon_names_it_as_given(kind: Any, bounds: Any, wrong: Any) -> None:
    given = str(wrong) if isinstance(wrong, Fraction) else repr(wrong)
    for act in ("fit", "partial_fit"):
        detector = kind(bounds=bounds, delta=0).fit(cloud(50)).set_params(epsilon=wrong)
        with pytest.raises(InvalidParameter, match=re.escape(f"got {given}.")) as refused:
            getattr(detector, act)(cloud(50))
        assert refused.value.parameter == "epsilon"


@both
def test_frames_pipelines_and_searches_take_it(kind: Any) -> None:
    frame = pd.DataFrame(cloud(200), columns=["age", "dose"])
    detector = kind().fit(frame)
    assert [column.name for column in detector.release_.value.columns] == ["age", "dose"]
    assert detector.predict(frame).shape == (200,)
    with pytest.raises(ValueError, match="feature names"):
        detector.predict(frame.rename(columns={"age": "height"}))
    assert kind().fit(pl.from_pandas(frame)).predict(pl.from_pandas(frame)).shape == (200,)

    rng = np.random.default_rng(2)
    corners = rng.uniform(6, 9, (20, 2)) * rng.choice([-1, 1], (20, 2))
    rows = np.vstack([cloud(300), corners])
    labels = np.r_[np.ones(300), -np.ones(20)]
    pipeline = make_pipeline(
        FunctionTransformer(np.arcsinh), kind(epsilon=5, delta=0, random_state=0)
    )
    assert pipeline.fit(rows).predict(rows).shape == (320,)
    scorer = make_scorer(roc_auc_score, response_method="decision_function")
    order = np.random.default_rng(0).permutation(320)
    with pytest.warns(PrivacyWarning, match="loses its epsilon again"):
        scores = cross_val_score(
            kind(epsilon=5, delta=0, random_state=0),
            rows[order],
            labels[order],
            scoring=scorer,
            cv=3,
        )
    assert scores.mean() > 0.85
    search = GridSearchCV(
        kind(epsilon=5, delta=0, random_state=0),
        {"contamination": [0.1, 0.2]},
        scoring=scorer,
        cv=2,
    )
    with pytest.warns(PrivacyWarning, match="loses its epsilon again"), spending() as meter:
        search.fit(rows[order], labels[order])
    assert search.best_score_ > 0.8
    assert meter.total == Spending(5, Guarantee(Loss(50), Replace()))
    assert search_loss(search) == Guarantee(Loss(50), Replace())


@both
def test_the_decision_boundary_can_be_drawn(kind: Any) -> None:
    detector = kind().fit(cloud(100))
    display = DecisionBoundaryDisplay.from_estimator(
        detector, cloud(100), response_method="decision_function", grid_resolution=10
    )
    assert display.response.shape == (10, 10)


QUESTIONS: list[tuple[Any, Any]] = [
    (QuestionDetector, GridKnn),
    (PrivateDetector, DetectorProfile),
]


@pytest.mark.parametrize(("kind", "question"), QUESTIONS)
def test_a_release_makes_a_fitted_detector(kind: Any, question: Any) -> None:
    domain = Domain((Numeric("age", -5, 5), Numeric("dose", -5, 5)))
    rows = cloud(2000)
    table = Table(domain, {"age": rows[:, 0], "dose": rows[:, 1]})
    release = question(columns=("age", "dose"), epsilon=1).answer(table, seeded(0))
    detector = kind.from_release(release, contamination=0.05)
    asked = np.array([[0.3, 0.3], [4.9, -4.9]])
    frame = pd.DataFrame(asked, columns=["age", "dose"])
    for given in (asked, asked.tolist(), frame, pl.from_pandas(frame)):
        assert detector.predict(given).tolist() == [1, -1]  # and no warning
    with pytest.raises(ValueError, match="feature names"):
        detector.predict(frame[["dose", "age"]])
    with pytest.raises(ValueError, match="features"):
        detector.predict(cloud(5, 3))
    assert detector.guarantee_ == release.guarantee
    assert detector.partial_fit(cloud(50)).guarantee_ == release.guarantee
    with pytest.raises(ValueError, match="contamination"):
        kind.from_release(release, contamination=2)


def test_the_release_of_a_detector_makes_its_like() -> None:
    fitted = PrivateDetector(bounds=(-5, 5)).fit(cloud(500))
    again = PrivateDetector.from_release(fitted.release_)
    assert again.score_samples(cloud(9)).tolist() == fitted.score_samples(cloud(9)).tolist()
    grid: Any = GridKnn(columns=("x0", "x1"), epsilon=1)
    other = QuestionDetector(grid, bounds=(-5, 5)).fit(cloud(500))
    wrongs: list[Any] = [other.release_, other.release_.value, None]
    for wrong in wrongs:
        with pytest.raises(InvalidParameter, match="release must be a release of"):
            PrivateDetector.from_release(wrong)


CARRIED: list[tuple[Any, Any]] = [
    (PrivateDetector, DetectorProfile(columns=("age", "dose"), epsilon=1)),
    (
        PrivateDetector,
        DetectorProfile(columns=("age", "dose"), epsilon=1, delta="1e-6"),
    ),
]


@pytest.mark.parametrize(("kind", "question"), CARRIED)
def test_what_was_carried_away_in_a_file_makes_a_detector_with_its_promise(
    kind: Any, question: Any, tmp_path: Path
) -> None:
    domain = Domain((Numeric("age", -5, 5), Numeric("dose", -5, 5)))
    rows = cloud(2000)
    table = Table(domain, {"age": rows[:, 0], "dose": rows[:, 1]})
    release = question.answer(table, seeded(0)).of_persons(3)
    release.value.save(tmp_path / "release.privod")
    (tmp_path / "release.json").write_text(json.dumps(release.to_json()))
    asked = cloud(20, seed=1)
    expected = kind.from_release(release)
    for given in (
        tmp_path / "release.json",
        str(tmp_path / "release.privod"),
        type(release.value).load(tmp_path / "release.privod"),
    ):
        detector = kind.from_release(given)
        assert detector.guarantee_ == release.guarantee
        assert detector.release_.seeded
        assert detector.predict(asked).tolist() == expected.predict(asked).tolist()
        assert detector.score_samples(asked).tolist() == expected.score_samples(asked).tolist()
        assert release_from_json(detector.release_.to_json()) == detector.release_
        assert getattr(detector.release_.query, "score_by", "") == getattr(question, "score_by", "")
        assert detector.partial_fit(cloud(50)).release_.value.noise.n_draws == 2


def test_a_file_of_another_release_makes_no_detector(tmp_path: Path) -> None:
    grid: Any = GridKnn(columns=("x0", "x1"), epsilon=1)
    fitted = QuestionDetector(grid, bounds=(-5, 5)).fit(cloud(100))
    fitted.release_.value.save(tmp_path / "m.privod")
    with pytest.raises(InvalidParameter, match="must be a release of detector-profile, its file"):
        PrivateDetector.from_release(tmp_path / "m.privod")
    with pytest.raises(InvalidParameter, match="Give the whole release"):
        QuestionDetector.from_release(tmp_path / "m.privod")
    with pytest.raises(InvalidData, match="There is no file"):
        PrivateDetector.from_release(str(tmp_path / "nothing.privod"))
    for text in ("{}", json.dumps(fitted.release_.to_json())):
        with pytest.raises(InvalidData, match=r"json\.loads"):
            release_from_json(text)  # type: ignore[arg-type]


def test_the_page_about_estimators_runs_as_written() -> None:
    page = (Path(__file__).parent.parent / "docs" / "estimators.md").read_text(encoding="utf-8")
    program = "".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102 - our own page
    assert names["labels"].tolist()[1] == -1
    assert set(names["flags"]) <= {0, 1}
