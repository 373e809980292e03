"""Checks of records to score, and thresholds on their scores, for every release that scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from privod.arrays import Floats
from privod.data import Categorical, Column
from privod.errors import InvalidData, InvalidParameter


def scored_points(points: ArrayLike, n_axes: int) -> Floats:
    """Read records to be scored: finite numbers, as many as there are axes."""
    try:
        asked = np.ascontiguousarray(points, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidData("points must be numbers. Give an array of numbers.") from None
    if asked.ndim != 2 or asked.shape[1] != n_axes:
        raise InvalidData(
            f"points must have {n_axes} columns, got an array of shape {asked.shape}."
            " Give one row per record, with the columns in order."
        )
    if not np.isfinite(asked).all():
        raise InvalidData("points must be finite. Drop or fill what is missing.")
    return asked


def filled(points: Floats, columns: Sequence[Column]) -> Floats:
    """Records with what their columns declare in the place of missing values, as registered ones.

    NaN stays where a column declares nothing.
    """
    missing = np.isnan(points)
    if not missing.any():
        return points
    fills = [
        np.nan
        if column.fill is None
        else column.number(column.fill)
        if isinstance(column, Categorical)
        else column.fill
        for column in columns
    ]
    return np.where(missing, np.array(fills), points)


def check_fraction(target_fraction: float) -> None:
    """Refuse a share of the reference that cannot lie beyond a threshold."""
    if not 0 < target_fraction < 1:
        rule = "must lie between 0 and 1"
        raise InvalidParameter("target_fraction", rule, target_fraction, "Try 0.1.")


def limit(scores: Floats, target_fraction: float) -> float:
    """The score beyond which the share of the others is nearest to the target."""
    ordered, times = np.unique(scores, return_counts=True)
    beyond = 1 - times.cumsum() / len(scores)
    return float(ordered[np.argmin(np.abs(beyond - target_fraction))])
