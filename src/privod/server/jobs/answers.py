"""Stored answers, ready to be served: found by a short key, written as JSON, CSV and SVG.

A release never changes once it is stored, so what is written of it is kept for the next visitor.
"""

from __future__ import annotations

import csv
import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from privod import pictures, wire
from privod.curator import Answer, Curator
from privod.errors import NotFound
from privod.privacy import Loss
from privod.queries.catalog import query_from_json
from privod.queries.query import Query, Release, canonical_json
from privod.wire import answer_key

__all__ = ["Answers", "Summary", "as_csv", "draw_history", "safe_cell"]

KEPT_BYTES = 64 * 1024 * 1024
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True)
class Summary:
    """A stored answer in a few words."""

    key: str
    question: str
    sentence: str
    loss: Loss
    adjacency: str


class Answers:
    """The stored answers of a curator, by data set and key.

    Parameters
    ----------
    curator : Curator
        Where they are stored.
    """

    def __init__(self, curator: Curator) -> None:
        self._curator = curator
        self._questions: dict[tuple[str, str], Query[Any]] = {}
        self._summaries: dict[tuple[str, str], Summary] = {}
        self._written: OrderedDict[tuple[str, str, str], bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def questions(self, of: str) -> list[tuple[str, Query[Any]]]:
        """Every answered question about a data set with its key, the newest first."""
        found = []
        for entry in reversed(self._curator.history(of)):
            if entry.kind == "release" and entry.dataset == of and entry.query is not None:
                query = query_from_json(entry.query)
                found.append((answer_key(query), query))
        self._questions.update({(of, key): query for key, query in found})
        return found

    def newest(self, of: str, count: int) -> list[Summary]:
        """The newest answers about a data set; a release is read once, large as it may be."""
        return [self.summary(of, key) for key, _ in self.questions(of)[:count]]

    def summary(self, of: str, key: str) -> Summary:
        """A stored answer in a few words."""
        if (of, key) not in self._summaries:
            release = self.release(of, key)
            self._summaries[(of, key)] = Summary(
                key,
                release.query.question,
                release.sentence(),
                release.guarantee.loss,
                release.guarantee.adjacency.name,
            )
        return self._summaries[(of, key)]

    def release(self, of: str, key: str) -> Release[Any]:
        """The stored answer with this key."""
        if (of, key) not in self._questions:
            self.questions(of)
        query = self._questions.get((of, key))
        if query is None:
            raise NotFound(f"There is no such answer about {of!r}. Ask the question.")
        return self._curator.release(of, query)

    def json(self, of: str, key: str) -> bytes:
        """The stored answer in the shape of the JSON interface."""
        return self._kept((of, key, "json"), lambda: self._stored(of, key))

    def _stored(self, of: str, key: str) -> bytes:
        return stored_json(self.release(of, key), self._curator.head())

    def svg(self, of: str, key: str) -> bytes:
        """The stored answer as a picture."""
        return self._kept(
            (of, key, "svg"), lambda: pictures.svg(pictures.draw(self.release(of, key)))
        )

    def ready(self, of: str, query: Query[Any]) -> bytes | None:
        """The answer to a question, if it was served before."""
        with self._lock:
            return self._written.get((of, answer_key(query), "json"))

    def _kept(self, place: tuple[str, str, str], write: Callable[[], bytes]) -> bytes:
        with self._lock:
            if place in self._written:
                self._written.move_to_end(place)
                return self._written[place]
        written = write()
        with self._lock:
            if place not in self._written:
                self._written[place] = written
                self._size += len(written)
            while self._size > KEPT_BYTES:
                _, dropped = self._written.popitem(last=False)
                self._size -= len(dropped)
        return written


def stored_json(release: Release[Any], head: str) -> bytes:
    """A stored release as the JSON interface shows it, with a head of the ledger that holds it."""
    return wire.to_text(wire.Answer.of(Answer(release, (), stored=True, head=head))).encode()


def draw_history(title: str, budget: Loss, charges: list[tuple[str, Loss]]) -> bytes:
    """A budget over time as a picture."""
    return pictures.svg(pictures.draw_budget(title, budget, charges))


def as_csv(release: Release[Any]) -> str:
    """The answer as a table that a spreadsheet opens without running anything."""
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(["what", "value"])
    writer.writerow(["question", safe_cell(release.query.question)])
    writer.writerow(["answer", safe_cell(release.sentence())])
    writer.writerow(["guarantee", safe_cell(release.guarantee.sentence())])
    for name, value in release.query.parameters().items():
        written = value if isinstance(value, int | float) else canonical_json(value).strip('"')
        writer.writerow([safe_cell(name), safe_cell(written)])
    for place, value in _leaves(release.query.value_to_json(release.value), "value"):
        writer.writerow([safe_cell(place), safe_cell(value)])
    return file.getvalue()


def safe_cell(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula; numbers stay numbers."""
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return f"'{value}"
    return value


def _leaves(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{place}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{place}[{index}]")
    else:
        yield place, value
