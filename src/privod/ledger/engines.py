"""Which engine keeps the ledger: an SQLite file beside the rows, or PostgreSQL by its URL."""

from __future__ import annotations

from pathlib import Path

from privod.ledger.database import Database
from privod.ledger.private_files import close_to_others, private_file

__all__ = ["open_database"]


def open_database(directory: Path, url: str | None) -> Database:
    """The database at a URL, or the SQLite file inside the directory."""
    if url is None:
        from privod.ledger.sqlite import LEDGER_FILE, SQLite

        private_file(directory / LEDGER_FILE)  # as SQLite then makes those it puts beside it
        for beside in directory.glob(f"{LEDGER_FILE}-*"):
            close_to_others(beside)
        return SQLite(directory)
    from privod.ledger.postgresql import PostgreSQL

    return PostgreSQL(url)
