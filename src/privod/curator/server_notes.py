"""What server processes tell each other: short notes, never a token or a row."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from privod.ledger.database import Connection, Database

SECRET = "secret"  # noqa: S105 - the kind of a note, not one


@dataclass(frozen=True)
class Note:
    """What was noted, and when, in seconds since 1970."""

    value: str
    time: float


class ServerNotes:
    """Notes by kind and key."""

    def __init__(self, database: Database, clock: Callable[[], float] | None = None) -> None:
        self._database = database
        self.clock = clock or database.clock

    def put(self, kind: str, key: str, value: str, most: int, oldest: float) -> None:
        """Note something; of its kind the longest unseen go where there are too many or too old."""
        now = self.clock()
        with self._database.writing() as connection:
            _put(connection, kind, key, value, now)
            connection.execute(
                "DELETE FROM server_notes WHERE kind = ? AND time < ?", kind, _stored(oldest)
            )
            connection.execute(
                "DELETE FROM server_notes WHERE kind = ? AND key IN (SELECT key FROM server_notes"
                " WHERE kind = ? ORDER BY time DESC, key LIMIT 1000000 OFFSET ?)",
                kind,
                kind,
                most,
            )

    def refresh(self, kind: str, key: str) -> None:
        """Note that something was seen now, if it is still there."""
        now = _stored(self.clock())
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE server_notes SET time = ? WHERE kind = ? AND key = ?", now, kind, key
            )

    def find(self, kind: str, key: str) -> Note | None:
        """What was noted."""
        with self._database.lookup() as connection:
            return _find(connection, kind, key)

    def count(self, kind: str, oldest: float) -> int:
        """How many notes of a kind are no older."""
        with self._database.lookup() as connection:
            rows = connection.execute(
                "SELECT COUNT(*) FROM server_notes WHERE kind = ? AND time >= ?",
                *(kind, _stored(oldest)),
            )
        return int(rows[0][0])

    def take(self, kind: str, key: str) -> Note | None:
        """What was noted, once: whoever takes it next finds nothing."""
        with self._database.writing() as connection:
            found = _find(connection, kind, key)
            connection.execute("DELETE FROM server_notes WHERE kind = ? AND key = ?", kind, key)
        return found

    def secret(self, name: str) -> bytes:
        """A secret that all processes share: drawn by the first one that wants it."""
        found = self.find(SECRET, name)
        if found is None:
            now = self.clock()
            with self._database.writing() as connection:
                found = _find(connection, SECRET, name)
                if found is None:
                    found = Note(secrets.token_hex(32), now)
                    _put(connection, SECRET, name, found.value, found.time)
        return bytes.fromhex(found.value)

    def clear(self) -> None:
        """Forget everything."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM server_notes")


def _put(connection: Connection, kind: str, key: str, value: str, moment: float) -> None:
    connection.execute("DELETE FROM server_notes WHERE kind = ? AND key = ?", kind, key)
    connection.execute(
        "INSERT INTO server_notes (kind, key, value, time) VALUES (?, ?, ?, ?)",
        *(kind, key, value, _stored(moment)),
    )


def _find(connection: Connection, kind: str, key: str) -> Note | None:
    rows = connection.execute(
        "SELECT value, time FROM server_notes WHERE kind = ? AND key = ?", kind, key
    )
    return Note(str(rows[0][0]), int(rows[0][1]) / 1000) if rows else None


def _stored(moment: float) -> int:
    return round(1000 * moment)
