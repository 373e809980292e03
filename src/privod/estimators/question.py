"""Any question whose release scores records, as a scikit-learn outlier detector."""

from __future__ import annotations

from fractions import Fraction
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import validate_data

from privod.data import Domain
from privod.errors import InvalidParameter
from privod.estimators.bounds import declared_columns
from privod.estimators.detector import ReleaseDetector, column_names_of, table_of
from privod.estimators.spending import charge
from privod.privacy import Guarantee
from privod.query.query import Query, Release
from privod.query.scorer import Scorable
from privod.registry import question


class QuestionDetector(ReleaseDetector[Any]):
    """Flags records by the release of a question, ours or another package's.

    Guarantee
    ---------
    What `fit` keeps has the guarantee of the question, `guarantee_`. A fixed `random_state` voids
    it. Not private: scores and labels of the rows of X themselves, and whatever was learned from
    rows before `fit`.

    Parameters
    ----------
    query : Query, optional
        What `fit` asks. None only where a release is given (`from_release`).
    bounds : as in `PrivateDetector`
        What is known of the columns without looking at the rows; must be given to fit.
    settings : dict, optional
        The settings of the score, as `privod score --set` takes them.
    contamination : float
        About which share of the reference to flag.
    random_state : int, RandomState or None
        For tests only.

    Attributes
    ----------
    release_ : Release
        What was released; the only thing kept of the data.
    guarantee_, offset_, n_features_in_, feature_names_in_
        As in `PrivateDetector`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "query": [Query, None],
        "bounds": ["array-like", dict, None],
        "settings": [dict, None],
        "contamination": [Fraction, Interval(Real, 0, 0.5, closed="right")],
        "random_state": ["random_state"],
    }

    _asks = Query
    _carries = Scorable

    def __init__(
        self,
        query: Query[Any] | None = None,
        *,
        bounds: Any = None,
        settings: dict[str, Any] | None = None,
        contamination: float = 0.1,
        random_state: Any = None,
    ) -> None:
        self.query = query
        self.bounds = bounds
        self.settings = settings
        self.contamination = contamination
        self.random_state = random_state

    def promised(self) -> Guarantee:
        """What one `fit` promises; needs no rows."""
        return self._asked().guarantee()

    def _asked(self) -> Query[Any]:
        query = self.query
        if query is None or not question(query.name).value:
            rule = "must be a question whose release scores records"
            raise InvalidParameter("query", rule, query, "Ask detector-profile, for instance.")
        return query

    def _settings(self) -> dict[str, Any]:
        return self.settings or {}

    def _fit_anew(self, X: ArrayLike) -> None:  # noqa: N803 - scikit-learn's name
        self._check()
        query = self._asked()
        rows = validate_data(self, X, dtype=np.float64, order="C")
        domain = Domain(declared_columns(self.bounds, column_names_of(self, rows.shape[1])))
        query.check(domain)
        charge(query.guarantee())
        self.release_ = query.answer(table_of(domain, rows), self._randomness(batch=0))
        self.bounds_release_, self._batches = None, 1
        self.guarantee_ = self.release_.guarantee
        self._set_offset()

    def _add_batch(self, X: ArrayLike) -> None:  # noqa: N803 - scikit-learn's name
        self._check()
        rows, query, domain = self._rows(X), self._asked(), Domain(self._columns)
        query.check(domain)
        charge(query.guarantee())
        batch = query.answer(table_of(domain, rows), self._randomness(self._batches))
        merged = self.release_.value.merge(batch.value)
        self.release_ = Release(query, merged, merged.guarantee, merged.seeded)
        self._batches += 1
        self.guarantee_ = merged.guarantee  # batches are disjoint
        self._set_offset()

    @classmethod
    def _release_of(cls, given: Any) -> Release[Any]:
        found = super()._release_of(given)
        if isinstance(found.value, Scorable):
            return found
        rule = "must be a release that scores records"
        raise InvalidParameter("release", rule, found.query.name, "Ask detector-profile.")
