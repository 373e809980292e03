"""Files of a party's own: one that its processes change one at a time, and results."""

from __future__ import annotations

import csv
import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.errors import InvalidData, InvalidParameter, ProtocolAborted


class LockedFile:
    """What a site must remember between runs, in a file of its own or, without a path, in memory.

    `check` raises ValueError, KeyError or TypeError for contents that cannot be right; `lost` is
    what to tell the operator, after the path, when they cannot be read.
    """

    def __init__(
        self, path: Path | None, fresh: dict[str, Any], check: Callable[[Any], object], lost: str
    ) -> None:
        self._path = path
        self._kept = fresh
        self._check = check
        self._lost = lost
        self._read()

    @contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """Give the contents while nobody else has them; a change is kept if no error ends it."""
        with self._locked():
            self._read()
            contents = deepcopy(self._kept)
            yield contents
            if contents != self._kept:
                self._kept = contents
                self._write()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._path is None:
            yield
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(
            self._path.with_name(f"{self._path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600
        )
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)

    def _read(self) -> None:
        if self._path is None or not self._path.exists():
            return
        try:
            kept = json.loads(self._path.read_text())
            self._check(kept)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ProtocolAborted(
                f"{str(self._path)!r} cannot be read. {self._lost}", "a file of its own is damaged."
            ) from None
        self._kept = kept

    def _write(self) -> None:
        if self._path is None:
            return
        draft = self._path.with_name(f"{self._path.name}.new")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(json.dumps(self._kept, indent=1))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # else a power failure could bring the old contents back
        finally:
            os.close(folder)


@contextmanager
def private_file(path: Path) -> Iterator[TextIOWrapper]:
    """Open a new file that only its owner can read; one that is there is not overwritten."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        way_out = "Name a new one; results are not overwritten."
        raise InvalidParameter("file", "must not exist yet", str(path), way_out) from None
    with os.fdopen(handle, "w", newline="", encoding="utf-8") as file:
        yield file


def write_outliers(
    path: Path,
    together: NDArray[np.int64],
    alone: NDArray[np.int64],
    ids: Sequence[str] | None,
    n_records: int,
) -> None:
    """Write every row that is an outlier, together or alone, as CSV, with its id if known."""
    if ids is not None and len(ids) != n_records:
        raise InvalidData("The ids are not as many as the rows. Give ids and rows in one file.")
    with private_file(path) as file:
        writer = csv.writer(file)
        writer.writerow(["row", *([] if ids is None else ["id"]), "together", "alone"])
        for row in np.union1d(together, alone).astype(np.int64).tolist():
            named = [] if ids is None else [ids[row]]
            writer.writerow([row + 1, *named, int(row in together), int(row in alone)])
