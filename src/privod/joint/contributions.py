"""Which records went to whom? A party's own ledger of runs.

Two sums over parties of which one is missing the second time differ by that party's input. So a
party that sent records, even in a run that failed later, sends them again, whatever columns are
asked for, only together with the same parties, by name: a renewed certificate is the same party.
With noise in both runs the difference is covered by their guarantees, which are added up here.
Which records are the same is told by marks (`joint/held.py`, which says what escapes them).
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from privod.errors import ProtocolAborted
from privod.joint.held import HeldRecords
from privod.joint.locked_file import LockedFile
from privod.privacy import Guarantee, Loss, adjacency_from_json, decimal_text

SALT_BYTES = 32
REFUSED = "its ledger of runs refuses to send its records together with these parties."


@dataclass(frozen=True)
class Run:
    """A run as it was entered.

    Attributes
    ----------
    parties : tuple of str
        Who took part.
    columns : tuple of str
        Which columns were asked for.
    promise : Guarantee or None
        What its noise promises; None without noise.
    begun : str
        When, in UTC.
    result : str
        How it ended.
    """

    parties: tuple[str, ...]
    columns: tuple[str, ...]
    promise: Guarantee | None
    begun: str
    result: str

    @classmethod
    def from_json(cls, run: dict[str, Any]) -> Run:
        """Read an entry."""
        return cls(
            tuple(map(str, run["parties"])),
            tuple(map(str, run["columns"])),
            _promise(run),
            str(run["begun"]),
            str(run["result"]),
        )

    def sentence(self) -> str:
        """The run in one line."""
        lost = "without noise" if self.promise is None else _loss_text(self.promise)
        among, over = ", ".join(self.parties), ", ".join(self.columns)
        return f"{self.begun} with {among} over {over}, {lost}: {self.result}"

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "parties": list(self.parties),
            "columns": list(self.columns),
            "guarantee": None if self.promise is None else self.promise.to_json(),
            "begun": self.begun,
            "result": self.result,
        }


@dataclass(frozen=True)
class SentRecords:
    """All runs that the same records went to, aborted ones included."""

    runs: tuple[Run, ...]

    def promise(self) -> Guarantee | None:
        """What all runs with noise promise together; None if there was none."""
        promises = [run.promise for run in self.runs if run.promise is not None]
        return reduce(add, promises) if promises else None

    def sentence(self, whose: str = "Your records of this run") -> str:
        """How often the records were sent, and what that cost, in words."""
        exact = sum(run.promise is None for run in self.runs)
        noisy = len(self.runs) - exact
        parts = []
        if (together := self.promise()) is not None:
            parts.append(f"{_runs(noisy)} with noise, {_loss_text(together)} together")
        if exact:
            parts.append(f"{_runs(exact)} without noise, which no epsilon counts")
        return f"{whose} were sent to {'; and to '.join(parts)}."

    def after(self, more: Guarantee | None, times: int) -> str:
        """What further runs of the same records would bring it to, in words; "" without noise."""
        if more is None:
            return ""
        before = self.promise()
        total = reduce(add, [*([] if before is None else [before]), *[more] * times])
        return f" {_runs(times)} more of them would make it {_loss_text(total)}."

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        together = self.promise()
        return {
            "guarantee": None if together is None else together.to_json(),
            "without_noise": sum(run.promise is None for run in self.runs),
            "runs": [run.to_json() for run in self.runs],
        }


class Contributions:
    """A party's runs, kept in a file of its own, or in memory.

    Records are kept as keyed digests with a salt of the file's own: two files cannot be compared.
    Whoever reads the file has the salt, and can try guesses of a column: it is kept like the
    records. Several processes may use one file: each claim locks it and reads it again.

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

    def claim(
        self, held: HeldRecords, parties: Sequence[str], promise: Guarantee | None = None
    ) -> int:
        """Enter a run, and what it promises if it has noise, before any row is sent; its number."""
        together = sorted(parties)
        marks = held.marks()
        with self._file.changing() as kept:
            names = _named(kept, marks)
            for run in _of_the_same(kept["runs"], names):
                noisy = promise is not None and run["epsilon"] is not None
                if run["parties"] != together and not noisy:
                    raise ProtocolAborted(_difference(run["parties"], together), REFUSED)
            kept["runs"].append(
                {
                    "marks": sorted(names),
                    "columns": list(held.columns),
                    "parties": together,
                    "epsilon": None if promise is None else str(promise.loss.epsilon),
                    "delta": None if promise is None else str(promise.loss.delta),
                    "adjacency": None if promise is None else promise.adjacency.to_json(),
                    "begun": datetime.now(UTC).isoformat(timespec="seconds"),
                    "result": "not finished",
                }
            )
            return len(kept["runs"]) - 1

    def finish(self, number: int, result: str) -> SentRecords:
        """Note how a run ended; return all runs that its records went to."""
        with self._file.changing() as kept:
            run = kept["runs"][number]
            run["result"] = result
            return _sent(_of_the_same(kept["runs"], set(run["marks"])))

    def sent(self, held: HeldRecords) -> SentRecords:
        """Return all runs that these records went to."""
        marks = held.marks()
        with self._file.changing() as kept:
            return _sent(_of_the_same(kept["runs"], _named(kept, marks)))

    def data_sets(self) -> tuple[SentRecords, ...]:
        """All runs, those of the same records together, by their first one."""
        with self._file.changing() as kept:
            left, found = list(kept["runs"]), []
            while left:
                same = _of_the_same(left, set(left[0]["marks"]))
                left = [run for run in left if run not in same]
                found.append(_sent(same))
            return tuple(found)


