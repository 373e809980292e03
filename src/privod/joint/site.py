"""A party's place of work: whose key, which rows, what was approved, where results go."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeAlias

from privod.data import Domain
from privod.data.sources import read
from privod.errors import InvalidData
from privod.joint.approvals import Approvals, subject_of
from privod.joint.contributions import Contributions
from privod.joint.counts import JointCounts, JointRelease, release_counts
from privod.joint.held import mark_of_file
from privod.joint.questions import JointQuestion
from privod.joint.results import read_ids, write_release, write_result, write_transcript
from privod.joint.roster import Identity, Roster
from privod.joint.rounds import Rounds
from privod.joint.run import Aggregation, JointAnswer, take_part
from privod.joint.transport.channel import Channel, attend

__all__ = ["Site", "keep_transcript", "rounds_beside"]

Result: TypeAlias = JointAnswer | JointRelease | Aggregation
RUN_LETTERS = 16  # of a run's name, in the names of its files


@dataclass(frozen=True, kw_only=True)
class Site:
    """What a party brings to runs; nothing of it is sent.

    Parameters
    ----------
    identity : Identity
        Its name, certificate and key.
    data : path
        Its rows: a .csv or .parquet file, read anew for every run.
    domain : Domain
        What is public about them.
    contributions : Contributions
        Its ledger of runs.
    ids : str, optional
        A column of the file that names the rows.
    results : path, optional
        A folder for suspects and signed transcripts.
    approvals : Approvals, optional
        If given, runs that are not approved there are refused.
    charge : callable, optional
        Called before any row is hashed: charges the run's epsilon, or raises.
    rounds : path, optional
        A file for the last completed rounds of a run that breaks off: the next one goes on there.
    """

    identity: Identity
    data: Path
    domain: Domain
    contributions: Contributions
    ids: str | None = None
    results: Path | None = None
    approvals: Approvals | None = None
    charge: Callable[[], None] | None = None
    rounds: Path | None = None

    def run(
        self, question: JointQuestion, roster: Roster, connect: Callable[[], Channel]
    ) -> JointAnswer | JointRelease:
        """Take part in one run over a fresh channel; write down what is to be kept."""
        question.check_parties(len(roster.names))
        question.check(self.domain)
        subject = subject_of(question, self.domain, roster)
        table, file = read(self.data, self.domain), mark_of_file(self.data)
        named = None if self.ids is None else read_ids(self.data, self.domain, self.ids)

        def act(channel: Channel) -> JointAnswer | JointRelease:
            if self.approvals is not None:
                self.approvals.use(subject)
            if self.charge is not None:
                self.charge()
            if isinstance(question, JointCounts):
                return release_counts(
                    question,
                    table,
                    channel,
                    self.identity,
                    roster,
                    self.contributions,
                    file=file,
                )
            return take_part(
                question,
                table,
                channel,
                self.identity,
                roster,
                self.contributions,
                rounds=Rounds(self.rounds),
                file=file,
            )

        answer = attend(connect(), act)
        if self.results is not None:
            self.results.mkdir(parents=True, exist_ok=True)
            if isinstance(answer, JointRelease):
                write_release(self.results / f"{_stem(answer)}-counts.json", answer)
            else:
                write_result(self.results / f"{_stem(answer)}.csv", answer, named)
            keep_transcript(self.results, answer, self.identity, roster)
        return answer

    @classmethod
    def load(cls, path: Path, passphrase: bytes | None = None) -> Self:
        """Read a site file: JSON with paths, which are relative to it; approvals are a must."""
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            place = path.parent
            declared = json.loads((place / said["domain"]).read_text(encoding="utf-8"))
            return cls(
                identity=Identity.load(
                    place / said["certificate"], place / said["key"], passphrase
                ),
                data=place / said["data"],
                domain=Domain.from_json(declared),
                contributions=Contributions(place / said["record"]),
                ids=said.get("ids"),
                results=place / said["results"],
                approvals=Approvals(place / said["approvals"]),
                rounds=rounds_beside(place / said["record"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            raise InvalidData(
                f"There is no site file that can be read at {str(path)!r}. It names certificate,"
                " key, data, domain, record, results and approvals, and ids if rows have them."
            ) from None


def keep_transcript(folder: Path, result: Result, identity: Identity, roster: Roster) -> None:
    """Write the signed statement about a run into a folder, named like its result."""
    folder.mkdir(parents=True, exist_ok=True)
    write_transcript(folder / f"{_stem(result)}.json", result, identity, roster)


def _stem(result: Result) -> str:
    return result.run.hex()[:RUN_LETTERS]


def rounds_beside(record: Path) -> Path:
    """Where the rounds of a broken run are kept: beside the ledger of runs."""
    return record.with_suffix(".rounds")
