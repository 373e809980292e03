"""Private rows on disk: sealed partitions that only the curator reads."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from privod.data import Domain, Table
from privod.data.csv_file import CsvDialect, LineTally
from privod.data.intake import Intake, IntakeReport
from privod.data.sources import portions_of
from privod.engines.connecting import connected
from privod.engines.in_place import KEPT, Place
from privod.engines.manifest import MANIFEST, SALT, Manifest
from privod.engines.opening import open_rows
from privod.engines.sealed_file import seals_beside
from privod.engines.size import SizeClass
from privod.engines.source import Engine
from privod.engines.stored import partition_path
from privod.engines.writing import refer_to_rows, write_rows
from privod.errors import InvalidData, Unavailable
from privod.ledger.private_files import close_to_others, private_directory, sync_file
from privod.mechanisms.randomness import Randomness, keyed, secure, shared
from privod.query.query import Query

REPORT = "report.json"
YOUNGEST_LEFT_BEHIND = 3600.0  # seconds; an upload that takes longer renews its folder
WRITING = "writing"  # locked while a folder is being written, and gone when it is whole
SALT_BYTES = 32  # as many as the seal has: whoever lacks the salt cannot test a guess of the rows


@dataclass(frozen=True)
class KeptRows:
    """Where the rows of a data set lie, for whoever looks at them: this process or a worker."""

    directory: Path
    folder: str
    seal: str
    domain: Domain
    engine: str | None = None

    def load(self) -> Table:
        """The rows as a table, if they are those that were registered."""
        engine = None
        if self.engine is not None:
            with suppress(Unavailable):  # it is lost: then the rows are added up here
                engine = _connected(self.engine)
        return RowStore(self.directory, engine).load(self.folder, self.seal, self.domain)

    def noise(self, key: bytes | None, query: Query[Any]) -> Randomness:
        """Where the noise of an answer about these rows comes from."""
        if key is None and query.state is None:
            return secure()
        salt = (self.directory / self.folder / SALT).read_bytes()
        if query.state is not None:
            return shared(salt, query.state)
        assert key is not None  # noqa: S101 - told to the type checker
        return keyed(key, salt, query.canonical)


class RowStore:
    """Private rows in partitions; those of a data set lie in a folder of their own with a salt.

    The ledger holds a seal, SHA-256 over the salt and the manifest, which holds the seals of all
    partitions and of the owner's report. It tells nothing about the rows to whoever lacks the salt,
    which never leaves the folder, and yet a changed file breaks it.
    """

    def __init__(self, directory: Path, engine: Engine | None = None) -> None:
        self.directory = directory
        self.engine = engine

    def keep(
        self,
        source: Any,
        domain: Domain,
        dialect: CsvDialect | None = None,
        size: SizeClass | None = None,
        *,
        confirmed: bool = False,
        intake: IntakeReport | None = None,
    ) -> tuple[str, str, IntakeReport]:
        """Write the records of a source durably; their folder's name, their seal and the report."""
        taken, lines = Intake(domain, dialect), LineTally()
        with self._new_folder() as folder:
            salt = secrets.token_bytes(SALT_BYTES)
            (folder / SALT).write_bytes(salt)
            if isinstance(source, Place):
                manifest = refer_to_rows(
                    folder, salt, taken, source, size or SizeClass(), self.engine
                )
            else:
                columns = portions_of(source, domain, dialect, lines)
                manifest = write_rows(folder, salt, taken, columns, size or SizeClass())
            report = taken.report(manifest.complete, lines)
            report.refuse_loss(confirmed)
            report = intake or report
            written = json.dumps(report.to_json()).encode()
            (folder / REPORT).write_bytes(written)
            manifest = replace(manifest, report=_report_seal(salt, written))
            (folder / MANIFEST).write_text(manifest.text(), encoding="utf-8")
        return folder.name, manifest.seal(salt), report

    @contextmanager
    def _new_folder(self) -> Iterator[Path]:
        """A folder that is whole and durable afterwards, or not there."""
        self.remove_unfinished()
        folder = self.directory / secrets.token_hex(16)
        hidden = folder.with_name(f".{folder.name}")
        lock = None
        try:
            private_directory(self.directory)
            hidden.mkdir(mode=0o700)
            lock = os.open(hidden / WRITING, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            hidden.rename(folder)  # only now may others ask whether it is being written
            yield folder
            for path in folder.iterdir():
                close_to_others(path)
                sync_file(path)
            (folder / WRITING).unlink()
            sync_file(folder)
            sync_file(self.directory)
        except BaseException as problem:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.rmtree(hidden, ignore_errors=True)
            if isinstance(problem, OSError):
                raise Unavailable(
                    f"The rows could not be written to {str(self.directory)!r}"
                    f" ({problem.strerror}). Nothing was registered. Check its permissions and the"
                    " space on its disk."
                ) from None
            if isinstance(problem, MemoryError):
                raise Unavailable(
                    "There is not enough memory to take in the rows. Nothing was registered. Free"
                    " some, or use a larger machine."
                ) from None
            raise
        finally:
            if lock is not None:
                os.close(lock)

    def remove_unfinished(self) -> None:
        """Remove folders whose writer was killed: nobody holds their lock any more."""
        for path in self.directory.glob(f"[!.]*/{WRITING}"):  # hidden ones have no lock yet
            with suppress(OSError):
                lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path.parent, ignore_errors=True)
                finally:
                    os.close(lock)

    def remove_left_behind(self, used: Collection[str]) -> int:
        """Delete rows in folders that are not used, unless they are young; returns how many."""
        self.remove_unfinished()
        rows = self.directory
        found = [path for path in rows.iterdir() if path.is_dir()] if rows.is_dir() else []
        found = [path for path in found if not (path / WRITING).exists()]  # somebody is at it
        latest = time.time() - YOUNGEST_LEFT_BEHIND
        left = [path for path in found if path.name not in used and path.stat().st_mtime < latest]
        for path in left:
            self.forget(path.name)
        return len(left)

    def forget(self, name: str) -> None:
        """Remove rows whose registration did not come about."""
        shutil.rmtree(self.directory / name, ignore_errors=True)

    def retire(self, name: str) -> bool:
        """Remove rows for good; say whether there were any.

        Of a table in place its manifest stays, so that it never gets a second ledger.
        """
        left = [path for path in (self.directory / name).glob("*") if path.name != MANIFEST]
        if not self.parts(name):
            self.forget(name)
        for path in left:
            path.unlink(missing_ok=True)
        return bool(left)

    def has(self, name: str) -> bool:
        """Whether the rows are here at all, or what refers to them."""
        files = self._files(self.directory / name)
        return files is not None and all(path.is_file() for path in files)

    def can_be_read(self, name: str) -> bool:
        """Whether everything is here that reading the rows takes: salt and seals beside them."""
        folder = self.directory / name
        files = self._files(folder)
        needed = [folder / SALT, *(files or ()), *map(seals_beside, files or ())]
        return files is not None and all(path.is_file() for path in needed)

    def _files(self, folder: Path) -> list[Path] | None:
        """Our files that the manifest names; None if there is none to be read."""
        manifest = self._manifest(folder)
        if manifest is None:
            return None
        if manifest["place"] is not None:
            if manifest["seals"]:
                return [folder / KEPT]
            return None if self.engine is None else []  # a table without files lies with an engine
        return [partition_path(folder, number) for number in range(len(manifest["seals"]))]

    def _manifest(self, folder: Path) -> dict[str, Any] | None:
        try:
            content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            return {"place": content["place"], "seals": list(content["seals"])}
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def report(self, name: str, seal: str) -> IntakeReport | None:
        """What became of the records when they were taken in; None if they are not here."""
        folder = self.directory / name
        try:
            written = (folder / REPORT).read_bytes()
        except FileNotFoundError:
            return None
        if not self._report_is_sealed(folder, seal):
            raise InvalidData("The report on disk is not the one that was kept at registration.")
        return IntakeReport.from_json(json.loads(written))

    def _report_is_sealed(self, folder: Path, seal: str) -> bool:
        """Whether the report is the one that the manifest seals; one that is gone says nothing."""
        salt = (folder / SALT).read_bytes()
        sealed = Manifest.read(folder, salt, seal).report
        report = folder / REPORT
        if not report.is_file():
            return True
        return _report_seal(salt, report.read_bytes()) == sealed

    def seal(self, name: str) -> str:
        """Recompute the seal of the rows on disk; "" if it is none that was ever given."""
        folder = self.directory / name
        salt = (folder / SALT).read_bytes()
        text = (folder / MANIFEST).read_bytes()
        seal = hashlib.sha256(salt + b"manifest" + text).hexdigest()
        with suppress(ValueError, LookupError, TypeError):  # what we never wrote
            intact = open_rows(folder, seal, self.engine).source.sealed_again()
            return seal if intact and self._report_is_sealed(folder, seal) else ""
        return ""

    def size(self, name: str, seal: str) -> SizeClass:
        """The size class that the owner declared, which is public."""
        folder = self.directory / name
        return Manifest.read(folder, (folder / SALT).read_bytes(), seal).size

    def check(self, name: str, seal: str, *, engine: bool) -> None:
        """Raise unless the rows are there, and the engine, if it is asked, can add them up."""
        rows = open_rows(self.directory / name, seal, self.engine)
        rows.source.identity()
        if engine:
            rows.check_engine()

    def parts(self, name: str) -> set[str]:
        """Which table rows in place belong to, whatever its version, and files; none of a copy."""
        place = (self._manifest(self.directory / name) or {}).get("place")
        return set() if place is None else Place(place["kind"], str(place["table"]), place).parts

    def kept(self, name: str, seal: str, domain: Domain) -> KeptRows:
        """Where rows lie and who adds them up, for another process that looks at them."""
        address = None if self.engine is None else self.engine.address
        return KeptRows(self.directory, name, seal, domain, address)

    def load(self, name: str, seal: str, domain: Domain) -> Table:
        """The rows as a table, if they are those that were registered."""
        folder = self.directory / name
        stored = open_rows(folder, seal, self.engine)
        if not stored.size.in_memory:
            return Table.over(domain, stored.seen(domain))
        return Table.over(domain, stored.in_memory(domain))


