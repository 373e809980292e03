"""PyOD's face: what PyOD's own test files ask of a detector, and what privacy keeps back."""

from __future__ import annotations

# slow: left out by `make quick`
import copy
import pickle
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from pyod.models import combination
from pyod.models.base import BaseDetector
from pyod.models.feature_bagging import FeatureBagging
from pyod.models.lscp import LSCP
from pyod.utils.data import generate_data
from pyod.utils.persistence import load, save
from pyod.utils.utility import standardizer
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

from privod.errors import InvalidParameter
from privod.estimators.pyod import STAND_INS, PrivateOD

pytestmark = pytest.mark.filterwarnings("ignore")  # PyOD's own: deprecations, the cost of rejection

Floats = NDArray[np.float64]

both = pytest.mark.parametrize("kind", [PrivateOD])


class Fitted(NamedTuple):
    """A face and the data of PyOD's own tests."""

    face: Any
    rows: Floats
    asked: Floats
    asked_labels: Floats


def data(n_features: int = 2, n_train: int = 200) -> Any:
    return generate_data(
        n_train=n_train, n_test=100, n_features=n_features, contamination=0.1, random_state=42
    )


@pytest.fixture(
    scope="module",
    params=[2, 10],
)
def fitted(request: pytest.FixtureRequest) -> Fitted:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows, asked, _, asked_labels = data(request.param)
        face = PrivateOD(epsilon=10, random_state=1).fit(rows)
    return Fitted(face, rows, asked, asked_labels)


def test_what_fitting_leaves_is_there(fitted: Fitted) -> None:
    face, rows, _, _ = fitted
    assert face.decision_scores_.shape == face.labels_.shape == (len(rows),)
    assert (face.labels_ == (face.decision_scores_ > face.threshold_)).all()
    assert set(face.labels_.tolist()) == {0, 1}
    assert np.isfinite([face.threshold_, face._mu, face._sigma]).all()
    np.testing.assert_allclose(face.decision_function(rows), face.decision_scores_)


def test_outliers_score_higher_and_labels_follow_the_threshold(fitted: Fitted) -> None:
    face, _, asked, asked_labels = fitted
    scores = face.decision_function(asked)
    assert roc_auc_score(asked_labels, scores) >= 0.8
    assert face.predict(asked).tolist() == (scores > face.threshold_).astype(int).tolist()


@pytest.mark.parametrize("method", ["linear", "unify"])
def test_probabilities_and_confidence_lie_between_0_and_1(fitted: Fitted, method: str) -> None:
    face, _, asked, _ = fitted
    probability, confidence = face.predict_proba(asked, method=method, return_confidence=True)
    assert probability.shape == (len(asked), 2)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    labels, same_confidence = face.predict(asked, return_confidence=True)
    assert labels.shape == confidence.shape == (len(asked),)
    assert confidence.tolist() == same_confidence.tolist()
    for found in (probability, confidence):
        assert found.min() >= 0
        assert found.max() <= 1
    with pytest.raises(ValueError, match="something"):
        face.predict_proba(asked, method="something")


def test_unsure_labels_may_be_rejected(fitted: Fitted) -> None:
    face, _, asked, _ = fitted
    labels, (expected, bound, cost) = face.predict_with_rejection(asked, return_stats=True)
    assert labels.tolist() == face.predict_with_rejection(asked).tolist()
    assert set(labels.tolist()) <= {-2, 0, 1}
    assert 0 <= expected <= bound <= 1
    assert cost >= 0


