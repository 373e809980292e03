"""Carry a joint question out: at a party, at the aggregator, or all at once in one process."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain, Table
from privod.errors import InvalidParameter
from privod.joint import horizontal, vertical
from privod.joint.contributions import Contributions, SentRecords
from privod.joint.counts import JointCounts, JointRelease, host_counts, release_counts
from privod.joint.held import HeldRecords
from privod.joint.persons import check_one_record_each, promise_at_party
from privod.joint.pki import make_identities
from privod.joint.planning import CountPlan
from privod.joint.question import JointOutliers
from privod.joint.questions import JointQuestion
from privod.joint.roster import Identity, Roster
from privod.joint.rounds import Rounds
from privod.joint.session import agree, host_agreement
from privod.joint.transport.channel import Channel, Meeting, Patience
from privod.joint.transport.memory import meet
from privod.joint.transport.traffic import Traffic
from privod.mechanisms.randomness import Randomness, secure
from privod.outliers.hashing.outliers import crowd_limit

__all__ = ["Aggregation", "JointAnswer", "Rehearsal", "aggregate", "rehearse", "take_part"]


MOST_LISTED = 20  # suspects in a sentence; files and JSON have all


@dataclass(frozen=True, eq=False)
class JointAnswer:
    """What one party has at the end.

    Attributes
    ----------
    question : JointOutliers
        What was asked.
    party : str
        Whose answer this is.
    rows : int64 array
        The rows of its table that are suspects: probably outlying in the joint data, ascending,
        counted from 0 as arrays are. What people read counts from 1.
    n_records : int
        How many records all parties have.
    plan : CountPlan or None
        What a sealed run was planned with, and what it was expected to find.
    run : bytes
        Names the run, the same at every party.
    own_records : int
        How many rows this party has.
    traffic : Traffic
        Bytes and seconds, step by step.
    sent : SentRecords
        All runs that this party's records went to, this one included, by its ledger.
    crowded_tables : int64 array, optional
        In how many tables each suspect's bin holds a crowd, by the tables that all parties see.
        None over columns and in published protocols, which tell nobody.
    person : str, optional
        The column by which this party tells persons apart; it kept one record of each.
    """

    question: JointOutliers
    party: str
    rows: NDArray[np.int64]
    n_records: int
    plan: CountPlan | None
    run: bytes
    own_records: int
    traffic: Traffic = field(repr=False)
    sent: SentRecords
    crowded_tables: NDArray[np.int64] | None = None
    person: str | None = None

    @property
    def max_crowd(self) -> int:
        """The largest crowd of an outlier."""
        return crowd_limit(self.question.far_fraction, self.n_records)

    def sentence(self) -> str:
        """The answer in words."""
        whose = "your records" if self.question.partition == "horizontal" else "records"
        count = len(self.rows)
        if self.question.verify:
            coarse = (
                ", less 0.05 % for every party at most, since distances are rounded up"
                if self.question.partition == "vertical"
                else ""
            )
            return (
                f"{count} of {whose} are outlying among the {self.n_records} of all parties: no"
                f" more than {self.max_crowd} records lie within {self.question.radius:g} of"
                f" each{coarse}. Some outliers may be missing."
            )
        return (
            f"{count} of {whose} are suspects among the {self.n_records} of all parties: the hashes"
            f" found no more than {self.max_crowd} records within {self.question.radius:g} of each."
            " Some suspects may have more, and some outliers may be missing."
        )

    def promise(self) -> str:
        """What the published table promises, in words; "" without noise."""
        promised = self.question.table_guarantee()
        return "" if promised is None else promise_at_party(promised, self.person)

    def expectation(self) -> str:
        """How sure the answer is, in words; nothing is known of the published protocols."""
        return "" if self.plan is None else self.plan.sentence()

    def listing(self) -> str:
        """The first suspects in words, rows from 1; the least crowded first where that is known."""
        if not len(self.rows):
            return "No row is a suspect."
        order = range(len(self.rows))
        by = "by number: nothing that this run tells orders them"
        if self.crowded_tables is not None and self.plan is not None:
            order = self.crowded_tables.argsort(kind="stable").tolist()
            by = (
                "the least crowded first, each with how many of the"
                f" {self.plan.n_tables} tables show a crowd around it"
            )
            if not self.question.verify:
                by += ", and so likelier a false alarm"
        shown = [self._listed(place) for place in order[:MOST_LISTED]]
        more = len(self.rows) - len(shown)
        rest = f" and {more} more, which --json and --results list" if more else ""
        return f"Rows, counted from 1 among those kept, {by}: {', '.join(shown)}{rest}."

    def _listed(self, place: int) -> str:
        row = f"{int(self.rows[place]) + 1}"
        if self.crowded_tables is None:
            return row
        return f"{row} ({int(self.crowded_tables[place])})"

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values; positions count from 0 among the rows that were kept."""
        promise = self.question.table_guarantee()
        crowded = self.crowded_tables
        return {
            "question": self.question.to_json(),
            "party": self.party,
            "run": self.run.hex(),
            "positions": self.rows.tolist(),
            "crowded_tables": None if crowded is None else crowded.tolist(),
            "n_records": self.n_records,
            "plan": None if self.plan is None else asdict(self.plan),
            "secrecy": self.question.secrecy().to_json(),
            "table": None if promise is None else promise.to_json(),
            "person": self.person,
            "traffic": self.traffic.to_json(),
        }


