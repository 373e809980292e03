"""The tables of the ledger, as numbered steps from one version to the next.

A step, once released, is never edited: a change of the tables is a new step at the end.
"""

from __future__ import annotations

from privod.errors import Unavailable
from privod.ledger.chain import append, now
from privod.ledger.database import Database

__all__ = ["STEPS", "TABLES", "bring_up_to_date", "check_version"]

TABLES = (*("head", "datasets", "entries", "books", "releases", "tokens", "token_limits", "jobs"),)
"""Every table that has content of its own, in an order in which they can be filled."""

Step = tuple[tuple[str, ...], dict[str, tuple[str, ...]]]
"""Statements for every engine, and further ones by engine."""

FIRST: Step = (
    (
        # What the chain should end in; `moved_to` is set once the ledger lives elsewhere.
        "CREATE TABLE head (length INTEGER NOT NULL, hash TEXT NOT NULL, moved_to TEXT)",
        "INSERT INTO head (length, hash) VALUES (0, '')",
        """CREATE TABLE datasets (
            name TEXT PRIMARY KEY,
            entry INTEGER NOT NULL UNIQUE,
            root TEXT NOT NULL,
            continues TEXT,
            domain TEXT NOT NULL,
            registered TEXT NOT NULL,
            folder TEXT NOT NULL,
            seal TEXT NOT NULL)""",
        """CREATE TABLE entries (
            number INTEGER PRIMARY KEY,
            time TEXT NOT NULL,
            kind TEXT NOT NULL,
            dataset TEXT NOT NULL,
            book INTEGER,
            adjacency TEXT,
            epsilon TEXT,
            delta TEXT,
            query TEXT,
            asked_by TEXT NOT NULL,
            ask INTEGER,
            request TEXT,
            digest TEXT,
            previous TEXT NOT NULL,
            hash TEXT NOT NULL)""",
        "CREATE INDEX entries_by_book ON entries (book)",
        "CREATE INDEX entries_by_dataset ON entries (dataset)",
        "CREATE UNIQUE INDEX entries_by_request ON entries (request)",
        """CREATE TABLE books (
            number INTEGER PRIMARY KEY,
            root TEXT NOT NULL,
            adjacency TEXT NOT NULL,
            budget_epsilon TEXT NOT NULL,
            budget_delta TEXT NOT NULL,
            spent_epsilon TEXT NOT NULL,
            spent_delta TEXT NOT NULL,
            UNIQUE (root, adjacency))""",
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
            label TEXT NOT NULL,
            created TEXT NOT NULL,
            revoked TEXT)""",
    ),
    {
        # Slips are stopped here; who means it can drop the triggers, and `verify` finds it.
        "sqlite": tuple(
            f"CREATE TRIGGER {table}_never_{what.lower()} BEFORE {what} ON {table}"
            " BEGIN SELECT RAISE(ABORT, 'the book is append-only'); END"
            for table in ("entries", "releases")
            for what in ("UPDATE", "DELETE")
        ),
        "postgresql": (
            "CREATE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$",
            *(
                f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE"
                f" ON {table} EXECUTE FUNCTION append_only()"
                for table in ("entries", "releases")
            ),
        ),
    },
)

# Whether a witness was ever made beside this ledger, so that one that is gone is missed.
WITNESSED: Step = (("ALTER TABLE head ADD COLUMN witnessed INTEGER NOT NULL DEFAULT 0",), {})

# Budgets that are allowances, closed, raised; entries with details and token ids.
LIFE_CYCLE: Step = (
    (
        "ALTER TABLE entries ADD COLUMN details TEXT",
        "ALTER TABLE entries ADD COLUMN token TEXT",
        "ALTER TABLE books ADD COLUMN role TEXT NOT NULL DEFAULT 'main'",
        # A narrow budget of the first version also pays for wide questions, as it promised.
        "UPDATE books SET role = 'narrow' WHERE adjacency NOT IN"
        """ ('{"name":"add-remove"}', '{"name":"replace"}')""",
        "ALTER TABLE books ADD COLUMN closed INTEGER",
        "ALTER TABLE books ADD COLUMN converted INTEGER",
        "ALTER TABLE datasets ADD COLUMN retired INTEGER",
        "ALTER TABLE tokens ADD COLUMN expires TEXT",
        """CREATE TABLE token_limits (
            book INTEGER NOT NULL,
            token TEXT NOT NULL,
            epsilon TEXT NOT NULL,
            delta TEXT NOT NULL,
            PRIMARY KEY (book, token))""",
        "CREATE INDEX entries_by_token ON entries (token)",
    ),
    {},
)

# Budgets that are counted by zcdp; the others leave the first column empty.
CONCENTRATED: Step = (
    (
        "ALTER TABLE books ADD COLUMN conversion_delta TEXT",
        "ALTER TABLE books ADD COLUMN spent_rho TEXT NOT NULL DEFAULT '0'",
        "ALTER TABLE books ADD COLUMN adding INTEGER NOT NULL DEFAULT 1",
    ),
    {},
)

# The questions that a server works on, so that a restart forgets none.
JOBS: Step = (
    (
        """CREATE TABLE jobs (
            id TEXT PRIMARY KEY,
            server TEXT NOT NULL,
            asker TEXT NOT NULL,
            label TEXT NOT NULL,
            dataset TEXT NOT NULL,
            query TEXT NOT NULL,
            request TEXT NOT NULL,
            time TEXT NOT NULL,
            outcome TEXT)""",
        "CREATE INDEX jobs_by_asker ON jobs (asker)",
    ),
    {},
)

# Whether this is a backup, which sells nothing before it is put back.
BACKUPS: Step = (("ALTER TABLE head ADD COLUMN backup INTEGER NOT NULL DEFAULT 0",), {})

# What server processes tell each other; no part of `TABLES`, so no copy takes it along.
SERVER_NOTES: Step = (
    (
        """CREATE TABLE server_notes (
            kind TEXT NOT NULL,
            key TEXT NOT NULL,
            value TEXT NOT NULL,
            time BIGINT NOT NULL,
            PRIMARY KEY (kind, key))""",
        "CREATE INDEX server_notes_by_time ON server_notes (kind, time)",
    ),
    {},
)

# A label is a yes or no about a record, and nothing else.
NAMES: Step = (
    (
        "ALTER TABLE tokens RENAME COLUMN label TO name",
        "ALTER TABLE jobs RENAME COLUMN label TO asked_by",
    ),
    {},
)

# Answers that were charged and are not stored yet, with keys of noise; no part of `TABLES` either.
UNFINISHED: Step = (
    (
        """CREATE TABLE unfinished (
            question TEXT PRIMARY KEY,
            ask INTEGER NOT NULL,
            request TEXT,
            noise_key TEXT NOT NULL,
            runs INTEGER NOT NULL)""",
    ),
    {},
)

STEPS: tuple[Step, ...] = (
    *(FIRST, WITNESSED, LIFE_CYCLE, CONCENTRATED, JOBS),
    *(BACKUPS, SERVER_NOTES, NAMES, UNFINISHED),
)
ALLOWANCES = 3  # the version from which on narrow questions are charged to allowances


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
        if 0 < seen < ALLOWANCES and connection.execute(
            "SELECT length FROM head WHERE moved_to IS NULL AND length > 0"
        ):
            # Entries before this one were priced by the rules of the version that made them. It is
            # no earlier than the tokens of that version, whatever the clock says meanwhile.
            made = connection.execute("SELECT MAX(created) FROM tokens")[0][0]
            time = max(now(), made or "")
            append(connection, time=time, kind="rules", dataset="", details='{"version":2}')
        connection.execute("DELETE FROM schema_version")
        connection.execute("INSERT INTO schema_version (version) VALUES (?)", len(STEPS))
