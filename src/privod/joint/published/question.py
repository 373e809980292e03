"""The question of the published protocols [Raval 2011]: for study, because they reveal so much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain, Table
from privod.joint.outliers import OutlierQuestion, OutlierResult
from privod.joint.question import Seat
from privod.joint.roster import Roster
from privod.joint.transport.channel import Meeting
from privod.outliers.hashing.outliers import crowd_limit
from privod.outliers.hashing.plan import HashSettings
from privod.privacy import Secrecy
from privod.query.checks import column_names, whole_number

ROUND_LIMIT = 1000
PLANNED_FOR = 10**5  # records: a plan must be possible
POINT_BYTES = 32  # a bin's name as a point of the curve
SECONDS_PER_POINT = 1.2e-4  # to multiply one by a secret, on one core: an estimate
SECONDS_PER_HASH = 4e-8  # of a record, on one core: an estimate
EACH, HUB = "each party", "the aggregator"
LEARNS = {
    "horizontal": (
        (
            EACH,
            "which of its own records are outlying, and the exact number of records of the others"
            " in every bin: enough to locate the others' isolated records",
        ),
        (HUB, "all of that as well, since the hash parameters are published"),
    ),
    "vertical": (
        (
            "the first party",
            "all projections of the others' columns: their distances, often the columns themselves,"
            " and every value once a few records are known",
        ),
        ("each other party", "the row numbers of the outliers"),
        (HUB, "all projections of all columns"),
    ),
}


@dataclass(frozen=True, kw_only=True)
class PublishedOutliers(HashSettings, OutlierQuestion):
    """Each party learns which of its records are outlying in the union of all, and far more.

    How it is hashed is said with the parameters of `HashSettings`, which it has as well.

    Guarantee
    ---------
    None that protects a record: these are the protocols as they were published, for study and
    comparison. `secrecy()` says in words what they reveal. The answer has no noise. It is as right
    as the hashing: false alarms and missed outliers are both possible.

    Parameters
    ----------
    partition : str
        "horizontal": same columns, different records; "vertical": same records in the same order,
        different columns.
    far_fraction : float
        The share of all records that must lie farther than `radius` from an outlier.
    columns : tuple of str
        The numeric columns, of all parties together.
    scale : bool
        Measure every column in parts of its declared range, so that the radius is one too.
    n_rounds : int
        Rounds with fresh hashes; what is flagged every time is kept.
    """

    name: ClassVar[str] = "published-outliers"
    question: ClassVar[str] = "What do the published protocols find, and what do they reveal?"

    partition: str
    far_fraction: float
    columns: tuple[str, ...]
    scale: bool = False
    n_rounds: int = 1

    def __post_init__(self) -> None:
        self.check_partition()
        object.__setattr__(self, "columns", column_names(self.columns))
        whole_number(self.n_rounds, "n_rounds", at_least=1, at_most=ROUND_LIMIT)
        self.plan(PLANNED_FOR)

    def check_roster(self, roster: Roster) -> None:
        """Any roster will do."""

    def ranges(self, domain: Domain) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the declared lows and highs of a party's own columns, as they are hashed."""
        lows, highs = _declared(domain, self.own_columns(domain))
        return self.scaled(lows[None], domain)[0], self.scaled(highs[None], domain)[0]

    def scaled(self, points: NDArray[np.float64], domain: Domain) -> NDArray[np.float64]:
        """Return records of a party's own columns in the unit that the radius has."""
        if not self.scale:
            return points
        lows, highs = _declared(domain, self.own_columns(domain))
        parts: NDArray[np.float64] = (points - lows) / (highs - lows)
        return parts

    def points(self, table: Table) -> NDArray[np.float64]:
        """A party's own columns in the unit that the radius has."""
        return self.scaled(table.numbers(self.own_columns(table.domain)), table.domain)

    def in_radii(self, table: Table) -> NDArray[np.float64]:
        return self.points(table) / self.radius

    def secrecy(self) -> Secrecy:
        return Secrecy(f"{self.partition}, as published", LEARNS[self.partition], 0)

    def expectation(self, records: int | None, n_parties: int, *_: object) -> list[str]:
        records = self.planned(records)
        plan = self.plan(records)
        near = self.radius / (1 + self.approximation)
        hashes = plan.n_tables * plan.hashes_per_table
        if self.partition == "horizontal":
            bins = plan.n_tables * records  # at most: every record in its own, one party with all
            sent = 3 * bins * POINT_BYTES + 8 * bins  # in the laps, united, opened; and the counts
            seconds = 2 * bins * SECONDS_PER_POINT  # laps and opening
            seconds += records / n_parties * hashes * SECONDS_PER_HASH
        else:
            sent = 8 * (hashes + 1) * records  # projections, and at most all rows as outliers
            seconds = records * hashes * SECONDS_PER_HASH * 2
        return [
            f"The published protocol with {plan.n_tables} tables of {plan.hashes_per_table} hashes:"
            f" a record at distance {near:.3g} is taken for a neighbor with probability"
            f" {plan.neighbor_probability(near):.3g}, one at {self.radius:g} with"
            f" {plan.neighbor_probability(self.radius):.2g}. At most"
            f" {crowd_limit(self.far_fraction, records)} records lie near an outlier.",
            f"Each party sends at most about {self.n_rounds * sent / 1e6:.3g} MB and computes for"
            f" about {self.n_rounds * seconds:.2g} seconds.",
        ]

    def take_part(self, seat: Seat) -> OutlierResult:
        from privod.joint.published import protocols  # needs rbcl, which nothing else does

        _ = seat.records  # every player has some
        session = seat.agreed(self)
        run = seat.claim(self, self.own_columns(seat.domain))
        act = protocols.take_part_vertical if self.over_columns else protocols.take_part_horizontal
        rows, n = act(self, seat, session)
        return seat.result(
            OutlierResult, self, session, run, rows, f"{len(rows):,} of {n:,} records", n_records=n
        )

    def host(self, meeting: Meeting, *_: object) -> dict[str, Any]:
        from privod.joint.published import protocols

        if self.over_columns:
            protocols.aggregate_vertical(self, meeting)
            return {}
        return {"n_records": protocols.aggregate_horizontal(self, meeting)}


def _declared(
    domain: Domain, names: tuple[str, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    columns = domain.numeric(names)
    return np.array([one.low for one in columns]), np.array([one.high for one in columns])
