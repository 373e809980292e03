"""The detector to begin with: one epsilon, rough ranges, and everything else is chosen inside."""

from __future__ import annotations

from fractions import Fraction
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from privod.data import Column, Domain, Numeric
from privod.errors import InvalidParameter
from privod.estimators.bounds import coded, declared_columns, frame_names, width_of
from privod.estimators.detector import (
    EXACT,
    ReleaseDetector,
    column_names_of,
    numbered_names,
)
from privod.estimators.spending import charge
from privod.privacy import Guarantee, Loss, Number, positive
from privod.query.checks import dp_adjacency
from privod.query.count_query import chance
from privod.query.query import Release
from privod.query.scorer import Explanation
from privod.questions.private_detector.query import DetectorProfile
from privod.questions.private_detector.ranges import UNIVERSE
from privod.questions.private_detector.release import NoisyProfile

__all__ = ["PrivateDetector"]

Floats = NDArray[np.float64]


class PrivateDetector(ReleaseDetector[NoisyProfile]):
    """Flags records that are far from ordinary, and says which columns make them so.

    Histograms of all columns and, where that pays, how the numeric ones go together, at one price;
    ranges are sharpened, columns scaled and missing values treated inside, at the same price. Put
    no scaler or imputer that is fitted on private rows before it: what such a step learns of the
    rows is covered by no guarantee.

    Guarantee
    ---------
    What `fit` keeps is epsilon-differentially private with respect to the rows of X, or (epsilon,
    delta) with a delta: the release, its threshold, and so what they say of any row that you know
    already. `guarantee_` says it with the exact loss. A fixed `random_state` voids it. Not private:
    scores, labels and explanations of the rows of X themselves, which are computed from those rows
    without noise.

    Parameters
    ----------
    epsilon : number
        The privacy loss of one `fit`, all included.
    bounds : pair, list of pairs, pair of arrays or dict, optional
        What is known of the columns without looking at the rows: (low, high) for all of them, a
        list of one pair a column, (lows, highs), or a dict by column name of pairs, of lists of
        categories, or of `Numeric` and `Categorical`. Ranges may be a hundred times too wide. None:
        found with the same epsilon.
    delta : number
        The probability that the guarantee may fail. 0: pure, by Laplace noise. More: Gaussian
        noise, which is smaller for many columns.
    adjacency : {"add-remove", "replace"}
        Which two data sets must look alike.
    target_fraction : float
        About which share of the reference to flag.
    random_state : int, RandomState or None
        For tests only.

    Attributes
    ----------
    release_ : Release
        The profile with its promise; the only thing kept of the data.
    guarantee_ : Guarantee
        What fitting promised.
    offset_, n_features_in_, feature_names_in_
        As in scikit-learn.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "epsilon": [*EXACT, Interval(Real, 0, None, closed="neither")],
        "bounds": ["array-like", dict, None],
        "delta": [*EXACT, Interval(Real, 0, 0.5, closed="both")],
        "adjacency": [StrOptions({"add-remove", "replace"})],
        "target_fraction": [Fraction, Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
    }

    _asks = DetectorProfile
    _carries = NoisyProfile
    _finite = "allow-nan"

    def __init__(
        self,
        epsilon: Number = 1.0,
        *,
        bounds: Any = None,
        delta: Number = "1e-6",
        adjacency: Literal["add-remove", "replace"] = "add-remove",
        target_fraction: float = 0.1,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.delta = delta
        self.adjacency = adjacency
        self.target_fraction = target_fraction
        self.random_state = random_state

    def promised(self) -> Guarantee:
        """What one `fit` promises with these parameters; needs no rows."""
        loss = Loss(positive(self.epsilon, "epsilon"), chance(self.delta, "delta"))
        return Guarantee(loss, dp_adjacency(self.adjacency))

    def explain(self, X: ArrayLike) -> Explanation:  # noqa: N803 - scikit-learn's name
        """What each column adds to the outlier score of each row; free."""
        check_is_fitted(self)
        return self.release_.value.explain(self._rows(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _fit_anew(self, X: ArrayLike) -> None:  # noqa: N803 - scikit-learn's name
        """Read what is declared, and ask; whatever public can be wrong is found before."""
        self._check()
        given = self.bounds
        columns: tuple[Column, ...] = ()
        width = width_of(X)
        if given is not None and width is not None:
            columns = declared_columns(given, frame_names(X) or numbered_names(width))
        rows = validate_data(
            self, coded(X, columns), dtype=np.float64, order="C", ensure_all_finite="allow-nan"
        )
        names = column_names_of(self, rows.shape[1])
        if given is None:
            columns = tuple(Numeric(name, -UNIVERSE, UNIVERSE) for name in names)
        query = DetectorProfile(
            columns=names,
            epsilon=positive(self.epsilon, "epsilon"),
            delta=chance(self.delta, "delta"),
            adjacency=self.adjacency,  # type: ignore[arg-type]  # read by name
        )
        domain = Domain(columns)
        query.check(domain)
        self.bounds_release_ = None
        charge(query.guarantee())
        self.release_ = query.answer_rows(domain, rows, self._randomness(batch=0))
        self._batches = 1
        self.guarantee_ = self.release_.guarantee
        self._set_offset()

    def _add_batch(self, X: ArrayLike) -> None:  # noqa: N803 - scikit-learn's name
        self._check()
        rows = self._rows(X)
        known = self.release_.value
        loss = Loss(positive(self.epsilon, "epsilon"), chance(self.delta, "delta"))
        if bool(loss.delta) != bool(self.release_.guarantee.loss.delta):
            rule = (
                "must be 0 for a release with Laplace noise, and more for one with Gaussian noise"
            )
            raise InvalidParameter("delta", rule, self.delta, "Take that of the first batch.")
        query = self._like(self.release_, loss)
        domain = Domain(self._columns)
        query.check(domain)
        charge(query.guarantee())
        batch = query.answer_rows(domain, rows, self._randomness(self._batches))
        merged = known.merge(batch.value)
        asked = self._like(self.release_, merged.guarantee.loss)
        self.release_ = Release(
            asked,
            merged,
            asked.guarantee().of_persons(merged.guarantee.rows_per_person),
            merged.seeded,
        )
        self._batches += 1
        self.guarantee_ = merged.guarantee  # batches are disjoint
        self._set_offset()

    @staticmethod
    def _query_of(value: NoisyProfile) -> DetectorProfile:
        loss = value.guarantee.loss
        return DetectorProfile(
            columns=tuple(column.name for column in value.layout.columns),
            epsilon=loss.epsilon,
            layout=value.layout.text,
            delta=loss.delta,
            adjacency=value.guarantee.adjacency,
        )

    @staticmethod
    def _like(release: Release[NoisyProfile], loss: Loss) -> DetectorProfile:
        query = release.query
        assert isinstance(query, DetectorProfile)  # noqa: S101 - what such a release answers
        return DetectorProfile(
            columns=query.columns,
            epsilon=loss.epsilon,
            layout=release.value.layout.text,
            delta=loss.delta,
            adjacency=query.adjacency,
        )

    def _prepared(self, X: ArrayLike) -> Any:  # noqa: N803 - scikit-learn's name
        return coded(X, self._columns)
