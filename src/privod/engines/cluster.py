"""What a worker of a cluster is given and gives back: a plan, and counts or nothing.

Exact counts lie in the memory of workers, so a cluster is the curator's own. A plan shows nothing
of itself; a task returns a sum or nothing, never an exception, whose text would stand in logs.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privod.engines.opening import open_rows
from privod.engines.source import RegisteredRows, versions

TASKS_PER_THREAD = 2  # few, so that counts are added up there and not sent
SWEEPS_PER_THREAD = 1  # each reads all rows once
ONE_THREAD = 1  # a task takes one: the worker's others do other tasks


@dataclass(frozen=True, repr=False)
class Plan:
    """What a task is to do: it may hold places where rows lie, and shows nothing of them."""

    content: bytes

    def __repr__(self) -> str:
        return "Plan(private)"

    @classmethod
    def of(cls, rows: RegisteredRows, what: Any) -> Plan:
        """A plan to add up these rows."""
        return cls(pickle.dumps((str(rows.folder.resolve()), rows.seal, what)))

    def read(self) -> Any:
        """The folder, the seal, and what to add up."""
        return pickle.loads(self.content)  # noqa: S301 - from the curator, by an encrypted way

    def rows(self) -> tuple[RegisteredRows, Any]:
        """The rows, and what to add up."""
        folder, seal, what = self.read()
        return open_rows(Path(folder), seal), what


# ---- on a worker: a value or nothing, never an exception -----------------------------------------


def fitness(plan: Plan, needed: tuple[str, ...]) -> str:
    """Why this worker cannot count; "" if it can."""
    try:
        if versions() != needed:
            return "a worker has other versions of Python, privod or its packages"
        plan.rows()[0].source.identity()
    except Exception:
        return "a worker does not see the files"
    return ""


def folded(plan: Plan, pieces: tuple[int, ...]) -> tuple[Any] | None:
    """Some pieces added up."""
    try:
        rows, fold = plan.rows()
        return (rows.fold_here(fold, pieces, ONE_THREAD),)
    except Exception:
        return None


def swept(plan: Plan, parts: tuple[int, ...]) -> tuple[Any] | None:
    """Some parts added up."""
    try:
        rows, sweep = plan.rows()
        return (rows.sweep_here(sweep, parts, ONE_THREAD),)
    except Exception:
        return None


def merged(plan: Plan, *parts: tuple[Any] | None) -> tuple[Any] | None:
    """Sums added up; nothing if one of them is nothing."""
    try:
        what = plan.read()[2]
        total = what.start()
        for part in parts:
            if part is None:
                return None
            total = what.merge(total, _own(part[0]))
        return (total,)
    except Exception:
        return None


def _own(state: Any) -> Any:
    """A copy that may be changed: what a cluster hands out may be another task's, or read-only."""
    return pickle.loads(pickle.dumps(state))  # noqa: S301 - our own
