"""How many tables, hashes and shared bins make a neighbor? [Datar 2004; Raval 2011]."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, exp, log, pi, sqrt

from scipy.special import bdtrc, ndtr

from privod.errors import InvalidParameter

WIDTH_IN_NEAR_DISTANCES = 4.0  # bucket width over R; rho is nearly flat around it [Datar 2004]
MOST_TABLES = 60_000  # the pruning loop counts shared tables in 16 bits


def collision_probability(distance: float, bucket_width: float) -> float:
    """Probability that one Gaussian hash puts two records this far apart into one bucket.

    P(1 hash) = 1 - 2 F(-w/c) - 2 c / (sqrt(2 pi) w) (1 - exp(-w^2 / 2 c^2))  [Datar 2004, 3.2]
    """
    if distance == 0:
        return 1.0
    ratio = bucket_width / distance
    return float(1 - 2 * ndtr(-ratio) - 2 / (sqrt(2 * pi) * ratio) * (1 - exp(-ratio * ratio / 2)))


def smallest_bin_threshold(n_tables: int, far_match: float, false_negative_rate: float) -> int:
    """Return the fewest shared tables that a far record reaches at most at the rate asked for."""
    for threshold in range(1, n_tables + 1):
        if float(bdtrc(threshold - 1, n_tables, far_match)) <= false_negative_rate:
            return threshold
    raise InvalidParameter(
        "false_negative_rate",
        "must be reachable with the tables there are",
        false_negative_rate,
        "Use more hashes per table, more tables, or a higher rate.",
    )


@dataclass(frozen=True, kw_only=True)
class HashPlan:
    """The public parameters of the hashing, all of them numbers; see `HashSettings`."""

    radius: float
    approximation: float
    bucket_width: float
    hashes_per_table: int
    n_tables: int
    min_shared_tables: int

    def __post_init__(self) -> None:
        _check_positive(
            radius=self.radius, approximation=self.approximation, bucket_width=self.bucket_width
        )
        for name, most, way_out in (
            ("hashes_per_table", 1000, "Try 4."),
            ("n_tables", MOST_TABLES, "Try 50."),
            ("min_shared_tables", self.n_tables, "Leave it out to have it chosen."),
        ):
            if not 1 <= getattr(self, name) <= most:
                rule = f"must be from 1 to {most}"
                raise InvalidParameter(name, rule, getattr(self, name), way_out)

    def table_match(self, distance: float) -> float:
        """Probability that two records this far apart share one table's bin."""
        return collision_probability(distance, self.bucket_width) ** self.hashes_per_table

    def neighbor_probability(self, distance: float) -> float:
        """Probability that two records this far apart are taken for neighbors."""
        return float(bdtrc(self.min_shared_tables - 1, self.n_tables, self.table_match(distance)))


@dataclass(frozen=True, kw_only=True)
class HashSettings:
    """What a question says about its hashing, before the number of records is known.

    Parameters
    ----------
    radius : float
        How far a neighbor may be, over all columns.
    approximation : float
        Records beyond `radius` are told from records within radius / (1 + approximation).
    hashes_per_table : int, optional
        4 unless told; None for the paper's log n / log(1 / p2), which misses many neighbors.
    n_tables : int, optional
        50 unless told; None for the paper's n ** rho.
    bucket_width : float, optional
        Width of a bucket; 4 radius / (1 + approximation) unless told.
    min_shared_tables : int, optional
        Shared tables that make a neighbor; by default the exact binomial tail decides.
    false_negative_rate : float
        How often a record beyond `radius` may be taken for a neighbor.
    """

    radius: float
    approximation: float = 2.0
    hashes_per_table: int | None = 4
    n_tables: int | None = 50
    bucket_width: float | None = None
    min_shared_tables: int | None = None
    false_negative_rate: float = 1e-6

    def plan(self, n_records: int) -> HashPlan:
        """Fill in what is left out: k = log n / log(1/p2), L = n ** rho, b_t by the exact tail."""
        rate, hashes, tables = self.false_negative_rate, self.hashes_per_table, self.n_tables
        if not 0 < rate < 1:
            rule = "must be between 0 and 1"
            raise InvalidParameter("false_negative_rate", rule, rate, "Try 1e-6.")
        _check_positive(radius=self.radius, approximation=self.approximation)
        near = self.radius / (1 + self.approximation)  # R of Algorithm 1, line 2
        width = WIDTH_IN_NEAR_DISTANCES * near if self.bucket_width is None else self.bucket_width
        _check_positive(bucket_width=width)
        near_match = collision_probability(near, width)  # p1
        far_match = collision_probability(self.radius, width)  # p2
        if hashes is None:
            hashes = max(1, ceil(log(max(n_records, 2)) / -log(far_match)))
        if tables is None:
            tables = max(1, ceil(max(n_records, 2) ** (log(near_match) / log(far_match))))
        plan = HashPlan(
            radius=self.radius,
            approximation=self.approximation,
            bucket_width=width,
            hashes_per_table=hashes,
            n_tables=tables,
            min_shared_tables=1 if self.min_shared_tables is None else self.min_shared_tables,
        )
        if self.min_shared_tables is not None:
            return plan
        match = plan.table_match(self.radius)
        return replace(plan, min_shared_tables=smallest_bin_threshold(tables, match, rate))


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise InvalidParameter(name, "must be above 0", value, "Try 2.")
