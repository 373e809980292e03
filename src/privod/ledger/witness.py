"""Witnesses of a ledger: files that remember how far it had come, to detect a rollback."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from pathlib import Path

from privod.errors import InvalidParameter, LedgerDamaged, Unavailable
from privod.ledger.chain import read_head
from privod.ledger.database import Connection
from privod.ledger.private_files import private_directory, private_file, sync_file

SLOT = 512  # bytes, what a disk writes as a whole: a torn write leaves the other slots as they were
SLOTS = 8  # as many may be on their way to the disk at once; in all one page of the file system
MAGIC = "privod-witness-1"
KEPT_NAME = re.compile("[a-z0-9-]{1,64}")
WRITTEN = re.compile("([0-9]{1,15}):([0-9a-f]{64}|)")  # a ledger without entries has no hash
WAY_OUT = (
    "Put back the latest copy; if there is none, charge what is missing and accept the ledger as"
    " restored."
)


@dataclass(frozen=True)
class Head:
    """Where a chain ends: how many entries it has, and the hash of the last one."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"

    @classmethod
    def read(cls, text: str, name: str = "head") -> Head:
        """Read it as it is written, "number:hash"."""
        written = WRITTEN.fullmatch(text)
        if written is None:
            way_out = "Give it as an answer carries it."
            raise InvalidParameter(name, "must be like '17:5f2c...'", text[:100], way_out)
        return cls(int(written[1]), written[2])


class Remembers(ABC):
    """A witness, wherever it is."""

    path: Path | str

    @abstractmethod
    def read(self) -> Head | None:
        """The latest head that was noted; None if there is none yet."""

    @abstractmethod
    def note(self, head: Head, *, durably: bool = True) -> None:
        """Remember a head, durably unless told otherwise; never in place of a later one.

        What is noted otherwise survives the end of every process, and becomes durable with the next
        head: enough for what no answer waits for.
        """

    @abstractmethod
    def start_anew(self, head: Head) -> None:
        """Forget what was noted, and remember this head; for a ledger restored on purpose."""

    def holds(self, number: int) -> bool:
        """Whether it saw this entry; if so, that is on disk now, whoever wrote it."""
        noted = self.read()
        return noted is not None and noted.number >= number


class Witness(Remembers):
    """A small file that holds the latest head of one ledger, and never an earlier one.

    The slot of the earliest head is written, each has a checksum, so that a write that was torn by
    a power failure loses heads whose answers had not left yet. The file is synced after the lock is
    free: processes that come together share the disk's time.
    """

    path: Path

    def __init__(self, path: Path) -> None:
        self.path = path
        self._durable = 0  # entries up to this one were seen here and synced, by this process

    def read(self) -> Head | None:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise self._unavailable(problem) from None
        if not content.strip():
            return None  # being made at this moment
        latest = max(filter(None, _slots(content)), key=attrgetter("number"), default=None)
        if latest is None:
            raise LedgerDamaged(
                f"The witness {str(self.path)!r} cannot be read, so nobody can tell whether the"
                " ledger lost entries. Compare the ledger with a head noted elsewhere, then accept"
                " it as restored."
            )
        return latest

    def note(self, head: Head, *, durably: bool = True) -> None:
        with self._open() as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            content = os.pread(handle, SLOT * SLOTS, 0)
            if len(content) < SLOT * SLOTS:  # just made; later writes change no size
                os.pwrite(handle, b"".ljust(SLOT * SLOTS - len(content)), len(content))
                os.fsync(handle)
            slots = _slots(content)
            if not any(found is not None and found.number >= head.number for found in slots):
                ages = [-1 if found is None else found.number for found in slots]
                os.pwrite(handle, _slot(head), ages.index(min(ages)) * SLOT)
            fcntl.flock(handle, fcntl.LOCK_UN)
            if durably:
                os.fdatasync(handle)  # also for what another process wrote and has not synced yet
                self._durable = head.number

    def holds(self, number: int) -> bool:
        noted = self.read()
        if noted is None or noted.number < number:
            return False
        if number > self._durable:
            with self._open() as handle:
                os.fdatasync(handle)
            self._durable = noted.number
        return True

    def start_anew(self, head: Head) -> None:
        with self._open() as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            os.ftruncate(handle, 0)
            os.pwrite(handle, _slot(head).ljust(SLOT * SLOTS), 0)
            os.fsync(handle)
            self._durable = head.number

    @contextmanager
    def _open(self) -> Iterator[int]:
        try:
            try:
                handle = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                private_file(self.path)
                handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                sync_file(self.path.parent)
            try:
                yield handle
            finally:
                os.close(handle)
        except OSError as problem:
            raise self._unavailable(problem) from None

    def _unavailable(self, problem: OSError) -> Unavailable:
        return Unavailable(
            f"The witness {str(self.path)!r} cannot be read or written ({problem.strerror})."
            " Check its permissions and the space on its disk."
        )


