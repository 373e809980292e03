"""Which engine keeps the book: an SQLite file beside the rows, or PostgreSQL by its URL."""

from __future__ import annotations

from pathlib import Path

from privod.curator.database import Database

__all__ = ["open_database"]


def open_database(directory: Path, url: str | None) -> Database:
    """The database at a URL, or the SQLite file inside the directory."""
    if url is None:
        from privod.curator.sqlite import SQLite

        return SQLite(directory)
    from privod.curator.postgresql import PostgreSQL

    return PostgreSQL(url)