def test_ranks_are_in_the_order_of_the_scores(fitted: Fitted) -> None:
    face, rows, asked, _ = fitted
    beyond = np.add.outer([1.0, 2.0, 300.0], rows.max(axis=0))
    asked = np.vstack([asked, beyond])
    scores, ranks = face.decision_function(asked), face._predict_rank(asked)
    assert (np.diff(ranks[np.argsort(scores)]) >= 0).all()  # a last bit of a score makes no rank
    apart = np.diff(np.sort(scores)) > 1e-9
    assert (np.diff(np.sort(ranks))[apart] > 0).all()
    n = face._n_about()
    assert abs(n - len(rows)) < 40
    whole = np.searchsorted(np.sort(face.reference_scores_), scores)
    largest_tie = np.unique(face.reference_scores_, return_counts=True)[1].max()
    assert (np.abs(ranks * STAND_INS / n - whole) <= largest_tie).all()
    assert ranks.min() >= 0
    assert ranks.max() <= n
    np.testing.assert_allclose(face._predict_rank(asked, normalized=True), ranks / ranks.max())


PREDICTING: dict[str, Any] = {
    "compute_rejection_stats": lambda face, _: face.compute_rejection_stats(),
    "decision_function": lambda face, asked: face.decision_function(asked),
    "predict": lambda face, asked: face.predict(asked, return_confidence=True),
    "predict_confidence": lambda face, asked: face.predict_confidence(asked),
    "predict_proba": lambda face, asked: [
        face.predict_proba(asked, method=method) for method in ("linear", "unify")
    ],
    "predict_with_rejection": lambda face, asked: face.predict_with_rejection(
        asked, T=4, return_stats=True
    ),
    "_predict_rank": lambda face, asked: face._predict_rank(asked),
}

FITTING_OR_ABOUT_PARAMETERS = {
    "fit", "fit_predict", "fit_predict_score", "get_params", "set_params",
    "_get_param_names", "_process_decision_scores", "_set_n_classes",
}  # fmt: skip


def test_every_method_that_pyod_gives_a_detector_is_known_here() -> None:
    methods = {name for name, found in vars(BaseDetector).items() if callable(found)}
    assert {name for name in methods if not name.startswith("__")} == {
        *PREDICTING,
        *FITTING_OR_ABOUT_PARAMETERS,
    }


