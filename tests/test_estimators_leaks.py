"""What estimators give away beside their release: scores, pipelines, searches."""

from __future__ import annotations

# slow: left out by `make quick`
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    cross_val_score,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)

from privod.errors import InvalidParameter, NoPromise
from privod.estimators import (
    PrivacyWarning,
    PrivateDetector,
    QuestionDetector,
    Spending,
    UnreliableFit,
    charged_to,
    search_loss,
    spending,
    spent,
)
from privod.ledger.acts import ChargeAhead
from privod.privacy import AddRemove, Guarantee, Loss, Replace
from privod.questions.grid_knn.query import GridKnn

both = pytest.mark.parametrize("kind", [PrivateDetector])


def cloud(n: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=(n, 2))


@pytest.mark.parametrize("score_by", ["graded", "basic", "weighted"])
@pytest.mark.parametrize("columns", [1, 3])
def test_scores_do_not_tell_where_in_its_cell_a_row_lies(score_by: str, columns: int) -> None:
    """The tie-break told the row to 1e-12, and the order of the walk told a sixth of its cell.

    Whoever knows all but one column of a row, and its score, looked for the value that scores so.
    """
    rng = np.random.default_rng(columns)
    query = GridKnn(columns=tuple(f"x{at}" for at in range(columns)), epsilon=5)
    settings = {"score_by": score_by}
    fitted = QuestionDetector(query, bounds=(-4, 4), settings=settings, random_state=0)
    fitted.fit(rng.normal(size=(300, columns)))
    width = 8 / fitted.release_.value.grid.cells_per_axis
    for place in range(20):
        corner = -4 + width * np.floor(rng.uniform(0, 8 - width, columns) / width)
        corner[0] += 16 * (place % 2)  # also where it lies outside of the range
        inside = corner + rng.uniform(0.001, 0.999, size=(500, columns)) * width
        assert len(np.unique(fitted.score_samples(inside))) == 1


def test_the_detector_for_any_table_tells_hardly_more_than_cells() -> None:
    """Of a hundred thousand values, hardly any can be told apart by their score or explanation."""
    detector = PrivateDetector(epsilon=5, bounds=(-4, 4), random_state=0).fit(cloud(300))
    value = np.linspace(0, 1, 100_001)
    rows = np.column_stack([value, np.full(len(value), 0.3)])
    assert (np.diff(detector.score_samples(rows)) != 0).mean() < 0.001
    told = detector.explain(rows).shares
    assert (np.diff(told, axis=0) != 0).any(axis=1).mean() < 0.001


@both
def test_a_fit_promises_what_its_parameters_said(kind: Any) -> None:
    for bounds in (None, (-4, 4)):
        for adjacency in ("add-remove", "replace"):
            detector = kind(epsilon="0.3", bounds=bounds, adjacency=adjacency)
            assert detector.promised() == detector.fit(cloud(100)).guarantee_


@both
def test_a_detector_behind_a_fitted_step_warns_and_names_it(kind: Any) -> None:
    pipeline = Pipeline([("scale", StandardScaler()), ("flag", kind(epsilon=0.5))])
    with pytest.warns(PrivacyWarning, match="has fitted scale to the rows"):
        pipeline.fit(cloud(100))
    with pytest.warns(PrivacyWarning, match="has fitted scale to the rows"):
        pipeline.fit_predict(cloud(100))
    nested = make_pipeline(StandardScaler(), make_pipeline(FunctionTransformer(), kind()))
    with pytest.warns(PrivacyWarning, match="has fitted standardscaler to the rows"):
        nested.fit(cloud(100))


def test_a_detector_in_the_shape_of_pyod_warns_too() -> None:
    from privod.estimators.pyod import PrivateOD

    with pytest.warns(PrivacyWarning, match="has fitted standardscaler to the rows"):
        make_pipeline(StandardScaler(), PrivateOD(epsilon=0.5)).fit(cloud(100))


@both
def test_steps_that_learn_nothing_from_the_rows_are_no_leak(kind: Any) -> None:
    known = FrozenEstimator(StandardScaler().fit(cloud(50)))  # of public rows
    for step in (FunctionTransformer(np.arcsinh), Normalizer(), known, "passthrough"):
        with warnings.catch_warnings():
            warnings.simplefilter("error", PrivacyWarning)
            make_pipeline(step, kind(epsilon=0.5)).fit(cloud(100))


