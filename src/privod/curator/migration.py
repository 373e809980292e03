"""Copy a curator while it runs, and move its ledger to another database."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from privod.curator.curator import Curator
from privod.errors import AlreadyExists, InvalidParameter, Unavailable
from privod.ledger import chain as ledger
from privod.ledger.database import Connection
from privod.ledger.private_files import private_directory, private_file, sync_file
from privod.ledger.schema import TABLES
from privod.ledger.sqlite import LEDGER_FILE, SQLite
from privod.ledger.verified import Verification


def backup(curator: Curator, destination: str | Path) -> Verification:
    """Copy the ledger and the rows of a running curator to a new directory, and verify the copy.

    Others go on asking meanwhile; the copy is the ledger of one moment. Its head is in what is
    returned: note it elsewhere, to recognize an old backup later. The copy is marked as a backup:
    it can be read and verified (`read_only=True`), and answers nothing new before it is put back
    (`restore`) and accepted (`Curator.accept_restored`).
    """
    if not isinstance(curator.database, SQLite):
        raise Unavailable(
            "A ledger in PostgreSQL is backed up by the server's own tools."
            " Run pg_dump first, then copy the directory of rows."
        )
    target = Path(destination)
    if target.exists() and any(target.iterdir()):
        raise AlreadyExists(f"The directory {str(target)!r} is not empty. Name a new one.")
    try:
        private_directory(target)
        private_file(target / LEDGER_FILE)
        curator.database.copy_to(target / LEDGER_FILE)
        with Curator.open(target, restoring=True) as copy:
            copy.witnessed.mark_as_backup()  # first, so that a copy cut short answers nothing
            copy.witnesses.start_anew(copy.witnessed.head())
            copy.job_records.drop_waiting()  # the original's server answers them
            copy.server_notes.clear()
            # Rows never change and are there before their entry, so the later copy is complete.
            _copy_rows(_folders(copy), curator, copy)
            return copy.verify()
    except OSError as problem:
        raise Unavailable(
            f"The backup to {str(target)!r} failed ({problem.strerror}). Check its disk."
        ) from None


def restore(
    kept: str | Path, destination: str | Path, expected_head: str | None = None
) -> Verification:
    """Put a backup in a new place and verify it there; the backup stays as it is.

    A backup lacks what was charged after it was made, and where it came from may still answer. So
    it answers nothing new where it is put back either: open it with `restoring=True`, charge what
    it lacks (`ChargeElsewhere`), and accept it (`accept_restored`). A head that was noted with the
    backup, or later, must be in it.
    """
    with Curator.open(kept, read_only=True) as copy:
        copy.verify(expected_head)
        return backup(copy, destination)


def migrate(source: Curator, target: Curator) -> Verification:
    """Move a ledger with its releases and tokens into an empty database, and verify both sides.

    The source takes no more entries from the first step on, so nothing can be spent twice. A move
    that was interrupted is finished by calling this again. The target is opened on the same
    directory of rows or on a new one.
    """
    if source.database.where == target.database.where:
        way_out = "Open the target on another database."
        raise InvalidParameter("target", "must be another database", target.database.where, way_out)
    source.verify()
    if not _is_empty(target):
        raise AlreadyExists(
            f"{target.database.where} holds a ledger already. Move into an empty database."
        )
    _close_for_good(source, target.database.where)
    if source.directory.resolve() != target.directory.resolve():
        _copy_rows(_folders(source), source, target)
    with source.database.reading() as old, target.database.writing() as new:
        new.execute("DELETE FROM head")
        for table in TABLES:
            _copy_table(old, new, table)
        new.execute("UPDATE head SET moved_to = NULL")
    target.witnesses.note(target.witnessed.head())
    return target.verify(expected_head=source.head())


def _is_empty(curator: Curator) -> bool:
    with curator.database.reading() as connection:
        return ledger.read_head(connection)[0] == 0


def _close_for_good(curator: Curator, where: str) -> None:
    with curator.database.writing() as connection:
        if connection.execute("SELECT moved_to FROM head")[0][0] is None:
            ledger.append(connection, kind="moved", dataset="")
            connection.execute("UPDATE head SET moved_to = ?", where)


def _copy_table(old: Connection, new: Connection, table: str) -> None:
    for row in _rows(old, table):
        marks = ", ".join("?" * len(row))
        new.execute(f"INSERT INTO {table} VALUES ({marks})", *row)  # noqa: S608 - a name of TABLES


def _rows(connection: Connection, table: str) -> Iterator[tuple[Any, ...]]:
    """A table's rows; releases one at a time, since each may be large."""
    if table != "releases":
        yield from connection.execute(f"SELECT * FROM {table}")  # noqa: S608 - a name of TABLES
        return
    for (entry,) in connection.execute("SELECT entry FROM releases ORDER BY entry"):
        yield from connection.execute("SELECT * FROM releases WHERE entry = ?", entry)


def _copy_rows(folders: list[str], source: Curator, target: Curator) -> None:
    private_directory(target.directory / "rows")
    for folder in folders:
        there = target.directory / "rows" / folder
        shutil.copytree(source.directory / "rows" / folder, there, dirs_exist_ok=True)
        for path in (*there.rglob("*"), there):
            sync_file(path)
    for path in (target.directory / "rows", target.directory):
        sync_file(path)


def _folders(curator: Curator) -> list[str]:
    """Where rows lie; those of a retired data set are gone."""
    with curator.database.reading() as connection:
        found = connection.execute("SELECT folder FROM datasets WHERE retired IS NULL")
        return [str(row[0]) for row in found]
