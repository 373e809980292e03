"""Which of my records are outliers in our joint data, without pooling it? [Raval 2011].

Several holders, no curator: this question is not asked of one table and never charged to a budget.
It is a frozen value of public parameters that all parties must share; `joint_run` carries it out.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain
from privod.errors import InvalidParameter
from privod.joint.persons import check_one_record_each
from privod.joint.secrecy import secrecy_of
from privod.mechanisms.skellam import SkellamShares
from privod.outliers.hashing.outliers import crowd_limit
from privod.outliers.hashing.plan import HashPlan, HashSettings
from privod.privacy import Guarantee, Loss, Number, Replace, Secrecy, positive
from privod.query.checks import column_names, whole_number
from privod.query.query import canonical_json

__all__ = ["JointOutliers", "suppression_floor"]

PARTITIONS = ("horizontal", "vertical")
PROTOCOLS = ("sealed", "paper")
FEWEST_PARTIES = 3  # of two, each would subtract its own input and hold the other's
SMALLEST_COUNT = 10  # no published count stands for fewer records of all parties than this
ROUND_LIMIT = 1000
NARROW = 3  # of a vertical run, a party with fewer columns shows them nearly
MOST_VERIFYING = 60  # parties whose parts of a distance add up within 16 bits
DEFAULT_EPSILON = Fraction(1)  # told from a 1 that was given by being this very object
DEFAULT_DELTA = Fraction(1, 10**6)
PAPER_ONLY = {  # what only the published protocols use, and its value when it is left out
    "hashes_per_table": None,
    "bucket_width": None,
    "min_shared_tables": None,
    "n_rounds": 1,
}


PLANNED_FOR = 10**5  # records: a plan of the published protocol must be possible
HASHING_CHECK = HashPlan(
    radius=1.0,
    approximation=2.0,
    bucket_width=1.0,
    hashes_per_table=1,
    n_tables=1,
    min_shared_tables=1,
)


def suppression_floor(max_crowd: int) -> int:
    """Return the smallest bin count that the aggregator publishes."""
    return max(SMALLEST_COUNT, max_crowd // 20)


@dataclass(frozen=True, kw_only=True)
class JointOutliers(HashSettings):
    """Each party learns which of its records are outlying in the union of all.

    How it is hashed is said with the parameters of `HashSettings`, which it has as well.

    Guarantee
    ---------
    The answer is a list of suspects, as right as the hashing: false alarms and missed outliers are
    both possible. It gets no noise. `secrecy()` says in words what honest-but-curious participants
    learn besides; a dishonest one can learn more. With `epsilon` the table that
    parties learn from each other is differentially private as well.

    Parameters
    ----------
    partition : str
        "horizontal": same columns, different records; "vertical": same records in the same order,
        different columns.
    far_fraction : float
        The share of all records that must lie farther than `radius` from an outlier.
    columns : tuple of str
        The numeric columns, of all parties together.
    protocol : str
        "sealed", or "paper" for the published protocol, which reveals what it should protect: for
        study only. It alone uses `hashes_per_table`, `bucket_width`, `min_shared_tables` and
        `n_rounds`; None is the paper's own formula.
    find : float
        Sealed: the share of outliers that should be among the suspects. The threshold is chosen for
        it on a public model of data.
    false_alarms : float, optional
        Sealed: the largest share of suspects that may be no outliers; a run that cannot reach it on
        the public model is refused. None: whatever it is.
    n_tables : int, optional
        Sealed: chosen from the targets unless told.
    verify : bool
        Count the suspects' crowds. Horizontal: every party shows the values of its suspects to the
        other parties. Vertical: the aggregator sees, for every nameless suspect, how many records
        lie at which distance; where a sample of them decides, it is wrong with probability 1e-6.
    narrow_parties : bool
        Vertical: agree that parties with fewer than three columns take part, though the aggregator
        sees nearly their columns, in no order.
    scale : bool
        Measure every column in parts of its declared range, so that the radius is one too and no
        column's unit decides.
    n_rounds : int
        Rounds with fresh hashes; what is flagged every time is kept.
    epsilon : number, optional
        Horizontal and sealed, 1 unless told: noise in the published table, so that replacing one
        record changes it by no more than this. None must be asked for: then a dishonest party can
        locate isolated records of the others.
    delta : number, optional
        Goes with epsilon; 1e-6 unless told.
    colluders : int
        How many parties may put their shares of the noise together without weakening it.
    two_parties : bool
        Allow a run of two parties; only with epsilon.
    """

    name: ClassVar[str] = "joint-outliers-1"
    question: ClassVar[str] = (
        "Which of my records are outliers in our joint data, without pooling it?"
    )

    partition: str
    far_fraction: float
    columns: tuple[str, ...]
    protocol: str = "sealed"
    hashes_per_table: int | None = None
    n_tables: int | None = None
    find: float = 0.99
    false_alarms: float | None = None
    verify: bool = False
    narrow_parties: bool = False
    scale: bool = False
    n_rounds: int = 1
    epsilon: Number | None = DEFAULT_EPSILON
    delta: Number | None = DEFAULT_DELTA
    colluders: int = 1
    two_parties: bool = False

    def __post_init__(self) -> None:
        _one_of("partition", self.partition, PARTITIONS)
        _one_of("protocol", self.protocol, PROTOCOLS)
        object.__setattr__(self, "columns", column_names(self.columns))
        whole_number(self.n_rounds, "n_rounds", 1)
        whole_number(self.colluders, "colluders", 1)
        if self.n_rounds > ROUND_LIMIT:
            way_out = "Use more tables."
            raise InvalidParameter(
                "n_rounds", f"must be at most {ROUND_LIMIT}", self.n_rounds, way_out
            )
        crowd_limit(self.far_fraction, 1)
        self._check_targets()
        self._check_hashing()
        self._check_noise()

    def _check_targets(self) -> None:
        if not 0 < self.find < 1:
            raise InvalidParameter("find", "must be between 0 and 1", self.find, "Try 0.99.")
        if self.false_alarms is not None and not 0 <= self.false_alarms <= 1:
            way_out = "Try 0.5, or leave it out."
            raise InvalidParameter(
                "false_alarms", "must be from 0 to 1", self.false_alarms, way_out
            )

    def _check_hashing(self) -> None:
        if self.protocol == "paper":
            self.plan(PLANNED_FOR)
            for name in ("verify", "narrow_parties"):
                if getattr(self, name):
                    raise InvalidParameter(name, "is for sealed runs", True, "Leave it out.")
            return
        for name, left_out in PAPER_ONLY.items():
            if getattr(self, name) != left_out:
                rule = "is for the published protocol"
                way_out = "Leave it out: sealed runs choose by `find` and `false_alarms`."
                raise InvalidParameter(name, rule, getattr(self, name), way_out)
        replace(
            HASHING_CHECK,
            radius=self.radius,
            n_tables=1 if self.n_tables is None else self.n_tables,
        )

    def _check_noise(self) -> None:
        if (self.partition, self.protocol) != ("horizontal", "sealed"):
            for name, left_out in (("epsilon", DEFAULT_EPSILON), ("delta", DEFAULT_DELTA)):
                if getattr(self, name) is left_out:
                    object.__setattr__(self, name, None)
        if self.epsilon is None and self.delta is DEFAULT_DELTA:
            object.__setattr__(self, "delta", None)
        if (self.epsilon is None) != (self.delta is None):
            way_out = "Give both, such as epsilon=1 and delta=1e-6, or epsilon=None alone."
            raise InvalidParameter("delta", "goes with epsilon", self.delta, way_out)
        if self.epsilon is not None and self.delta is not None:
            object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
            object.__setattr__(self, "delta", positive(self.delta, "delta"))
            if (self.partition, self.protocol) != ("horizontal", "sealed"):
                way_out = "Leave epsilon out: hiding a column by noise would destroy the hashing."
                rule = "is for horizontal, sealed runs"
                raise InvalidParameter("epsilon", rule, str(self.epsilon), way_out)
        elif self.two_parties:
            way_out = "Give epsilon and delta, or find a third party."
            raise InvalidParameter("two_parties", "needs noise", self.two_parties, way_out)

    def check(self, domain: Domain) -> None:
        """Raise unless a party with data in this domain can take part."""
        check_one_record_each(domain)
        if self.partition == "horizontal":
            domain.numeric(self.columns)
            return
        own = self.own_columns(domain)
        if self.protocol == "sealed" and 0 < len(own) < NARROW and not self.narrow_parties:
            rule = f"must have at least {NARROW} columns of the question"
            way_out = (
                "The aggregator sees nearly the columns of a narrower party, in no order. If all"
                " agree to that, set narrow_parties."
            )
            raise InvalidParameter("domain", rule, list(own), way_out)
        if not own:
            way_out = f"The question's columns are {list(self.columns)}."
            raise InvalidParameter("domain", "must have a column of the question", (), way_out)
        if not domain.keeps_every_row:
            rule = "must keep every row, so that the parties' rows stay aligned"
            way_out = "Give every column a fill, and no person column."
            raise InvalidParameter("domain", rule, list(domain.names), way_out)

    def check_parties(self, n_parties: int) -> None:
        """Raise if so few parties would see through each other."""
        if self.protocol == "paper":
            return  # a study of what it reveals; its Secrecy says so
        if n_parties < FEWEST_PARTIES and not self.two_parties:
            raise InvalidParameter(
                "roster",
                f"must have at least {FEWEST_PARTIES} parties",
                n_parties,
                "Of two, each could compute the other's input: find a third,"
                " or use epsilon with two_parties.",
            )
        if self.verify and self.partition == "vertical" and n_parties > MOST_VERIFYING:
            rule = f"must have at most {MOST_VERIFYING} parties to verify over columns"
            raise InvalidParameter("roster", rule, n_parties, "Leave verify out.")
        if self.epsilon is not None and self.colluders >= n_parties:
            way_out = "Somebody must be honest."
            raise InvalidParameter(
                "colluders", "must be fewer than the parties", self.colluders, way_out
            )

    def own_columns(self, domain: Domain) -> tuple[str, ...]:
        """Return the question's columns that a domain has, in the question's order."""
        return tuple(column for column in self.columns if column in domain.numeric_names)

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

    def noise(self, n_tables: int, table_size: int, n_parties: int) -> SkellamShares | None:
        """Return the noise of a run, whose shares its parties draw; None if there is none."""
        if self.epsilon is None or self.delta is None:
            return None
        counters = n_tables  # that one record stands in
        return SkellamShares.for_loss(
            self.epsilon,
            self.delta,
            unit_shifts=2 * counters,  # a replaced record leaves them and enters others
            n_values=counters * table_size,
            honest=n_parties - self.colluders,
        )

    def table_guarantee(self) -> Guarantee | None:
        """What the published table promises on top of secrecy; None without noise."""
        if self.epsilon is None or self.delta is None:
            return None
        return Guarantee(Loss(Fraction(self.epsilon), Fraction(self.delta)), Replace())

    def secrecy(self) -> Secrecy:
        """Who learns what."""
        colluders = None if self.epsilon is None else self.colluders
        return secrecy_of(self.partition, self.protocol, colluders, verify=self.verify)

    def to_json(self) -> dict[str, Any]:
        """Name and parameters."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        plain = {
            key: str(value) if isinstance(value, Fraction) else value
            for key, value in values.items()
        }
        return {"name": self.name, **plain, "columns": list(self.columns)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read back what `to_json` wrote."""
        given = {key: value for key, value in data.items() if key != "name"}
        known = [field.name for field in fields(cls)]
        for key in given:
            if key not in known:
                way_out = f"Its parameters are {known}."
                raise InvalidParameter(key, f"is not a parameter of {cls.name}", key, way_out)
        try:
            return cls(**given)
        except TypeError:
            way_out = "Give partition, radius, far_fraction and columns."
            raise InvalidParameter(
                "parameters", "must be complete", sorted(given), way_out
            ) from None

    def terms(self, domain: Domain | None) -> bytes:
        """Return what all parties must agree on; over rows also the ranges, and who is a person."""
        if domain is None or self.partition == "vertical":
            return canonical_json({"question": self.to_json(), "ranges": []}).encode()
        ranges = [[one.name, one.low, one.high] for one in domain.numeric(self.columns)]
        agreed = {"question": self.to_json(), "ranges": ranges, "person": domain.person}
        return canonical_json(agreed).encode()


def _declared(
    domain: Domain, names: tuple[str, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    columns = domain.numeric(names)
    return np.array([one.low for one in columns]), np.array([one.high for one in columns])


def _one_of(parameter: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        rule = f"must be one of {', '.join(known)}"
        raise InvalidParameter(parameter, rule, value, f"Try {known[0]!r}.")
