"""Private detectors with PyOD's face: higher is more outlying, labels are 0 and 1.

PyOD keeps the scores of the training rows in the detector (`decision_scores_`, `labels_`) and takes
its threshold from them. Here the threshold comes from the release. The scores of the rows are there
while the detector lives in the memory of whoever fitted it, because PyOD's users and ensembles ask
for them; a pickle or a copy does not take them along: it carries scores of the released cells
instead, as many as their blurred counts say.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privod.errors import InvalidParameter, Unavailable
from privod.estimators.detector import PrivateDetector
from privod.estimators.grid_knn import GridKnnDetector
from privod.estimators.marginals import MarginalDetector
from privod.outliers.grid import Grid
from privod.privacy import Number

try:
    from pyod.models.base import BaseDetector
except ImportError:
    raise Unavailable("This face is for PyOD, which is not installed. Install pyod.") from None

__all__ = ["PrivateHBOS", "PrivateKNN"]

Floats = NDArray[np.float64]

STAND_INS = 2000  # scores that stand in for those of the rows in a pickle
SHUFFLE = 7919  # a prime that is no divisor of STAND_INS: its multiples visit every place


class _PyODFace(BaseDetector):  # type: ignore[misc]
    """Fits a private detector and speaks of it as PyOD does."""

    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: N803 - PyOD's name
        """Fit on the rows; `y` only says how many classes there are."""
        if isinstance(self.contamination, bool) or not isinstance(self.contamination, int | float):
            rule = "must be a number: a thresholder would look at the scores of private rows"
            raise InvalidParameter("contamination", rule, self.contamination, "Try 0.1.")
        self._set_n_classes(y)
        self.detector_ = self._detector().fit(np.asarray(X))
        self.threshold_ = -self.detector_.offset_
        stand_ins = self._stand_ins()
        self._mu, self._sigma = float(stand_ins.mean()), float(stand_ins.std()) or 1.0
        return self._keep(self.decision_function(X))

    def decision_function(self, X: ArrayLike) -> Floats:  # noqa: N803 - PyOD's name
        """The outlier score of each row; higher is more outlying."""
        return -self.detector_.score_samples(np.asarray(X))

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if "detector_" in state:  # the scores of private rows stay behind
            scores = self._stand_ins()
            state["decision_scores_"] = scores
            state["labels_"] = (scores > self.threshold_).astype(int)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _detector(self) -> PrivateDetector[Any]:
        raise NotImplementedError

    def _keep(self, scores: Floats) -> Self:
        self.decision_scores_ = scores
        self.labels_ = (scores > self.threshold_).astype(int)
        return self

    def _stand_ins(self) -> Floats:
        """Scores spread like those of the reference, from the release alone."""
        shares = (np.arange(STAND_INS) + 0.5) / STAND_INS
        return -self.detector_.score_samples(self._cells_by_share(shares))

    def _cells_by_share(self, shares: Floats) -> Floats:
        """Centers of released cells, each as often as its blurred count says."""
        raise NotImplementedError


class PrivateKNN(_PyODFace):
    """Grid k-NN with PyOD's face; see `GridKnnDetector` for the promise and the parameters.

    Parameters
    ----------
    contamination : float
        About which share of the reference to label 1; the threshold comes from the released grid.
    epsilon, bounds, bounds_share, cells_per_axis, expected_records, n_neighbors, score_by, \
random_state
        As in `GridKnnDetector`.
    """

    def __init__(
        self,
        contamination: float = 0.1,
        epsilon: Number = 1.0,
        bounds: ArrayLike | None = None,
        bounds_share: Number = 0.25,
        cells_per_axis: int | None = None,
        expected_records: int = 1000,
        n_neighbors: int = 5,
        score_by: str = "graded",
        random_state: Any = None,
    ) -> None:
        super().__init__(contamination=contamination)
        self.epsilon = epsilon
        self.bounds = bounds
        self.bounds_share = bounds_share
        self.cells_per_axis = cells_per_axis
        self.expected_records = expected_records
        self.n_neighbors = n_neighbors
        self.score_by = score_by
        self.random_state = random_state

    def _detector(self) -> GridKnnDetector:
        return GridKnnDetector(
            epsilon=self.epsilon,
            bounds=self.bounds,
            bounds_share=self.bounds_share,
            cells_per_axis=self.cells_per_axis,
            expected_records=self.expected_records,
            n_neighbors=self.n_neighbors,
            score_by=self.score_by,  # type: ignore[arg-type]  # checked by the detector
            target_fraction=self.contamination,
            random_state=self.random_state,
        )

    def _cells_by_share(self, shares: Floats) -> Floats:
        grid = self.detector_.release_.value
        upto = np.maximum(grid.counts, 0).cumsum()
        total = upto[-1] if len(upto) else 0
        if total == 0:
            first = np.zeros((1, grid.grid.n_axes), dtype=np.int32)
            return np.asarray(grid.grid.centers_of(first), dtype=np.float64)
        chosen = np.searchsorted(upto, shares * total, side="right")
        cells = grid.grid.cells_at(chosen) if grid.cells is None else grid.cells[chosen]
        return np.asarray(grid.grid.centers_of(cells), dtype=np.float64)


class PrivateHBOS(_PyODFace):
    """Marginal histograms with PyOD's face; see `MarginalDetector` for promise and parameters.

    Parameters
    ----------
    contamination : float
        About which share of the reference to label 1; the threshold comes from the histograms.
    epsilon, bounds, bounds_share, bins, expected_records, score_by, random_state
        As in `MarginalDetector`.
    """

    def __init__(
        self,
        contamination: float = 0.1,
        epsilon: Number = 1.0,
        bounds: ArrayLike | None = None,
        bounds_share: Number = 0.25,
        bins: int | None = None,
        expected_records: int = 1000,
        score_by: str = "density",
        random_state: Any = None,
    ) -> None:
        super().__init__(contamination=contamination)
        self.epsilon = epsilon
        self.bounds = bounds
        self.bounds_share = bounds_share
        self.bins = bins
        self.expected_records = expected_records
        self.score_by = score_by
        self.random_state = random_state

    def _detector(self) -> MarginalDetector:
        return MarginalDetector(
            epsilon=self.epsilon,
            bounds=self.bounds,
            bounds_share=self.bounds_share,
            bins=self.bins,
            expected_records=self.expected_records,
            score_by=self.score_by,  # type: ignore[arg-type]  # checked by the detector
            target_fraction=self.contamination,
            random_state=self.random_state,
        )

    def _cells_by_share(self, shares: Floats) -> Floats:
        """One column's quantile beside another's, shifted against each other: as if independent."""
        value = self.detector_.release_.value
        geometry = Grid(value.columns, value.counts.shape[1])
        cells = np.empty((len(shares), len(value.columns)), dtype=np.int32)
        for column, counts in enumerate(value.counts):
            upto = np.maximum(counts, 0).cumsum()
            order = np.arange(len(shares)) * pow(SHUFFLE, column + 1, STAND_INS) % STAND_INS
            places = np.searchsorted(upto, shares[order] * max(int(upto[-1]), 1), side="right")
            cells[:, column] = np.minimum(places, len(counts) - 1)
        return np.asarray(geometry.centers_of(cells), dtype=np.float64)
