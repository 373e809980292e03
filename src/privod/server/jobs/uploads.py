"""Files that owners send: kept in the curator's own directory while they are read, then removed."""

from __future__ import annotations

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

__all__ = ["register"]

ENDINGS = (".csv", ".parquet")


def register(
    curator: Curator, name: str, domain: Domain, file: UploadFile, **how: Any
) -> Registered:
    """Register an uploaded file, as `Curator.register` does."""
    if not name.strip(". "):
        rule = "must not be only dots"  # which would not survive in the address of a page
        raise InvalidParameter("name", rule, name, "Try 'patients-2026'.")
    with _on_disk(curator, file) as path:
        try:
            return curator.register(name, path, domain, **how)
        except InvalidData as problem:
            # The reader names the file where we put it; whoever sent it knows it by its name.
            said = str(problem).replace(repr(str(path)), repr(file.filename or "file"))
            raise InvalidData(said) from None


@contextmanager
def _on_disk(curator: Curator, file: UploadFile) -> Iterator[Path]:
    ending = Path(file.filename or "").suffix.lower()
    if ending not in ENDINGS:
        way_out = "Convert it to CSV or Parquet."
        raise InvalidParameter("the file's ending", "must be .csv or .parquet", ending, way_out)
    with tempfile.TemporaryDirectory(prefix="upload-", dir=curator.directory) as folder:
        path = Path(folder) / f"rows{ending}"
        with path.open("wb") as copy:
            shutil.copyfileobj(file.file, copy)
        yield path
