"""Marginal histograms as a scikit-learn outlier detector, for many columns."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from privod.estimators.detector import PrivateDetector
from privod.outliers.grid import Grid
from privod.privacy import Number
from privod.queries.marginals import MarginalHistograms, NoisyMarginals
from privod.queries.query import Release

__all__ = ["MarginalDetector"]


class MarginalDetector(PrivateDetector[NoisyMarginals]):
    """Flags records with rare values, by blurred histograms of single columns.

    Guarantee
    ---------
    What `fit` keeps, and so every score and label, is epsilon-differentially private with respect
    to the rows of X. `guarantee_` says it with the exact loss. A fixed `random_state` voids it.

    Parameters
    ----------
    epsilon : float
        The privacy loss of `fit`, ranges included if they are bought.
    bounds : pair of numbers or of arrays, optional
        Public (low, high) for all columns, or (lows, highs). None: the ranges are bought.
    bounds_share : float
        The share of epsilon that bought ranges cost, between 0 and 1.
    bins : int, optional
        Into how many intervals each range is cut; None: chosen from public guesses.
    expected_records : int
        A public guess of the number of rows, for the automatic choice.
    score_by : {"density", "tail"}
        How empty the bins are [HBOS], or how few records lie farther out [ECOD].
    adjacency : {"add-remove", "replace"}
        Which two data sets must look alike.
    target_fraction : float
        About which share of the reference to flag; the threshold comes from the histograms.
    random_state : int, RandomState or None
        For tests only: anything but None makes the noise repeatable and marks the release.

    Attributes
    ----------
    release_ : Release
        The blurred histograms with their promise; the only thing kept of the data.
    bounds_release_ : Release or None
        The bought ranges.
    guarantee_ : Guarantee
        What `fit` promises in all.
    offset_ : float
        The threshold of `decision_function`.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrivateDetector._parameter_constraints,
        "bins": [Interval(Integral, 2, None, closed="left"), None],
        "score_by": [StrOptions({"density", "tail"})],
    }

    def __init__(
        self,
        epsilon: Number = 1.0,
        *,
        bounds: ArrayLike | None = None,
        bounds_share: Number = 0.25,
        bins: int | None = None,
        expected_records: int = 1000,
        score_by: Literal["density", "tail"] = "density",
        adjacency: Literal["add-remove", "replace"] = "add-remove",
        target_fraction: float = 0.1,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.bounds_share = bounds_share
        self.bins = bins
        self.expected_records = expected_records
        self.score_by = score_by
        self.adjacency = adjacency
        self.target_fraction = target_fraction
        self.random_state = random_state

    def _query(self, columns: tuple[str, ...], epsilon: Fraction) -> MarginalHistograms:
        return MarginalHistograms(
            columns=columns,
            epsilon=epsilon,
            bins=None if self.bins is None else int(self.bins),
            expected_records=int(self.expected_records),
            adjacency=self.adjacency,  # type: ignore[arg-type]  # read by name
        )

    def _query_like(
        self, release: Release[NoisyMarginals], epsilon: Fraction
    ) -> MarginalHistograms:
        query = release.query
        assert isinstance(query, MarginalHistograms)  # noqa: S101 - what such a release answers
        return replace(query, epsilon=epsilon, bins=release.value.counts.shape[1])

    @property
    def _geometry(self) -> Grid:
        value = self.release_.value
        return Grid(value.columns, value.counts.shape[1])

    def _scores(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        chosen: NDArray[np.float64] = getattr(self.release_.value.scores(rows), self.score_by)
        return chosen

    def _limit(self) -> float:
        limits = self.release_.value.threshold(float(self.target_fraction))
        return float(getattr(limits, self.score_by)[0])