@dataclass(frozen=True)
class Remembered(Remembers):
    """What a witness said before a ledger was copied; the ledger itself may have grown since."""

    path: Path | str
    head: Head | None

    def read(self) -> Head | None:
        return self.head

    def note(self, head: Head, *, durably: bool = True) -> None:  # noqa: ARG002 - as the others
        raise Unavailable("A ledger that was opened to be read only notes nothing.")

    def start_anew(self, head: Head) -> None:
        self.note(head)


@dataclass(frozen=True)
class Witnesses:
    """Every witness of one ledger: the one beside it and, if the owner named one, another."""

    files: tuple[Remembers, ...]

    def read(self) -> tuple[Head | None, ...]:
        """The latest head that each of them saw.

        They are asked before a ledger is read, or nobody else may write it meanwhile: an entry that
        is made in between would be missing from what was read.
        """
        return tuple(file.read() for file in self.files)

    def as_they_are(self) -> Witnesses:
        """What they say now, for a ledger that is copied next."""
        return Witnesses(tuple(Remembered(file.path, file.read()) for file in self.files))

    def check(self, connection: Connection, seen: Sequence[Head | None]) -> None:
        """Refuse a ledger that does not contain the latest heads that they saw (`read`)."""
        length, _ = read_head(connection)
        for file, noted in zip(self.files, seen, strict=True):
            if noted is None or noted.number == 0:
                continue
            if length < noted.number:
                raise LedgerDamaged(
                    f"The ledger ends with entry {length}, and its witness {str(file.path)!r} saw"
                    f" entry {noted.number}: it was cut off, or replaced by an older copy. It"
                    f" answers nothing new. {WAY_OUT}"
                )
            rows = connection.execute("SELECT hash FROM entries WHERE number = ?", noted.number)
            if not rows or rows[0][0] != noted.hash:
                raise LedgerDamaged(
                    f"Entry {noted.number} of the ledger is not the one that its witness"
                    f" {str(file.path)!r} saw: another ledger was put in its place. It"
                    f" answers nothing new. {WAY_OUT}"
                )

    def note(self, head: Head, *, durably: bool = True) -> None:
        """Let every witness remember a head, durably unless told otherwise."""
        for file in self.files:
            file.note(head, durably=durably)

    def start_anew(self, head: Head) -> None:
        """Let every witness forget what it saw, and remember this head."""
        for file in self.files:
            file.start_anew(head)


@lru_cache(maxsize=4)  # of one page each, which is the same until a head is noted
def _slots(content: bytes) -> tuple[Head | None, ...]:
    """The head in each slot; None where there is none, or it was torn."""
    found: list[Head | None] = []
    for at in range(0, SLOT * SLOTS, SLOT):
        text, _, checksum = (
            content[at : at + SLOT].rstrip().decode("ascii", "replace").rpartition(" ")
        )
        number, _, digest = text.removeprefix(f"{MAGIC} ").partition(":")
        is_whole = hashlib.sha256(text.encode()).hexdigest() == checksum
        found.append(Head(int(number), digest) if is_whole else None)
    return tuple(found)


def _slot(head: Head) -> bytes:
    text = f"{MAGIC} {head}"
    return f"{text} {hashlib.sha256(text.encode()).hexdigest()}\n".ljust(SLOT).encode()


def kept_for(directory: Path, name: str) -> Witness:
    """The witness that a curator keeps for another ledger, under a name."""
    if not KEPT_NAME.fullmatch(name):
        rule = "must be 1 to 64 small letters, digits and hyphens"
        raise InvalidParameter("name", rule, name[:100], "Try 'hospital'.")
    private_directory(directory / "witnesses")
    return Witness(directory / "witnesses" / name)
