"""Where the ledger is kept: an SQLite file, or a PostgreSQL database; the same SQL for both."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Protocol

from privod.errors import PrivodError, Unavailable

PATIENCE = 60  # seconds to wait for other writers, each of which takes milliseconds


class Driver(Protocol):
    """What both drivers' connections can do."""

    def execute(self, statement: str, values: Any = ..., /) -> Any: ...
    def close(self) -> None: ...


class Connection:
    """An open transaction: statements in, rows out."""

    def __init__(self, driver: Driver, placeholder: str) -> None:
        self.driver = driver
        self._placeholder = placeholder

    def execute(self, statement: str, *values: str | int | None) -> list[tuple[Any, ...]]:
        """Run one statement, its values written as question marks."""
        cursor = self.driver.execute(statement.replace("?", self._placeholder), values)
        rows: list[tuple[Any, ...]] = cursor.fetchall() if cursor.description else []
        return rows


class Database(ABC):
    """A pool of connections that survives threads and forks; a subclass knows one engine."""

    engine: str
    where: str
    """Which database this is, in words that hold no password."""
    address: str | None = None
    """A URL by which another process of ours opens it, with its password: never shown."""
    loses_locks: bool
    """Whether somebody may lose what `alone` gave while they live, as with a connection."""
    _placeholder: str
    _failures: type[Exception]
    _begin_reading: tuple[str, ...]
    _begin_writing: tuple[str, ...]

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._idle: list[Connection] = []
        self._inherited: list[list[Connection]] = []
        self._process = os.getpid()
        self.read_only = False
        weakref.finalize(self, _close_all, self._idle)

    @abstractmethod
    def _connect(self) -> Driver: ...

    @abstractmethod
    def _explain(self, problem: Exception) -> PrivodError:
        """What an engine's failure means to whoever reads it."""

    @abstractmethod
    def alone(self, key: str) -> AbstractContextManager[Callable[[], bool]]:
        """Wait until nobody else, in any thread or process, is inside with this key.

        What it gives says whether that still holds.
        """

    def clock(self) -> float:
        """Seconds since 1970, the same for all who use the database: here, those on one host."""
        return time.time()

    @abstractmethod
    def _make_durable(self, driver: Driver) -> None:
        """Wait until all that was committed is on disk; commits themselves do not wait for it."""

    @abstractmethod
    def check_file(self) -> str:
        """What the engine's own check says against its files; "" if nothing."""

    @contextmanager
    def lookup(self) -> Iterator[Connection]:
        """Look something up; each statement by itself sees one moment. The quickest way to read.

        A connection is lent for it; one that failed is not lent again.
        """
        connection, is_whole = None, False
        try:
            connection = self._take()
            yield connection
            is_whole = True
        except PrivodError:  # a refusal between two statements, rolled back
            is_whole = True
            raise
        except self._failures as problem:
            self.close()  # if the server went away, it did so for the idle connections too
            raise self._explain(problem) from None
        finally:
            if connection is not None:
                if is_whole and not getattr(connection.driver, "closed", False):
                    with self._mutex:
                        self._idle.append(connection)
                else:
                    connection.driver.close()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """See everything as it is at one moment."""
        with self.lookup() as connection, self._within(connection, self._begin_reading):
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Change things, one writer at a time; durable on leaving, undone by any exception."""
        if self.read_only:
            raise Unavailable(f"{self.where} was opened to be read only. Open it for writing.")
        with self.lookup() as connection:
            with self._within(connection, self._begin_writing):
                yield connection
            self._make_durable(connection.driver)

    def sync(self) -> None:
        """Wait until everything that was committed so far, by anybody, is on disk."""
        with self.lookup() as connection:
            self._make_durable(connection.driver)

    def close(self) -> None:
        """Close the connections that nobody uses."""
        with self._mutex:
            _close_all(self._idle)

    @contextmanager
    def _within(self, connection: Connection, begin: tuple[str, ...]) -> Iterator[None]:
        try:
            for statement in begin:
                connection.driver.execute(statement)
            yield
            connection.driver.execute("COMMIT")
        except BaseException:
            with suppress(self._failures):  # SQLite may have rolled back by itself
                connection.driver.execute("ROLLBACK")
            raise

    def _take(self) -> Connection:
        with self._mutex:
            if self._process != os.getpid():
                # A connection must not be used, or even closed, on both sides of a fork.
                self._inherited.append(self._idle[:])
                self._idle.clear()
                self._process = os.getpid()
            if self._idle:
                return self._idle.pop()
        return Connection(self._connect(), self._placeholder)


def _close_all(idle: list[Connection]) -> None:
    while idle:
        idle.pop().driver.close()


def lock_number(key: str) -> int:
    """A key as the signed 64-bit number that PostgreSQL locks by."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big", signed=True)
