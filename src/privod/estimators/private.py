"""The detector to begin with: one epsilon, rough ranges, and everything else is chosen inside."""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from privod.arrays import Floats
from privod.data import Column, Domain
from privod.errors import InvalidParameter
from privod.estimators.bounds import coded, names_of, open_columns
from privod.estimators.detector import EXACT, SHARE, ReleaseDetector
from privod.privacy import Guarantee, Loss, Number, positive
from privod.query.checks import dp_adjacency
from privod.query.count_query import chance, told_of_epsilon
from privod.query.query import Query, Release
from privod.query.scorer import Explanation
from privod.questions.detector_profile.health import Health
from privod.questions.detector_profile.layout import LARGEST_END
from privod.questions.detector_profile.query import PARTS, DetectorProfile
from privod.questions.detector_profile.ranges import unknown
from privod.questions.detector_profile.release import NoisyProfile


class UnreliableFit(UserWarning):
    """The threshold, the ranges or a column of a fit cannot be trusted, by the release's words."""


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
        categories, or of columns such as `Numeric` and `Date`. Columns that are left out, or None,
        have an open range, which is found with a part of epsilon. Texts need their categories.
    delta : number
        A probability added to the bound of epsilon. More than 0: Gaussian noise, which is smaller.
        0: pure, by Laplace noise.
    adjacency : {"add-remove", "replace"}
        Which two data sets must look alike.
    contamination : float
        About which share of the records to flag.
    random_state : int, RandomState or None
        For tests only.

    Attributes
    ----------
    release_ : Release
        The profile with its promise; the only thing kept of the data.
    guarantee_, offset_, n_features_in_, feature_names_in_
        What fitting promised; the others as in scikit-learn.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "epsilon": [*EXACT, Interval(Real, 0, None, closed="neither")],
        "bounds": ["array-like", dict, None],
        "delta": [*EXACT, Interval(Real, 0, 0.5, closed="both")],
        "adjacency": [StrOptions({"add-remove", "replace"})],
        "contamination": SHARE,
        "random_state": ["random_state"],
    }

    _asks = DetectorProfile
    _carries = NoisyProfile
    _finite = False
    _farthest = LARGEST_END

    def __init__(
        self,
        epsilon: Number = 1.0,
        *,
        bounds: Any = None,
        delta: Number = "1e-6",
        adjacency: Literal["add-remove", "replace"] = "add-remove",
        contamination: float = 0.1,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.delta = delta
        self.adjacency = adjacency
        self.contamination = contamination
        self.random_state = random_state

    @classmethod
    def from_release(
        cls, release: Release[NoisyProfile] | NoisyProfile | str | Path, **parameters: Any
    ) -> Self:
        """The same as of any release; batches take the price and the adjacency of this one."""
        found = cls._release_of(release)
        loss, adjacency = found.guarantee.loss, found.guarantee.adjacency.name
        own: dict[str, Any] = {"epsilon": loss.epsilon, "delta": loss.delta, "adjacency": adjacency}
        return super().from_release(found, **{**own, **parameters})

    def promised(self) -> Guarantee:
        """What one `fit` promises with these parameters; needs no rows."""
        loss = Loss(positive(self.epsilon, "epsilon"), chance(self.delta, "delta"))
        return Guarantee(loss, dp_adjacency(self.adjacency))

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:  # noqa: N803 - scikit-learn's name
        """+1 for inliers, -1 for outliers; warns where the threshold cannot be trusted."""
        labels = super().predict(X)
        self._warn("threshold", frames=3)
        return labels

    def explain(self, X: ArrayLike) -> Explanation:  # noqa: N803 - scikit-learn's name
        """What each column adds to the outlier score of each row; free."""
        check_is_fitted(self)
        return self.release_.value.explain(self._rows(X))

    def health(self) -> Health:
        """What the release says about itself, for the share that is flagged; free."""
        check_is_fitted(self)
        return self.release_.value.health(self._threshold.share)

    def save(self, path: str | Path) -> None:
        """Write the release to a file that needs no pickle; `load` makes a detector of it.

        The share to flag is not in it: give `load` a `contamination`.
        """
        check_is_fitted(self)
        self.release_.value.save(path)

    @classmethod
    def load(cls, path: str | Path, **parameters: Any) -> Self:
        """A fitted detector of a file that `save` wrote."""
        return cls.from_release(Path(path), **parameters)

    @property
    def bounds_release_(self) -> Release[NoisyProfile] | None:
        """The release where it found ranges that were left open, None where all were declared."""
        check_is_fitted(self)
        return self.release_ if any(map(unknown, self._columns)) else None

    @property
    def bounds_(self) -> dict[str, tuple[float, float]]:
        """The ranges of the numeric columns, as found or declared."""
        check_is_fitted(self)
        layout = self.release_.value.layout
        found = {}
        for place, (low, high) in zip(layout.numeric, layout.ranges, strict=True):
            ends = layout.number(place, low), layout.number(place, high)
            found[layout.columns[place].name] = ends
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _fit_anew(self, X: ArrayLike) -> None:  # noqa: N803 - scikit-learn's name
        super()._fit_anew(X)
        self._warn("records", "ranges", "columns", "threshold", frames=4)

    def _declared(self, X: ArrayLike, width: int) -> tuple[Column, ...]:  # noqa: N803 - scikit-learn's name
        return open_columns(X, self.bounds, names_of(X, width))

    def _query(self, columns: tuple[str, ...]) -> DetectorProfile:
        epsilon = positive(self.epsilon, "epsilon")
        with told_of_epsilon(self.epsilon, PARTS):
            return DetectorProfile(
                columns=columns,
                epsilon=epsilon,
                delta=chance(self.delta, "delta"),
                adjacency=self.adjacency,  # type: ignore[arg-type]  # read by name
            )

    def _answered(
        self, query: Query[Any], domain: Domain, rows: Floats, batch: int
    ) -> Release[NoisyProfile]:
        assert isinstance(query, DetectorProfile)  # noqa: S101 - what `_query` made
        return query.answer_rows(domain, rows, self._randomness(batch))

    def _warn(self, *about: str, frames: int) -> None:
        """Warn of what the release says about itself, at the caller, so many frames up."""
        words = self.health().serious(*about)
        if words:
            warnings.warn(f"This fit is unreliable. {words}", UnreliableFit, stacklevel=frames)

    def _query_like(self) -> DetectorProfile:
        query = self._query(self._column_names)
        if bool(query.delta) != bool(self.release_.guarantee.loss.delta):
            rule = "must be 0 for Laplace noise, and more for Gaussian noise"
            raise InvalidParameter("delta", rule, self.delta, "Take that of the first batch.")
        return self._over_its_cells(query.guarantee().loss)

    def _merged(self, query: Query[Any], value: NoisyProfile) -> Release[NoisyProfile]:  # noqa: ARG002
        asked = self._over_its_cells(value.guarantee.loss)
        promise = asked.guarantee().of_persons(value.guarantee.rows_per_person)
        return Release(asked, value, promise, value.seeded)

    def _over_its_cells(self, loss: Loss) -> DetectorProfile:
        query = self.release_.query
        assert isinstance(query, DetectorProfile)  # noqa: S101 - what such a release answers
        text = self.release_.value.layout.text
        return replace(query, epsilon=loss.epsilon, delta=loss.delta, layout=text)

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

    def _prepared(self, X: ArrayLike, columns: tuple[Column, ...]) -> Any:  # noqa: N803 - scikit-learn's name
        return coded(X, columns)
