"""Carry a joint question out: at the aggregator, or all at once in one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from privod.data import Domain, Table
from privod.joint.pki import make_identities
from privod.joint.question import RUN_LETTERS, JointQuestion, JointResult, Seat
from privod.joint.roster import Identity, Roster
from privod.joint.session import host_agreement
from privod.joint.transport.channel import Channel, Meeting, Patience
from privod.joint.transport.memory import meet
from privod.joint.transport.traffic import Traffic


@dataclass(frozen=True, eq=False)
class Aggregation:
    """What the aggregator has at the end.

    `lost` names parties that the run went on without, each with the phase in which it was lost;
    `said` is what it states about the run: a digest of what was opened, or the number of records.
    """

    question: JointQuestion
    run: bytes
    traffic: Traffic = field(repr=False)
    lost: dict[str, str]
    said: dict[str, Any]

    @property
    def stem(self) -> str:
        """How the files of this run are named."""
        return self.run.hex()[:RUN_LETTERS]

    def stated(self) -> dict[str, Any]:
        """What its transcript says of the run."""
        return {**self.said, "lost": self.lost}


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Everybody's end of a run in one process; parties that were lost have none."""

    answers: dict[str, Any]
    aggregator: Aggregation


def spared(question: JointQuestion, roster: Roster) -> frozenset[str]:
    """The parties whose loss does not end a run."""
    return frozenset(roster.names) - frozenset(question.needed(roster))


def aggregate(
    question: JointQuestion,
    meeting: Meeting,
    identity: Identity,
    roster: Roster,
    domain: Domain | None = None,
) -> Aggregation:
    """Go through a run as its aggregator."""
    question.check_hosting(roster, domain)
    run = host_agreement(meeting, identity, roster, question.terms(domain))
    said = question.host(meeting, roster, domain)
    return Aggregation(question, run, meeting.traffic, meeting.lost, said)


def rehearse(
    question: JointQuestion,
    tables: Mapping[str, Table | None],
    patience: Patience | None = None,
    acts: Mapping[str, Callable[[Seat], JointResult]] | None = None,
) -> Rehearsal:
    """Run all in this process; `acts` are what some parties do instead of taking part."""
    roster, identities = make_identities(sorted(tables), "the aggregator", "memory:0")
    question.check_roster(roster)
    domain = next(table.domain for table in tables.values() if table is not None)
    for table in tables.values():
        question.check(domain if table is None else table.domain)
    hosted: list[Aggregation] = []

    def party(name: str) -> Callable[[Channel], Any]:
        act = (acts or {}).get(name, question.take_part)
        table = tables[name]

        def attend(channel: Channel) -> Any:
            return act(
                Seat(
                    table=table,
                    domain=domain if table is None else table.domain,
                    channel=channel,
                    identity=identities[name],
                    roster=roster,
                )
            )

        return attend

    def hub(meeting: Meeting) -> None:
        hosted.append(aggregate(question, meeting, identities["the aggregator"], roster, domain))

    parties = {name: party(name) for name in tables}
    answers = meet(parties, hub, patience, spared(question, roster))
    return Rehearsal(answers, hosted[0])
