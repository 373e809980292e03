"""Which of my records are outliers in our joint data, exactly, with only the answer opened?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain, Table
from privod.errors import InvalidParameter
from privod.joint.exact.program import ENGINE, Program, sample_count
from privod.joint.outliers import OutlierQuestion, OutlierResult
from privod.joint.question import Seat
from privod.joint.roster import Roster
from privod.joint.transport.channel import Meeting
from privod.outliers.hashing.outliers import crowd_limit
from privod.privacy import Secrecy
from privod.query.checks import MOST_AXES, checked_radius, column_names, whole_number
from privod.query.query import canonical_json

FEWEST_STEPS, MOST_STEPS = 1 << 10, 1 << 20  # of an integer to the radius
MOST_ROWS = 200_000
LARGEST_SQUARE = 2**63  # a squared distance less a squared radius must be a word with a sign

NOT_PROTECTED = (
    "What it does not protect against."
    ' "No value is opened" holds only while all three computing parties run the unmodified program.'
    " A dishonest one that also receives verdicts, or colludes with a holder who does, can set"
    " radius and caps alone and read about one chosen bit of anyone's records per row of its own,"
    " unnoticed. A lying holder tests n_own / max_crowd far-apart places and, around each, as many"
    " shifted balls as the answer cap leaves, and locates a lone record to about R / tests in one"
    " run. Noise on counts does not help (copies average it out); there is none. The answer is not"
    " differentially private. So a second run with any changed row, radius, max_crowd or column"
    " needs a new approval, which lists earlier runs. Where a party may be dishonest: the joint"
    " detector, or alone."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class ExactResult(OutlierResult):
    """Which of a holder's records are outliers, exactly; over columns, which of all records.

    Two bits: `fits` says that all possible outliers were candidates, and all values in their
    ranges; `few`, that the outliers were within the answer cap. Where one is false no verdict was
    opened. None at a party without records.
    """

    question: ExactOutliers
    fits: bool | None
    few: bool | None

    def sentences(self) -> list[str]:
        asked = self.question
        if self.fits is None:
            return [
                f"This party computed on shares of {self.n_records:,} records; it got no verdict."
            ]
        if self.fits and self.few:
            exact = f"Exact in steps of 1/{asked.steps()} of the radius."
            return [*super().sentences(), exact]
        share, what = asked.most_outliers, "are outliers"
        if not self.fits:
            share = asked.candidates
            what = "may be outliers, or a holder shared values outside the agreed ranges"
        return [
            f"Alone {len(self.alone):,} of your {self.own_records:,} records are outliers.",
            f"No verdict was opened: more than {100 * share:g} % of the {self.n_records:,} records"
            f" {what}. Is the radius too small? Another run needs another approval.",
        ]

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "candidates_fit": self.fits, "within_cap": self.few}


@dataclass(frozen=True, kw_only=True)
class ExactOutliers(OutlierQuestion):
    """Each holder learns exactly which of its records are outliers in the data of all holders.

    Guarantee
    ---------
    A holder learns the verdicts on its own records, two bits and the agreed sizes, nothing else,
    while the three computing parties run the unmodified program and no two of them put their shares
    together. The answer has no noise and is
    not differentially private. `NOT_PROTECTED` says what dishonest parties can do.

    Parameters
    ----------
    partition : str
        "horizontal": same columns, different records. "vertical": same records in the same order,
        different columns.
    radius : float
        How near a neighbor is.
    far_fraction : float
        The share of all records that must lie farther than the radius from an outlier.
    ranges : dict of str to (float, float)
        All numeric columns with their agreed lows and highs.
    scale : bool
        Measure every column in parts of its range, the radius as well.
    sample : int
        Rows of a joint random sample, by which candidates are found.
    candidates : float
        The share of rows whose crowds are counted exactly.
    most_outliers : float
        The answer cap: with a larger share of outliers no verdict is opened.
    """

    name: ClassVar[str] = "exact-outliers"
    question: ClassVar[str] = (
        "Which of my records are outliers in our joint data, exactly, with only the answer opened?"
    )
    approved_singly: ClassVar[bool] = True

    partition: str
    radius: float
    far_fraction: float
    ranges: dict[str, tuple[float, float]]
    scale: bool = False
    sample: int = 1000
    candidates: float = 0.05
    most_outliers: float = 0.01

    def __post_init__(self) -> None:
        self.check_partition()
        object.__setattr__(self, "radius", checked_radius(self.radius))
        if self.radius == 0:
            raise InvalidParameter("radius", "must be above 0", self.radius, "Try 1.")
        whole_number(self.sample, "sample", 1)
        for name in ("candidates", "most_outliers"):
            if not 0 < getattr(self, name) < 1:
                rule = "must be between 0 and 1"
                raise InvalidParameter(name, rule, getattr(self, name), "Try 0.01.")
        object.__setattr__(self, "ranges", _read_ranges(self.ranges))
        self.steps()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(self.ranges)

    def steps(self) -> int:
        """How many integers a radius has: the most that 64 bits have room for; raise below 1024."""
        steps = MOST_STEPS
        while True:
            units = [1.0 if self.scale else high - low for low, high in self.ranges.values()]
            widths = [math.ceil(unit / self.radius * steps) + 1 for unit in units]
            if sum(width**2 for width in widths) < LARGEST_SQUARE:
                return steps
            steps //= 2
            if steps < FEWEST_STEPS:
                rule = "must not be so small beside the ranges: squares would exceed 64 bits"
                way_out = "Use a larger radius, narrower ranges or fewer columns."
                raise InvalidParameter("radius", rule, self.radius, way_out)

    def integers(self, points: NDArray[np.float64], columns: Sequence[str]) -> NDArray[np.int64]:
        """Write values of some columns as integers, in steps from the lows."""
        lows, highs = np.array([self.ranges[name] for name in columns]).T
        units = (highs - lows if self.scale else 1.0) * self.radius
        inside = np.clip(points, lows, highs) - lows
        made: NDArray[np.int64] = np.rint(inside / units * self.steps()).astype(np.int64)
        return made

    def program(self, rows: int) -> Program:
        """Return the program for so many rows, or raise."""
        crowd = crowd_limit(self.far_fraction, rows)
        if rows > MOST_ROWS:
            way_out = "Agree on a random part of the rows, or use the joint detector."
            raise InvalidParameter("rows", f"must be at most {MOST_ROWS}", rows, way_out)
        if not 1 <= crowd < rows:
            rule = "must leave an outlier at least itself and less than all rows"
            way_out = "Use another far_fraction, or more rows."
            raise InvalidParameter("far_fraction", rule, self.far_fraction, way_out)
        sample, chosen = self.sample, math.ceil(self.candidates * rows)
        if rows <= 2 * sample or chosen >= rows:
            sample, chosen = 0, rows
        highs = np.array([[high for _, high in self.ranges.values()]])
        return Program(
            rows=rows,
            widths=tuple(self.integers(highs, self.columns)[0].tolist()),
            squared_radius=self.steps() ** 2,
            max_crowd=crowd,
            sample=sample,
            candidates=chosen,
            fewest=sample_count(rows, crowd, sample) if sample else 0,
            most_outliers=max(1, math.floor(self.most_outliers * rows)),
        )

    def check(self, domain: Domain) -> None:
        super().check(domain)
        for one in domain.numeric(self.own_columns(domain)):
            if (one.low, one.high) != self.ranges[one.name]:
                rule = f"must have the agreed range of {one.name!r}, {list(self.ranges[one.name])}"
                way_out = "Declare that range, or agree on another question."
                raise InvalidParameter("domain", rule, [one.low, one.high], way_out)

    def check_roster(self, roster: Roster) -> None:
        roster.check_computing()

    def secrecy(self) -> Secrecy:
        whose = "each row" if self.over_columns else "each of its own rows"
        learns = (
            (
                "each holder",
                f"for {whose} whether it is an outlier, every holder's number of rows and columns,"
                " and two bits: whether all possible outliers were candidates and all values in"
                " their ranges, and whether the outliers were within the answer cap (where one is"
                " 0, no verdict)",
            ),
            ("each computing party", "every holder's number of rows and columns"),
            ("a coalition of two computing parties", "every value of every holder"),
            ("the aggregator", "the sizes and times of sealed messages"),
        )
        return Secrecy("exact, by three computing parties", learns, 1)

    def warning(self) -> str:
        return NOT_PROTECTED

    def expectation(self, records: int | None, *_: object) -> list[str]:
        made = self.program(self.planned(records))
        screened = "Every record is a candidate."
        if made.sample:
            crowd = round(made.fewest / made.sample * made.rows)
            screened = (
                f"Verdicts are opened only if at most {made.candidates:,} records have fewer than"
                f" about {crowd} others near them, counted in a sample of {made.sample}. An outlier"
                " is missed with probability 0.0001 at most."
            )
        return [
            f"An outlier has at most {made.max_crowd} records within the radius, itself included."
            f" Verdicts are opened only if at most {made.most_outliers:,} records are outliers.",
            screened,
            f"Values are rounded to 1/{self.steps()} of the radius.",
            f"The three computing parties need about {made.core_seconds():.2g} core-seconds"
            f" together. Each sends about {made.bytes_sent() / 1e6:,.1f} MB.",
            NOT_PROTECTED,
        ]

    def own_integers(self, table: Table) -> NDArray[np.int64]:
        """Write a party's own values as integers."""
        own = self.own_columns(table.domain)
        return self.integers(table.numbers(own), own)

    def in_radii(self, table: Table) -> NDArray[np.float64]:
        return self.own_integers(table) / self.steps()

    def take_part(self, seat: Seat) -> ExactResult:
        from privod.joint.exact.protocol import take_part

        session, claimed, n_records, opened = take_part(self, seat, self.own_integers, self.program)
        rows = np.flatnonzero(opened[2:])
        return seat.result(
            ExactResult,
            self,
            session,
            claimed,
            rows,
            f"{len(rows):,} of {n_records:,} records",
            n_records=n_records,
            fits=bool(opened[0]) if len(opened) else None,
            few=bool(opened[1]) if len(opened) else None,
        )

    def host(self, meeting: Meeting, *_: object) -> dict[str, Any]:
        from privod.joint.exact.protocol import host

        host(meeting)
        return {}

    def to_json(self) -> dict[str, Any]:
        ranges = {name: list(both) for name, both in self.ranges.items()}
        return {**super().to_json(), "ranges": ranges}

    def terms(self, domain: Domain | None) -> bytes:  # noqa: ARG002 - the question has the ranges
        """Return what all parties must agree on."""
        return canonical_json({"question": self.to_json(), "engine": f"spu {ENGINE}"}).encode()


def _read_ranges(given: Any) -> dict[str, tuple[float, float]]:
    way_out = 'Write {"age": [0, 120], "weight": [0, 300]}.'
    try:
        read = {name: (float(low), float(high)) for name, (low, high) in given.items()}
    except (AttributeError, TypeError, ValueError):
        rule = "must give every column a low and a high"
        raise InvalidParameter("ranges", rule, given, way_out) from None
    column_names(tuple(read))
    if len(read) > MOST_AXES:
        raise InvalidParameter("ranges", f"must be at most {MOST_AXES}", len(read), way_out)
    for name, (low, high) in read.items():
        if not -math.inf < low < high < math.inf:
            rule = "must have finite lows below their highs"
            raise InvalidParameter("ranges", rule, {name: [low, high]}, way_out)
    return read
