"""A question to the data of several holders: what all kinds of joint runs have in common.

A joint question is a frozen value of public parameters that all participants share. It is never
asked of one table and never charged by a curator on its own. Each kind brings its protocol with it:
what a party does (`take_part`) and what the aggregator does (`host`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from privod.data import Domain, Table
from privod.errors import InvalidParameter, PrivodError, ProtocolAborted
from privod.joint.contributions import Contributions, SentRecords
from privod.joint.held import HeldRecords
from privod.joint.persons import check_one_record_each
from privod.joint.roster import Identity, Roster
from privod.joint.session import Session, agree
from privod.joint.transport.channel import Channel, Meeting
from privod.joint.transport.traffic import Traffic
from privod.mechanisms.randomness import Randomness, secure
from privod.privacy import Guarantee, Secrecy
from privod.query.catalog import JOINT_QUESTIONS
from privod.query.query import canonical_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Seat:
    """What a party brings to one run; nothing of it is sent as it is.

    Parameters
    ----------
    table : Table, optional
        Its records; None for a computing party that holds none.
    domain : Domain
        What is public about records.
    channel : Channel
        To the aggregator.
    identity : Identity
        Its name, certificate and key.
    roster : Roster
        Everyone.
    contributions : Contributions
        Its ledger of runs.
    randomness : Randomness
        For noise; seeded in tests only.
    file : bytes, optional
        Marks the file that the table was read from.
    charge : callable, optional
        Charges a curator's budget, or raises: called before anything about records leaves.
    ids : sequence of str, optional
        Names of its rows, of which only keyed digests are sent.
    """

    table: Table | None
    domain: Domain
    channel: Channel
    identity: Identity
    roster: Roster
    contributions: Contributions = field(default_factory=Contributions)
    randomness: Randomness = field(default_factory=secure)
    file: bytes | None = None
    charge: Callable[[], None] | None = None
    ids: Sequence[str] | None = None

    def agreed(self, question: JointQuestion) -> Session:
        """Check what is public and agree with everybody that this run is meant."""
        question.check_roster(self.roster)
        question.check(self.domain)
        needed = question.needed(self.roster)
        terms = question.terms(self.domain)
        return agree(self.channel, self.identity, self.roster, terms, needed)

    def claim(self, question: JointQuestion, columns: Sequence[str]) -> int:
        """Charge and enter the run, before the first number about records leaves; its number."""
        if self.table is None:
            raise InvalidParameter("data", "are needed to send any", None, "Name your rows.")
        if self.charge is not None:
            try:
                self.charge()
            except PrivodError as problem:
                raise ProtocolAborted(str(problem), "its own budget refuses the run.") from None
        held = HeldRecords(self.table, tuple(columns), file=self.file)
        return self.contributions.claim(held, self.roster.names, question.table_guarantee())


@dataclass(frozen=True, eq=False, kw_only=True)
class JointResult(ABC):
    """What one party has at the end of a run.

    Attributes
    ----------
    question : JointQuestion
        What was asked.
    party : str
        Whose result this is.
    run : bytes
        Names the run, the same at every participant.
    traffic : Traffic
        Bytes and seconds, step by step.
    sent : SentRecords or None
        All runs that this party's records went to, this one included; None without records.
    """

    question: JointQuestion
    party: str
    run: bytes
    traffic: Traffic = field(repr=False)
    sent: SentRecords | None = None

    @abstractmethod
    def sentences(self) -> list[str]:
        """The result in words; what the party can say alone comes first."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""

    @abstractmethod
    def stated(self) -> dict[str, Any]:
        """What a signed transcript says of the result: digests, never a record."""

    @abstractmethod
    def write(self, folder: Path, stem: str, ids: Sequence[str] | None) -> None:
        """Write the result into files that only the party can read."""

    @abstractmethod
    def draw(self) -> Figure:
        """The result as a picture."""


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
    def alone(self, table: Table) -> str:
        """What a party can say by itself, in words; nothing is sent."""

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

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Name and parameters."""

    @classmethod
    @abstractmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read back what `to_json` wrote."""

    def terms(self, domain: Domain | None) -> bytes:
        """Return what all parties must agree on; the domain too, unless parties hold columns."""
        shared = None if domain is None or self.over_columns else domain.untitled
        declared = None if shared is None else shared.to_json()
        return canonical_json({"question": self.to_json(), "domain": declared}).encode()


def parameters_of(question: Any) -> dict[str, Any]:
    """The fields of a frozen question as plain values."""
    values = {one.name: getattr(question, one.name) for one in fields(question)}
    return {
        key: str(value)
        if isinstance(value, Fraction)
        else list(value)
        if isinstance(value, tuple)
        else value
        for key, value in values.items()
    }


def known_parameters(kind: Any, data: dict[str, Any]) -> dict[str, Any]:
    """The parameters in a file; raise for one that the question does not have."""
    given = {key: value for key, value in data.items() if key != "name"}
    known = [one.name for one in fields(kind)]
    for key in given:
        if key not in known:
            way_out = f"Its parameters are {known}."
            raise InvalidParameter(key, f"is not a parameter of {kind.name}", key, way_out)
    return given


def joint_question(data: dict[str, Any]) -> JointQuestion:
    """Read a question by its name; any registered joint question will do."""
    kind = JOINT_QUESTIONS.get(str(data.get("name")))
    if kind is None:
        rule = f"must be one of {', '.join(sorted(JOINT_QUESTIONS))}"
        raise InvalidParameter("name", rule, data.get("name"), "Name the question first.")
    found: JointQuestion = kind.from_json(data)
    return found
