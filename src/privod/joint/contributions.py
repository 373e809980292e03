"""Which rows went to whom? A party's own ledger of runs.

Two sums over parties of which one is missing the second time differ by that party's input. So a
party that sent rows, even in a run that failed later, sends them again only together with the same
parties, by name: a renewed certificate is the same party. With noise in both runs the difference
is covered by their losses, which are added up here.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from privod.data import Table
from privod.errors import ProtocolAborted
from privod.joint.locked_file import LockedFile
from privod.privacy import Loss

__all__ = ["Contributions", "rows_digest"]

SALT_BYTES = 32
DIGEST_BLOCK = 1 << 16  # rows copied at a time


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
        self._file = LockedFile(
            None if path is None else Path(path),
            {"salt": os.urandom(SALT_BYTES).hex(), "runs": []},
            _checked,
            "It is the record of contributions: restore it from a backup; without it an input"
            " could be sent to two rosters.",
        )

    def claim(self, input_digest: bytes, parties: Sequence[str], loss: Loss | None = None) -> int:
        """Enter a run, and what it loses if it has noise, before any row is sent; its number."""
        together = sorted(parties)
        with self._file.changing() as kept:
            name = self._named(kept, input_digest)
            for run in kept["runs"]:
                noisy = loss is not None and run["epsilon"] is not None
                if run["input"] == name and run["parties"] != together and not noisy:
                    raise ProtocolAborted(_difference(run["parties"], together))
            kept["runs"].append(
                {
                    "input": name,
                    "parties": together,
                    "epsilon": None if loss is None else str(loss.epsilon),
                    "delta": None if loss is None else str(loss.delta),
                    "begun": datetime.now(UTC).isoformat(timespec="seconds"),
                    "result": "not finished",
                }
            )
            return len(kept["runs"]) - 1

    def finish(self, number: int, result: str) -> None:
        """Note how a run ended."""
        with self._file.changing() as kept:
            kept["runs"][number]["result"] = result

    def spent(self, input_digest: bytes) -> Loss:
        """Return the loss of all runs with noise and these rows, aborted ones included.

        A run that was entered without a delta, as earlier versions did, may have had any: it counts
        as 1, which promises nothing.
        """
        with self._file.changing() as kept:
            name = self._named(kept, input_digest)
            lost = Loss(0)
            for run in kept["runs"]:
                if run["input"] == name and run["epsilon"] is not None:
                    lost += Loss(run["epsilon"], run.get("delta", 1))
            return lost

    def _named(self, kept: dict[str, Any], input_digest: bytes) -> str:
        return hmac.digest(bytes.fromhex(kept["salt"]), input_digest, "sha256").hex()


def _checked(kept: Any) -> None:
    bytes.fromhex(kept["salt"])
    for run in kept["runs"]:
        run["input"], list(run["parties"]), run["epsilon"], run["result"]


def _difference(before: Sequence[str], now: Sequence[str]) -> str:
    apart = sorted(set(before) ^ set(now))
    return (
        f"These rows were already sent together with {', '.join(before)}. The difference to a sum"
        f" over {', '.join(now)} would show the rows of {' and '.join(apart)}. Run with the earlier"
        " parties, or with noise every time."
    )


def rows_digest(table: Table, columns: tuple[str, ...], *, ordered: bool = False) -> bytes:
    """Return what stands for the rows, in whatever order they and the question's columns come.

    Rows of a vertical run have one order, which all parties share.
    """
    names = tuple(sorted(columns))
    digest = hashlib.sha256(json.dumps(names).encode())
    numeric = [name for name in names if name in table.domain.numeric_names]
    others = [name for name in names if name not in numeric]
    numbers = table.numbers(numeric) if numeric else np.empty((len(table), 0))
    if others:
        numbers = np.column_stack([numbers, table.codes(others)])
    order = None if ordered else np.lexsort(numbers.T)
    for start in range(0, len(numbers), DIGEST_BLOCK):
        rows = slice(start, start + DIGEST_BLOCK)
        block = numbers[rows if order is None else order[rows]]
        digest.update(np.ascontiguousarray(block).data)
    return digest.digest()
