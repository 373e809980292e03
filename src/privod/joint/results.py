"""What a party keeps of a run: the suspects with its own ids, and a signed transcript.

The result file is the party's alone. The transcript says who took part in which run, with which
parameters and how many bytes, signed with the certificate's key; it can be shown to an auditor, who
needs the roster and nothing else. It has no row and no id in it, but it tells how many suspects the
party has and a digest of which rows these are.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from privod.data import Domain
from privod.data.csv_file import LineTally
from privod.data.sources import portions_of
from privod.errors import InvalidData, InvalidParameter, ProtocolAborted
from privod.joint.roster import Identity, Roster
from privod.queries.query import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from privod.joint.run import JointAnswer

__all__ = ["check_transcript", "read_ids", "transcript", "write_result", "write_transcript"]

STATEMENT = "privod joint run 1"
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
        found += ["" if one is None else str(one) for one in _plain(columns[column]).to_pylist()]
    return found


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    is_text = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    return column.cast(pa.large_string()) if is_text else column


def write_result(path: Path, answer: JointAnswer, ids: Sequence[str] | None) -> None:
    """Write the suspects as CSV, row and id; readable by the owner alone."""
    if ids is not None and len(ids) != answer.own_records:
        raise InvalidData("The ids are not as many as the rows. Give ids and rows in one file.")
    with _private(path) as file:
        writer = csv.writer(file)
        writer.writerow(["row"] if ids is None else ["row", "id"])
        for row in answer.rows.tolist():
            writer.writerow([row] if ids is None else [row, ids[row]])


def transcript(answer: JointAnswer, identity: Identity, roster: Roster) -> dict[str, Any]:
    """Return the signed statement of one party about one run."""
    rows = answer.rows.astype("<i8").tobytes()
    said = {
        "statement": STATEMENT,
        "run": answer.run.hex(),
        "party": answer.party,
        "parties": list(roster.names),
        "aggregator": roster.aggregator.name,
        "roster": roster.digest().hex(),
        "question": answer.question.to_json(),
        "n_records": answer.n_records,
        "suspects": len(answer.rows),
        "rows": hashlib.sha256(answer.run + rows).hexdigest(),
        "sent": answer.traffic.sent,
        "received": answer.traffic.received,
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return {**said, SIGNATURE: identity.sign(canonical_json(said).encode()).hex()}


def write_transcript(
    path: Path, answer: JointAnswer, identity: Identity, roster: Roster
) -> dict[str, Any]:
    """Write and return the signed statement."""
    made = transcript(answer, identity, roster)
    with _private(path) as file:
        file.write(json.dumps(made, indent=1) + "\n")
    return made


def check_transcript(data: Any, roster: Roster) -> dict[str, Any]:
    """Return what a transcript states; raise unless a party of exactly this roster signed it."""
    try:
        said = {key: value for key, value in data.items() if key != SIGNATURE}
        signature = bytes.fromhex(data[SIGNATURE])
        party, pinned, kind = str(said["party"]), said["roster"], said["statement"]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidData("This is not a transcript of a joint run.") from None
    if kind != STATEMENT:
        raise InvalidData("This transcript is of a kind that this version does not know.")
    if pinned != roster.digest().hex() or party not in roster.names:
        raise ProtocolAborted(
            "The transcript is about another roster. Give the roster that the run was made with."
        )
    roster[party].verify(canonical_json(said).encode(), signature)
    return said


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
