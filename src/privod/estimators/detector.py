"""What the detectors have in common: fit once under a budget, keep the release, score for free.

scikit-learn's signs hold here: `score_samples` and `decision_function` are higher for inliers, and
`predict` says +1 or -1. Everywhere else in privod higher is more outlying.
"""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import Randomness, secure, seeded
from privod.outliers.grid import Grid
from privod.privacy import Guarantee, Loss, Number, exact
from privod.queries.bounds import PrivateBounds
from privod.queries.query import Query, Release

__all__ = ["PrivateDetector"]

Floats = NDArray[np.float64]

UNIVERSE = 2.0**64
"""Bought ranges are looked for between minus and plus this."""

TIE_BREAK = 1e-6  # of the distance to the middle of one's cell: orders records that score alike


class Mergeable(Protocol):
    """A released value that adds up with others of its shape and knows its promise."""

    @property
    def guarantee(self) -> Guarantee:
        """The promise."""

    @property
    def seeded(self) -> bool:
        """Whether a test seed made it."""

    def merge(self, *others: Any) -> Any:
        """Add up."""


Value = TypeVar("Value", bound=Mergeable)


class PrivateDetector(OutlierMixin, BaseEstimator, Generic[Value]):  # type: ignore[misc]
    """Fits by asking one question of the rows, then forgets them."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "bounds": ["array-like", None],
        "bounds_share": [Interval(Real, 0, 1, closed="neither")],
        "expected_records": [Interval(Integral, 1, None, closed="left")],
        "adjacency": [StrOptions({"add-remove", "replace"})],
        "target_fraction": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
    }

    release_: Release[Value]
    bounds_release_: Release[tuple[Numeric, ...]] | None
    guarantee_: Guarantee
    offset_: float

    def __init__(
        self,
        epsilon: Number,
        bounds: ArrayLike | None,
        bounds_share: Number,
        expected_records: int,
        adjacency: str,
        target_fraction: float,
        random_state: Any,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.bounds_share = bounds_share
        self.expected_records = expected_records
        self.adjacency = adjacency
        self.target_fraction = target_fraction
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: ARG002, N803 - scikit-learn's names
        """Ask the question of the rows, keep its release, forget the rows."""
        self._validate_params()
        rows = validate_data(self, X, dtype=np.float64, order="C")
        randomness = self._randomness()
        columns, spent = self._columns(rows, randomness)
        rest = exact(self.epsilon, "epsilon") - (spent.loss.epsilon if spent else 0)
        query = self._query(tuple(column.name for column in columns), rest)
        self.release_ = self._answer(query, columns, rows, randomness)
        promise = self.release_.guarantee
        self.guarantee_ = promise if spent is None else promise + spent
        return self._set_offset()

    def partial_fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: N803 - scikit-learn's name
        """Add a batch of new records, none of which was in an earlier batch, at its own epsilon.

        The first batch also pays for the ranges, if they are bought, and fixes the cells.
        """
        if not hasattr(self, "release_"):
            return self.fit(X, y)
        self._validate_params()
        rows = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        query = self._query_like(self.release_, exact(self.epsilon, "epsilon"))
        columns = self._geometry.columns
        batch = self._answer(query, columns, rows, self._randomness())
        merged = self.release_.value.merge(batch.value)
        asked = self._query_like(self.release_, merged.guarantee.loss.epsilon)
        self.release_ = Release(asked, merged, asked.guarantee(), merged.seeded)
        largest = max(self.guarantee_.loss.epsilon, batch.guarantee.loss.epsilon)
        self.guarantee_ = Guarantee(
            Loss(largest), batch.guarantee.adjacency
        )  # batches are disjoint
        return self._set_offset()

    def retarget(self, target_fraction: float) -> Self:
        """Flag another share of the records from now on; free."""
        check_is_fitted(self)
        self.target_fraction = target_fraction
        self._validate_params()
        return self._set_offset()

    def score_samples(self, X: ArrayLike) -> Floats:  # noqa: N803 - scikit-learn's name
        """Minus the outlier score of each row: the higher, the more ordinary.

        A row outside the ranges is scored at their border, plus how far outside it lies.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        where = self._geometry.placement(rows)
        return -(self._scores(rows) + where.overshoot + TIE_BREAK * where.off_center)

    def decision_function(self, X: ArrayLike) -> Floats:  # noqa: N803 - scikit-learn's name
        """The score less the threshold: negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:  # noqa: N803 - scikit-learn's name
        """+1 for inliers, -1 for outliers."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    @abstractmethod
    def _query(self, columns: tuple[str, ...], epsilon: Fraction) -> Query[Value]:
        """The question that fitting asks."""

    @abstractmethod
    def _query_like(self, release: Release[Value], epsilon: Fraction) -> Query[Value]:
        """The same question for another batch, over the same cells."""

    @property
    @abstractmethod
    def _geometry(self) -> Grid:
        """The released cells."""

    @abstractmethod
    def _scores(self, rows: Floats) -> Floats:
        """The outlier scores of rows; higher is more outlying."""

    @abstractmethod
    def _limit(self) -> float:
        """The score beyond which `target_fraction` of the reference lie, from the release alone."""

    def _set_offset(self) -> Self:
        slack = TIE_BREAK * self._geometry.n_axes  # a tie-break never flags what the score does not
        self.offset_ = -(self._limit() + slack)
        return self

    def _answer(
        self,
        query: Query[Value],
        columns: tuple[Numeric, ...],
        rows: Floats,
        randomness: Randomness,
    ) -> Release[Value]:
        domain = Domain(columns)
        query.check(domain)
        return query.answer(_table(domain, rows), randomness)

    def _randomness(self) -> Randomness:
        """The operating system's bits; a `random_state` is for tests and marks what it makes."""
        if self.random_state is None:
            return secure()
        return seeded(int(check_random_state(self.random_state).randint(2**31)))

    def _columns(
        self, rows: Floats, randomness: Randomness
    ) -> tuple[tuple[Numeric, ...], Guarantee | None]:
        """The ranges as declared, or bought with a share of epsilon; never read off the rows."""
        names = _names(self, rows.shape[1])
        self.bounds_release_ = None
        if self.bounds is not None:
            lows, highs = _declared(self.bounds, len(names))
            declared = zip(names, lows, highs, strict=True)
            return tuple(Numeric(name, low, high) for name, low, high in declared), None
        share = exact(self.epsilon, "epsilon") * exact(self.bounds_share, "bounds_share")
        query = PrivateBounds(columns=names, epsilon=share, adjacency=self.adjacency)  # type: ignore[arg-type]
        universe = Domain(tuple(Numeric(name, -UNIVERSE, UNIVERSE) for name in names))
        release = query.answer(_table(universe, rows), randomness)
        self.bounds_release_ = release
        return release.value, release.guarantee


def _table(domain: Domain, rows: Floats) -> Table:
    return Table(domain, {name: rows[:, place] for place, name in enumerate(domain.names)})


def _names(estimator: PrivateDetector[Any], n_columns: int) -> tuple[str, ...]:
    """The columns' names where they have usable ones, x0, x1, ... otherwise."""
    given = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
    if given and all(name and name.isprintable() for name in given):
        return tuple(given)
    return tuple(f"x{place}" for place in range(n_columns))


def _declared(bounds: ArrayLike, n_columns: int) -> tuple[list[float], list[float]]:
    """Read one (low, high) for all columns, or a pair of arrays (lows, highs)."""
    way_out = "Give (low, high) or (lows, highs), known without looking at the data."
    try:
        pairs = [np.broadcast_to(np.asarray(side, dtype=float), n_columns) for side in bounds]  # type: ignore[union-attr]
        lows, highs = pairs
    except (TypeError, ValueError):
        rule = f"must be two numbers, or two arrays of {n_columns} numbers"
        raise InvalidParameter("bounds", rule, bounds, way_out) from None
    return lows.tolist(), highs.tolist()
