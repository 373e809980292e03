"""Stored answers, ready to be served: found by a short key, written as JSON, CSV and SVG.

A release never changes once it is stored, so what is written of it is kept for the next visitor.
Pictures and tables are written in a worker process, each once however many ask for it at a time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from privod import wire
from privod.curator import Answer, Curator
from privod.errors import LimitReached, NotFound, Unavailable
from privod.privacy import Loss
from privod.query.catalog import query_from_json
from privod.query.query import Query, Release
from privod.query.scoring import NewRecords
from privod.server.jobs.workers import TaskFailed, Worker
from privod.server.limits import Limits
from privod.wire import answer_key

__all__ = ["Answers", "Summary"]

KEPT_BYTES = 64 * 1024 * 1024
KEPT_RELEASES = 4  # as values, each up to 80 MB
MOST_WAITING = 20  # pictures and tables that wait to be written
MOST_CHARGES_DRAWN = 500

Place = tuple[str, str, str]
"""Where something written is kept: data set, key, form."""


@dataclass(frozen=True)
class Summary:
    """A stored answer in a few words."""

    key: str
    question: str
    sentence: str
    promise: str


class Answers:
    """The stored answers of a curator, by data set and key.

    Parameters
    ----------
    curator : Curator
        Where they are stored.
    limits : Limits
        What writing one may take.
    """

    def __init__(self, curator: Curator, limits: Limits) -> None:
        self._curator = curator
        self._limits = limits
        self._writer = Worker(limits.answer_bytes, limits.result_bytes)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="privod-writer")
        self._releases: OrderedDict[tuple[str, str], Release[Any]] = OrderedDict()
        self._reading = threading.Lock()
        self._underway: dict[Place, Future[bytes]] = {}
        self._asked: dict[int, tuple[str, Query[Any]]] = {}
        self._questions: dict[tuple[str, str], Query[Any]] = {}
        self._summaries: dict[tuple[str, str], Summary] = {}
        self._written: OrderedDict[Place, bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def questions(self, of: str) -> list[tuple[str, Query[Any]]]:
        """Every answered question about a data set with its key, the newest first."""
        found = []
        for entry in reversed(self._curator.history(of)):
            if entry.kind == "release" and entry.dataset == of and entry.query is not None:
                if entry.number not in self._asked:  # entries never change
                    query = query_from_json(entry.query)
                    self._asked[entry.number] = (answer_key(query), query)
                found.append(self._asked[entry.number])
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
                release.guarantee.in_short(),
            )
        return self._summaries[(of, key)]

    def release(self, of: str, key: str) -> Release[Any]:
        """The stored answer with this key."""
        if (of, key) not in self._questions:
            self.questions(of)
        query = self._questions.get((of, key))
        if query is None:
            raise NotFound(f"There is no such answer about {of!r}. Ask the question.")
        release = self._releases.get((of, key))
        if release is not None:
            return release
        with self._reading:  # a large one takes seconds: whoever wants it too waits, and finds it
            release = self._releases.get((of, key))
            if release is None:
                release = self._releases[(of, key)] = self._curator.release(of, query)
                if len(self._releases) > KEPT_RELEASES:
                    self._releases.popitem(last=False)
        return release

    def json(self, of: str, key: str) -> bytes:
        """The stored answer in the shape of the JSON interface."""
        return self._kept((of, key, "json"), lambda: self._stored(of, key))

    def _stored(self, of: str, key: str) -> bytes:
        return stored_json(self.release(of, key), self._curator.head())

    async def written(self, of: str, key: str, form: Literal["svg", "csv"]) -> bytes:
        """The stored answer as a picture or a table."""
        place = (of, key, form)

        def task() -> dict[str, Any]:
            titles = self._curator.dataset(of).domain.titles
            release = self.release(of, key).to_json()
            return {"kind": form, "release": release, "titles": dict(titles)}

        return await self._by_worker(place, task)

    async def scored(self, of: str, key: str, records: NewRecords) -> dict[str, Any]:
        """A visitor's own records scored against a stored answer; neither is kept."""
        place = (of, key, secrets.token_hex(8))
        task = {
            "kind": "score",
            "release": self.release(of, key).to_json(),
            "points": records.points.tolist(),
            "rows": records.rows.tolist(),
        }
        with self._lock:
            future = self._submit(place, lambda: self._done(task))
        written = await asyncio.shield(asyncio.wrap_future(future))
        found: dict[str, Any] = json.loads(written)
        return {**found, "notes": records.sentences()}

    async def history_picture(
        self, of: str, title: str, budget: Loss, charges: list[tuple[str, Loss]]
    ) -> bytes:
        """A budget over time as a picture; of many charges the oldest are drawn as one."""
        oldest, newest = charges[:-MOST_CHARGES_DRAWN], charges[-MOST_CHARGES_DRAWN:]
        drawn = [(name, _plain(loss)) for name, loss in newest]
        if oldest:
            earlier = sum((loss for _, loss in oldest), Loss(0))
            drawn.insert(0, ("earlier charges", _plain(earlier)))
        task = {"kind": "budget", "title": title, "budget": _plain(budget), "charges": drawn}
        drawn_from = hashlib.sha256(json.dumps(task).encode()).hexdigest()
        return await self._by_worker((of, drawn_from, "budget"), lambda: task)

    def close(self) -> None:
        """End the worker process."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._writer.end()

    async def _by_worker(self, place: Place, task: Callable[[], dict[str, Any]]) -> bytes:
        """What is kept; else what is being written for somebody; else written now."""
        with self._lock:
            if place in self._written:
                self._written.move_to_end(place)
                return self._written[place]
            future = self._underway.get(place)
            if future is None:
                future = self._submit(place, lambda: self._kept(place, lambda: self._done(task())))
        return await asyncio.shield(asyncio.wrap_future(future))

    def _submit(self, place: Place, act: Callable[[], bytes]) -> Future[bytes]:
        """Have it done when its turn comes; the lock is held."""
        if len(self._underway) >= MOST_WAITING:
            raise LimitReached(
                "Too many answers are being drawn, written as tables or scored against."
                " Try again in a minute."
            )

        def turn() -> bytes:
            try:
                return act()
            finally:
                with self._lock:
                    del self._underway[place]

        future = self._underway[place] = self._thread.submit(turn)
        return future

    def _done(self, task: dict[str, Any]) -> bytes:
        try:
            return self._writer.run(task, self._limits.picture_seconds)
        except TaskFailed:
            raise Unavailable(
                "This answer is too large to be drawn, written as a table or scored against here."
                " Take it as JSON."
            ) from None

    def ready(self, of: str, query: Query[Any]) -> bytes | None:
        """The answer to a question, if it was served before."""
        with self._lock:
            return self._written.get((of, answer_key(query), "json"))

    def _kept(self, place: Place, write: Callable[[], bytes]) -> bytes:
        with self._lock:
            if place in self._written:
                self._written.move_to_end(place)
                return self._written[place]
        written = write()
        with self._lock:
            if place not in self._written:
                self._written[place] = written
                self._size += len(written)
            while self._size > KEPT_BYTES and len(self._written) > 1:  # the newest stays
                _, dropped = self._written.popitem(last=False)
                self._size -= len(dropped)
        return written


def stored_json(release: Release[Any], head: str) -> bytes:
    """A stored release as the JSON interface shows it, with a head of the ledger that holds it."""
    return wire.to_text(wire.Answer.of(Answer(release, (), stored=True, head=head))).encode()


def _plain(loss: Loss) -> list[str]:
    return [str(loss.epsilon), str(loss.delta)]
