"""The ledger in a PostgreSQL database, for curators on several hosts; needs psycopg 3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

from privod.errors import InvalidParameter, LedgerDamaged, PrivodError, Unavailable
from privod.ledger.database import PATIENCE, Database, Driver, lock_number

try:
    import psycopg
except ImportError:
    raise Unavailable(
        "A ledger in PostgreSQL needs psycopg. Run: pip install 'privod[postgres]'"
    ) from None

WRITERS = lock_number("privod: one writer at a time")
SCHEMES = ("postgresql://", "postgres://")


class PostgreSQL(Database):
    """A database of its own on a PostgreSQL server."""

    engine = "postgresql"
    loses_locks = True
    _placeholder = "%s"
    _failures = psycopg.Error
    _begin_reading = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",)
    # Read committed: what is read after the lock is granted is what the last writer left. The lock
    # is free again while `_make_durable` waits. One text: one way to the server and back.
    _begin_writing = (
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = off;"
        f" SELECT pg_advisory_xact_lock({WRITERS})",
    )

    def __init__(self, url: str) -> None:
        super().__init__()
        if not isinstance(url, str) or not url.startswith(SCHEMES):
            way_out = "Write postgresql://user:password@host/database, or leave it out for SQLite."
            scheme = str(url).partition(":")[0]  # the rest may hold a password
            raise InvalidParameter("database", "must be a postgresql:// URL", scheme, way_out)
        self.address = self._url = url
        try:
            parts = psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.Error:
            way_out = "Write postgresql://user:password@host/database."
            raise InvalidParameter("database", "must be a readable URL", "it", way_out) from None
        self.where = f"PostgreSQL database {parts.get('dbname')!r} on {parts.get('host')!r}"

    def _connect(self) -> Driver:
        connection = psycopg.connect(self._url, autocommit=True, application_name="privod")
        try:
            connection.execute("SET synchronous_commit = on")
            connection.execute(f"SET lock_timeout = '{PATIENCE}s'")
            # A host that hangs in the middle of a write must not stop all the others for good.
            connection.execute(f"SET idle_in_transaction_session_timeout = '{PATIENCE}s'")
        except BaseException:
            connection.close()
            raise
        return cast(Driver, connection)

    def _explain(self, problem: Exception) -> PrivodError:
        retry = "A retry with the same request id never pays twice."
        if isinstance(problem, psycopg.errors.DiskFull):
            return Unavailable("The disk of the PostgreSQL server is full. Nothing was changed.")
        if isinstance(
            problem,
            psycopg.errors.InsufficientPrivilege
            | psycopg.errors.ReadOnlySqlTransaction
            | psycopg.errors.InvalidSchemaName,
        ):
            return Unavailable(
                "The PostgreSQL database cannot be written. Nothing was changed."
                " Check the rights of its user, and that it is not a read-only replica."
            )
        if isinstance(problem, psycopg.errors.LockNotAvailable):
            return Unavailable(
                f"The ledger in PostgreSQL was busy for {PATIENCE} seconds. Nothing was changed."
                " Ask again."
            )
        if isinstance(problem, psycopg.errors.DataCorrupted | psycopg.errors.IndexCorrupted):
            return LedgerDamaged("The PostgreSQL server says its files are damaged. Restore them.")
        if isinstance(problem, psycopg.OperationalError):
            return Unavailable(f"The PostgreSQL server cannot be reached, or went away. {retry}")
        kind = type(problem).__name__
        return LedgerDamaged(f"The ledger in PostgreSQL does not take what privod writes ({kind}).")

    @contextmanager
    def alone(self, key: str) -> Iterator[Callable[[], bool]]:
        """Hold a lock of the server; it is freed when its holder's connection ends."""
        with self.lookup() as connection:
            driver = connection.driver
            driver.execute("SET lock_timeout = 0")  # the answer we wait for may take long
            driver.execute(f"SELECT pg_advisory_lock({lock_number(key)})")

            def is_held() -> bool:
                try:
                    driver.execute("SELECT 1")
                except psycopg.Error:
                    return False
                return True

            try:
                yield is_held
            finally:
                try:
                    driver.execute(f"SELECT pg_advisory_unlock({lock_number(key)})")
                    driver.execute(f"SET lock_timeout = '{PATIENCE}s'")
                except psycopg.Error:
                    driver.close()  # which frees the lock too

    def clock(self) -> float:
        """Seconds since 1970 at the server: hosts' own clocks may differ."""
        with self.lookup() as connection:
            rows = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(rows[0][0])

    def _make_durable(self, driver: Driver) -> None:
        # A transaction that writes a record of its own to the log waits for it when it commits, and
        # with it for all before; the server writes those of many sessions together. A transaction
        # that only has a number does not wait.
        driver.execute("SELECT pg_logical_emit_message(true, 'privod', '')")

    def check_file(self) -> str:
        return ""  # the server checks its own pages
