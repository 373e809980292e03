"""Which engine keeps the ledger: an SQLite file beside the rows, or PostgreSQL by its URL."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from privod.ledger.database import Database
from privod.ledger.private_files import close_to_others, private_file
from privod.ledger.witness import Witness, Witnesses

TOKEN_VARIABLE = "PRIVOD_WITNESS_TOKEN"  # noqa: S105 - the name of a variable, not a secret


def holds_ledger(directory: Path) -> bool:
    """Whether somebody has started a ledger in a directory."""
    from privod.ledger.sqlite import LEDGER_FILE

    return (directory / LEDGER_FILE).exists()


def open_database(directory: Path, url: str | None, read_only: bool = False) -> Database:
    """The database at a URL, or the SQLite file inside the directory."""
    if url is None and read_only:
        from privod.ledger.sqlite import SQLite

        return SQLite.copied_from(directory)
    if url is None:
        from privod.ledger.sqlite import LEDGER_FILE, SQLite

        private_file(directory / LEDGER_FILE)  # as SQLite then makes those it puts beside it
        for beside in directory.glob(f"{LEDGER_FILE}-*"):
            close_to_others(beside)
        return SQLite(directory)
    from privod.ledger.postgresql import PostgreSQL

    return PostgreSQL(url)


def witnesses_of(
    directory: Path, url: str | None, where: str, second: str | Path | None
) -> Witnesses:
    """The witness beside the ledger and, if the owner named one, another elsewhere."""
    # One directory of rows may serve several databases, of which each has a witness of its own.
    name = "witness" if url is None else f"witness-{hashlib.sha256(where.encode()).hexdigest()[:8]}"
    beside = Witness(directory / name)
    close_to_others(beside.path)
    if second is None:
        return Witnesses((beside,))
    if not str(second).startswith(("http://", "https://")):
        return Witnesses((beside, Witness(Path(second))))
    from privod.ledger.witness_elsewhere import WitnessElsewhere

    return Witnesses((beside, WitnessElsewhere(str(second), os.environ.get(TOKEN_VARIABLE, ""))))