@pytest.mark.parametrize("holds", [False, True], ids=["alone", "within a column transformer"])
def test_an_encoder_warns_only_where_it_learns_its_categories(holds: bool) -> None:
    rows = np.column_stack([np.arange(200) % 3, np.arange(200) / 200])

    def fit(encoder: Any) -> None:
        step = ColumnTransformer([("code", encoder, [0])], remainder="passthrough")
        asked = rows if holds else rows[:, :1]
        make_pipeline(step if holds else encoder, PrivateDetector(bounds=(0, 3))).fit(asked)

    known: Any = [[0.0, 1.0, 2.0]]
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        warnings.simplefilter("ignore", UnreliableFit)
        fit(OneHotEncoder(categories=known, sparse_output=False))
        fit(OrdinalEncoder(categories=known))
    for learning in (
        OneHotEncoder(sparse_output=False),
        OneHotEncoder(categories=known, min_frequency=3, sparse_output=False),
        OrdinalEncoder(),
    ):
        with pytest.warns(PrivacyWarning, match="has fitted"):
            fit(learning)


def test_the_leak_that_the_warning_names_is_there() -> None:
    """One record more or less decides an event behind a scaler, in 20 of 20 runs each.

    A far record moves all others to one cell after scaling. At the promised epsilon of 0.5 no test
    could tell the two data sets apart so well but with a probability below 1e-7.
    """
    rows = np.random.default_rng(1).uniform(-1, 1, size=(500, 2))
    far = np.vstack([rows, [1e9, 1e9]])
    query = GridKnn(columns=("x0", "x1"), epsilon=0.5)

    def spread(data: NDArray[np.float64]) -> bool:
        pipeline = make_pipeline(StandardScaler(), QuestionDetector(query, bounds=(-3, 3)))
        with pytest.warns(PrivacyWarning, match="standardscaler"):
            pipeline.fit(data)
        counts = pipeline[-1].release_.value.counts
        return int((counts > 20).sum()) >= 4

    assert [spread(rows) for _ in range(20)] == [True] * 20
    assert [spread(far) for _ in range(20)] == [False] * 20


def test_a_search_says_what_all_its_fits_lose() -> None:
    search = GridSearchCV(
        PrivateDetector(bounds=(-4, 4), delta=0),
        {"epsilon": ["0.1", "0.2"], "contamination": [0.1, 0.2]},
        scoring=lambda detector, rows: float(detector.score_samples(rows).mean()),
        cv=3,
    )
    before = spent().fits
    with pytest.warns(PrivacyWarning, match="several times"), spending() as meter:
        search.fit(cloud(90))
    best = search.best_params_["epsilon"]
    lost = Loss("1.8") + Loss(best)  # 3 x 2 x (0.1 + 0.2), and the best once more
    in_all = Guarantee(lost, AddRemove()).under(Replace())  # of folds nothing else is promised
    assert meter.total == Spending(13, in_all)
    assert spent().fits == before + 13
    assert search_loss(search) == in_all


def test_cross_validation_counts_every_fold() -> None:
    detector = PrivateDetector(epsilon="0.5", bounds=(-4, 4), delta=0)
    with pytest.warns(PrivacyWarning, match="several times"), spending() as meter:
        cross_val_score(detector, cloud(60), scoring=lambda *_: 0.0, cv=4)
    assert meter.total == Spending(4, Guarantee(Loss(4), Replace()))


def test_an_ensemble_of_detectors_warns() -> None:
    detector = PrivateDetector(epsilon="0.5", bounds=(-4, 4), delta=0)
    with pytest.warns(PrivacyWarning, match="a row that a sample holds twice loses twice"):
        BaggingRegressor(detector, n_estimators=2).fit(cloud(60), np.zeros(60))


def test_a_detector_by_itself_warns_of_nothing() -> None:
    from privod.estimators.pyod import PrivateOD

    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        PrivateDetector(epsilon="0.5", bounds=(-4, 4), delta=0).fit(cloud(60))
        PrivateOD(epsilon="0.5", bounds=(-4, 4), delta=0).fit(cloud(60))


def test_batches_count_each() -> None:
    detector = PrivateDetector(epsilon="0.5", bounds=(-4, 4), delta=0)
    with spending() as meter:
        assert meter.total == Spending()
        detector.partial_fit(cloud(30)).partial_fit(cloud(40))
    assert meter.total == Spending(2, Guarantee(Loss(1), AddRemove()))


