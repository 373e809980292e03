"""Grid k-NN as a scikit-learn outlier detector [Rauch 2021]."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from privod.estimators.detector import EXACT, ReleaseDetector
from privod.privacy import Number
from privod.query.query import Release
from privod.questions.grid_knn.query import GridKnn
from privod.questions.grid_knn.release import NoisyGrid, walk_depth


class GridKnnDetector(ReleaseDetector[NoisyGrid]):
    """Flags records that are far from their neighbors, by a noisy grid of the reference.

    Guarantee
    ---------
    What `fit` keeps is epsilon-differentially private with respect to the rows of X: the release,
    its threshold, and so what they say of any row that whoever asks knows already. `guarantee_`
    says it with the exact loss. A fixed `random_state` voids it. Not private: scores and labels
    of the rows of X themselves, which tell in which cell each of them lies; and whatever was
    learned from rows before `fit`, such as the means of a scaler in a pipeline.

    Parameters
    ----------
    epsilon : number
        The privacy loss of `fit`, ranges included if they are bought.
    bounds : pair of numbers or of arrays, optional
        Public (low, high) for all columns, or (lows, highs). None: the ranges are bought.
    bounds_share : float
        The share of epsilon that bought ranges cost, between 0 and 1.
    bounds_zooms : int
        How often the search for the ranges looks closer, from 1 to 50. Narrow columns far from
        zero, such as years, need two or three; each adds noise, and cuts the tails closer.
    cells_per_axis : int, optional
        Into how many intervals each range is cut; None: chosen from public guesses.
    expected_records : int
        A public guess of the number of rows, for the automatic choices.
    drop_below : int or "auto", optional
        Keep only cells whose noisy count reaches this; None: all. "auto": chosen from public
        guesses, and only where there are many more cells than records.
    n_neighbors : int
        Which neighbor's distance is the score.
    max_depth : float, optional
        How far to look for neighbors, in lengths of a range; None: to the end.
    score_by : {"graded", "basic", "weighted"}
        "basic" and "weighted" are the paper's; "graded" spreads the steps of "basic".
    adjacency : {"add-remove", "replace"}
        Which two data sets must look alike.
    contamination : float
        About which share of the reference to flag; the threshold comes from the released grid.
    random_state : int, RandomState or None
        For tests only: anything but None makes the noise repeatable and marks the release.

    Attributes
    ----------
    release_ : Release
        The noisy grid with its promise; the only thing kept of the data.
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
        **ReleaseDetector._parameter_constraints,
        "cells_per_axis": [Interval(Integral, 2, None, closed="left"), None],
        "drop_below": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "max_depth": [*EXACT, Interval(Real, 0, None, closed="left"), None],
        "score_by": [StrOptions({"graded", "basic", "weighted"})],
    }

    _asks = GridKnn
    _carries = NoisyGrid

    def __init__(
        self,
        epsilon: Number = 1.0,
        *,
        bounds: ArrayLike | None = None,
        bounds_share: Number = 0.25,
        bounds_zooms: int = 1,
        cells_per_axis: int | None = None,
        expected_records: int = 1000,
        drop_below: int | Literal["auto"] | None = "auto",
        n_neighbors: int = 5,
        max_depth: Number | None = None,
        score_by: Literal["graded", "basic", "weighted"] = "graded",
        adjacency: Literal["add-remove", "replace"] = "add-remove",
        contamination: float = 0.1,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            epsilon,
            bounds,
            bounds_share,
            bounds_zooms,
            expected_records,
            adjacency,
            contamination,
            random_state,
        )
        self.cells_per_axis = cells_per_axis
        self.drop_below = drop_below
        self.n_neighbors = n_neighbors
        self.max_depth = max_depth
        self.score_by = score_by

    def _check(self) -> None:
        super()._check()
        walk_depth(int(self.n_neighbors), self.max_depth)

    def _query(self, columns: tuple[str, ...], epsilon: Fraction) -> GridKnn:
        limit = self.drop_below
        return GridKnn(
            columns=columns,
            epsilon=epsilon,
            cells_per_axis=None if self.cells_per_axis is None else int(self.cells_per_axis),
            expected_records=int(self.expected_records or 0),  # which is refused
            drop_below=int(limit) if isinstance(limit, Integral) else limit,
            adjacency=self.adjacency,  # type: ignore[arg-type]  # read by name
        )

    def _query_like(self, release: Release[NoisyGrid], epsilon: Fraction) -> GridKnn:
        query, value = release.query, release.value
        assert isinstance(query, GridKnn)  # noqa: S101 - what a release of a grid answers
        cells = value.grid.cells_per_axis
        return replace(query, epsilon=epsilon, cells_per_axis=cells, drop_below=value.drop_below)

    @staticmethod
    def _query_of(value: NoisyGrid) -> GridKnn:
        loss = value.guarantee.loss
        return GridKnn(
            columns=tuple(column.name for column in value.grid.columns),
            epsilon=loss.epsilon,
            cells_per_axis=value.grid.cells_per_axis,
            drop_below=value.drop_below,
            noise="gaussian" if loss.delta else "laplace",
            delta=loss.delta,
            adjacency=value.guarantee.adjacency,
        )

    def _settings(self) -> dict[str, Any]:
        neighbors = int(self.n_neighbors)
        return {
            "n_neighbors": neighbors,
            "max_depth": self.max_depth,
            "score_by": self.score_by,
        }
