"""Which questions are under way: noted before they wait, so that a restart forgets none.

A record says who asked what and, once it ended, how. Whether it was charged stands in the ledger,
under the request id of the record, and nowhere else.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from privod.curator.unfinished import erase_all, erase_charged, waiting_for
from privod.errors import LimitReached
from privod.ledger.chain import now
from privod.ledger.database import Connection, Database
from privod.ledger.store import question_key
from privod.query.query import canonical_json

KEPT_DAYS = 30  # after it ended
MOST_LISTED = 1000
_RECORD = "SELECT id, server, asker, asked_by, dataset, query, request, time, outcome FROM jobs"


@dataclass(frozen=True)
class JobRecord:
    """A question under way, or how it ended.

    Parameters
    ----------
    id : str
        The job's id, which its asker knows.
    server : str
        Which server process works on it.
    asker, asked_by : str
        The hash of the token that asked, and the name the ledger shall show.
    dataset, query : str, dict
        What is asked of which data set; the query as it was adapted to its budgets then, so that
        a budget that is opened later does not change what was asked.
    request : str
        The request id under which it is charged, at most once.
    time : str
        When it was asked.
    outcome : str, optional
        None while it is under way, "" once it is answered, else what was told in its place.
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
    """The records, in the ledger's database but outside its chain: they may be forgotten.

    Parameters
    ----------
    database : Database
        Where they are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, record: JobRecord, room: Room | None = None) -> None:
        """Note a question if there is room for it, and forget those that ended long ago."""
        written = canonical_json(record.query)
        with self._database.writing() as connection:
            if room is not None:
                _check_room(connection, record, written, room)
            connection.execute(
                "INSERT INTO jobs (id, server, asker, asked_by, dataset, query, request, time)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                record.id,
                record.server,
                record.asker,
                record.asked_by,
                record.dataset,
                written,
                record.request,
                record.time,
            )
            oldest = datetime.now(UTC) - timedelta(days=KEPT_DAYS)
            connection.execute(
                "DELETE FROM jobs WHERE outcome IS NOT NULL AND time < ?",
                oldest.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            )

    def end(self, job_id: str, server: str, outcome: str, *, for_good: bool = True) -> None:
        """Note how a question ended at the server process that has it; what others say is not.

        A process that was taken to be gone, and lives, may come late: then another one has it. What
        this job charged and did not get is given up with it, unless another open job of the same
        request waits for it.

        Parameters
        ----------
        job_id, server : str
            Which question, and who says so.
        outcome : str
            "" if it is answered, else what is told in its place.
        for_good : bool
            Whether it is not begun again; false where others still wait for the same answer.
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
                erase_charged(connection, question_key(of, query), request)

    def forget(self, job_id: str) -> None:
        """Take back the record of a question that was not taken in."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM jobs WHERE id = ?", job_id)

    def find(self, job_id: str) -> JobRecord | None:
        """The record of a job."""
        with self._database.glancing() as connection:
            rows = connection.execute(f"{_RECORD} WHERE id = ?", job_id)
        return _record(rows[0]) if rows else None

    def asked_by(self, asker: str, first: int = 0, most: int = MOST_LISTED) -> list[JobRecord]:
        """What one token asked, the newest first: so many, from the first one wanted on."""
        with self._database.reading() as connection:
            rows = connection.execute(
                f"{_RECORD} WHERE asker = ? ORDER BY time DESC, id LIMIT ? OFFSET ?",
                asker,
                most,
                first,
            )
        return [_record(row) for row in rows]

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
            return _under_way_at(connection, server)

    def adopt(self, old: str, new: str) -> list[JobRecord]:
        """Let one server process have what another left behind; what that is, the oldest first."""
        with self._database.writing() as connection:
            left = _under_way_at(connection, old)
            connection.execute(
                "UPDATE jobs SET server = ? WHERE server = ? AND outcome IS NULL", new, old
            )
        return left

    @staticmethod
    def moment() -> str:
        """The time, as records have it."""
        return now()


def _check_room(connection: Connection, record: JobRecord, written: str, room: Room) -> None:
    """Refuse a question for which there is no room; who joins in with others takes no more."""
    rows = connection.execute("SELECT asker, dataset, query FROM jobs WHERE outcome IS NULL")
    asked = {(dataset, query) for _, dataset, query in rows}
    if (record.dataset, written) not in asked and len(asked) >= room.most:
        raise LimitReached("Too many answers are being computed. Try again in a minute.")
    if sum(asker == record.asker for asker, *_ in rows) >= room.most_each:
        raise LimitReached(
            f"A token may have {room.most_each} answers under way. Wait until one is done."
        )


def _under_way_at(connection: Connection, server: str) -> list[JobRecord]:
    rows = connection.execute(
        f"{_RECORD} WHERE server = ? AND outcome IS NULL ORDER BY time, id", server
    )
    return [_record(row) for row in rows]


def _record(row: tuple[Any, ...]) -> JobRecord:
    job_id, server, asker, asked_by, dataset, query, request, time, outcome = row
    return JobRecord(
        job_id, server, asker, asked_by, dataset, json.loads(query), request, time, outcome
    )
