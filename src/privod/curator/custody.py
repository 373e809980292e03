"""May this ledger sell? What its witnesses saw decides, and whether it is a backup."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from privod.curator.unfinished import erase_all
from privod.errors import LedgerDamaged, Unavailable
from privod.ledger import chain as ledger
from privod.ledger.database import Connection, Database
from privod.ledger.sqlite import SQLite
from privod.ledger.store import release_entry, short_text
from privod.ledger.witness import Head, Witnesses
from privod.queries.query import canonical_json

__all__ = ["Custody"]

BACKUP = (
    "The ledger in {0!r} is a backup: what was asked after it was made is not in it, and would be"
    " sold again. Put it back by `privod restore`, or open it to be read only."
)
UNACCEPTED = (
    "The ledger was opened to be restored and sells nothing before its owner accepts it. Charge"
    " what it lacks, then accept it as restored."
)


class Custody:
    """Keeps a ledger and its witnesses together.

    Parameters
    ----------
    database : Database
        That holds the ledger.
    witnesses : Witnesses
        That remember how far it had come.
    directory : path
        Where its curator lives.
    restoring : bool
        Whether it was opened to be restored.
    """

    def __init__(
        self, database: Database, witnesses: Witnesses, directory: Path, *, restoring: bool
    ) -> None:
        self.database = database
        self.witnesses = witnesses
        self.directory = directory
        self._restoring = restoring
        if not restoring:
            self._check()

    def _check(self) -> None:
        """Refuse a ledger that lost entries; begin a witness where there was none."""
        with self.database.reading() as connection:
            self.witnesses.check(connection)
            head = Head(*ledger.read_head(connection))
            witnessed, backup = connection.execute("SELECT witnessed, backup FROM head")[0]
        if self.database.read_only:
            return
        if backup:
            raise Unavailable(BACKUP.format(str(self.directory)))
        if not self.witnesses.missing():
            return
        if witnessed and isinstance(self.database, SQLite):
            raise LedgerDamaged(
                f"The witness of the ledger in {str(self.directory)!r} is gone, so nobody can tell"
                " whether the ledger lost entries. Put it back; if it is lost, compare the ledger"
                " with a head noted elsewhere and accept it as restored."
            )
        self.database.sync()
        self.witnesses.note(head)
        with self.database.writing() as connection:
            connection.execute("UPDATE head SET witnessed = 1")

    def accept_restored(self, reason: str) -> str:
        """Go on with a ledger that lost entries, for the reason given; returns its head.

        Charge what is missing first (`charge_elsewhere`): what was asked then has been seen. The
        acceptance is an entry of its own, which says what the witness had seen.
        """
        text = short_text(reason, "reason")
        seen = [str(file.read() or "") for file in self.witnesses.files]
        with self.database.writing() as connection:
            query = canonical_json({"reason": text, "witnesses": seen})
            ledger.append(connection, kind="restored", dataset="", query=query)
            connection.execute("UPDATE head SET witnessed = 1, backup = 0")
            erase_all(connection)  # what was left may have been answered where entries were lost
            head = Head(*ledger.read_head(connection))
        self.witnesses.start_anew(head)
        self._restoring = False
        return str(head)

    def mark_as_backup(self) -> None:
        """Let this ledger sell nothing more before it is accepted as restored."""
        with self.database.writing() as connection:
            connection.execute("UPDATE head SET backup = 1")

    def check_sells(self, connection: Connection) -> None:
        """Refuse to charge a question to a ledger that may lack entries."""
        self.witnesses.check(connection)
        if connection.execute("SELECT backup FROM head")[0][0]:
            raise Unavailable(BACKUP.format(str(self.directory)))
        if self._restoring:
            raise Unavailable(UNACCEPTED)

    def _note(self, head: Head) -> None:
        """Let the witnesses see what an owner did, unless they saw more than the ledger holds.

        No answer waits for it, so the disk is not waited for a second time.
        """
        with self.database.glancing() as connection, suppress(LedgerDamaged):
            self.witnesses.check(connection)
            self.witnesses.note(head, durably=False)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Change what an owner may change, and let the witnesses see it."""
        with self.database.writing() as connection:
            yield connection
            head = Head(*ledger.read_head(connection))
        self._note(head)

    def let_see(self, key: str) -> Head:
        """Where the ledger ends; if a release was not on disk and witnessed before, it is now.

        A crash may have come before that, or its storing goes on. Who opened the ledger to read
        it only sees what they find there.

        Parameters
        ----------
        key : str
            Of the question that the release answers.
        """
        with self.database.glancing() as connection:
            entry, head = release_entry(connection, key)
        if not self.database.read_only and not self.witnesses.have_seen(entry):
            self.database.sync()
            self.witnesses.note(head)
        return head
