"""The sets of Raval et al. (2011) that are to be had, stand-ins for the others, and their truth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from _tables import data_frame
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from tests.reference.hashing import HashedOutliers

from privod.data import Domain, Numeric, Table
from privod.errors import PrivodError
from privod.outliers.crowds.distance import crowds
from privod.outliers.hashing.outliers import crowd_limit

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

FAR_FRACTION = 0.9988
SAMPLE = 100  # records whose neighbors decide the radius


@dataclass(frozen=True, eq=False)
class Set:
    """A data set, the paper's set it stands for, and the radius to ask with."""

    name: str
    stands_for: str
    points: Floats
    radius: float
    outliers: Rows

    @property
    def limit(self) -> int:
        return crowd_limit(FAR_FRACTION, len(self.points))

    def question(self, **changed: Any) -> HashedOutliers:
        return HashedOutliers(radius=self.radius, far_fraction=FAR_FRACTION, **changed)

    def cut(self, rows: int) -> Set:
        """Some rows, drawn at random, with outliers of their own; all if there are no more."""
        if rows >= len(self.points):
            return self
        drawn = np.random.default_rng(2).choice(len(self.points), rows, replace=False)
        points = np.ascontiguousarray(self.points[np.sort(drawn)])
        return replace(self, points=points, outliers=_outliers(points, self.radius))

    def outcome(self, flagged: Rows) -> dict[str, float]:
        """Precision and recall; then false positives, in percent of all records."""
        found = len(np.intersect1d(flagged, self.outliers))
        return {
            "precision": found / max(1, len(flagged)),
            "recall": found / max(1, len(self.outliers)),
            "false positives %": 100 * (len(flagged) - found) / len(self.points),
        }

    def tables(self, partition: str, n_parties: int) -> dict[str, Table]:
        """Deal rows or columns to parties p0, p1, ..."""
        names = [f"x{number}" for number in range(self.points.shape[1])]
        top = float(np.abs(self.points).max()) + 1
        columns = [Numeric(name, -top, top, fill=0.0) for name in names]
        held = [np.arange(len(names))] * n_parties
        parts = [self.points[number::n_parties] for number in range(n_parties)]
        if partition == "vertical":
            held = np.array_split(np.arange(len(names)), n_parties)
            parts = [self.points[:, each] for each in held]
        return {
            f"p{number}": Table(
                Domain(tuple(columns[at] for at in held[number])),
                {names[at]: part[:, place] for place, at in enumerate(held[number])},
            )
            for number, part in enumerate(parts)
        }


def real(name: str, stands_for: str, drop: tuple[str, ...] = ()) -> Set | None:
    """A set of the data folder, its numeric columns scaled; None if it is not there."""
    try:
        frame = data_frame(name)
    except PrivodError as problem:
        print(f"left out {name}: {problem}")
        return None
    kept = frame.to_pandas().drop(columns=["label", *drop], errors="ignore")
    numeric = kept.select_dtypes("number")
    points = numeric.to_numpy(np.float64)
    spread = points.std(axis=0)
    return _made(name, stands_for, points[:, spread > 0] / spread[spread > 0])


def synthetic(stands_for: str, n: int, d: int) -> Set:
    """Twenty clusters and one stranger in two thousand."""
    generator = np.random.default_rng(0)
    centers = generator.uniform(-12, 12, size=(20, d))
    points = centers[generator.integers(0, 20, n)] + generator.normal(size=(n, d))
    strangers = n // 2000
    points[:strangers] = generator.uniform(-30, 30, size=(strangers, d))
    generator.shuffle(points)
    return _made(f"clusters x {d}", stands_for, points)


def _made(name: str, stands_for: str, points: Floats) -> Set:
    """Choose the radius from a sample, and find the outliers by exact counts."""
    n = len(points)
    sample = points[np.random.default_rng(1).choice(n, SAMPLE, replace=False)]
    limit = crowd_limit(FAR_FRACTION, n)
    nearest = [
        np.partition(cdist(sample[at : at + 20], points), limit, axis=1)[:, limit]
        for at in range(0, SAMPLE, 20)
    ]
    radius = 2 * float(np.quantile(np.concatenate(nearest), 0.99))
    scaled = np.ascontiguousarray(points)
    return Set(name, stands_for, scaled, radius, _outliers(scaled, radius))


def _outliers(points: Floats, radius: float) -> Rows:
    limit = crowd_limit(FAR_FRACTION, len(points))
    return np.flatnonzero(crowds(points, radius, cap=limit + 1) <= limit)
