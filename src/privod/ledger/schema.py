"""The tables of the ledger, as numbered steps from one version to the next.

A step, once released, is never edited: a change of the tables is a new step at the end.
"""

from __future__ import annotations

from privod.errors import Unavailable
from privod.ledger.database import Database

Step = tuple[tuple[str, ...], dict[str, tuple[str, ...]]]
"""Statements for every engine, and further ones by engine."""


def _append_only(engine: str) -> tuple[str, ...]:
    """Triggers that stop slips; who means it can drop them, and `verify` finds it."""
    tables = ("entries", "releases")
    if engine == "sqlite":
        return tuple(
            f"CREATE TRIGGER {table}_never_{what.lower()} BEFORE {what} ON {table}"
            " BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
            for table in tables
            for what in ("UPDATE", "DELETE")
        )
    return (
        "CREATE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$",
        *(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE"
            f" ON {table} EXECUTE FUNCTION append_only()"
            for table in tables
        ),
    )


FIRST: Step = (
    (
        # What the chain should end in; `witnessed` is set once there was a witness (so that one
        # that is gone is missed), and `backup` in a copy, which answers nothing new before it is
        # accepted.
        """CREATE TABLE head (
            length INTEGER NOT NULL,
            hash TEXT NOT NULL,
            witnessed INTEGER NOT NULL DEFAULT 0,
            backup INTEGER NOT NULL DEFAULT 0)""",
        "INSERT INTO head (length, hash) VALUES (0, '')",
        """CREATE TABLE datasets (
            name TEXT PRIMARY KEY,
            entry INTEGER NOT NULL UNIQUE,
            root TEXT NOT NULL,
            continues TEXT,
            domain TEXT NOT NULL,
            registered TEXT NOT NULL,
            folder TEXT NOT NULL,
            seal TEXT NOT NULL,
            retired INTEGER)""",
        """CREATE TABLE entries (
            number INTEGER PRIMARY KEY,
            time TEXT NOT NULL,
            kind TEXT NOT NULL,
            dataset TEXT NOT NULL,
            budget INTEGER,
            adjacency TEXT,
            epsilon TEXT,
            delta TEXT,
            query TEXT,
            asked_by TEXT NOT NULL,
            ask INTEGER,
            request TEXT,
            digest TEXT,
            details TEXT,
            token TEXT,
            previous TEXT NOT NULL,
            hash TEXT NOT NULL)""",
        "CREATE INDEX entries_by_budget ON entries (budget)",
        "CREATE INDEX entries_by_dataset ON entries (dataset)",
        "CREATE INDEX entries_by_token ON entries (token)",
        "CREATE UNIQUE INDEX entries_by_request ON entries (request)",
        # `conversion_delta` is empty unless a budget is counted by zcdp.
        """CREATE TABLE budgets (
            number INTEGER PRIMARY KEY,
            root TEXT NOT NULL,
            adjacency TEXT NOT NULL,
            role TEXT NOT NULL,
            budget_epsilon TEXT NOT NULL,
            budget_delta TEXT NOT NULL,
            conversion_delta TEXT,
            spent_epsilon TEXT NOT NULL DEFAULT '0',
            spent_delta TEXT NOT NULL DEFAULT '0',
            spent_rho TEXT NOT NULL DEFAULT '0',
            adding INTEGER NOT NULL DEFAULT 1,
            closed INTEGER,
            UNIQUE (root, adjacency))""",
        """CREATE TABLE token_limits (
            budget INTEGER NOT NULL,
            token TEXT NOT NULL,
            epsilon TEXT NOT NULL,
            delta TEXT NOT NULL,
            PRIMARY KEY (budget, token))""",
        """CREATE TABLE releases (
            entry INTEGER PRIMARY KEY,
            question TEXT NOT NULL UNIQUE,
            dataset TEXT NOT NULL,
            release TEXT NOT NULL)""",
        "CREATE INDEX releases_by_dataset ON releases (dataset)",
        """CREATE TABLE tokens (
            number INTEGER PRIMARY KEY,
            hash TEXT NOT NULL UNIQUE,
            role TEXT NOT NULL,
            dataset TEXT,
            name TEXT NOT NULL,
            created TEXT NOT NULL,
            revoked TEXT,
            expires TEXT)""",
        # The questions that a server works on, so that a restart forgets none.
        """CREATE TABLE jobs (
            id TEXT PRIMARY KEY,
            server TEXT NOT NULL,
            asker TEXT NOT NULL,
            asked_by TEXT NOT NULL,
            dataset TEXT NOT NULL,
            query TEXT NOT NULL,
            request TEXT NOT NULL,
            time TEXT NOT NULL,
            outcome TEXT)""",
        "CREATE INDEX jobs_by_asker ON jobs (asker)",
        # What server processes tell each other; a backup takes none of it along.
        """CREATE TABLE server_notes (
            kind TEXT NOT NULL,
            key TEXT NOT NULL,
            value TEXT NOT NULL,
            time BIGINT NOT NULL,
            PRIMARY KEY (kind, key))""",
        "CREATE INDEX server_notes_by_time ON server_notes (kind, time)",
        # Answers that were charged and are not stored yet, with keys of noise, which no backup has.
        """CREATE TABLE unfinished (
            question TEXT PRIMARY KEY,
            ask INTEGER NOT NULL,
            request TEXT,
            noise_key TEXT NOT NULL,
            runs INTEGER NOT NULL)""",
    ),
    {engine: _append_only(engine) for engine in ("sqlite", "postgresql")},
)

STEPS: tuple[Step, ...] = (FIRST,)


def check_version(database: Database) -> None:
    """Refuse a database that this version cannot read without changing it."""
    with database.reading() as connection:
        seen = int(connection.execute("SELECT version FROM schema_version")[0][0])
    if seen != len(STEPS):
        raise Unavailable(
            f"The ledger is of version {seen} and this privod reads version {len(STEPS)}."
            " Open it once for writing with this version, or install the one that wrote it."
        )


def bring_up_to_date(database: Database) -> None:
    """Apply the steps that this database has not seen, all or none of them."""
    try:
        _apply_steps(database)
    except Unavailable as problem:
        try:
            check_version(database)
        except Unavailable:
            raise problem from None


def _apply_steps(database: Database) -> None:
    with database.writing() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
        rows = connection.execute("SELECT version FROM schema_version")
        seen = int(rows[0][0]) if rows else 0
        if seen > len(STEPS):
            raise Unavailable(
                f"The ledger is of version {seen} and this privod knows {len(STEPS)}."
                " Install a newer privod."
            )
        if seen == len(STEPS):
            return
        for common, by_engine in STEPS[seen:]:
            for statement in (*common, *by_engine.get(database.engine, ())):
                connection.execute(statement)
        connection.execute("DELETE FROM schema_version")
        connection.execute("INSERT INTO schema_version (version) VALUES (?)", len(STEPS))
