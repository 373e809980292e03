"""What an operator watches, as Prometheus reads it: counts of public things, nothing about rows."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

Labels = tuple[tuple[str, str], ...]
Sample = tuple[Labels, float]

PREFIX = "privod_"
FAMILIES = {
    "requests_total": ("counter", "Requests by method, route and status."),
    "refusals_total": ("counter", "Requests that were refused, by kind."),
    "questions_ended_total": ("counter", "Questions that ended, by outcome."),
    "questions": ("gauge", "Questions in progress, by state; answering ones hold a worker."),
    "workers": ("gauge", "Worker processes, by what they do: look at rows, or write answers."),
    "writing_tasks": ("gauge", "Stored answers waiting to be encoded, drawn or scored, or at it."),
    "writing_tasks_of_one_token": ("gauge", "The same, of the token that has most of them."),
    "can_write": ("gauge", "1 where this process can write to its database, 0 on a full disk."),
    "disk_free_bytes": ("gauge", "Room on the curator's disk."),
    "ledger_entries": ("gauge", "Entries of the ledger."),
    "charges_total": ("counter", "Charges in the ledger, by data set and budget."),
    "budget_left_epsilon": ("gauge", "Epsilon left in each open budget."),
    "budget_left_delta": ("gauge", "Delta left in each open budget."),
}
"""Every family: its name without the prefix, its kind, what it says. No name begins another's."""


class Metrics:
    """Counters, each by its name and labels."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, Labels]] = Counter()
        self._lock = threading.Lock()

    def count(self, name: str, **labels: str) -> None:
        """Count one more."""
        with self._lock:
            self._counts[name, tuple(sorted(labels.items()))] += 1

    def samples(self, name: str) -> list[Sample]:
        """What was counted under a name."""
        with self._lock:
            found = [(labels, float(n)) for (of, labels), n in self._counts.items() if of == name]
        return sorted(found)


def exposition(samples: Mapping[str, Iterable[Sample]]) -> str:
    """All families in Prometheus' text format."""
    lines: list[str] = []
    for name, (kind, words) in FAMILIES.items():
        lines += [f"# HELP {PREFIX}{name} {words}", f"# TYPE {PREFIX}{name} {kind}"]
        for labels, value in samples.get(name, ()):
            inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
            lines.append(f"{PREFIX}{name}{f'{{{inside}}}' if inside else ''} {float(value)!r}")
    return "\n".join(lines) + "\n"


def _escaped(text: Any) -> str:
    return str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
