"""Durable work on questions: who waits for which answer, and how far each answer has come.

A question that was asked under a request id is in one state, the same for every server process:

- `waiting`: nothing is charged under this id.
- `charged`: its charge stands in the ledger, and the key of its noise beside it. Whoever looked at
  the rows may be lost (a server is stopped, a host fails). Then the next server begins it again
  from that key, at no charge, `MOST_RUNS` runs in all: the same key gives the same answer.
- `stored`: its release is in the ledger, and its key is erased.
- `failed`: it was charged and will not be answered. It failed, or all who paid gave it up.

The state is read from the ledger and the keys (`privod.curator.questions`), so it cannot disagree
with them. The records here say who waits and how that ended. Proof: docs/proofs/again.md.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from privod.errors import LimitReached
from privod.ledger.chain import charges_of
from privod.ledger.database import Connection, Database
from privod.ledger.store import question_key
from privod.ledger.values import Charge
from privod.mechanisms.randomness import KEY_BYTES
from privod.query.query import canonical_json

State = Literal["waiting", "charged", "stored", "failed"]

KEPT_DAYS = 30  # after it ended
MOST_LISTED = 1000
MOST_RUNS = 10  # so that servers which are killed one after the other lose no answer
_FIELDS = "id, server, asker, asked_by, dataset, query, request, time, outcome"
_RECORD = f"SELECT {_FIELDS} FROM jobs"  # noqa: S608 - constants


# ---- answers that are charged and not stored -----------------------------------------------------


@dataclass(frozen=True)
class PendingAnswer:
    """An answer whose charge stands: what was charged, and the key of its noise.

    Without a key the noise comes from the system, and the answer is never begun again.
    """

    charges: tuple[Charge, ...]
    request: str | None = None
    key: bytes | None = field(default=None, repr=False)


def begin(
    connection: Connection, question: str, charges: tuple[Charge, ...], request: str | None
) -> PendingAnswer:
    """Draw the key of an answer, in the transaction that charges it."""
    key = os.urandom(KEY_BYTES)
    erase(connection, question)
    connection.execute(
        "INSERT INTO unfinished (question, ask, request, noise_key, runs) VALUES (?, ?, ?, ?, 1)",
        *(question, charges[0].entry, request, key.hex()),
    )
    return PendingAnswer(charges, request, key)


def begin_again(connection: Connection, question: str) -> PendingAnswer | None:
    """Continue with an answer that was left, and count it; None if there is none, or no run."""
    rows = connection.execute(
        "SELECT ask, request, noise_key, runs FROM unfinished WHERE question = ?", question
    )
    if not rows:
        return None
    ask, request, key, runs = rows[0]
    if runs >= MOST_RUNS:
        erase(connection, question)
        return None
    connection.execute("UPDATE unfinished SET runs = runs + 1 WHERE question = ?", question)
    return PendingAnswer(charges_of(connection, ask), request, bytes.fromhex(key))


def is_charged(connection: Connection, question: str, key: bytes | None = None) -> bool:
    """Whether a question was charged and may be begun again; with a key, whether that one stands.

    A run that is under way may store its answer while its key stands, also if it is the last one.
    """
    if key is not None:
        found = "SELECT 1 FROM unfinished WHERE question = ? AND noise_key = ?"
        return bool(connection.execute(found, question, key.hex()))
    found = "SELECT 1 FROM unfinished WHERE question = ? AND runs < ?"
    return bool(connection.execute(found, question, MOST_RUNS))


def erase(connection: Connection, question: str, key: bytes | None = None) -> None:
    """Erase the key of a stored or failed answer; if one is given, that one and no later one."""
    erasing = "DELETE FROM unfinished WHERE question = ?"
    if key is None:
        connection.execute(erasing, question)
    else:
        connection.execute(f"{erasing} AND noise_key = ?", question, key.hex())


def waiting_for(connection: Connection, of: str, query: str, request: str | None) -> int:
    """How many open jobs, at any server process, ask this question under this request id."""
    ((count,),) = connection.execute(
        "SELECT COUNT(*) FROM jobs"
        " WHERE dataset = ? AND query = ? AND request = ? AND outcome IS NULL",
        *(of, query, request),
    )
    return int(count)


def erase_all(connection: Connection) -> None:
    """Erase every key: in a copy, where nobody continues with anything."""
    connection.execute("DELETE FROM unfinished")


# ---- who waits -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class JobRecord:
    """One asker who waits for an answer, or how that ended.

    `asker` is the hash of the token that asked, `asked_by` the name the ledger shall show. The
    query is as it was adapted to its budgets then, so that a budget that is opened later does not
    change what was asked. Under `request` it is charged, at most once. `outcome` is None while it
    is under way, "" once it is answered, else what was told in its place.
    """

    id: str
    server: str
    asker: str
    asked_by: str
    dataset: str
    query: dict[str, Any]
    request: str
    time: str
    outcome: str | None = None


@dataclass(frozen=True)
class Room:
    """How many questions may be under way at all server processes: in all, and for each asker."""

    most: int
    most_each: int


class JobRecords:
    """The records, in the ledger's database but outside its chain: they may be forgotten."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, record: JobRecord, room: Room | None = None) -> None:
        """Note a question if there is room for it, and forget those that ended long ago."""
        written = canonical_json(record.query)
        with self._database.writing() as connection:
            if room is not None:
                _check_room(connection, record, written, room)
            connection.execute(
                f"INSERT INTO jobs ({_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)",  # noqa: S608 - constants
                *(record.id, record.server, record.asker, record.asked_by, record.dataset),
                *(written, record.request, record.time),
            )
            oldest = datetime.now(UTC) - timedelta(days=KEPT_DAYS)
            connection.execute(
                "DELETE FROM jobs WHERE outcome IS NOT NULL AND time < ?",
                oldest.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            )

    def end(self, job_id: str, server: str, outcome: str, *, for_good: bool = True) -> None:
        """Note how a question ended at the server process that has it; others are not believed.

        A process that was taken to be gone, and lives, may come late: then another one has it. What
        this job charged and did not get is given up with it, unless another open job of the same
        request waits for it, or it is not `for_good`: others wait for the same answer.
        """
        with self._database.writing() as connection:
            rows = connection.execute(
                "SELECT dataset, query, request FROM jobs"
                " WHERE id = ? AND server = ? AND outcome IS NULL",
                *(job_id, server),
            )
            if not rows:
                return
            connection.execute("UPDATE jobs SET outcome = ? WHERE id = ?", outcome, job_id)
            of, query, request = rows[0]
            if for_good and not waiting_for(connection, of, query, request):
                connection.execute(
                    "DELETE FROM unfinished WHERE question = ? AND request = ?",
                    *(question_key(of, query), request),
                )

    def forget(self, job_id: str) -> None:
        """Take back the record of a question that was not taken in."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM jobs WHERE id = ?", job_id)

    def find(self, job_id: str) -> JobRecord | None:
        """The record of a job."""
        with self._database.lookup() as connection:
            found = _read(connection, "WHERE id = ?", job_id)
        return found[0] if found else None

    def asked_by(self, asker: str, first: int = 0, most: int = MOST_LISTED) -> list[JobRecord]:
        """What one token asked, the newest first: so many, from the first one wanted on."""
        which = "WHERE asker = ? ORDER BY time DESC, id LIMIT ? OFFSET ?"
        with self._database.reading() as connection:
            return _read(connection, which, asker, most, first)

    def count_by(self, asker: str) -> int:
        """How many questions of one token are noted."""
        with self._database.reading() as connection:
            rows = connection.execute("SELECT COUNT(*) FROM jobs WHERE asker = ?", asker)
        return int(rows[0][0])

    def drop_waiting(self) -> None:
        """Forget what is under way, and keys of noise: in a copy, where nobody waits for it."""
        with self._database.writing() as connection:
            erase_all(connection)
            connection.execute("DELETE FROM jobs WHERE outcome IS NULL")

    def servers(self) -> set[str]:
        """The server processes that have questions under way, alive or not."""
        with self._database.reading() as connection:
            rows = connection.execute("SELECT DISTINCT server FROM jobs WHERE outcome IS NULL")
        return {str(row[0]) for row in rows}

    def under_way_at(self, server: str) -> list[JobRecord]:
        """What a server process has under way, or left behind, the oldest first."""
        with self._database.reading() as connection:
            return _read(connection, _UNDER_WAY, server)

    def adopt(self, old: str, new: str) -> list[JobRecord]:
        """Let one server process have what another left behind; what that is, the oldest first."""
        with self._database.writing() as connection:
            left = _read(connection, _UNDER_WAY, old)
            connection.execute(
                "UPDATE jobs SET server = ? WHERE server = ? AND outcome IS NULL", new, old
            )
        return left


_UNDER_WAY = "WHERE server = ? AND outcome IS NULL ORDER BY time, id"


def _check_room(connection: Connection, record: JobRecord, written: str, room: Room) -> None:
    """Refuse a question for which there is no room; joining one that is asked takes none."""
    rows = connection.execute("SELECT asker, dataset, query FROM jobs WHERE outcome IS NULL")
    asked = {(dataset, query) for _, dataset, query in rows}
    if (record.dataset, written) not in asked and len(asked) >= room.most:
        raise LimitReached("Too many answers are being computed. Try again in a minute.")
    if sum(asker == record.asker for asker, *_ in rows) >= room.most_each:
        raise LimitReached(
            f"A token may have {room.most_each} answers under way. Wait until one is done."
        )


def _read(connection: Connection, which: str, *values: str | int) -> list[JobRecord]:
    found = []
    for row in connection.execute(f"{_RECORD} {which}", *values):
        job_id, server, asker, asked_by, dataset, query, *rest = row
        asked = json.loads(query)
        found.append(JobRecord(job_id, server, asker, asked_by, dataset, asked, *rest))
    return found
