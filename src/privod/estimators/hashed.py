"""Distance-based outliers by hashing, for scikit-learn's users: fast, local, and not private."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import validate_data

from privod.outliers.hashing.outliers import HashedOutliers

__all__ = ["HashedDetector"]


class HashedDetector(OutlierMixin, BaseEstimator):  # type: ignore[misc]
    """Flag the records with at most a fraction 1 - `far_fraction` of all within `radius`.

    Guarantee
    ---------
    None: this is an exact, local analysis of rows that are at hand, the yardstick of joint runs.

    Parameters
    ----------
    radius, far_fraction, n_rounds, verify
        As in `privod.outliers.hashing.outliers.HashedOutliers`; but `verify` is on by default.
    random_state : int
        Decides the hashes.

    Attributes
    ----------
    labels_ : int array
        -1 for an outlier, +1 for an inlier, of each record it was fitted on.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "radius": [Interval(Real, 0, None, closed="neither")],
        "far_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "verify": ["boolean"],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        radius: float = 1.0,
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
        question = HashedOutliers(
            radius=float(self.radius),
            far_fraction=float(self.far_fraction),
            n_rounds=int(self.n_rounds),
            verify=bool(self.verify),
            seed=int(self.random_state),
        )
        self.labels_ = np.ones(len(rows), np.int64)
        self.labels_[question.find(rows)] = -1
        return self

    def fit_predict(self, X: ArrayLike, y: object = None) -> Any:  # noqa: N803 - scikit-learn's name
        """Label the rows: -1 for an outlier."""
        return self.fit(X, y).labels_
