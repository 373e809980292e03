"""An input enters one roster only.

Two sums over rosters that differ in one party differ by that party's input. So a party that sent
an input, even in a run that failed later, sends it again only to exactly the same roster.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from privod.errors import ProtocolAborted

__all__ = ["Contributions"]

SALT_BYTES = 32


class Contributions:
    """Which input went to which roster, kept in a file of the party, or in memory.

    Inputs are kept as keyed digests with a salt of the file's own, so that the file does not tell
    rows to those who could guess them. Several processes may use one file: each claim locks it and
    reads it again.

    Parameters
    ----------
    path : path, optional
        A file that only this party uses; without one, the memory ends with the process.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._kept: dict[str, Any] = {"salt": os.urandom(SALT_BYTES).hex(), "inputs": {}}
        if self._path is not None:
            self._read()

    def claim(self, input_digest: bytes, roster_digest: bytes) -> None:
        """Bind an input to a roster before any of it is sent."""
        with self._locked():
            self._read()
            name = hmac.digest(bytes.fromhex(self._kept["salt"]), input_digest, "sha256").hex()
            roster = roster_digest.hex()
            if self._kept["inputs"].setdefault(name, roster) != roster:
                raise ProtocolAborted(
                    "These rows were already sent to another roster, and the difference of two sums"
                    " would reveal a party. Run with the earlier roster."
                )
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
            bytes.fromhex(kept["salt"])
            dict(kept["inputs"])
        except (ValueError, KeyError, TypeError):
            raise ProtocolAborted(
                f"The record of contributions at {str(self._path)!r} cannot be read. Restore it"
                " from a backup; without it an input could be sent to two rosters."
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
