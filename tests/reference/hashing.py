"""Slow, obvious twins of the hashing kernels: codes as tuples, bins as dictionaries.

And Algorithm 1 of the paper with nothing private: `HashedOutliers`.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from math import comb, floor

import numpy as np
from numpy.typing import NDArray

from privod.errors import InvalidParameter
from privod.outliers.crowds.distance import crowds
from privod.outliers.hashing.outliers import crowd_limit, intersect_rounds
from privod.outliers.hashing.plan import HashPlan, HashSettings
from privod.outliers.hashing.tables import (
    HashFamily,
    Suspects,
    bin_records,
    draw_family,
    find_suspects,
)
from privod.progress import track


def codes(points: NDArray[np.float64], family: HashFamily) -> list[list[tuple[int, ...]]]:
    """The codes of every record in every table, in the kernel's single precision."""
    tables, hashes = len(family.constants), family.multipliers.shape[1]
    centered = (points - family.origin).astype(np.float32)
    projected = (family.directions @ centered.T) + family.offsets[:, None]
    return [
        [
            tuple(floor(projected[table * hashes + h, record]) for h in range(hashes))
            for record in range(len(points))
        ]
        for table in range(tables)
    ]


def words(family: HashFamily, table: int, code: tuple[int, ...]) -> list[int]:
    """The multilinear hash of one record's codes in one table."""
    sums = [
        sum(int(multiplier) * number for multiplier, number in zip(row, code, strict=True))
        for row in family.multipliers
    ]
    return [
        (int(constant) + total) % 2**32
        for constant, total in zip(family.constants[table], sums, strict=True)
    ]


def suspects(
    hashed: list[list[tuple[int, ...]]], max_crowd: int, min_shared_tables: int
) -> tuple[list[int], list[int], int]:
    """Algorithm 2 as printed: suspects, how many neighbors each has, how many were processed."""
    n = len(hashed[0])
    bins: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
    for table, line in enumerate(hashed):
        for record, name in enumerate(line):
            bins[table, name].append(record)
    pruned = [False] * n
    found, neighbors, processed = [], [], 0
    for record in range(n):
        if pruned[record]:
            continue
        processed += 1
        occurrence = Counter(
            other for table, line in enumerate(hashed) for other in bins[table, line[record]]
        )
        repeated = [other for other, times in occurrence.items() if times >= min_shared_tables]
        if len(repeated) > max_crowd:
            for other in repeated:
                pruned[other] = True
        else:
            found.append(record)
            neighbors.append(len(repeated))
    return found, neighbors, processed


def joint_suspects(
    parties: list[list[list[tuple[int, ...]]]],
    max_crowd: int,
    min_shared_tables: int,
    floor_: int = 0,
    ceiling: int | None = None,
) -> list[list[int]]:
    """Algorithm 3 with everybody's bins in one place; small counts shown as 0, large clipped."""
    totals = Counter(
        (table, name) for hashed in parties for table, line in enumerate(hashed) for name in line
    )
    shown = {
        bin_: min(count, count if ceiling is None else ceiling)
        for bin_, count in totals.items()
        if count >= floor_
    }
    results = []
    for hashed in parties:
        own = Counter((table, name) for table, line in enumerate(hashed) for name in line)
        rows, neighbors, _ = suspects(hashed, max_crowd, min_shared_tables)
        kept = []
        for record, crowd in zip(rows, neighbors, strict=True):
            bins = [(table, line[record]) for table, line in enumerate(hashed)]
            others = [max(0, shown.get(bin_, 0) - own[bin_]) for bin_ in bins]
            if sum(count > max_crowd - crowd for count in others) < min_shared_tables:
                kept.append(record)
        results.append(kept)
    return results


def paper_bounds(plan: HashPlan, n_rounds: int = 1) -> tuple[float, float]:
    """Equations 5 to 8 as printed: bounds by unions, of false positives and false negatives."""
    tables, shared = plan.n_tables, plan.min_shared_tables
    near = plan.table_match(plan.radius / (1 + plan.approximation))
    far = plan.table_match(plan.radius)
    choices = comb(tables, shared)
    false_positive = shared * choices * (1 - near ** (tables - shared)) * near**shared  # Eq 5
    false_negative = (
        (tables - shared) * choices * far**shared * (1 - far**shared) ** (tables - shared)
    )  # Eq 6
    return (
        min(1.0, false_positive) ** n_rounds,  # Eq 7
        1 - (1 - min(1.0, false_negative)) ** n_rounds,  # Eq 8
    )


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
