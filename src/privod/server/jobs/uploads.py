"""Files that owners send: kept in the curator's own directory while they are read, then removed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.datastructures import UploadFile

from privod.curator import Curator, Registered
from privod.data import Domain
from privod.errors import InvalidData, InvalidParameter
from privod.server.jobs.reports import Reports

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