@dataclass(frozen=True, eq=False)
class Aggregation:
    """What the aggregator has at the end.

    Attributes
    ----------
    question : JointOutliers or JointCounts
        What was asked.
    n_records : int or None
        How many records all parties have, where that is told.
    run : bytes
        Names the run, the same at every party.
    traffic : Traffic
        Bytes and seconds, step by step.
    counts : str, optional
        Stands for the counts that were published.
    """

    question: JointQuestion
    n_records: int | None
    run: bytes
    traffic: Traffic = field(repr=False)
    counts: str | None = None


End = TypeVar("End", JointAnswer, JointRelease)


@dataclass(frozen=True, eq=False)
class Rehearsal(Generic[End]):
    """Everybody's end of a run in one process."""

    answers: dict[str, End]
    aggregator: Traffic


def take_part(
    question: JointOutliers,
    table: Table,
    channel: Channel,
    identity: Identity,
    roster: Roster,
    contributions: Contributions,
    randomness: Randomness | None = None,
    rounds: Rounds | None = None,
    file: bytes | None = None,
) -> JointAnswer:
    """Go through a run as one of its parties; with `rounds`, go on where one of them broke off.

    `file` is the mark of the file that the table was read from, for the ledger of runs.
    """
    domain = table.domain
    question.check_parties(len(roster.names))
    question.check(domain)
    session = agree(channel, identity, roster, question.terms(domain))
    own = question.own_columns(domain)
    held = HeldRecords(table, own, file)
    run = contributions.claim(held, roster.names, question.table_guarantee())
    kept = rounds or Rounds()
    kept.prepare(_subject(question.terms(domain), roster, held.placed()), session)
    points = question.scaled(table.numbers(own), domain)
    plan, crowded = None, None
    if question.partition == "horizontal" and question.protocol == "sealed":
        rows, crowded, n, plan = horizontal.take_part(
            question, points, domain, channel, session, randomness or secure()
        )
    elif question.partition == "horizontal":
        rows, n = published().take_part_horizontal(question, points, domain, channel, session, kept)
    elif question.protocol == "sealed":
        rows, n, plan = vertical.take_part(question, points, domain, channel, session, kept)
    else:
        rows, n = published().take_part_vertical(question, points, domain, channel, session, kept)
    sent = contributions.finish(run, f"{len(rows)} of {n} records")
    kept.end()
    return JointAnswer(
        question,
        identity.name,
        rows,
        n,
        plan,
        session.id,
        len(table),
        channel.traffic,
        sent,
        crowded,
        domain.person,
    )


def aggregate(
    question: JointQuestion,
    meeting: Meeting,
    identity: Identity,
    roster: Roster,
    domain: Domain | None = None,
) -> Aggregation:
    """Go through a run as its aggregator.

    A horizontal run needs the public domain, because everybody must agree on the columns' ranges.
    """
    question.check_parties(len(roster.names))
    if domain is None and question.partition == "horizontal":
        way_out = "Give the domain file that the parties use; it is public."
        raise InvalidParameter("domain", "is needed for a horizontal run", None, way_out)
    if domain is not None:
        check_one_record_each(domain)
    run = host_agreement(meeting, identity, roster, question.terms(domain))
    n_records, counts = None, None
    if isinstance(question, JointOutliers):
        n_records = _host(question, meeting)
    elif domain is not None:
        counts = host_counts(question, meeting, domain)
    return Aggregation(question, n_records, run, meeting.traffic, counts)


def _host(question: JointOutliers, meeting: Meeting) -> int:
    """Go through the protocol that is asked for; return the number of records."""
    if question.protocol == "paper":
        at_aggregator: Callable[[JointOutliers, Meeting], int] = {
            "horizontal": published().aggregate_horizontal,
            "vertical": published().aggregate_vertical,
        }[question.partition]
        return at_aggregator(question, meeting)
    sealed = horizontal.aggregate if question.partition == "horizontal" else vertical.aggregate
    return sealed(question, meeting)[0]


@overload
def rehearse(
    question: JointOutliers,
    tables: Mapping[str, Table],
    randomness: Randomness | None = None,
    patience: Patience | None = None,
) -> Rehearsal[JointAnswer]: ...


@overload
def rehearse(
    question: JointCounts,
    tables: Mapping[str, Table],
    randomness: Randomness | None = None,
    patience: Patience | None = None,
) -> Rehearsal[JointRelease]: ...


def rehearse(
    question: JointQuestion,
    tables: Mapping[str, Table],
    randomness: Randomness | None = None,
    patience: Patience | None = None,
) -> Rehearsal[Any]:
    """Run all parties and an aggregator in this process: to try a question out, or to compare."""
    question.check_parties(len(tables))
    for table in tables.values():
        question.check(table.domain)
    roster, identities = make_identities(sorted(tables), "the aggregator", "memory:0")
    kept: list[Traffic] = []

    def party(name: str) -> Callable[[Channel], Any]:
        act: Any = release_counts if isinstance(question, JointCounts) else take_part
        return lambda channel: act(
            question, tables[name], channel, identities[name], roster, Contributions(), randomness
        )

    def hub(meeting: Meeting) -> None:
        domain = next(iter(tables.values())).domain
        aggregate(question, meeting, identities["the aggregator"], roster, domain)
        kept.append(meeting.traffic)

    answers = meet({name: party(name) for name in tables}, hub, patience)
    return Rehearsal(answers, kept[0])


def published() -> Any:
    """The protocols as published, loaded only when a run asks for them."""
    return import_module("privod.joint.published.protocols")


def _subject(terms: bytes, roster: Roster, digest: bytes) -> bytes:
    """What a broken run must have been about, to go on from it."""
    return hashlib.sha256(terms + roster.digest() + digest).digest()