def _named(kept: dict[str, Any], marks: Sequence[bytes]) -> set[str]:
    """The marks as this file names them."""
    salt = bytes.fromhex(kept["salt"])
    return {hmac.digest(salt, mark, "sha256").hex() for mark in marks}


def _of_the_same(runs: Sequence[dict[str, Any]], names: set[str]) -> list[dict[str, Any]]:
    """The runs that share a mark with these, or with a run that does."""
    known, found = set(names), [False] * len(runs)
    more = True
    while more:
        more = False
        for place, run in enumerate(runs):
            if not found[place] and not known.isdisjoint(run["marks"]):
                known.update(run["marks"])
                found[place] = more = True
    return [run for run, one in zip(runs, found, strict=True) if one]


def _sent(runs: Sequence[dict[str, Any]]) -> SentRecords:
    return SentRecords(tuple(Run.from_json(run) for run in runs))


def _promise(run: dict[str, Any]) -> Guarantee | None:
    """What a run promised; None without noise."""
    if run["epsilon"] is None:
        return None
    return Guarantee(Loss(run["epsilon"], run["delta"]), adjacency_from_json(run["adjacency"]))


def _checked(kept: Any) -> None:
    bytes.fromhex(kept["salt"])
    for run in kept["runs"]:
        if not run["marks"]:
            raise ValueError("A run without marks would be taken for no records at all.")
        Run.from_json(run)


def _loss_text(promise: Guarantee) -> str:
    loss = promise.loss
    delta = f", delta {decimal_text(loss.delta)}" if loss.delta else ""
    return f"epsilon {decimal_text(loss.epsilon)}{delta} ({promise.adjacency.name})"


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _difference(before: Sequence[str], now: Sequence[str]) -> str:
    apart = sorted(set(before) ^ set(now))
    return (
        f"These rows were already sent together with {', '.join(before)}. The difference to a sum"
        f" over {', '.join(now)} would show the rows of {' and '.join(apart)}, whatever columns are"
        " asked for. Run with the earlier parties, or with noise every time. If these are other"
        " records that share a whole column with those, keep another ledger of runs for them."
    )
