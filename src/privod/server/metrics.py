"""What an operator watches, as Prometheus reads it: counts of public things, nothing about rows.

Each server process counts for itself since it started; budgets and the length of the ledger are
those of the curator, the same from every process.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from privod.curator import BudgetState
from privod.query.query import canonical_json

Labels = tuple[tuple[str, str], ...]
Sample = tuple[Labels, float]

PREFIX = "privod_"


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


def exposition(
    metrics: Metrics,
    under_way: Mapping[str, int],
    budgets: Mapping[str, Sequence[BudgetState]],
    entries: int,
) -> str:
    """All of it in Prometheus' text format.

    Parameters
    ----------
    metrics : Metrics
        What this process counted.
    under_way : dict
        How many questions are in which state.
    budgets : dict
        The budgets of each data set.
    entries : int
        How long the ledger is.
    """
    counted = [
        ("requests_total", "Requests by route and status."),
        ("refusals_total", "Requests that were refused, by kind."),
        ("jobs_total", "Questions that ended, by how."),
    ]
    lines: list[str] = []
    for name, words in counted:
        lines += _written(name, "counter", words, metrics.samples(name))
    jobs = [((("state", state),), float(number)) for state, number in under_way.items()]
    lines += _written("jobs", "gauge", "Questions under way, by state.", jobs)
    lines += _written("ledger_entries", "gauge", "Entries of the ledger.", [((), float(entries))])
    left = list(_left(budgets))
    lines += _written("budget_left_epsilon", "gauge", "Epsilon left in each budget.", left)
    return "\n".join(lines) + "\n"


def _left(budgets: Mapping[str, Sequence[BudgetState]]) -> Iterator[Sample]:
    for name, states in budgets.items():
        for state in states:
            adjacency = canonical_json(state.adjacency.to_json())
            yield (("adjacency", adjacency), ("dataset", name)), float(state.left.epsilon)


def _written(name: str, kind: str, words: str, samples: Iterable[Sample]) -> list[str]:
    lines = [f"# HELP {PREFIX}{name} {words}", f"# TYPE {PREFIX}{name} {kind}"]
    for labels, value in samples:
        inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
        lines.append(
            f"{PREFIX}{name}{{{inside}}} {value:g}" if inside else f"{PREFIX}{name} {value:g}"
        )
    return lines


def _escaped(text: Any) -> str:
    return str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
