"""Copy a curator while it runs, and put such a copy back."""

from __future__ import annotations

import shutil
from pathlib import Path

from privod.curator.curator import Curator
from privod.errors import AlreadyExists, Unavailable
from privod.ledger.private_files import private_directory, private_file, sync_file
from privod.ledger.sqlite import LEDGER_FILE, SQLite
from privod.ledger.values import Verification


def backup(curator: Curator, destination: str | Path) -> Verification:
    """Copy the ledger and the rows of a running curator to a new directory, and verify the copy.

    Others go on asking meanwhile. The copy can be read and verified (`read_only=True`); it answers
    nothing new before it is put back (`restore`) and accepted (`Curator.accept_restored`).
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
            with copy.database.reading() as connection:
                kept = connection.execute("SELECT folder FROM datasets WHERE retired IS NULL")
            _copy_rows([str(folder) for (folder,) in kept], curator, copy)
            return copy.verify()
    except OSError as problem:
        raise Unavailable(
            f"The backup to {str(target)!r} failed ({problem.strerror}). Check its disk."
        ) from None


def restore(
    kept: str | Path, destination: str | Path, expected_head: str | None = None
) -> Verification:
    """Put a backup in a new place and verify it there; the backup stays as it is.

    It answers nothing new there: open it with `restoring=True`, charge what it lacks
    (`ChargeElsewhere`) and accept it. A head noted with the backup, or later, must be in it.
    """
    with Curator.open(kept, read_only=True) as copy:
        copy.verify(expected_head)
        return backup(copy, destination)


def _copy_rows(folders: list[str], source: Curator, target: Curator) -> None:
    private_directory(target.directory / "rows")
    for folder in folders:
        there = target.directory / "rows" / folder
        shutil.copytree(source.directory / "rows" / folder, there, dirs_exist_ok=True)
        for path in (*there.rglob("*"), there):
            sync_file(path)
    for path in (target.directory / "rows", target.directory):
        sync_file(path)
