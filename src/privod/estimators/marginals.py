"""Marginal histograms as a scikit-learn outlier detector, for many columns."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from numbers import Integral
from typing import Any, ClassVar, Literal

from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from privod.estimators.detector import ReleaseDetector
from privod.privacy import Number
from privod.query.query import Release
from privod.questions.marginals.query import Marginals, NoisyMarginals

__all__ = ["MarginalDetector"]


class MarginalDetector(ReleaseDetector[NoisyMarginals]):
    """Flags records with rare values, by noisy histograms of single columns.

    Guarantee
    ---------
    What `fit` keeps is epsilon-differentially private with respect to the rows of X: the release,
    its threshold, and so what they say of any row that whoever asks knows already. `guarantee_`
    says it with the exact loss. A fixed `random_state` voids it. Not private: scores and labels
    of the rows of X themselves, which tell in which cell each of them lies; and whatever was
    learned from rows before `fit`, such as the means of a scaler in a pipeline.

    Parameters
    ----------
    bins : int, optional
        Into how many intervals each range is cut; None: from 4 to 64, by the number of records and
        the noise of a count.
    expected_records : int, optional
        The number of rows where it is public, or a public guess. None: a fiftieth of epsilon buys
        it, where `bins` are to be chosen by it.
    score_by : {"density", "tail"}
        How empty the bins are [HBOS], or how few records lie farther out [ECOD]. A release that
        was asked for with the other one has a threshold for this one that takes columns as
        independent.
    epsilon, bounds, bounds_share, bounds_zooms, adjacency, contamination, random_state
        As in `GridKnnDetector`.

    Attributes
    ----------
    release_ : Release
        The noisy histograms with their promise; the only thing kept of the data.
    bounds_release_, guarantee_, offset_, n_features_in_, feature_names_in_
        As in `GridKnnDetector`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ReleaseDetector._parameter_constraints,
        "bins": [Interval(Integral, 2, None, closed="left"), None],
        "expected_records": [Interval(Integral, 1, None, closed="left"), None],
        "score_by": [StrOptions({"density", "tail"})],
    }

    _asks = Marginals
    _carries = NoisyMarginals

    def __init__(
        self,
        epsilon: Number = 1.0,
        *,
        bounds: ArrayLike | None = None,
        bounds_share: Number = 0.25,
        bounds_zooms: int = 1,
        bins: int | None = None,
        expected_records: int | None = None,
        score_by: Literal["density", "tail"] = "density",
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
        self.bins = bins
        self.score_by = score_by

    def _query(self, columns: tuple[str, ...], epsilon: Fraction) -> Marginals:
        return Marginals(
            columns=columns,
            epsilon=epsilon,
            bins=_whole(self.bins),
            expected_records=_whole(self.expected_records),
            score_by=self.score_by,
            adjacency=self.adjacency,  # type: ignore[arg-type]  # read by name
        )

    def _query_like(self, release: Release[NoisyMarginals], epsilon: Fraction) -> Marginals:
        query = release.query
        assert isinstance(query, Marginals)  # noqa: S101 - what such a release answers
        return replace(query, epsilon=epsilon, bins=release.value.counts.shape[1])

    @staticmethod
    def _query_of(value: NoisyMarginals) -> Marginals:
        loss, bins = value.guarantee.loss, value.counts.shape[1]
        return Marginals(
            columns=tuple(column.name for column in value.columns),
            epsilon=loss.epsilon,
            bins=None if value.records is not None else bins,  # bought to choose them
            noise="gaussian" if loss.delta else "laplace",
            delta=loss.delta,
            adjacency=value.guarantee.adjacency,
            score_by=value.score_by,
        )

    def _settings(self) -> dict[str, Any]:
        return {"score_by": self.score_by}


def _whole(number: int | None) -> int | None:
    return None if number is None else int(number)
