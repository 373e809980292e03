"""The private detector with PyOD's face: higher is more outlying, labels are 0 and 1.

PyOD makes thresholds, probabilities, confidence and ranks of the scores of the training rows. Here
all of that comes from the release: `reference_scores_` are scores of places where it shows records
to be. The scores of the rows (`decision_scores_`, `labels_`) are there for whoever fitted it: they
are private, nothing else looks at them, and a pickle or a copy has the reference scores instead.
"""

from __future__ import annotations

import math
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom
from sklearn.utils.validation import check_is_fitted

from privod.arrays import Floats
from privod.errors import InvalidParameter, Unavailable
from privod.estimators.private import PrivateDetector
from privod.privacy import Number
from privod.query.scorer import Explanation

try:
    from pyod.models.base import BaseDetector
except ImportError:
    raise Unavailable("This face is for PyOD, which is not installed. Install pyod.") from None


STAND_INS = 1999
"""How many scores stand in for those of the rows.

A prime, so that all its multiples but its own visit every place, and no round number of rows: an
ensemble that takes them for the scores of its rows fails, rather than flag the wrong ones.
"""


class PrivateOD(BaseDetector):  # type: ignore[misc]
    """The private detector, with PyOD's face; see `PrivateDetector` for the guarantee.

    It takes frames, categories and missing values.

    Parameters
    ----------
    contamination : float
        About which share of the reference to label 1; the threshold comes from the release.
    epsilon, bounds, delta, adjacency, random_state
        As in `PrivateDetector`.

    Attributes
    ----------
    detector_ : PrivateDetector
        With `release_` and `guarantee_`.
    threshold_ : float
        The score beyond which a row is labeled 1, from the release.
    reference_scores_ : array of 1999
        Scores of places where the release shows records to be.
    decision_scores_, labels_ : arrays of as many as there are rows
        Private: scores and labels of the rows, for their owner. They are not saved.
    """

    def __init__(
        self,
        contamination: float = 0.1,
        epsilon: Number = 1.0,
        bounds: Any = None,
        delta: Number = "1e-6",
        adjacency: str = "add-remove",
        random_state: Any = None,
    ) -> None:
        super().__init__(contamination=contamination)
        self.epsilon = epsilon
        self.bounds = bounds
        self.delta = delta
        self.adjacency = adjacency
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: N803 - PyOD's name
        """Fit on the rows; a `y` is not used, and warned of as everywhere in PyOD."""
        if isinstance(self.contamination, bool) or not isinstance(self.contamination, int | float):
            rule = "must be a number: a thresholder would look at the scores of private rows"
            raise InvalidParameter("contamination", rule, self.contamination, "Try 0.1.")
        self._set_n_classes(y)
        self._classes = 2  # whatever the rows' labels
        given = self.get_params(deep=False)
        self.detector_ = PrivateDetector(**given).fit(X)
        self.threshold_ = -self.detector_.offset_
        scores = np.sort(self.detector_.release_.value.reference_scores)
        shares = (np.arange(STAND_INS) + 0.5) / STAND_INS
        self.reference_scores_ = scores[(shares * len(scores)).astype(np.int64)]
        self._mu = float(self.reference_scores_.mean())
        self._sigma = float(self.reference_scores_.std()) or 1.0
        self.decision_scores_ = self.decision_function(X)
        self.labels_ = (self.decision_scores_ > self.threshold_).astype(int)
        return self

    def decision_function(self, X: ArrayLike) -> Floats:  # noqa: N803 - PyOD's name
        """The outlier score of each row; higher is more outlying."""
        check_is_fitted(self, "detector_")
        return -self.detector_.score_samples(X)

    def predict_proba(
        self,
        X: ArrayLike,  # noqa: N803 - PyOD's name
        method: str = "linear",
        return_confidence: bool = False,
    ) -> Any:
        """The chances of each row to be ordinary and to be an outlier, by the release alone."""
        return super(PrivateOD, self._released()).predict_proba(X, method, return_confidence)

    def predict_confidence(self, X: ArrayLike) -> Floats:  # noqa: N803 - PyOD's name
        """How surely each row's label would be the same with other records of the same kind.

        As in PyOD [Perini 2020], with the reference scores, and the number of records, of the
        release; the noise of the release is not accounted for.
        """
        scores = self.decision_function(X)
        n: int = self._n_about()
        below = np.searchsorted(np.sort(self.reference_scores_), scores, side="right") / STAND_INS
        chance = (1 + n * below) / (2 + n)
        outlying = 1 - binom.cdf(n - int(n * self.contamination), n, chance)
        confidence: Floats = np.where(scores > self.threshold_, outlying, 1 - outlying)
        return confidence

    def compute_rejection_stats(self, T: float = 32, **named: Any) -> Any:  # noqa: N803 - PyOD's name
        """Expected and largest rate of rejection and its cost, for the released number of rows."""
        released = self._released()
        released.decision_scores_ = np.broadcast_to(0.0, self._n_about())  # PyOD takes its length
        # a float, since PyOD's n^3 T outgrows 64 bits at half a million rows
        return super(PrivateOD, released).compute_rejection_stats(T=float(T), **named)

    def _predict_rank(self, X: ArrayLike, normalized: bool = False) -> Floats:  # noqa: N803 - PyOD's name
        """About how many records of the reference score lower than each row, in scores' order.

        PyOD counts in whole numbers, which ties rows between the same two scores. Here such rows
        get a fraction: how far they are from the one to the other, or past the last.
        """
        scores = self.decision_function(X)
        known, lower = np.unique(np.sort(self.reference_scores_), return_index=True)
        middle = lower + 0.5
        ranks: Floats = np.interp(scores, known, middle)
        short, past = np.maximum(known[0] - scores, 0), np.maximum(scores - known[-1], 0)
        ranks -= 0.5 * short / (1 + short)
        ranks += (STAND_INS - middle[-1]) * past / (1 + past)
        ranks *= self._n_about() / STAND_INS
        return ranks / ranks.max() if normalized else ranks

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if "reference_scores_" in state:  # the scores of private rows stay behind
            scores = self.reference_scores_
            state["decision_scores_"] = scores
            state["labels_"] = (scores > self.threshold_).astype(int)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _released(self) -> Self:
        """What would travel: itself, with the reference scores in the place of the rows'."""
        check_is_fitted(self, "detector_")
        return copy(self)

    def _n_about(self) -> int:
        """About how many records the release stands for, and enough for one to be an outlier."""
        records = round(float(self.detector_.release_.value.records))
        return max(records, math.ceil(1 / float(self.contamination)) + 1)

    def explain_outlier(self, X: ArrayLike) -> Explanation:  # noqa: N803 - PyOD's name
        """What each column adds to the score of each row.

        PyOD's method takes the place of a training row; none is kept here, so it takes rows.
        """
        check_is_fitted(self, "detector_")
        found: Explanation = self.detector_.explain(X)
        return found
