"""Which records are outlying, by hashing? [Raval 2011, Algorithm 1], with nothing private."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

import numpy as np
from numpy.typing import NDArray

from privod.errors import InvalidParameter
from privod.outliers.crowds.distance import crowds
from privod.outliers.hashing.plan import HashSettings
from privod.outliers.hashing.tables import Suspects, bin_records, draw_family, find_suspects
from privod.progress import track


def crowd_limit(far_fraction: float, n_records: int) -> int:
    """Return the largest crowd of an outlier: floor((1 - p_t) n), safe from binary rounding."""
    if not 0 < far_fraction < 1:
        raise InvalidParameter(
            "far_fraction", "must be between 0 and 1", far_fraction, "Try 0.9988, as in the paper."
        )
    return floor((1 - far_fraction) * n_records + 1e-9)


@dataclass(frozen=True, kw_only=True)
class HashedOutliers(HashSettings):
    """Find the records with at most a fraction 1 - `far_fraction` of all within `radius`.

    What is flagged in every round of fresh hashes is kept. With `verify` the survivors are checked
    exactly, so that no inlier is left among them.
    """

    far_fraction: float
    n_rounds: int = 1
    verify: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n_rounds < 1:
            raise InvalidParameter("n_rounds", "must be at least 1", self.n_rounds, "Try 3.")
        crowd_limit(self.far_fraction, 1)
        self.plan(2)

    def one_round(self, points: NDArray[np.float64], round_: int) -> Suspects:
        """Return the suspects of one round, before rounds are intersected and verified."""
        plan = self.plan(len(points))
        seed = b"round %d of %d" % (round_, self.seed)
        origin = points.mean(axis=0) if len(points) else None
        family = draw_family(plan, points.shape[1], seed, origin=origin)
        if len(points):
            family.check_reach(points.min(axis=0), points.max(axis=0))
        bins = bin_records(family.keys(points))
        return find_suspects(
            bins, crowd_limit(self.far_fraction, len(points)), plan.min_shared_tables
        )

    def find(self, points: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the rows of the outliers, ascending."""
        rounds = track(range(self.n_rounds), "rounds of hashing")
        rows = intersect_rounds([self.one_round(points, round_).rows for round_ in rounds])
        if self.verify and len(rows):
            limit = crowd_limit(self.far_fraction, len(points))
            found = crowds(points, self.radius, at=points[rows], cap=limit + 1)
            rows = rows[found <= limit]
        return rows


def intersect_rounds(rounds: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Keep what is flagged every time [Raval 2011, III-A2]."""
    rows = rounds[0]
    for other in rounds[1:]:
        rows = np.intersect1d(rows, other, assume_unique=True)
    return rows
