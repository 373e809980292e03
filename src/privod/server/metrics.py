"""What an operator sees: counts of public things, and a line for each request; nothing of rows."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
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


REQUEST_ID = "x-request-id"
FORM = "%(asctime)s %(levelname)s %(name)s %(message)s"
FIELDS = ("request", "method", "route", "status", "visitor")
"""What a request's record carries besides its message; how long it took may depend on rows."""


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the fields of a request."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record; a traceback is left out, since it may quote a row."""
        moment = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        told = {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        return json.dumps(line | told)


def log_to_stderr(*, as_json: bool) -> None:
    """Send what is logged to the standard error stream."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else logging.Formatter(FORM))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
