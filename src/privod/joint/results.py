"""What is kept of a run: a party's suspects with its own ids, and everybody's signed transcript.

The result file is the party's alone. The transcript says who took part in which run, with which
parameters and how many bytes, signed with the certificate's key; it can be shown to an auditor, who
needs the roster and nothing else. It has no row and no id in it, but a party's tells how many
suspects it has and a digest of which rows these are. The aggregator signs one too; an auditor who
has several checks that they are about one run.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from privod.data import Domain
from privod.data.cells import texts_of
from privod.data.csv_file import LineTally
from privod.data.sources import portions_of
from privod.errors import InvalidData, InvalidParameter, ProtocolAborted
from privod.joint.counts import JointRelease
from privod.joint.roster import Identity, Roster
from privod.joint.run import Aggregation, JointAnswer
from privod.query.query import canonical_json

__all__ = [
    "check_one_run",
    "check_transcript",
    "read_ids",
    "transcript",
    "write_release",
    "write_result",
    "write_transcript",
]

STATEMENT = "privod joint run 1"
AGGREGATOR_STATEMENT = "privod joint aggregation 1"
SHARED = ("run", "question", "n_records", "counts")  # everybody in a run says the same, if any
SIGNATURE = "signature"


def read_ids(source: Any, domain: Domain, column: str) -> list[str]:
    """Read a column of ids, one for every row; they never leave the site."""
    if column in domain.names:
        way_out = "Name a column that is not in the domain, such as a record number."
        raise InvalidParameter("ids", "must not be a column of the domain", column, way_out)
    if not domain.keeps_every_row:
        rule = "need a domain that keeps every row, so that ids and rows stay aligned"
        way_out = "Give every column a fill, and no person column; or leave ids out."
        raise InvalidParameter("ids", rule, column, way_out)
    with_ids = replace(domain, person=column)  # read as it is, like whose a record is
    portions = portions_of(source, with_ids, None, LineTally())
    found: list[str] = []
    for columns in portions:
        found += texts_of(columns[column])
    return found


def write_result(path: Path, answer: JointAnswer, ids: Sequence[str] | None) -> None:
    """Write the suspects as CSV: row, counted from 1, id, and in how many tables it has a crowd.

    The last two where they are known; readable by the owner alone.
    """
    if ids is not None and len(ids) != answer.own_records:
        raise InvalidData("The ids are not as many as the rows. Give ids and rows in one file.")
    with _private(path) as file:
        writer = csv.writer(file)
        crowded = answer.crowded_tables
        last = [] if crowded is None else ["crowded_tables"]
        writer.writerow(["row", *([] if ids is None else ["id"]), *last])
        for place, row in enumerate(answer.rows.tolist()):
            named = [] if ids is None else [ids[row]]
            writer.writerow([row + 1, *named, *([] if crowded is None else [int(crowded[place])])])


def write_release(path: Path, release: JointRelease) -> None:
    """Write the noisy counts, which are public to the parties."""
    with _private(path) as file:
        file.write(json.dumps(release.to_json()) + "\n")


def transcript(
    result: JointAnswer | JointRelease | Aggregation, identity: Identity, roster: Roster
) -> dict[str, Any]:
    """Return the signed statement of one party, or of the aggregator, about one run."""
    said = {
        "statement": AGGREGATOR_STATEMENT,
        "run": result.run.hex(),
        "party": identity.name,
        "parties": list(roster.names),
        "aggregator": roster.aggregator.name,
        "roster": roster.digest().hex(),
        "question": result.question.to_json(),
        "n_records": result.n_records,
        "sent": result.traffic.sent,
        "received": result.traffic.received,
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if isinstance(result, JointAnswer):
        rows = result.rows.astype("<i8").tobytes()
        digest = hashlib.sha256(result.run + rows).hexdigest()
        said |= {"statement": STATEMENT, "suspects": len(result.rows), "rows": digest}
    if isinstance(result, JointRelease):
        said |= {"statement": STATEMENT, "counts": result.digest()}
    if isinstance(result, Aggregation) and result.counts is not None:
        said |= {"counts": result.counts}
    return {**said, SIGNATURE: identity.sign(canonical_json(said).encode()).hex()}


def write_transcript(
    path: Path, result: JointAnswer | JointRelease | Aggregation, identity: Identity, roster: Roster
) -> dict[str, Any]:
    """Write and return the signed statement."""
    made = transcript(result, identity, roster)
    with _private(path) as file:
        file.write(json.dumps(made, indent=1) + "\n")
    return made


def check_transcript(data: Any, roster: Roster) -> dict[str, Any]:
    """Return what a transcript states; raise unless somebody of exactly this roster signed it."""
    try:
        said = {key: value for key, value in data.items() if key != SIGNATURE}
        signature = bytes.fromhex(data[SIGNATURE])
        signer, pinned, kind = str(said["party"]), said["roster"], said["statement"]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidData("This is not a transcript of a joint run.") from None
    who = {STATEMENT: roster.names, AGGREGATOR_STATEMENT: (roster.aggregator.name,)}
    if kind not in who:
        raise InvalidData("This transcript is of a kind that this version does not know.")
    if pinned != roster.digest().hex() or signer not in who[kind]:
        raise ProtocolAborted(
            "The transcript is about another roster. Give the roster that the run was made with."
        )
    roster[signer].verify(canonical_json(said).encode(), signature)
    return said


def check_one_run(transcripts: Sequence[Any], roster: Roster) -> list[dict[str, Any]]:
    """Check every transcript, and that all tell of one run the same question, size and counts."""
    checked = [check_transcript(one, roster) for one in transcripts]
    for key in SHARED:
        told = {canonical_json(said[key]): said["party"] for said in checked if key in said}
        if len(told) > 1:
            raise ProtocolAborted(
                f"The transcripts of {' and '.join(told.values())} do not agree about {key!r}."
                " They are of different runs, or somebody was told something else."
            )
    return checked


@contextmanager
def _private(path: Path) -> Iterator[TextIOWrapper]:
    """A new file that only its owner can read; a file that is there already is not overwritten."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        way_out = "Name a new one; results are not overwritten."
        raise InvalidParameter("file", "must not exist yet", str(path), way_out) from None
    with os.fdopen(handle, "w", newline="", encoding="utf-8") as file:
        yield file
