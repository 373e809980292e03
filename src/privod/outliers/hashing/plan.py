"""How many tables, hashes and shared bins make a neighbor? [Datar 2004; Raval 2011]."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, comb, exp, log, pi, sqrt

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
    """Return the fewest shared tables that a far record reaches at most at the rate asked for.

    A far record shares each table independently with probability at most `far_match`, so the
    shared tables are dominated by a binomial, whose exact tail decides.
    """
    for threshold in range(1, n_tables + 1):
        if float(bdtrc(threshold - 1, n_tables, far_match)) <= false_negative_rate:
            return threshold
    raise InvalidParameter(
        "false_negative_rate",
        "must be reachable with the tables there are",
        false_negative_rate,
        "Use more hashes per table, more tables, or a higher rate.",
    )


@dataclass(frozen=True)
class PaperBounds:
    """The paper's own bounds, for comparison (its Equations 5 to 8); looser, often above 1."""

    false_positive: float
    false_negative: float


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
        _check("radius", self.radius > 0, "must be above 0", self.radius, "Try 1.")
        _check(
            "approximation",
            self.approximation > 0,
            "must be above 0",
            self.approximation,
            "Try 2, as in the paper.",
        )
        _check(
            "bucket_width", self.bucket_width > 0, "must be above 0", self.bucket_width, "Try 4."
        )
        _check(
            "hashes_per_table",
            1 <= self.hashes_per_table <= 1000,
            "must be from 1 to 1000",
            self.hashes_per_table,
            "Try 4.",
        )
        _check(
            "n_tables",
            1 <= self.n_tables <= MOST_TABLES,
            f"must be from 1 to {MOST_TABLES}",
            self.n_tables,
            "Try 50.",
        )
        _check(
            "min_shared_tables",
            1 <= self.min_shared_tables <= self.n_tables,
            "must be from 1 to n_tables",
            self.min_shared_tables,
            "Leave it out to have it chosen.",
        )

    @classmethod
    def choose(
        cls,
        n_records: int,
        radius: float,
        *,
        approximation: float = 2.0,
        bucket_width: float | None = None,
        hashes_per_table: int | None = None,
        n_tables: int | None = None,
        min_shared_tables: int | None = None,
        false_negative_rate: float = 1e-6,
    ) -> HashPlan:
        """Fill in what is left out: k = log n / log(1/p2), L = n ** rho, b_t by the exact tail."""
        _check(
            "false_negative_rate",
            0 < false_negative_rate < 1,
            "must be between 0 and 1",
            false_negative_rate,
            "Try 1e-6.",
        )
        _check("radius", radius > 0, "must be above 0", radius, "Try 1.")
        _check("approximation", approximation > 0, "must be above 0", approximation, "Try 2.")
        near = radius / (1 + approximation)  # R of Algorithm 1, line 2
        width = WIDTH_IN_NEAR_DISTANCES * near if bucket_width is None else bucket_width
        _check("bucket_width", width > 0, "must be above 0", width, "Try 4.")
        near_match = collision_probability(near, width)  # p1
        far_match = collision_probability(radius, width)  # p2
        if hashes_per_table is None:
            hashes_per_table = max(1, ceil(log(max(n_records, 2)) / -log(far_match)))
        if n_tables is None:
            rho = log(near_match) / log(far_match)
            n_tables = max(1, ceil(max(n_records, 2) ** rho))
        plan = cls(
            radius=radius,
            approximation=approximation,
            bucket_width=width,
            hashes_per_table=hashes_per_table,
            n_tables=n_tables,
            min_shared_tables=1,
        )
        if min_shared_tables is None:
            min_shared_tables = smallest_bin_threshold(
                n_tables, plan.table_match(radius), false_negative_rate
            )
        return replace(plan, min_shared_tables=min_shared_tables)

    def table_match(self, distance: float) -> float:
        """Probability that two records this far apart share one table's bin."""
        return collision_probability(distance, self.bucket_width) ** self.hashes_per_table

    def neighbor_probability(self, distance: float) -> float:
        """Probability that two records this far apart are taken for neighbors."""
        return float(bdtrc(self.min_shared_tables - 1, self.n_tables, self.table_match(distance)))

    def paper_bounds(self, n_rounds: int = 1) -> PaperBounds:
        """Evaluate Equations 5 to 8 as printed."""
        tables, shared = self.n_tables, self.min_shared_tables
        near = self.table_match(self.radius / (1 + self.approximation))
        far = self.table_match(self.radius)
        choices = comb(tables, shared)
        false_positive = shared * choices * (1 - near ** (tables - shared)) * near**shared  # Eq 5
        false_negative = (
            (tables - shared) * choices * far**shared * (1 - far**shared) ** (tables - shared)
        )  # Eq 6
        return PaperBounds(
            min(1.0, false_positive) ** n_rounds,  # Eq 7
            1 - (1 - min(1.0, false_negative)) ** n_rounds,  # Eq 8
        )


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
        """Choose the parameters of the hashing for this many records."""
        return HashPlan.choose(
            n_records,
            self.radius,
            approximation=self.approximation,
            bucket_width=self.bucket_width,
            hashes_per_table=self.hashes_per_table,
            n_tables=self.n_tables,
            min_shared_tables=self.min_shared_tables,
            false_negative_rate=self.false_negative_rate,
        )


def _check(parameter: str, holds: bool, rule: str, value: object, way_out: str) -> None:
    if not holds:
        raise InvalidParameter(parameter, rule, value, way_out)
