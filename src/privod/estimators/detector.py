"""What the detectors have in common: fit once under a budget, keep the release, score for free.

scikit-learn's signs hold here: `score_samples` and `decision_function` are higher for inliers, and
`predict` says +1 or -1. Everywhere else in privod higher is more outlying.
"""

from __future__ import annotations

import warnings
from copy import copy
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils import assert_all_finite, check_random_state, estimator_html_repr
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _get_feature_names, check_is_fitted, validate_data

from privod.data import Column, Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.estimators.bounds import declared_columns
from privod.estimators.spending import charge, warn_of_callers
from privod.mechanisms import Randomness, secure, seeded
from privod.privacy import Guarantee, Loss, Number, exact, positive
from privod.privacy.guarantee import merged_promise
from privod.query.checks import dp_adjacency
from privod.query.count_query import told_of_epsilon
from privod.query.query import Query, Release
from privod.query.saved import read_saved
from privod.query.scorer import Scorable, Scorer
from privod.query.scores import filled
from privod.questions.private_bounds.query import PrivateBounds

Floats = NDArray[np.float64]

UNIVERSE = 2.0**64
"""Bought ranges are looked for between minus and plus this."""

MOST_ZOOMS = 50  # as the question allows

EXACT: list[Any] = [Fraction, Decimal, str]
"""Numbers that scikit-learn's intervals cannot compare; the questions read and check them."""

PARTS = "the parts that bounds_share makes of it"


Value = TypeVar("Value", bound=Scorable)


class _Threshold:
    """The offset of a detector as it is now, whatever becomes of its parameters later.

    Scoring does not need it and finding it may take longer than fitting, so it is put off.
    """

    def __init__(self, detector: ReleaseDetector[Any]) -> None:
        self._detector = detector

    @cached_property
    def offset(self) -> float:
        """Minus the score from which on records are flagged."""
        return -self._detector._limit()