def test_a_fit_that_is_refused_loses_nothing() -> None:
    with spending() as meter, pytest.raises(InvalidParameter):
        PrivateDetector(epsilon=1e-30, delta=0).fit(cloud(30))
    assert meter.total == Spending()


@pytest.mark.parametrize("wrong", [None, StandardScaler(), PrivateDetector()])
def test_the_loss_of_what_is_no_fitted_search_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidParameter, match="search must be a search"):
        search_loss(wrong)


class ByValue:
    """Folds of one's own making, by what the rows say; its name does not tell."""

    def get_n_splits(self, *_: Any, **__: Any) -> int:
        return 2

    def split(self, X: Any, *_: Any, **__: Any) -> Iterator[Any]:  # noqa: N803
        high = X[:, 0] > 0
        for side in (high, ~high):
            yield np.flatnonzero(side), np.flatnonzero(~side)


class Renamed(StratifiedKFold):  # type: ignore[misc]  # it has no types
    """A kind of splits that is not known."""


SAID = np.arange(40) >= 36
FOLLOWING = [StratifiedKFold(4), StratifiedShuffleSplit(4), GroupKFold(4), Renamed(4), ByValue()]
FOLLOWING += [list(StratifiedKFold(4).split(SAID, SAID))]
follow = pytest.mark.parametrize("split", FOLLOWING, ids=lambda split: type(split).__name__)


def groups_for(split: Any) -> dict[str, Any]:
    return {"groups": np.arange(40) % 4} if isinstance(split, GroupKFold) else {}


@follow
@pytest.mark.filterwarnings("ignore::privod.estimators.PrivacyWarning")
def test_folds_that_follow_the_rows_are_not_charged_but_refused(split: Any) -> None:
    """A charge under Replace counts one changed row in each fit, and here one moves others."""
    detector = PrivateDetector(epsilon=1, bounds=(-4, 4), delta=0)
    how: Any = {"scoring": lambda *_: 0.0, "error_score": "raise", **groups_for(split)}
    with charged_to(Refusing(), "people"), pytest.raises(NoPromise, match="Take KFold"):
        cross_val_score(detector, cloud(40), SAID, cv=split, **how)


@follow
@pytest.mark.filterwarnings("ignore::privod.estimators.PrivacyWarning")
def test_folds_that_follow_the_rows_have_no_total(split: Any) -> None:
    detector = PrivateDetector(epsilon=1, bounds=(-4, 4), delta=0)
    how: Any = {"scoring": lambda *_: 0.0, "error_score": "raise", **groups_for(split)}
    with spending() as meter:
        detector.fit(cloud(40))
        cross_val_score(detector, cloud(40), SAID, cv=split, **how)
        detector.fit(cloud(40))
    assert meter.total == Spending(meter.total.fits, None, bounded=False)
    assert meter.total.fits > 3


@pytest.mark.filterwarnings("ignore::privod.estimators.PrivacyWarning")
def test_folds_that_other_threads_fit_are_not_charged_but_refused() -> None:
    """There nobody can see what cut them."""
    detector = PrivateDetector(epsilon=1, bounds=(-4, 4), delta=0)
    how: Any = {"scoring": lambda *_: 0.0, "error_score": "raise", "n_jobs": 2}
    with (
        parallel_config("threading"),
        charged_to(Refusing(), "people"),
        pytest.raises(NoPromise, match="in one thread"),
    ):
        cross_val_score(detector, cloud(40), SAID, cv=StratifiedKFold(4), **how)


class Refusing:
    """A curator that must not be charged."""

    def do(self, act: ChargeAhead) -> Any:
        raise AssertionError(act)


@follow
def test_a_search_whose_splits_follow_the_rows_has_no_bound(split: Any) -> None:
    """With another label or group one row moves others from fold to fold."""
    detector = PrivateDetector(bounds=(-4, 4), delta=0)
    search = GridSearchCV(detector, {"epsilon": [1]}, scoring=lambda *_: 0.0, cv=split)
    with pytest.warns(PrivacyWarning):
        search.fit(cloud(40), SAID, **groups_for(split))
    with pytest.raises(InvalidParameter, match="must not split rows by what they say"):
        search_loss(search)


def test_the_loss_of_a_search_over_what_promises_nothing_is_refused() -> None:
    search = GridSearchCV(StandardScaler(), {"with_mean": [True]}, scoring=lambda *_: 0.0, cv=2)
    with pytest.raises(InvalidParameter, match="must search over a private detector"):
        search_loss(search.fit(cloud(20)))
