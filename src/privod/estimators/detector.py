"""What the detectors have in common: fit once under a budget, keep the release, score for free.

scikit-learn's signs hold here: `score_samples` and `decision_function` are higher for inliers, and
`predict` says +1 or -1. Everywhere else in privod higher is more outlying.
"""

from __future__ import annotations

import re
import warnings
from copy import copy
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils import assert_all_finite, check_random_state, estimator_html_repr
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import (
    _check_feature_names,
    _get_feature_names,
    check_is_fitted,
    validate_data,
)

from privod.arrays import Floats
from privod.data import Column, Domain
from privod.errors import InvalidParameter
from privod.estimators.bounds import numbered_names, width_of
from privod.estimators.spending import charge, warn_of_callers
from privod.mechanisms import Randomness, secure, seeded
from privod.privacy import Guarantee
from privod.query.query import Query, Release
from privod.query.saved import read_saved
from privod.query.scorer import Scorable, Scorer
from privod.query.scores import filled

EXACT: list[Any] = [Fraction, Decimal, str]
"""Numbers that scikit-learn's intervals cannot compare; the questions read and check them."""

SHARE: list[Any] = [Fraction, Interval(Real, 0, 0.5, closed="right")]
"""What `contamination` may be."""


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

    @property
    def share(self) -> float:
        """Of the records, to be flagged."""
        return float(self._detector.contamination)


class ReleaseDetector(OutlierMixin, BaseEstimator, Generic[Value]):  # type: ignore[misc]
    """Fits by asking one question of the rows, then forgets them."""

    _asks: ClassVar[type[Query[Any]]]
    _carries: ClassVar[type[Scorable]]
    """What its releases hold, and their files."""
    _finite: ClassVar[bool | str] = True
    """What scikit-learn calls `ensure_all_finite`."""
    _farthest: ClassVar[float | None] = None
    """Where infinite values are taken to lie, if they are."""

    release_: Release[Value]
    guarantee_: Guarantee
    _threshold: _Threshold
    _batches: int = 1

    contamination: float
    random_state: Any

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
        detector.guarantee_ = found.guarantee
        detector.n_features_in_ = len(detector._columns)
        return detector._set_offset()

    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: ARG002, N803 - scikit-learn's names
        """Ask the question of the rows, keep its release, forget the rows."""
        warn_of_callers(self)
        fitted = copy(self)
        fitted._fit_anew(X)
        return self._become(fitted)

    def partial_fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: N803 - scikit-learn's name
        """Add a batch of new records, none of which was in an earlier batch, at its own epsilon.

        The first batch also pays for ranges that were left open, and fixes the cells.
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

    def _query(self, columns: tuple[str, ...]) -> Query[Value]:
        """The question that fitting asks."""
        raise NotImplementedError

    def _query_like(self) -> Query[Value]:
        """The same question for another batch, over the same cells."""
        raise NotImplementedError

    def _declared(self, X: ArrayLike, width: int) -> tuple[Column, ...]:  # noqa: N803 - scikit-learn's name
        """The columns to fit, so many, by their names, their types and the parameters alone."""
        raise NotImplementedError

    def _answered(
        self, query: Query[Any], domain: Domain, rows: Floats, batch: int
    ) -> Release[Value]:
        """What the question releases of the rows."""
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

    def _prepared(self, X: ArrayLike, columns: tuple[Column, ...]) -> Any:  # noqa: ARG002, N803 - scikit-learn's name
        """The rows as scikit-learn reads them."""
        return X

    def _read(self, X: ArrayLike, columns: tuple[Column, ...]) -> Floats:  # noqa: N803 - scikit-learn's name
        """The rows to fit, none of them too."""
        how: dict[str, Any] = {"ensure_all_finite": self._finite, "ensure_min_samples": 0}
        return self._clipped(rows_of(self, self._prepared(X, columns), **how))

    def _clipped(self, rows: Floats) -> Floats:
        return rows if self._farthest is None else np.clip(rows, -self._farthest, self._farthest)

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
        """Read what is declared, charge, and ask; whatever public can be wrong is found before."""
        self._check()
        check_in_memory(X)
        width = width_of(X)
        if width == 0 and hasattr(X, "columns"):
            raise InvalidParameter("X", "must have columns", width, "Give at least one.")
        columns = self._declared(X, width) if width else ()
        self._read(without_rows(X), columns)  # refuses a shape or a type
        domain = Domain(columns)
        query = self._query(domain.names)
        query.check(domain)
        charge(query.guarantee())
        self.release_ = self._answered(query, domain, self._read(X, columns), batch=0)
        self._batches = 1
        self.guarantee_ = self.release_.guarantee
        self._set_offset()

    def _add_batch(self, X: ArrayLike) -> None:  # noqa: N803 - scikit-learn's name
        """Merge the release of a batch into ours; batches are disjoint."""
        self._check()
        check_in_memory(X)
        self._rows(without_rows(X))  # refuses a shape or a type
        query, domain = self._query_like(), Domain(self._columns)
        query.check(domain)
        charge(query.guarantee())
        batch = self._answered(query, domain, self._rows(X), self._batches)
        self.release_ = self._merged(query, self.release_.value.merge(batch.value))
        self._batches += 1
        self.guarantee_ = self.release_.guarantee
        self._set_offset()

    def _merged(self, query: Query[Any], value: Value) -> Release[Value]:
        """A release of several batches."""
        return Release(query, value, value.guarantee, value.seeded)

    def _become(self, other: Self) -> Self:
        """Take over what a copy has come to, all at once: what fails leaves no trace."""
        self.__dict__ = other.__dict__
        return self

    def _rows(self, X: ArrayLike) -> Floats:  # noqa: N803 - scikit-learn's name
        """Read rows that must have the release's columns, and in a frame their names."""
        check_in_memory(X)
        reader, names = self, self._column_names
        made_of_release = not hasattr(self, "feature_names_in_") and names != numbered_names(
            len(names)
        )
        if made_of_release and _get_feature_names(X) is not None:
            reader = copy(self)
            reader.feature_names_in_ = np.array(names, dtype=object)
        if hasattr(X, "columns"):  # another name is told before another type
            _check_feature_names(reader, X, reset=False)
        columns = self._columns
        fills = any(column.fill is not None for column in columns)
        finite = "allow-nan" if fills and self._finite is True else self._finite
        how: dict[str, Any] = {"ensure_all_finite": finite, "ensure_min_samples": 0}
        rows = rows_of(reader, self._prepared(X, columns), reset=False, **how)
        rows = self._clipped(rows)
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