class ReleaseDetector(OutlierMixin, BaseEstimator, Generic[Value]):  # type: ignore[misc]
    """Fits by asking one question of the rows, then forgets them."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "epsilon": [*EXACT, Interval(Real, 0, None, closed="neither")],
        "bounds": ["array-like", dict, None],
        "bounds_share": [*EXACT, Interval(Real, 0, 1, closed="neither")],
        "bounds_zooms": [Interval(Integral, 1, MOST_ZOOMS, closed="both")],
        "expected_records": [Interval(Integral, 1, None, closed="left")],
        "adjacency": [StrOptions({"add-remove", "replace"})],
        "contamination": [Fraction, Interval(Real, 0, 0.5, closed="right")],
        "random_state": ["random_state"],
    }

    _asks: ClassVar[type[Query[Any]]]
    _carries: ClassVar[type[Scorable]]
    """What its releases hold, and their files."""
    _finite: ClassVar[bool | str] = True
    """What scikit-learn calls `ensure_all_finite`."""
    _farthest: ClassVar[float | None] = None
    """Where infinite values are taken to lie, if they are."""

    release_: Release[Value]
    bounds_release_: Release[Any] | None
    guarantee_: Guarantee
    _threshold: _Threshold
    _batches: int = 1

    def __init__(
        self,
        epsilon: Number,
        bounds: ArrayLike | None,
        bounds_share: Number,
        bounds_zooms: int,
        expected_records: int | None,
        adjacency: str,
        contamination: float,
        random_state: Any,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.bounds_share = bounds_share
        self.bounds_zooms = bounds_zooms
        self.expected_records = expected_records
        self.adjacency = adjacency
        self.contamination = contamination
        self.random_state = random_state

    @classmethod
    def from_release(cls, release: Release[Value] | Value | str | Path, **parameters: Any) -> Self:
        """A fitted detector of what was released elsewhere, by a curator for instance.

        Give the release, the path of its file (.json or .privod), or what such a file holds. It
        takes arrays with the columns in the release's order, and frames with its names. Where a row
        misses a value (NaN), it is given what the column's owner declared as its fill.
        """
        found = cls._release_of(release)
        detector = cls(**parameters)
        detector._check()
        detector.release_ = found
        detector.bounds_release_ = None
        detector.guarantee_ = found.guarantee
        detector.n_features_in_ = len(detector._columns)
        return detector._set_offset()

    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: ARG002, N803 - scikit-learn's names
        """Ask the question of the rows, keep its release, forget the rows."""
        warn_of_callers(self)
        fitted = copy(self)
        fitted._fit_anew(X)
        return self._become(fitted)

    def promised(self) -> Guarantee:
        """What one `fit` promises with these parameters, bought ranges included; needs no rows."""
        return Guarantee(Loss(positive(self.epsilon, "epsilon")), dp_adjacency(self.adjacency))

    def partial_fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: N803 - scikit-learn's name
        """Add a batch of new records, none of which was in an earlier batch, at its own epsilon.

        The first batch also pays for the ranges, if they are bought, and fixes the cells.
        """
        if not hasattr(self, "release_"):
            return self.fit(X, y)
        grown = copy(self)
        grown._add_batch(X)
        return self._become(grown)

    def retarget(self, contamination: float) -> Self:
        """Flag another share of the records from now on; free."""
        check_is_fitted(self)
        other = copy(self)
        other.contamination = contamination
        other._check()
        return self._become(other._set_offset())

    def score_samples(self, X: ArrayLike) -> Floats:  # noqa: N803 - scikit-learn's name
        """Minus the outlier score of each row: the higher, the more ordinary."""
        check_is_fitted(self)
        return -self._scorer.scores(self._rows(X))

    def decision_function(self, X: ArrayLike) -> Floats:  # noqa: N803 - scikit-learn's name
        """The score less the threshold: negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:  # noqa: N803 - scikit-learn's name
        """+1 for inliers, -1 for outliers."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    @property
    def offset_(self) -> float:
        """The threshold of `decision_function`, found when it is first asked for."""
        check_is_fitted(self)
        return self._threshold.offset

    def _query(self, columns: tuple[str, ...], epsilon: Fraction) -> Query[Value]:
        """The question that fitting asks."""
        raise NotImplementedError

    def _query_like(self, release: Release[Value], epsilon: Fraction) -> Query[Value]:
        """The same question for another batch, over the same cells."""
        raise NotImplementedError

    @classmethod
    def _release_of(cls, given: Any) -> Release[Value]:
        """The release itself, of whatever stands for it."""
        found = read_saved(given) if isinstance(given, str | Path) else given
        if isinstance(found, cls._carries):
            value: Any = found
            return Release(cls._query_of(value), value, value.guarantee, value.seeded)
        if isinstance(found, Release) and isinstance(found.query, cls._asks):
            return found
        rule = f"must be a release of {cls._asks.name}, its file or what that holds"
        asked = found.query.name if isinstance(found, Release) else type(found).__name__
        raise InvalidParameter("release", rule, asked, "Ask that question.")

    @staticmethod
    def _query_of(value: Value) -> Query[Value]:
        """The question that a release answers of which the value alone was carried away."""
        raise InvalidParameter(
            "release", "must say its question", type(value).__name__, "Give the whole release."
        )

    def _settings(self) -> dict[str, Any]:
        """The settings of the score that parameters choose."""
        return {}

    @property
    def _scorer(self) -> Scorer[Value]:
        """The release, with the settings that the parameters choose."""
        return self.release_.value.scorer(**self._settings())

    def _limit(self) -> float:
        """The score beyond which `contamination` of the reference lie, from the release alone."""
        limit = self._scorer.threshold(float(self.contamination))
        if limit is None:
            rule, way_out = "cannot be flagged: this release only orders", "Use score_samples."
            raise InvalidParameter("contamination", rule, self.contamination, way_out)
        return limit

    @property
    def _columns(self) -> tuple[Column, ...]:
        """What is declared of the released columns; a fill stands in for what a row misses."""
        return self.release_.value.columns

    @property
    def _column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self._columns)

    def _prepared(self, X: ArrayLike) -> Any:  # noqa: N803 - scikit-learn's name
        """The rows as scikit-learn reads them."""
        return X

    def _set_offset(self) -> Self:
        self.__dict__.pop("_threshold", None)
        self._threshold = _Threshold(copy(self))
        return self

    def _check(self) -> None:
        """Refuse wrong parameters before anything is asked, and so before anything is lost."""
        self._validate_params()
        if not 0 < float(self.contamination) <= 0.5:
            rule = "must be greater than 0 and at most 0.5"
            raise InvalidParameter("contamination", rule, self.contamination, "Try 0.1.")

    def _fit_anew(self, X: ArrayLike) -> None:  # noqa: N803 - scikit-learn's name
        """Declare or buy the ranges, and ask; whatever public can be wrong is found before."""
        self._check()
        rows = validate_data(self, X, dtype=np.float64, order="C")
        names = column_names_of(self, rows.shape[1])
        epsilon = positive(self.epsilon, "epsilon")
        share = exact(self.bounds_share, "bounds_share")
        if not 0 < share < 1:
            rule = "must lie between 0 and 1"
            raise InvalidParameter("bounds_share", rule, self.bounds_share, "Try 0.25.")
        with told_of_epsilon(self.epsilon, PARTS):
            buying = self._buying(names, epsilon * share) if self.bounds is None else None
            query = self._query(names, epsilon if buying is None else epsilon * (1 - share))
        domain = Domain(_widest(names) if buying else _declared(self.bounds, names))
        query.check(domain)
        asked = query.guarantee()
        charge(asked if buying is None else asked + buying.guarantee())
        randomness = self._randomness(batch=0)  # from here on rows are looked at
        self.bounds_release_ = bought = (
            buying.answer(table_of(domain, rows), randomness) if buying else None
        )
        ranges = domain if bought is None else Domain(bought.value)
        self.release_ = query.answer(table_of(ranges, rows), randomness)
        self._batches = 1
        promise = self.release_.guarantee
        self.guarantee_ = promise if bought is None else promise + bought.guarantee
        self._set_offset()

    def _add_batch(self, X: ArrayLike) -> None:  # noqa: N803 - scikit-learn's name
        """Merge the release of a batch into ours."""
        self._check()
        rows = self._rows(X)
        known = self.release_.value
        epsilon = positive(self.epsilon, "epsilon")
        with told_of_epsilon(self.epsilon, PARTS):
            query = self._query_like(self.release_, epsilon)
        domain = Domain(self._columns)
        query.check(domain)
        charge(query.guarantee())
        batch = query.answer(table_of(domain, rows), self._randomness(self._batches))
        merged = known.merge(batch.value)
        asked = self._query_like(self.release_, merged.guarantee.loss.epsilon)
        promise = asked.guarantee().of_persons(merged.guarantee.rows_per_person)
        self.release_ = Release(asked, merged, promise, merged.seeded)
        self._batches += 1
        self.guarantee_ = merged_promise([self.guarantee_, batch.guarantee])  # disjoint batches
        self._set_offset()

    def _become(self, other: Self) -> Self:
        """Take over what a copy has come to, all at once: what fails leaves no trace."""
        self.__dict__ = other.__dict__
        return self

    def _rows(self, X: ArrayLike) -> Floats:  # noqa: N803 - scikit-learn's name
        """Read rows that must have the release's columns, and in a frame their names."""
        reader, names = self, self._column_names
        made_of_release = not hasattr(self, "feature_names_in_") and names != numbered_names(
            len(names)
        )
        if made_of_release and _get_feature_names(X) is not None:
            reader = copy(self)
            reader.feature_names_in_ = np.array(names, dtype=object)
        columns = self._columns
        fills = any(column.fill is not None for column in columns)
        rows: Floats = validate_data(
            reader,
            self._prepared(X),
            dtype=np.float64,
            order="C",
            reset=False,
            ensure_all_finite="allow-nan" if fills and self._finite is True else self._finite,
        )
        if self._farthest is not None:
            rows = np.clip(rows, -self._farthest, self._farthest)
        if fills:
            rows = np.ascontiguousarray(filled(rows, columns))
            assert_all_finite(rows, allow_nan=self._finite is not True, input_name="X")
        return rows

    def _html_repr(self) -> str:
        """As scikit-learn draws it, whose reader of docstrings does not know all our headings."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Unknown section")
            return str(estimator_html_repr(self))

    def _randomness(self, batch: int) -> Randomness:
        """The operating system's bits; a `random_state` is for tests and marks what it makes."""
        if self.random_state is None:
            return secure()
        seeds = check_random_state(self.random_state).randint(2**31, size=batch + 1)
        return seeded(int(seeds[batch]))  # other noise for every batch

    def _buying(self, names: tuple[str, ...], epsilon: Fraction) -> PrivateBounds:
        """The question for the ranges."""
        return PrivateBounds(
            columns=names,
            epsilon=epsilon,
            zooms=int(self.bounds_zooms),
            adjacency=self.adjacency,  # type: ignore[arg-type]  # read by name
        )


