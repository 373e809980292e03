"""A party's ledger of runs: whom its records were shared with, and what all runs lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from privod.joint.files import LockedFile
from privod.privacy import Guarantee, decimal_text


@dataclass(frozen=True)
class Run:
    """A run as it was entered, with how it ended; without noise it has no promise."""

    parties: tuple[str, ...]
    columns: tuple[str, ...]
    promise: Guarantee | None
    begun: str
    result: str

    @classmethod
    def from_json(cls, run: dict[str, Any]) -> Run:
        """Read an entry."""
        told = None if run["guarantee"] is None else Guarantee.from_json(run["guarantee"])
        parties, columns = tuple(map(str, run["parties"])), tuple(map(str, run["columns"]))
        return cls(parties, columns, told, str(run["begun"]), str(run["result"]))

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        told = {"parties": list(self.parties), "columns": list(self.columns)}
        promised = None if self.promise is None else self.promise.to_json()
        return {**told, "guarantee": promised, "begun": self.begun, "result": self.result}

    def sentence(self) -> str:
        """The run in one line."""
        lost = "without noise" if self.promise is None else _loss_text(self.promise)
        among, over = ", ".join(self.parties), ", ".join(self.columns)
        return f"{self.begun} with {among} over {over}, {lost}: {self.result}"


@dataclass(frozen=True)
class SentRecords:
    """All runs of a ledger, aborted ones included."""

    runs: tuple[Run, ...]

    def promise(self, *more: Guarantee) -> Guarantee | None:
        """What all runs with noise promise together; None if there was none."""
        promises = [*(run.promise for run in self.runs if run.promise is not None), *more]
        return reduce(add, promises) if promises else None

    def sentence(self) -> str:
        """How often the records were sent, and what that cost, in words."""
        exact = sum(run.promise is None for run in self.runs)
        parts = []
        if (together := self.promise()) is not None:
            noisy = len(self.runs) - exact
            parts.append(f"{_runs(noisy)} with noise, {_loss_text(together)} together")
        if exact:
            parts.append(f"{_runs(exact)} without noise, which no epsilon counts")
        where = "; and to ".join(parts) or "no run yet"
        return f"The records of your ledger of runs were sent to {where}."

    def after(self, more: Guarantee | None, times: int) -> str:
        """What further runs of the same records would bring it to, in words; "" without noise."""
        if more is None or (total := self.promise(*[more] * times)) is None:
            return ""
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
    """The runs of one data set, kept in a file of its party's own, or in memory without a path."""

    def __init__(self, path: str | Path | None = None) -> None:
        lost = "It is the ledger of runs: restore it from a backup."
        self._file = LockedFile(None if path is None else Path(path), {"runs": []}, _sent, lost)

    def claim(
        self, columns: Sequence[str], parties: Sequence[str], promise: Guarantee | None = None
    ) -> int:
        """Enter a run, and what it promises if it has noise, before any row is sent; its number."""
        begun = datetime.now(UTC).isoformat(timespec="seconds")
        run = Run(tuple(sorted(parties)), tuple(columns), promise, begun, "not finished")
        with self._file.changing() as kept:
            kept["runs"].append(run.to_json())
            return len(kept["runs"]) - 1

    def finish(self, number: int, result: str) -> SentRecords:
        """Note how a run ended; return all runs."""
        with self._file.changing() as kept:
            kept["runs"][number]["result"] = result
            return _sent(kept)

    def sent(self) -> SentRecords:
        """All runs that the records went to."""
        with self._file.changing() as kept:
            return _sent(kept)


def _sent(kept: dict[str, Any]) -> SentRecords:
    return SentRecords(tuple(Run.from_json(run) for run in kept["runs"]))


def _loss_text(promise: Guarantee) -> str:
    loss = promise.loss
    delta = f", delta {decimal_text(loss.delta)}" if loss.delta else ""
    return f"epsilon {decimal_text(loss.epsilon)}{delta} ({promise.adjacency.name})"


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"
