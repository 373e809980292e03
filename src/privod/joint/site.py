"""A party's place of work: whose key, which rows, what was approved, where results go."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from privod.data import Domain, Table
from privod.data.sources import read
from privod.errors import InvalidData, InvalidParameter, PrivodError, ProtocolAborted
from privod.joint.approvals import Approvals, subject_of
from privod.joint.contributions import Contributions
from privod.joint.question import JointQuestion, JointResult, Seat
from privod.joint.results import keep_transcript, read_ids
from privod.joint.roster import Identity, Roster
from privod.joint.transport.channel import Channel, attend


@dataclass(frozen=True, kw_only=True)
class Site:
    """What a party brings to runs; nothing of it is sent.

    The rows, a .csv or .parquet file, are read anew for every run; a computing party may hold none.
    `ids` is a column of the file that names them. Results and signed transcripts go to a folder.
    With `approvals`, runs that are not approved there are refused. `charge` is called before
    anything about records leaves: it charges the run's loss, or raises.
    """

    identity: Identity
    data: Path | None
    domain: Domain
    contributions: Contributions
    ids: str | None = None
    results: Path | None = None
    approvals: Approvals | None = None
    charge: Callable[[], None] | None = None

    def run(
        self, question: JointQuestion, roster: Roster, connect: Callable[[], Channel]
    ) -> JointResult:
        """Take part in one run over a fresh channel; write down what is to be kept."""
        self.identity.check_on(roster)
        question.check_roster(roster)
        question.check(self.domain)
        if question.approved_singly and self.approvals is None:
            way_out = "Approve one run with `privod approve-run`, and name its file."
            raise InvalidParameter("approvals", "are needed for this question", None, way_out)

        def act(channel: Channel) -> tuple[JointResult, list[str] | None]:
            if self.approvals is not None:
                self.approvals.use(subject_of(question, self.domain, roster))
            table, named = self._read()
            seat = Seat(
                table=table,
                domain=self.domain,
                channel=channel,
                identity=self.identity,
                roster=roster,
                contributions=self.contributions,
                charge=self.charge,
                ids=named,
            )
            return question.take_part(seat), named

        answer, named = attend(connect(), act)
        if self.results is not None:
            self.results.mkdir(parents=True, exist_ok=True)
            answer.write(self.results, answer.stem, named)
            keep_transcript(self.results, answer, self.identity, roster)
        return answer

    def _read(self) -> tuple[Table | None, list[str] | None]:
        """The rows and their ids; others learn only that this failed."""
        if self.data is None:
            return None, None
        try:
            table = read(self.data, self.domain)
            named = None if self.ids is None else read_ids(self.data, self.domain, self.ids)
        except (PrivodError, OSError) as problem:
            raise ProtocolAborted(str(problem), "its own rows cannot be read.") from None
        return table, named

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a site file: JSON with paths, which are relative to it; approvals are a must."""
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            place = path.parent
            declared = json.loads((place / said["domain"]).read_text(encoding="utf-8"))
            return cls(
                identity=Identity.load(place / said["certificate"], place / said["key"]),
                data=place / said["data"] if "data" in said else None,
                domain=Domain.from_json(declared),
                contributions=Contributions(place / said["record"]),
                ids=said.get("ids"),
                results=place / said["results"],
                approvals=Approvals(place / said["approvals"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            raise InvalidData(
                f"There is no site file that can be read at {str(path)!r}. It names certificate,"
                " key, domain, record, results and approvals, data unless this party only computes,"
                " and ids if rows have them."
            ) from None