def table_of(domain: Domain, rows: Floats) -> Table:
    columns = np.ascontiguousarray(rows.T)  # at once: one by one would read every row for each
    return Table(domain, dict(zip(domain.names, columns, strict=True)))


def column_names_of(estimator: ReleaseDetector[Any], n_columns: int) -> tuple[str, ...]:
    """The columns' names where they have usable ones, x0, x1, ... otherwise."""
    given = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
    if given and all(name and name.isprintable() for name in given):
        return tuple(given)
    return numbered_names(n_columns)


def numbered_names(n_columns: int) -> tuple[str, ...]:
    return tuple(f"x{place}" for place in range(n_columns))


def _widest(names: tuple[str, ...]) -> tuple[Numeric, ...]:
    return tuple(Numeric(name, -UNIVERSE, UNIVERSE) for name in names)


def _declared(bounds: Any, names: tuple[str, ...]) -> tuple[Numeric, ...]:
    """Read the ranges, which all columns must have."""
    columns = declared_columns(bounds, names)
    for column in columns:
        if not isinstance(column, Numeric):
            rule = "must be ranges: this detector reads numbers only"
            raise InvalidParameter("bounds", rule, column.name, "Try PrivateDetector.")
    return tuple(column for column in columns if isinstance(column, Numeric))
