"""The ledger in one SQLite file: write-ahead log, one writer at a time, synced before it counts.

A commit is written to the log without waiting for the disk; the log is synced right after, when the
next writer may already be at work. So writers that come together share the disk's time. What is
read before it is synced is no harm: whoever builds on it writes behind it in the same log, and is
synced with it. Before a checkpoint SQLite itself syncs the log, then the database.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from privod.errors import LedgerDamaged, PrivodError, Unavailable
from privod.ledger.database import PATIENCE, Database, Driver
from privod.ledger.private_files import sync_file

LEDGER_FILE = "ledger.sqlite3"
FIRST_WAIT = 0.01  # seconds; grows until PATIENCE is used up
UNAVAILABLE = {
    ("SQLITE_FULL",): "could not be written: the disk is full. Nothing was changed."
    " Free some space and ask again.",
    ("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN", "SQLITE_AUTH"): "cannot be opened for"
    " writing. Nothing was changed. Check the owner and the permissions of the file and of its"
    " directory.",
    ("SQLITE_BUSY",): f"was busy for {PATIENCE} seconds. Nothing was changed. Ask again.",
    ("SQLITE_IOERR",): "could not be read or written by the disk ({0}). Check the disk; a retry"
    " with the same request id never pays twice.",
}
"""What errors mean, by how their codes begin."""


class SQLite(Database):
    """The SQLite file of a curator's directory, shared by the processes of one host."""

    engine = "sqlite"
    loses_locks = False
    _placeholder = "?"
    _failures = sqlite3.Error
    _begin_reading = ("BEGIN",)
    _begin_writing = ("BEGIN IMMEDIATE",)

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.path = directory / LEDGER_FILE
        self.where = str(self.path)
        self._log = self.path.with_name(f"{LEDGER_FILE}-wal")
        self._locks = directory / "locks"

    @classmethod
    def copied_from(cls, directory: Path) -> SQLite:
        """The ledger of a directory that is only read: a copy of it in a temporary place."""
        copy = Path(tempfile.mkdtemp(prefix="privod-"))
        try:
            for name in (LEDGER_FILE, f"{LEDGER_FILE}-wal"):
                if (directory / name).exists():
                    shutil.copyfile(directory / name, copy / name)
        except OSError as problem:
            shutil.rmtree(copy, ignore_errors=True)
            raise Unavailable(
                f"The ledger in {str(directory)!r} cannot be read ({problem.strerror})."
                " Check the permissions of its files."
            ) from None
        database = cls(copy)
        database.where = str(directory / LEDGER_FILE)
        weakref.finalize(database, shutil.rmtree, copy, ignore_errors=True)
        return database

    def _connect(self) -> Driver:
        connection = sqlite3.connect(
            self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
        )
        # A byte that is no text any more must reach `verify`, which names its entry.
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        try:
            _use_write_ahead_log(connection)
            connection.execute("PRAGMA synchronous = NORMAL")  # `_make_durable` syncs the commits
            connection.execute("PRAGMA fullfsync = ON")  # where fsync alone means less, as on macOS
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")  # a backup is a copy of the file
        except BaseException:
            connection.close()
            raise
        return connection

    def _explain(self, problem: Exception) -> PrivodError:
        code = getattr(problem, "sqlite_errorname", "") or "no code"
        where = f"The ledger {str(self.path)!r}"
        for codes, said in UNAVAILABLE.items():
            if code.startswith(codes):
                return Unavailable(f"{where} {said.format(code)}")
        if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return LedgerDamaged(f"{where} is damaged as a file. Restore it from a backup.")
        return LedgerDamaged(f"{where} does not take what privod writes ({code}).")

    def _make_durable(self, driver: Driver) -> None:  # noqa: ARG002 - its log is a file
        try:
            # Our open connection keeps the log where it is, so this is the file we wrote to.
            sync_file(self._log)
        except OSError as problem:
            raise Unavailable(
                f"The ledger {str(self.path)!r} could not be made durable ({problem.strerror})."
                " Check the disk; a retry with the same request id never pays twice."
            ) from None

    @contextmanager
    def alone(self, key: str) -> Iterator[Callable[[], bool]]:
        """Hold a lock file; the system frees it when its holder dies."""
        handle = self._hold(self._locks / key)
        try:
            yield lambda: True
        finally:
            (self._locks / key).unlink(missing_ok=True)
            fcntl.flock(handle, fcntl.LOCK_UN)  # closing alone leaves it to a forked child's copy
            os.close(handle)

    def _hold(self, path: Path) -> int:
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            while True:
                handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                fcntl.flock(handle, fcntl.LOCK_EX)
                if _is_still(handle, path):
                    return handle
                os.close(handle)  # the holder before us removed the file we waited for
        except OSError as problem:
            raise Unavailable(
                f"The directory {str(path.parent)!r} cannot be written ({problem.strerror})."
                " Nothing was changed. Check its permissions and the space on its disk."
            ) from None

    def check_file(self) -> str:
        with self.reading() as connection:
            findings = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
        return "" if findings == ["ok"] else "; ".join(findings[:3])

    def copy_to(self, path: Path) -> None:
        """Copy the ledger as it is at one moment, while others go on writing."""
        with self.lookup() as connection:
            source = connection.driver
            assert isinstance(source, sqlite3.Connection)  # noqa: S101 - told to the type checker
            target = sqlite3.connect(path)
            try:
                source.backup(target)
            finally:
                target.close()


def _is_still(handle: int, path: Path) -> bool:
    try:
        return os.fstat(handle).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch the file over once; SQLite does not wait for others here by itself."""
    wait = FIRST_WAIT
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as problem:
            if problem.sqlite_errorname != "SQLITE_BUSY" or wait > PATIENCE:
                raise
            time.sleep(wait)
            wait *= 2
