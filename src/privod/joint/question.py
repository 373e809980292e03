"""A question to the data of several holders: what all kinds of joint runs have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from privod.arrays import Ints
from privod.data import Domain, Table
from privod.errors import InvalidParameter, PrivodError, ProtocolAborted
from privod.joint.contributions import Contributions, SentRecords
from privod.joint.files import write_outliers
from privod.joint.roster import Identity, Roster
from privod.joint.session import Session, agree
from privod.joint.transport.channel import Channel, Meeting
from privod.joint.transport.traffic import Traffic
from privod.mechanisms.randomness import Randomness, secure
from privod.privacy import Guarantee, Secrecy, adjacency_from_json
from privod.query.catalog import JOINT_QUESTIONS
from privod.query.query import canonical_json, plain_value
from privod.texts import did_you_mean

Result = TypeVar("Result", bound="JointResult")

RUN_LETTERS = 16  # of a run's name, in the names of its files
MOST_LISTED = 20  # rows in a sentence; files and JSON have all


@dataclass(frozen=True, kw_only=True)
class Seat:
    """What a party brings to one run; nothing of it is sent as it is.

    A computing party may hold no table. `charge` charges a curator's budget, or raises; it is
    called before anything about records leaves. Of `ids` only keyed digests are sent.
    """

    table: Table | None
    domain: Domain
    channel: Channel
    identity: Identity
    roster: Roster
    contributions: Contributions = field(default_factory=Contributions)
    randomness: Randomness = field(default_factory=secure)
    charge: Callable[[], None] | None = None
    ids: Sequence[str] | None = None

    def agreed(self, question: JointQuestion) -> Session:
        """Check what is public and agree with everybody that this run is meant."""
        question.check_roster(self.roster)
        question.check(self.domain)
        needed = question.needed(self.roster)
        terms = question.terms(self.domain)
        return agree(self.channel, self.identity, self.roster, terms, needed)

    @property
    def records(self) -> Table:
        """The table; raise at a party that holds none."""
        if self.table is None:
            way_out = "Name your rows; only a computing party may have none."
            raise InvalidParameter("data", "are needed from a holder", None, way_out)
        return self.table

    def claim(self, question: JointQuestion, columns: Sequence[str]) -> int:
        """Charge and enter the run, before the first number about records leaves; its number."""
        if self.charge is not None:
            try:
                self.charge()
            except PrivodError as problem:
                raise ProtocolAborted(str(problem), "its own budget refuses the run.") from None
        return self.contributions.claim(columns, self.roster.names, question.table_guarantee())

    def result(
        self,
        kind: type[Result],
        question: JointQuestion,
        session: Session,
        claimed: int | None,
        rows: Ints,
        ended: str,
        **more: Any,
    ) -> Result:
        """Note in the ledger of runs how a run ended, and return its result."""
        return kind(
            question=question,
            party=self.identity.name,
            run=session.id,
            traffic=self.channel.traffic,
            sent=None if claimed is None else self.contributions.finish(claimed, ended),
            rows=rows,
            alone=rows[:0] if self.table is None else question.rows_alone(self.table),
            own_records=0 if self.table is None else len(self.table),
            **more,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class JointResult(ABC):
    """What one party has at the end of a run.

    `run` names the run, the same at every participant. `sent` has all runs in this party's ledger,
    this one included; None without records. The rows flagged together and `alone` ascend and count
    from 0, as arrays do; what people read counts from 1.
    """

    question: JointQuestion
    party: str
    run: bytes
    traffic: Traffic = field(repr=False)
    sent: SentRecords | None
    rows: Ints
    alone: Ints
    own_records: int

    @abstractmethod
    def sentences(self) -> list[str]:
        """The result in words; what the party can say alone comes first."""

    @property
    def stem(self) -> str:
        """How the files of this run are named."""
        return self.run.hex()[:RUN_LETTERS]

    def compared(self) -> str:
        """What the party finds alone beside what all find together."""
        differ = len(np.setxor1d(self.alone, self.rows))
        return (
            f"Alone {len(self.alone):,} of your {self.own_records:,} records are outliers, together"
            f" {len(self.rows)}; {differ} differ."
        )

    def listing(self) -> str:
        """The first rows in words, counted from 1."""
        if not len(self.rows):
            return "No row is an outlier of the joint data."
        shown = ", ".join(str(row + 1) for row in self.rows[:MOST_LISTED].tolist())
        more = len(self.rows) - MOST_LISTED
        rest = f" and {more} more, which --json and --results list" if more > 0 else ""
        return f"Outliers of the joint data, rows counted from 1: {shown}{rest}."

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "question": self.question.to_json(),
            "party": self.party,
            "run": self.run.hex(),
            "alone": self.alone.tolist(),
            "positions": self.rows.tolist(),
            "secrecy": self.question.secrecy().to_json(),
            "traffic": self.traffic.to_json(),
        }

    @abstractmethod
    def stated(self) -> dict[str, Any]:
        """What a signed transcript says of the result, never of a record."""

    def write(self, folder: Path, stem: str, ids: Sequence[str] | None) -> None:
        """Write the rows that are flagged, together or alone, into a file of the party alone."""
        if self.own_records:
            write_outliers(folder / f"{stem}.csv", self.rows, self.alone, ids, self.own_records)


class JointQuestion(ABC):
    """Public parameters of a joint run, and its protocol."""

    name: ClassVar[str]
    question: ClassVar[str]
    approved_singly: ClassVar[bool] = False  # every run needs its own approval

    @property
    def over_columns(self) -> bool:
        """Whether parties hold different columns of the same records, not different records."""
        return False

    @abstractmethod
    def check(self, domain: Domain) -> None:
        """Raise unless a party with data in this domain can take part."""

    @abstractmethod
    def check_roster(self, roster: Roster) -> None:
        """Raise unless these participants can make this run."""

    def needed(self, roster: Roster) -> tuple[str, ...]:
        """Who must stay to the end; the loss of anybody else ends nothing."""
        return roster.names

    @abstractmethod
    def table_guarantee(self) -> Guarantee | None:
        """What the opened numbers promise; None where they have no noise."""

    @abstractmethod
    def secrecy(self) -> Secrecy:
        """Who learns what."""

    def warning(self) -> str:
        """What is not protected, to be read before approving; "" if `secrecy` says it all."""
        return ""

    @abstractmethod
    def expectation(self, records: int | None, n_parties: int, domain: Domain | None) -> list[str]:
        """What a run opens and costs, in words, before anybody connects."""

    @abstractmethod
    def rows_alone(self, table: Table) -> Ints:
        """The rows that a party flags by itself, its own records against its own."""

    def alone(self, table: Table) -> str:
        """What a party can say by itself, in words; nothing is sent."""
        return (
            f"Alone {len(self.rows_alone(table)):,} of your {len(table):,} records are outliers, by"
            " your own records and without noise; nothing was sent."
        )

    @abstractmethod
    def take_part(self, seat: Seat) -> JointResult:
        """Go through a run as one of its parties."""

    @abstractmethod
    def host(self, meeting: Meeting, roster: Roster, domain: Domain | None) -> dict[str, Any]:
        """Go through a run as its aggregator, after the agreement; what its transcript states."""

    def check_hosting(self, roster: Roster, domain: Domain | None) -> None:
        """Raise unless the aggregator knows what it needs."""
        self.check_roster(roster)
        if domain is not None:
            check_one_record_each(domain)
        elif not self.over_columns:
            way_out = "Give the domain file that the parties use; it is public."
            raise InvalidParameter("domain", "is needed unless parties hold columns", None, way_out)

    def to_json(self) -> dict[str, Any]:
        """Name and parameters."""
        written = fields(self)  # type: ignore[arg-type]  # every question is a dataclass
        return {"name": self.name, **{f.name: plain_value(getattr(self, f.name)) for f in written}}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read back what `to_json` wrote."""
        given = {key: value for key, value in data.items() if key != "name"}
        known = fields(cls)  # type: ignore[arg-type]  # every question is a dataclass
        for key in given.keys() - {one.name for one in known}:
            way_out = f"Its parameters are {[one.name for one in known]}."
            raise InvalidParameter(key, f"is not a parameter of {cls.name}", key, way_out)
        for one in known:
            if one.default is MISSING and one.name not in given:
                way_out = f"`privod questions {cls.name}` explains it."
                raise InvalidParameter(one.name, "must be given", None, way_out)
        if isinstance(given.get("adjacency"), dict):
            given["adjacency"] = adjacency_from_json(given["adjacency"])
        return cls(**given)

    def terms(self, domain: Domain | None) -> bytes:
        """Return what all parties must agree on; the domain too, unless parties hold columns."""
        shared = None if domain is None or self.over_columns else domain.untitled
        declared = None if shared is None else shared.to_json()
        return canonical_json({"question": self.to_json(), "domain": declared}).encode()


def check_one_record_each(domain: Domain) -> None:
    """Raise where a person may have several records: the guarantee of a run is for one."""
    if domain.max_rows_per_person > 1:
        rule = "must be 1 in a joint run: its promise is for one record"
        way_out = (
            "Keep one row of each person; or leave the person column out of the domain, and read"
            " the promise as one about records, which does not protect a person with several."
        )
        raise InvalidParameter("max_rows_per_person", rule, domain.max_rows_per_person, way_out)


def joint_question(data: dict[str, Any]) -> JointQuestion:
    """Read a question by its name; any registered joint question will do."""
    kind = JOINT_QUESTIONS.get(str(data.get("name")))
    if kind is None:
        rule = f"must be one of {', '.join(sorted(JOINT_QUESTIONS))}"
        way_out = did_you_mean(data.get("name"), JOINT_QUESTIONS).strip() or "Name one of these."
        raise InvalidParameter("name", rule, data.get("name"), way_out)
    found: JointQuestion = kind.from_json(data)
    return found