@cache
def _connected(address: str) -> Engine:
    """An engine elsewhere, connected to once and for the life of this process."""
    return connected(address)


def _report_seal(salt: bytes, written: bytes) -> str:
    return hashlib.sha256(salt + b"report" + written).hexdigest()


MOST_HELD = 2


class Tables:
    """The tables that were asked last."""

    def __init__(self, rows: RowStore) -> None:
        self._rows = rows
        self._sizes: dict[str, SizeClass] = {}
        self._held: OrderedDict[str, Table] = OrderedDict()
        self._mutex = threading.Lock()

    def of(self, rows: KeptRows) -> Table:
        """The table of these rows, read if it is not held."""
        with self._mutex:
            table = self._held.get(rows.folder)
            if table is None:
                table = self._rows.load(rows.folder, rows.seal, rows.domain)
                self._held[rows.folder] = table
                if len(self._held) > MOST_HELD:
                    self._held.popitem(last=False)
            self._held.move_to_end(rows.folder)
        return table

    def forget(self, folder: str) -> None:
        """Hold the table of these rows no longer."""
        with self._mutex:
            self._held.pop(folder, None)

    def size(self, of: str, folder: str, seal: str) -> SizeClass | None:
        """What was declared about the size of a data set; None if its rows are not here."""
        size = self._sizes.get(folder)
        if size is None and not self._rows.has(folder):
            return None  # the rows are elsewhere, or deleted
        if size is None:
            with suppress(OSError, InvalidData):
                size = self._sizes[folder] = self._rows.size(folder, seal)
        if size is None:
            raise Unavailable(
                f"What was declared about the size of {of!r} cannot be read."
                " Nothing was charged. Restore its rows from a backup."
            )
        return size
