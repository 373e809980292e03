"""Which rows went to whom? A party's own ledger of runs.

Two sums over parties of which one is missing the second time differ by that party's input. So a
party that sent rows, even in a run that failed later, sends them again only together with the same
parties, by name: a renewed certificate is the same party. With noise in both runs the difference
is covered by their epsilons, which are added up here.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from privod.errors import ProtocolAborted

__all__ = ["Contributions"]

SALT_BYTES = 32


class Contributions:
    """A party's runs, kept in a file of its own, or in memory.

    Rows are kept as keyed digests with a salt of the file's own, so that the file does not tell
    rows to those who could guess them. Several processes may use one file: each claim locks it and
    reads it again.

    Parameters
    ----------
    path : path, optional
        A file that only this party uses; without one, the memory ends with the process.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._kept: dict[str, Any] = {"salt": os.urandom(SALT_BYTES).hex(), "runs": []}
        if self._path is not None:
            self._read()

    def claim(
        self, input_digest: bytes, parties: Sequence[str], epsilon: Fraction | None = None
    ) -> int:
        """Enter a run before any of the rows is sent; return its number."""
        together = sorted(parties)
        with self._locked():
            self._read()
            name = hmac.digest(bytes.fromhex(self._kept["salt"]), input_digest, "sha256").hex()
            for run in self._kept["runs"]:
                noisy = epsilon is not None and run["epsilon"] is not None
                if run["input"] == name and run["parties"] != together and not noisy:
                    raise ProtocolAborted(_difference(run["parties"], together))
            self._kept["runs"].append(
                {
                    "input": name,
                    "parties": together,
                    "epsilon": None if epsilon is None else str(epsilon),
                    "begun": datetime.now(UTC).isoformat(timespec="seconds"),
                    "result": "not finished",
                }
            )
            self._write()
            return len(self._kept["runs"]) - 1

    def finish(self, number: int, result: str) -> None:
        """Note how a run ended."""
        with self._locked():
            self._read()
            self._kept["runs"][number]["result"] = result
            self._write()

    def spent(self, input_digest: bytes) -> Fraction:
        """Return the epsilon of all runs with these rows, aborted ones included."""
        with self._locked():
            self._read()
            name = hmac.digest(bytes.fromhex(self._kept["salt"]), input_digest, "sha256").hex()
            noisy = [run["epsilon"] for run in self._kept["runs"] if run["input"] == name]
            return sum((Fraction(one) for one in noisy if one is not None), Fraction(0))

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
            for run in kept["runs"]:
                run["input"], list(run["parties"]), run["epsilon"], run["result"]
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


def _difference(before: Sequence[str], now: Sequence[str]) -> str:
    apart = sorted(set(before) ^ set(now))
    return (
        f"These rows were already sent together with {', '.join(before)}. The difference to a sum"
        f" over {', '.join(now)} would show the rows of {' and '.join(apart)}. Run with the earlier"
        " parties, or with noise every time."
    )
