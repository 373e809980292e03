"""What owners want of rows: a file taken in, who is protected; done in a worker process."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlette.datastructures import UploadFile

from privod.curator import Curator, Registered
from privod.curator.protection import SAMPLE, Protection
from privod.data import Domain
from privod.data.csv_file import CsvDialect
from privod.data.intake import IntakeReport, LossyIntake
from privod.engines.size import SizeClass
from privod.errors import InvalidData, InvalidParameter, LimitReached, Unavailable
from privod.privacy import Adjacency
from privod.server.jobs.worker import where
from privod.server.jobs.workers import TaskFailed, Worker
from privod.server.limits import Limits
from privod.wire import Problem

PREFIX = "upload-"  # then the process that takes it in
ENDINGS = (".csv", ".parquet")


def register(
    curator: Curator, reports: Reports, name: str, domain: Domain, file: UploadFile, **how: Any
) -> Registered:
    """Register an uploaded file, as `Curator.register` does; a worker process reads it."""
    if not name.strip(". "):
        rule = "must not be only dots"  # which would not survive in the address of a page
        raise InvalidParameter("name", rule, name, "Try 'patients-2026'.")
    with _on_disk(curator, file) as path:
        try:
            return curator.register(name, path, domain, keep=reports.keep, **how)
        except InvalidData as problem:
            # The reader names the file where we put it; whoever sent it knows it by its name.
            said = str(problem).replace(repr(str(path)), repr(file.filename or "file"))
            raise InvalidData(said) from None


def remove_leftovers(directory: Path) -> None:
    """Remove the files of uploads whose server was killed before it could remove them."""
    for folder in directory.glob(f"{PREFIX}*"):
        process = folder.name.removeprefix(PREFIX).partition("-")[0]
        if not (process.isdigit() and _is_running(int(process))):
            shutil.rmtree(folder, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)  # sends nothing
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def _on_disk(curator: Curator, file: UploadFile) -> Iterator[Path]:
    ending = Path(file.filename or "").suffix.lower()
    if ending not in ENDINGS:
        way_out = "Convert it to CSV or Parquet."
        raise InvalidParameter("the file's ending", "must be .csv or .parquet", ending, way_out)
    prefix = f"{PREFIX}{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=curator.directory) as folder:
        path = Path(folder) / f"rows{ending}"
        with path.open("wb") as copy:
            shutil.copyfileobj(file.file, copy)
        yield path


ONE_AT_A_TIME = (
    "This server takes in a file or makes a report of who is protected, one at a time. Try again"
    " when it is done, or ask whoever runs the server to do it there (`privod`)."
)
TOO_MUCH = (
    "This took longer, or more memory, than this server allows an owner. Ask whoever runs the"
    " server to do it there (`privod`)."
)


class Reports:
    """A worker for owners, one task at a time, within the server's limits."""

    def __init__(self, curator: Curator, limits: Limits) -> None:
        self._curator = curator
        self._limits = limits
        self._worker = Worker(limits.answer_bytes, limits.result_bytes)
        self._one = threading.Lock()

    def who_is_protected(
        self, of: str, adjacency: Adjacency | None = None, *, sample: int = SAMPLE
    ) -> tuple[Protection, ...]:
        """Of each narrow promise by itself and, if there are several, of all of them together."""
        rows, groups = self._curator.narrow_promises(of, adjacency)
        task = {
            "kind": "protected",
            "groups": [[one.to_json() for one in group] for group in groups],
            "sample": sample,
            **where(rows),
        }
        written = self._run(task, of, 0.0)
        return tuple(Protection.from_json(one) for one in json.loads(written))

    def keep(
        self,
        source: Path,
        domain: Domain,
        dialect: CsvDialect | None,
        size: SizeClass,
        *,
        confirmed: bool,
        intake: IntakeReport | None,
    ) -> tuple[str, str, IntakeReport]:
        """Take in the rows of a file, as `RowStore.keep` does; a small one may unpack to a lot."""
        task = {
            "kind": "keep",
            "rows": str(self._curator.rows_folder),
            "path": str(source),
            "domain": domain.to_json(),
            "dialect": None if dialect is None else asdict(dialect),
            "most_records": size.most_records,
            "confirmed": confirmed,
            "intake": None if intake is None else intake.to_json(),
        }
        told = json.loads(self._run(task, None, self._limits.report_seconds))
        if "folder" in told:
            return told["folder"], told["seal"], IntakeReport.from_json(told["report"])
        if "lossy" in told:
            raise LossyIntake(told["message"], IntakeReport.from_json(told["lossy"]))
        raise Problem(**told).exception()

    def _run(self, task: dict[str, Any], of: str | None, wait: float) -> bytes:
        if not self._one.acquire(timeout=wait):
            raise LimitReached(ONE_AT_A_TIME)
        try:
            self._worker.prepare(of)
            return self._worker.run(task, self._limits.report_seconds)
        except TaskFailed:
            raise Unavailable(TOO_MUCH) from None
        finally:
            self._worker.end()  # it holds rows, and owners ask rarely
            self._one.release()

    def close(self) -> None:
        """End the worker process."""
        self._worker.end()
