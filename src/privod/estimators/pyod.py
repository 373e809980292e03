"""Private detectors with PyOD's face: higher is more outlying, labels are 0 and 1.

PyOD keeps the scores of the training rows in the detector (`decision_scores_`, `labels_`) and takes
its threshold from them. Here the threshold comes from the release. The scores of the rows are there
while the detector lives in the memory of whoever fitted it, because PyOD's users and ensembles ask
for them; a pickle or a copy does not take them along: it carries scores of the released cells
instead, as many as their blurred counts say.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

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
Ints = NDArray[np.int64]

STAND_INS = 1999
"""How many scores stand in for those of the rows in a pickle.

A prime, so that all its multiples but its own visit every place, and no round number of rows: an
ensemble that takes them for the scores of its rows fails, rather than flag the wrong ones.
"""

SHUFFLE = 7919  # no multiple of STAND_INS


class _PyODFace(BaseDetector):  # type: ignore[misc]
    """Fits a private detector and speaks of it as PyOD does."""

    _kind: ClassVar[type[PrivateDetector[Any]]]

    def __init__(
        self,
        contamination: float,
        epsilon: Number,
        bounds: ArrayLike | None,
        bounds_share: Number,
        expected_records: int,
        score_by: str,
        random_state: Any,
    ) -> None:
        super().__init__(contamination=contamination)
        self.epsilon = epsilon
        self.bounds = bounds
        self.bounds_share = bounds_share
        self.expected_records = expected_records
        self.score_by = score_by
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: N803 - PyOD's name
        """Fit on the rows; `y` only says how many classes there are."""
        if isinstance(self.contamination, bool) or not isinstance(self.contamination, int | float):
            rule = "must be a number: a thresholder would look at the scores of private rows"
            raise InvalidParameter("contamination", rule, self.contamination, "Try 0.1.")
        self._set_n_classes(y)
        given = self.get_params(deep=False)
        self.detector_ = self._kind(target_fraction=given.pop("contamination"), **given)
        self.detector_.fit(np.asarray(X))
        self.threshold_ = -self.detector_.offset_
        stand_ins = self._stand_ins()
        self._mu, self._sigma = float(stand_ins.mean()), float(stand_ins.std()) or 1.0
        return self._keep(self.decision_function(X))

    def decision_function(self, X: ArrayLike) -> Floats:  # noqa: N803 - PyOD's name
        """The outlier score of each row; higher is more outlying."""
        check_is_fitted(self, "detector_")
        return -self.detector_.score_samples(np.asarray(X))

    def _predict_rank(self, X: ArrayLike, normalized: bool = False) -> Floats:  # noqa: N803 - PyOD's name
        """How many training scores are lower than each row's, in the same order as the scores.

        PyOD counts in whole numbers, which ties rows between the same two training scores. Here
        such rows get a fraction: how far they are from the one to the other.
        """
        scores = self.decision_function(X)
        known, lower = np.unique(np.sort(self.decision_scores_), return_index=True)
        ranks = np.interp(scores, known, lower.astype(np.float64))
        ranks[scores > known[-1]] = len(self.decision_scores_)
        return ranks / ranks.max() if normalized else ranks

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if "detector_" in state:  # the scores of private rows stay behind
            scores = self._stand_ins()
            state["decision_scores_"] = scores
            state["labels_"] = (scores > self.threshold_).astype(int)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

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

    _kind = GridKnnDetector

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
        super().__init__(
            contamination, epsilon, bounds, bounds_share, expected_records, score_by, random_state
        )
        self.cells_per_axis = cells_per_axis
        self.n_neighbors = n_neighbors

    def _cells_by_share(self, shares: Floats) -> Floats:
        value = self.detector_.release_.value
        grid: Grid = value.grid
        if not len(value.counts):  # every cell was dropped: any one will do
            return np.asarray(grid.centers_of(np.zeros((1, grid.n_axes), dtype=np.int32)))
        chosen = _places_by_share(value.counts, shares)
        cells = grid.cells_at(chosen) if value.cells is None else value.cells[chosen]
        return np.asarray(grid.centers_of(cells), dtype=np.float64)


class PrivateHBOS(_PyODFace):
    """Marginal histograms with PyOD's face; see `MarginalDetector` for promise and parameters.

    Parameters
    ----------
    contamination : float
        About which share of the reference to label 1; the threshold comes from the histograms.
    epsilon, bounds, bounds_share, bins, expected_records, score_by, random_state
        As in `MarginalDetector`.
    """

    _kind = MarginalDetector

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
        super().__init__(
            contamination, epsilon, bounds, bounds_share, expected_records, score_by, random_state
        )
        self.bins = bins

    @property
    def hist_(self) -> Floats:
        """The density in every bin, by the released histograms, of shape (bins, columns)."""
        counts = np.maximum(self.detector_.release_.value.counts, 0).T
        widths = np.diff(self.bin_edges_, axis=0)
        return np.asarray(counts / np.maximum(counts.sum(axis=0), 1) / widths, dtype=np.float64)

    @property
    def bin_edges_(self) -> Floats:
        """The borders of the bins, of shape (bins + 1, columns)."""
        value = self.detector_.release_.value
        lows, highs = zip(*((column.low, column.high) for column in value.columns), strict=True)
        return np.linspace(lows, highs, value.counts.shape[1] + 1)

    def _cells_by_share(self, shares: Floats) -> Floats:
        """One column's quantile beside another's, shifted against each other: as if independent."""
        value = self.detector_.release_.value
        geometry = Grid(value.columns, value.counts.shape[1])
        cells = np.empty((len(shares), len(value.columns)), dtype=np.int32)
        for column, counts in enumerate(value.counts):
            order = np.arange(len(shares)) * pow(SHUFFLE, column + 1, STAND_INS) % STAND_INS
            cells[:, column] = _places_by_share(counts, shares[order])
        return np.asarray(geometry.centers_of(cells), dtype=np.float64)


def _places_by_share(counts: Ints, shares: Floats) -> Ints:
    """Where one stands after these shares of the records, by their blurred counts."""
    upto = np.maximum(counts, 0).cumsum()
    places = np.searchsorted(upto, shares * max(int(upto[-1]), 1), side="right")
    return np.minimum(places, len(counts) - 1)
