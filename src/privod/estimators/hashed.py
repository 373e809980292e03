"""Distance-based outliers by hashing, for scikit-learn's users: fast, local, and not private."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.metrics import pairwise_distances
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from privod.outliers.crowds.distance import crowds
from privod.outliers.hashing.outliers import HashedOutliers, crowd_limit

SAMPLED = 2000  # rows that a radius is taken from, where none is given
FLAGGED = 0.01  # of the rows, by that radius


class HashedDetector(OutlierMixin, BaseEstimator):  # type: ignore[misc]
    """Flag the records with at most a fraction 1 - `far_fraction` of all within `radius`.

    Guarantee
    ---------
    None: this is an exact, local analysis of rows that are at hand, the yardstick of joint runs.

    Parameters
    ----------
    radius : float, optional
        As in `privod.outliers.hashing.outliers.HashedOutliers`. None: the one at which about one
        record in a hundred would stand apart in a sample of the rows.
    far_fraction, n_rounds, verify
        As there; but `verify` is on by default.
    random_state : int
        Decides the hashes.

    Attributes
    ----------
    labels_ : int array
        -1 for an outlier, +1 for an inlier, of each record it was fitted on.
    radius_ : float
        The radius taken.
    scores_ : float array
        The share of all records farther than the radius from each one: higher is more outlying.
        Counted exactly when first read, which takes longer than the labels.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "radius": [Interval(Real, 0, None, closed="neither"), None],
        "far_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "verify": ["boolean"],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        radius: float | None = None,
        *,
        far_fraction: float = 0.99,
        n_rounds: int = 1,
        verify: bool = True,
        random_state: int = 0,
    ) -> None:
        self.radius = radius
        self.far_fraction = far_fraction
        self.n_rounds = n_rounds
        self.verify = verify
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: ARG002, N803 - scikit-learn's names
        """Look at the rows and label them."""
        self._validate_params()
        rows = validate_data(self, X, dtype=np.float64, order="C")
        self.radius_ = self._usual_radius(rows) if self.radius is None else float(self.radius)
        question = HashedOutliers(
            radius=self.radius_,
            far_fraction=float(self.far_fraction),
            n_rounds=int(self.n_rounds),
            verify=bool(self.verify),
            seed=int(self.random_state),
        )
        self.labels_ = np.ones(len(rows), np.int64)
        self.labels_[question.find(rows)] = -1
        self._rows = rows
        self._scores: NDArray[np.float64] | None = None
        return self

    @property
    def scores_(self) -> NDArray[np.float64]:
        """The share of all records farther than the radius from each one."""
        check_is_fitted(self, "labels_")
        if self._scores is None:
            self._scores = 1 - crowds(self._rows, self.radius_) / len(self._rows)
        return self._scores

    def _usual_radius(self, rows: NDArray[np.float64]) -> float:
        """Where one in a hundred of a sample has too few of the sample near it."""
        generator = np.random.default_rng(self.random_state)
        size = min(len(rows), SAMPLED)
        sample = rows[generator.choice(len(rows), size, replace=False)]
        crowd = min(crowd_limit(float(self.far_fraction), size), size - 1)  # itself included
        nearest = np.partition(pairwise_distances(sample), crowd, axis=1)[:, crowd]
        return float(np.quantile(nearest, 1 - FLAGGED)) or 1.0  # all the same: any will do

    def fit_predict(self, X: ArrayLike, y: object = None) -> Any:  # noqa: N803 - scikit-learn's name
        """Label the rows: -1 for an outlier."""
        return self.fit(X, y).labels_
