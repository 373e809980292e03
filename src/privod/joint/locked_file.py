"""A small JSON file that several processes of one site change, one at a time, and never half."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

from privod.errors import ProtocolAborted


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
        handle = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
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
        except (ValueError, KeyError, TypeError):
            raise ProtocolAborted(
                f"{str(self._path)!r} cannot be read. {self._lost}", "a file of its own is damaged."
            ) from None
        self._kept = kept

    def _write(self) -> None:
        if self._path is None:
            return
        draft = self._path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(json.dumps(self._kept, indent=1))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path)
