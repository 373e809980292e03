"""What is kept of a run besides its result: everybody's signed transcript."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from privod.data import Domain
from privod.data.cells import texts_of
from privod.data.csv_file import LineTally
from privod.data.sources import portions_of
from privod.errors import InvalidData, InvalidParameter, ProtocolAborted
from privod.joint.files import private_file
from privod.joint.question import JointResult
from privod.joint.roster import Identity, Roster
from privod.joint.run import Aggregation
from privod.query.query import canonical_json

STATEMENT = "privod joint run 1"
SHARED = ("run", "question", "n_records", "opened")  # everybody in a run says the same, if any
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


def transcript(
    result: JointResult | Aggregation, identity: Identity, roster: Roster
) -> dict[str, Any]:
    """Return the signed statement of one party, or of the aggregator, about one run."""
    said = {
        "statement": STATEMENT,
        "run": result.run.hex(),
        "party": identity.name,
        "parties": list(roster.names),
        "aggregator": roster.aggregator.name,
        "roster": roster.digest().hex(),
        "question": result.question.to_json(),
        "sent": result.traffic.sent,
        "received": result.traffic.received,
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        **result.stated(),
    }
    return {**said, SIGNATURE: identity.sign(canonical_json(said).encode()).hex()}


def keep_transcript(
    folder: Path, result: JointResult | Aggregation, identity: Identity, roster: Roster
) -> None:
    """Write the signed statement into a folder, named like the files of the result."""
    folder.mkdir(parents=True, exist_ok=True)
    with private_file(folder / f"{result.stem}.json") as file:
        file.write(json.dumps(transcript(result, identity, roster), indent=1) + "\n")


def check_transcript(data: Any, roster: Roster) -> dict[str, Any]:
    """Return what a transcript states; raise unless somebody of exactly this roster signed it."""
    try:
        said = {key: value for key, value in data.items() if key != SIGNATURE}
        signature = bytes.fromhex(data[SIGNATURE])
        signer, pinned, kind = str(said["party"]), said["roster"], said["statement"]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidData("This is not a transcript of a joint run.") from None
    if kind != STATEMENT:
        raise InvalidData("This transcript is of a kind that this version does not know.")
    if pinned != roster.digest().hex() or signer not in (*roster.names, roster.aggregator.name):
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
