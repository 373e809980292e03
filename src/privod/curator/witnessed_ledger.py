"""A ledger with its witnesses: whether it may answer, and when entries are durable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from privod.curator.work import erase_all
from privod.errors import LedgerDamaged, Unavailable
from privod.ledger import chain as ledger
from privod.ledger.database import Connection, Database
from privod.ledger.sqlite import SQLite
from privod.ledger.store import Stored, short_text
from privod.ledger.witness import Head, Witnesses
from privod.query.query import canonical_json

BACKUP = (
    "The ledger in {0!r} is a backup, or a restored copy that nobody accepted: what was asked after"
    " it was made is not in it, and would be charged as new. Put a backup back (`privod restore`)."
    " Then charge what it lacks (`privod charge`) and accept it (`privod accept-restored`)."
    " `privod verify` works before that."
)
UNACCEPTED = (
    "The ledger was opened to be restored and answers nothing new before its owner accepts it."
    " Charge what it lacks, then accept it as restored."
)

GONE = (
    "The witness of the ledger in {0!r} is gone, so nobody can tell whether the ledger lost"
    " entries. Put it back; if it is lost, compare the ledger with a head noted elsewhere and"
    " accept it as restored."
)


class WitnessedLedger:
    """Keeps a ledger and its witnesses together."""

    def __init__(
        self, database: Database, witnesses: Witnesses, directory: Path, *, restoring: bool
    ) -> None:
        self.database = database
        self.witnesses = witnesses
        self.directory = directory
        self._restoring = restoring
        self._unsound = restoring
        """Whether it may lack entries: then witnesses are told nothing, which would hide it."""
        with suppress(*((LedgerDamaged, Unavailable) if restoring else ())):
            self._check()
            self._unsound = False

    def _check(self) -> None:
        """Refuse a ledger that lost entries; begin a witness where there was none."""
        seen = self.witnesses.read()
        with self.database.reading() as connection:
            self.witnesses.check(connection, seen)
            head = Head(*ledger.read_head(connection))
            backup = connection.execute("SELECT backup FROM head")[0][0]
            if self.database.read_only:
                return
            if backup:
                raise Unavailable(BACKUP.format(str(self.directory)))
            self._check_there(connection, seen)
        if seen[0] is not None:
            return
        self.database.sync()
        self.witnesses.note(head)
        with self.database.writing() as connection:
            connection.execute("UPDATE head SET witnessed = 1")

    def check_there(self) -> None:
        """Refuse a ledger that may be written and whose witness is gone."""
        if not self.database.read_only:
            with self.database.lookup() as connection:
                self._check_there(connection, self.witnesses.read())

    def _check_there(self, connection: Connection, seen: Sequence[Head | None]) -> None:
        """Refuse a ledger whose witness is gone: the one beside it, which every ledger has.

        Several hosts may serve one database of PostgreSQL, and the next one has none yet.
        """
        if seen[0] is not None or not isinstance(self.database, SQLite):
            return
        if connection.execute("SELECT witnessed FROM head")[0][0]:
            raise LedgerDamaged(GONE.format(str(self.directory)))

    def accept_restored(self, reason: str) -> str:
        """Enter that the ledger lost entries, with what its witnesses saw; returns its head."""
        text = short_text(reason, "reason")
        seen = [str(file.read() or "") for file in self.witnesses.files]
        with self.database.writing() as connection:
            query = canonical_json({"reason": text, "witnesses": seen})
            ledger.append(connection, kind="restored", dataset="", query=query)
            connection.execute("UPDATE head SET witnessed = 1, backup = 0")
            erase_all(connection)  # what was left may have been answered where entries were lost
            head = Head(*ledger.read_head(connection))
        self.witnesses.start_anew(head)
        self._restoring = self._unsound = False
        return str(head)

    def head(self) -> Head:
        """Where the ledger ends."""
        with self.database.reading() as connection:
            return Head(*ledger.read_head(connection))

    def mark_as_backup(self) -> None:
        """Let this ledger answer no new question before it is accepted as restored."""
        with self.database.writing() as connection:
            connection.execute("UPDATE head SET backup = 1")

    def check_may_charge(self, connection: Connection) -> None:
        """Refuse to charge a question to a ledger that may lack entries."""
        seen = self.witnesses.read()
        self.witnesses.check(connection, seen)
        if connection.execute("SELECT backup FROM head")[0][0]:
            raise Unavailable(BACKUP.format(str(self.directory)))
        if self._restoring:
            raise Unavailable(UNACCEPTED)
        self._check_there(connection, seen)

    def _note(self, head: Head) -> None:
        """Let the witnesses see what an owner did, unless the ledger may lack entries.

        It may where they saw more than it holds, and where the one beside it is gone. No answer
        waits for it, so the disk is not waited for a second time.
        """
        if self._unsound:
            return
        seen = self.witnesses.read()
        with self.database.lookup() as connection, suppress(LedgerDamaged):
            self.witnesses.check(connection, seen)
            self._check_there(connection, seen)
            self.witnesses.note(head, durably=False)

    @contextmanager
    def writing(self, *, durably: bool = False) -> Iterator[Connection]:
        """Change what an owner may change, and let the witnesses see it, if `durably` on disk."""
        with self.database.writing() as connection:
            yield connection
            head = Head(*ledger.read_head(connection))
        if durably:
            self.witnesses.note(head)
        else:
            self._note(head)

    def ensure_durable(self, stored: Stored) -> None:
        """Have a release on disk and witnessed before it is shown.

        A crash may have come before that, or its storing goes on. Who opened the ledger to read
        it only sees what they find there, and one that may lack entries has no witness to tell.
        """
        if self.database.read_only:
            return
        if self._unsound:
            self.database.sync()
        elif not all(file.holds(stored.entry) for file in self.witnesses.files):
            self.database.sync()
            self.check_there()
            self.witnesses.note(stored.head)
