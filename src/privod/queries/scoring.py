"""Score an asker's own records against a release: no private rows are read, nothing is charged.

The command line and the console both come here. A record outside the ranges is scored at their
border, plus how far outside it lies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privod.data.domain import Categorical, Column
from privod.errors import InvalidData
from privod.outliers.grid.grid import Grid
from privod.queries.density_sketch.release import NoisySketch
from privod.queries.grid_knn.release import NoisyGrid
from privod.queries.marginals.release import NoisyMarginals
from privod.queries.mean_covariance.release import NoisyMoments
from privod.queries.private_detector.release import NoisyProfile

__all__ = ["SCORING", "Scorable", "Scored", "columns_of", "explains"]
__all__ += ["points_of", "reasons", "score", "shown"]

Scorable = NoisyGrid | NoisyMarginals | NoisyMoments | NoisyProfile | NoisySketch
SCORING = (NoisyGrid, NoisyMarginals, NoisyMoments, NoisyProfile, NoisySketch)
"""What releases can score."""
MOST_REASONS = 3


@dataclass(frozen=True)
class Scored:
    """Scores, higher more outlying; the limit beyond which records stand out, where one is known.

    `hidden_share` is the share of the reference that cannot be told from noise.
    """

    scores: NDArray[np.float64]
    limit: float | None
    hidden_share: float

    @property
    def stands_out(self) -> NDArray[np.bool_] | None:
        """Which records lie beyond the limit; None without one."""
        return None if self.limit is None else self.scores > self.limit


def columns_of(released: Scorable) -> tuple[Column, ...]:
    """The columns that a record must have, in order."""
    if isinstance(released, NoisyProfile):
        return released.layout.columns
    if isinstance(released, NoisyMoments):
        return released.frame.columns
    if isinstance(released, NoisySketch):
        return released.hashing.columns
    return released.grid.columns if isinstance(released, NoisyGrid) else released.columns


def score(
    released: Scorable, points: NDArray[np.float64], target: float, n_neighbors: int
) -> Scored:
    """Score records; about a share `target` of the reference lies beyond the limit.

    A sketch orders records and knows no limit.
    """
    if isinstance(released, NoisyProfile):
        limit = float(released.threshold(target))
        return Scored(released.scores(points), limit, released.hidden_share)
    if isinstance(released, NoisySketch):
        return Scored(released.scores(points), None, 0)
    if isinstance(released, NoisyMoments):
        limit = float(released.threshold(target).distance[0])
        return Scored(released.scores(points).distance, limit, 0)
    if isinstance(released, NoisyGrid):
        limit = float(released.threshold(target, n_neighbors).graded[0])
        scores = released.scores(points, n_neighbors).graded + released.grid.overshoot(points)
        return Scored(scores, limit, released.hidden_share)
    outside = Grid(released.columns, released.counts.shape[1]).overshoot(points)
    limit = float(released.threshold(target).density[0])
    return Scored(released.scores(points).density + outside, limit, 0)


def explains(released: Scorable) -> bool:
    """Whether the release can say which columns made a score."""
    return isinstance(released, NoisyProfile)


def reasons(released: Scorable, points: NDArray[np.float64], scored: Scored) -> list[str]:
    """Of each record that stands out the columns that add most to its score; nothing if unknown.

    With their shares, and whether the value is high or low among what was released, or missing.
    """
    beyond = scored.stands_out
    texts = [""] * len(points)
    if not isinstance(released, NoisyProfile) or beyond is None:
        return texts
    places = np.flatnonzero(beyond)
    if not len(places):
        return texts
    explained, sides = released.explain(points[places]), released.sides(points[places])
    for place, shares, side in zip(places.tolist(), explained.shares, sides, strict=True):
        raising = np.maximum(shares, 0)  # what lowers the score is no reason for it
        order = (-raising).argsort(kind="stable")[:MOST_REASONS].tolist()
        whole = max(float(raising.sum()), 1e-12)
        texts[place] = ", ".join(
            f"{explained.columns[at]}{_side(points[place, at], side[at])} {raising[at] / whole:.0%}"
            for at in order
            if raising[at] > 0
        )
    return texts


def _side(value: float, side: int) -> str:
    if value != value:  # NaN
        return " (missing)"
    return {1: " (high)", -1: " (low)"}.get(int(side), "")


def shown(value: float, column: Column) -> str:
    """A value as it was written: a category by its name, a missing one as a dash."""
    if value != value:  # NaN
        return "-"
    if isinstance(column, Categorical):
        return str(column.values[int(value)])
    return f"{value:.4g}"


def points_of(frame: pa.Table, released: Scorable, source: str) -> NDArray[np.float64]:
    """The columns that the release needs, as numbers; categories as places in their lists.

    Only a profile takes records that miss values.
    """
    columns = columns_of(released)
    names = [column.name for column in columns]
    absent = [name for name in names if name not in frame.column_names]
    if absent:
        raise InvalidData(f"{source} has no column {', '.join(map(repr, absent))}.")
    read = [_read(frame[column.name], column, source) for column in columns]
    points = np.column_stack(read) if len(frame) else np.empty((0, len(names)))
    missing = isinstance(released, NoisyProfile)
    wrong = np.isinf(points) if missing else ~np.isfinite(points)
    places = np.flatnonzero(wrong.any(axis=1))
    if len(places):
        raise InvalidData(f"Row {places[0] + 1} of the new records misses a value. Fill it first.")
    return points


def _read(column: pa.ChunkedArray, declared: Column, source: str) -> NDArray[Any]:
    """A column's numbers, or the places of its categories; NaN where nothing known is said."""
    if not isinstance(declared, Categorical):
        try:
            return np.asarray(column.cast(pa.float64()).to_numpy())
        except pa.ArrowException:
            raise InvalidData(
                f"Column {declared.name!r} of {source} cannot be read as numbers. Check its cells."
            ) from None
    places = {value: float(place) for place, value in enumerate(declared.values)}
    known: dict[Any, float] = {**places, **{str(value): at for value, at in places.items()}}
    return np.array([known.get(value, np.nan) for value in column.to_pylist()])