def rows_of(estimator: ReleaseDetector[Any], X: Any, **how: Any) -> Floats:  # noqa: N803
    """Rows as scikit-learn reads them; its refusals are told without the values they quote."""
    try:
        rows: Floats = validate_data(estimator, X, dtype=np.float64, order="C", **how)
    except (TypeError, ValueError, OverflowError) as problem:  # of an integer beyond all floats
        kind = TypeError if isinstance(problem, TypeError) else ValueError
        told = re.sub(
            "(?s)(array instead|not supported):?.*?(\nReshape.*)?$", r"\1.\2", str(problem)
        )
        texts = "X must hold numbers. Give a frame, and the categories of its texts in bounds."
        if "to float" in told:
            told = texts
        elif told.startswith("float() argument"):  # scikit-learn's checks want these words
            told = f"{told}. {texts}"
        raise kind(told) from None
    return rows


def without_rows(X: Any) -> Any:  # noqa: N803 - scikit-learn's name
    """The same table with no row in it; what is no table, or none that is read, as it is.

    So scikit-learn says what is wrong with its shape and its types before a row is looked at.
    """
    if hasattr(X, "columns") or (isinstance(X, np.ndarray) and X.ndim):
        return X.iloc[:0] if hasattr(X, "iloc") else X[:0]
    width = None if hasattr(X, "shape") else width_of(X)  # of a list of lists
    return X if width is None else np.empty((0, width))


def check_in_memory(X: Any) -> None:  # noqa: N803 - scikit-learn's name
    """Refuse a table that scikit-learn cannot read: Arrow's, a lazy frame, a cluster's, dates."""
    kind = type(X)  # asked instead of X, whose own answer may read a file
    if isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        way_out = "Give a frame, whose dates are read by their types."
        raise InvalidParameter("X", "must hold numbers", str(X.dtype), way_out)
    there = hasattr(kind, "shape") and hasattr(kind, "dtypes") and not hasattr(kind, "npartitions")
    if (hasattr(kind, "schema") or hasattr(kind, "npartitions")) and not there:
        rule = "must be an array, or a frame of pandas or polars"
        way_out = "Give X.collect() of a lazy frame, polars.from_arrow(X) of Arrow's table."
        raise InvalidParameter("X", rule, kind.__name__, way_out)