@both
@pytest.mark.parametrize("method", PREDICTING)
def test_the_same_release_of_other_rows_predicts_the_same(
    kind: Any, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = np.random.default_rng(1).normal(size=(50, 2)) * 3
    rows = np.random.default_rng(0).normal(size=(300, 2))
    face = kind(epsilon=1, bounds=(-5, 5)).fit(rows)
    expected = PREDICTING[method](face, asked)
    release = face.detector_.release_
    monkeypatch.setattr(type(release.query), "answer_rows", lambda *_: release)
    for others in (np.vstack([rows, [[900.0, 0.0]]]), rows[:20] / 3, rows + 4):
        labels = np.arange(len(others)) % 3
        other = kind(epsilon=1, bounds=(-5, 5)).fit(others, labels)
        assert len(other.decision_scores_) == len(others)
        for mine, theirs in zip(PREDICTING[method](other, asked), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@both
def test_one_far_record_does_not_show_in_a_probability(kind: Any) -> None:
    rows = np.random.default_rng(0).normal(size=(500, 2))
    far = np.vstack([rows, [[900.0, 0.0]]])
    for reference in (rows, far):
        chances = [
            kind(epsilon=0.1, bounds=(-5, 5), random_state=seed)
            .fit(reference)
            .predict_proba(np.array([[3.0, 3.0]]))[0, 1]
            for seed in range(10)
        ]
        assert np.median(chances) > 0.2


@both
def test_confidence_is_pyods_for_the_released_scores_and_number_of_records(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.random.default_rng(0).normal(size=(5000, 2))
    asked = np.linspace(0, 3, 40)[:, None] * [1.0, 1.0]
    face = kind(epsilon=50, bounds=(-5, 5), random_state=0).fit(rows)
    assert abs(face._n_about() - 5000) < 50
    nobody = kind(epsilon=0.001, bounds=(-5, 5), random_state=0).fit(rows[:1])
    assert np.isfinite(nobody.predict_confidence(asked)).all()
    assert len(nobody.compute_rejection_stats()) == 3
    monkeypatch.setattr(kind, "_n_about", lambda _: 10**7)
    assert np.isfinite(face.compute_rejection_stats()).all()
    monkeypatch.setattr(kind, "_n_about", lambda _: STAND_INS)
    travelled = copy.copy(face)
    pyods = BaseDetector.predict_confidence(travelled, asked)
    np.testing.assert_allclose(face.predict_confidence(asked), pyods)
    stats = BaseDetector.compute_rejection_stats(travelled, T=20)
    np.testing.assert_allclose(face.compute_rejection_stats(T=20), stats)


@both
def test_a_failed_fit_leaves_the_face_as_it_was(kind: Any) -> None:
    rows, asked, *_ = data()
    face = kind(random_state=0).fit(rows)
    before = face.decision_function(asked)
    with pytest.raises(ValueError, match="epsilon"):
        face.set_params(epsilon=1e30).fit(rows)
    assert face.decision_function(asked).tolist() == before.tolist()


def test_the_older_ways_to_fit_and_score_work(fitted: Fitted) -> None:
    face, rows, asked, asked_labels = fitted
    again = clone(face)
    assert again.fit_predict(rows).tolist() == face.labels_.tolist()
    for scoring in ("roc_auc_score", "prc_n_score"):
        assert 0 <= again.fit_predict_score(asked, asked_labels, scoring=scoring) <= 1
    with pytest.raises(NotImplementedError):
        again.fit_predict_score(asked, asked_labels, scoring="something")


def test_a_clone_is_unfitted_and_refits_alike_if_seeded(fitted: Fitted) -> None:
    face, rows, asked, _ = fitted
    again = clone(face)
    assert again.get_params() == face.get_params()
    assert not hasattr(again, "decision_scores_")
    with pytest.raises(NotFittedError):
        again.decision_function(asked)
    again.fit(rows)
    assert again.decision_function(asked).tolist() == face.decision_function(asked).tolist()
    again.set_params(random_state=None)
    # At this epsilon two fits agree now and then; eight of them do not.
    assert len({again.fit(rows).decision_scores_.tobytes() for _ in range(8)}) > 1


def test_the_scores_of_the_rows_stay_behind_when_it_travels(fitted: Fitted, tmp_path: Path) -> None:
    face, rows, asked, _ = fitted
    save(face, tmp_path / "face.joblib")
    content = pickle.dumps(face)
    scores = np.array(face.decision_scores_)
    for bytes_ in (content, (tmp_path / "face.joblib").read_bytes()):
        assert scores.tobytes() not in bytes_
        assert all(row.tobytes() not in bytes_ for row in rows)
        runs = [scores[place : place + 8] for place in range(len(scores) - 8)]
        assert not any(run.tobytes() in bytes_ for run in runs)  # one alone is some cell's score
    travelled = (
        pickle.loads(content),  # noqa: S301 - our own bytes
        copy.deepcopy(face),
        load(tmp_path / "face.joblib", trusted=True),
    )
    for other in travelled:
        assert other.threshold_ == face.threshold_
        assert other.decision_function(asked).tolist() == face.decision_function(asked).tolist()
        assert other.predict(asked).tolist() == face.predict(asked).tolist()
        assert len(other.decision_scores_) == len(other.labels_) == STAND_INS
        assert other.predict_proba(asked).tolist() == face.predict_proba(asked).tolist()
        assert other._predict_rank(asked).tolist() == face._predict_rank(asked).tolist()


@both
@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_a_few_rows_and_a_constant_column_are_enough(kind: Any, n_rows: int) -> None:
    rows = np.column_stack([np.arange(n_rows, dtype=float), np.zeros(n_rows)])
    face = kind(random_state=0).fit(rows)
    np.testing.assert_allclose(face.decision_function(rows), face.decision_scores_)
    for asked in (rows, rows + 1000, rows - 1000):
        assert np.isfinite(face.decision_function(asked)).all()
        assert set(face.predict(asked).tolist()) <= {0, 1}
        assert not np.isnan(face.predict_proba(asked, method="unify")).any()


@both
def test_rows_outside_the_ranges_stand_out(kind: Any) -> None:
    rows, *_ = data(4)
    face = kind(epsilon=10, random_state=0).fit(rows)
    far = np.vstack([rows.max(axis=0) + 50, rows.min(axis=0) - 50])
    assert (face.decision_function(far) > face.decision_scores_.max()).all()
    assert face.predict(far).tolist() == [1, 1]


@both
def test_parameters_are_kept_as_given_and_refused_when_wrong(kind: Any) -> None:
    face = kind(contamination=0.2, epsilon=2)
    assert (face.contamination, face.get_params()["epsilon"]) == (0.2, 2)
    assert face.set_params(epsilon=3).epsilon == 3
    assert repr(face).startswith(f"{kind.__name__}(")
    with pytest.raises(ValueError, match="nothing"):
        face.set_params(nothing=1)
    for contamination in (0, 0.51, -0.5):
        with pytest.raises(ValueError, match="contamination"):
            kind(contamination=contamination)
    rows, *_ = data()
    with pytest.raises(ValueError, match=r"1[dD]"):
        face.fit(rows[:, 0])
    with pytest.raises(ValueError, match="features"):
        face.fit(rows).decision_function(rows[:, :1])
    with pytest.warns(UserWarning, match="y should not"):
        face.fit(rows, np.zeros(len(rows)))


@both
def test_a_thresholder_that_would_look_at_rows_is_refused(kind: Any) -> None:
    face = kind()
    face.contamination = object()
    with pytest.raises(InvalidParameter, match="contamination must be a number"):
        face.fit(data()[0])


@both
def test_feature_bagging_takes_it(kind: Any) -> None:
    rows, asked, _, asked_labels = data(4, 300)
    bagging = FeatureBagging(kind(epsilon=20, random_state=0), n_estimators=3, random_state=1)
    bagging.fit(rows)
    assert len(bagging.decision_scores_) == len(rows)
    assert roc_auc_score(asked_labels, bagging.decision_function(asked)) > 0.8


def test_a_locally_chosen_mixture_takes_it() -> None:
    rows, asked, _, asked_labels = data(n_train=120)
    members = [PrivateOD(epsilon=20, random_state=seed) for seed in range(2)]
    mixture = LSCP(members, random_state=0).fit(rows)
    assert roc_auc_score(asked_labels, mixture.decision_function(asked)) > 0.8


@both
def test_scores_and_labels_combine(kind: Any) -> None:
    rows, asked, _, asked_labels = data(4, 300)
    members = [kind(epsilon=20, random_state=seed).fit(rows) for seed in range(4)]
    train = np.column_stack([member.decision_scores_ for member in members])
    _, scores = standardizer(
        train, np.column_stack([member.decision_function(asked) for member in members])
    )
    labels = np.column_stack([member.predict(asked) for member in members])
    for combined in (
        combination.average(scores),
        combination.maximization(scores),
        combination.median(scores),
        combination.aom(scores, n_buckets=2, random_state=0),
        combination.moa(scores, n_buckets=2, random_state=0),
        combination.majority_vote(labels),
    ):
        assert roc_auc_score(asked_labels, combined) > 0.8


def test_a_frame_with_categories_and_gaps_is_scored_and_explained() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=3000), "kind": rng.choice(["a", "b"], 3000)})
    frame.loc[5, "x"] = np.nan
    known = {"x": (-100, 100), "kind": ["a", "b", "c"]}
    face = PrivateOD(epsilon=5, bounds=known, contamination=0.05).fit(frame)
    new = pd.DataFrame({"x": [0.1, 60.0], "kind": ["a", "c"]})
    assert face.predict(new).tolist() == [0, 1]
    assert face.predict_proba(new).shape == (2, 2)
    why = face.explain_outlier(new)
    assert why.columns == ("x", "kind")
    np.testing.assert_allclose(why.shares.sum(axis=1), face.decision_function(new))
    again = pickle.loads(pickle.dumps(face))  # noqa: S301 - our own
    assert again.decision_scores_.shape == (STAND_INS,)
    assert again.decision_function(new).tolist() == face.decision_function(new).tolist()
