"""Any question whose release scores records, as a scikit-learn outlier detector."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from privod.arrays import Floats
from privod.data import Column, Domain, Table
from privod.errors import InvalidParameter
from privod.estimators.bounds import declared_columns, names_of
from privod.estimators.detector import SHARE, ReleaseDetector
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
    release_, guarantee_, offset_, n_features_in_, feature_names_in_
        As in `PrivateDetector`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "query": [Query, None],
        "bounds": ["array-like", dict, None],
        "settings": [dict, None],
        "contamination": SHARE,
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
        return self._query(()).guarantee()

    def _settings(self) -> dict[str, Any]:
        return self.settings or {}

    def _query(self, columns: tuple[str, ...]) -> Query[Any]:  # noqa: ARG002
        query = self.query
        if query is None or not question(query.name).value:
            rule = "must be a question whose release scores records"
            raise InvalidParameter("query", rule, query, "Ask detector-profile, for instance.")
        return query

    def _query_like(self) -> Query[Any]:
        return self._query(()) if self.query is not None else self.release_.query

    def _declared(self, X: ArrayLike, width: int) -> tuple[Column, ...]:  # noqa: N803 - scikit-learn's name
        self._query(())  # a missing question is told first
        return declared_columns(self.bounds, names_of(X, width))

    def _answered(
        self, query: Query[Any], domain: Domain, rows: Floats, batch: int
    ) -> Release[Any]:
        columns = np.ascontiguousarray(rows.T)  # at once: one by one would read every row for each
        table = Table(domain, dict(zip(domain.names, columns, strict=True)))
        return query.answer(table, self._randomness(batch))

    @classmethod
    def _release_of(cls, given: Any) -> Release[Any]:
        found = super()._release_of(given)
        if isinstance(found.value, Scorable):
            return found
        rule = "must be a release that scores records"
        raise InvalidParameter("release", rule, found.query.name, "Ask detector-profile.")
