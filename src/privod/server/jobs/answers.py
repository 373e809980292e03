"""Stored answers, ready to be sent: found by a short key, encoded once in every form."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool

from privod.curator import Curator
from privod.data.csv_file import CsvDialect
from privod.errors import NotFound
from privod.privacy import Loss
from privod.query.catalog import query_from_json
from privod.query.query import Query
from privod.server.jobs.encoding import Form
from privod.server.jobs.writers import Writers
from privod.server.limits import BeingDrawn, Limits
from privod.wire import answer_key

FOLDER = "encoded"
KEPT_BYTES = 64 * 1024 * 1024
DIGEST_BYTES = 64  # in hexadecimal, before what a worker sends
MOST_CHARGES_DRAWN = 500

Place = tuple[str, str, str]
"""Where something encoded is kept: data set, key, form."""


class Asked(NamedTuple):
    """A question that was answered, and the entry that stored its answer."""

    key: str
    query: Query[Any]
    entry: str


@dataclass(frozen=True)
class Encoded:
    """A release in one form: in memory, or as a file."""

    form: str
    digest: str
    size: int
    head: str
    content: bytes | Path

    def is_there(self) -> bool:
        """Whether it can be sent: somebody may have emptied the folder."""
        return isinstance(self.content, bytes) or self.content.is_file()


@dataclass(frozen=True)
class Summary:
    """A stored answer in a few words."""

    key: str
    query: Query[Any]
    sentence: str
    promise: str
    guarantee: str
    scored_columns: list[str]

    @property
    def question(self) -> str:
        """What was asked, in words."""
        return self.query.question


class Answers:
    """The stored answers of a curator, by data set and key."""

    def __init__(self, curator: Curator, limits: Limits) -> None:
        self._curator = curator
        self._limits = limits
        self.writers = Writers(limits)
        self._underway: dict[Place, Future[bytes]] = {}
        self._asked: dict[int, Asked] = {}
        self._questions: dict[tuple[str, str], Asked] = {}
        self._kept: OrderedDict[Place, Encoded] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def questions(self, of: str) -> list[tuple[str, Query[Any]]]:
        """Every answered question about a data set with its key, the newest first."""
        found = []
        for entry in reversed(self._curator.history(of)):
            if entry.kind == "release" and entry.dataset == of and entry.query is not None:
                if entry.number not in self._asked:  # entries never change
                    query = query_from_json(entry.query)
                    self._asked[entry.number] = Asked(answer_key(query), query, entry.hash)
                found.append(self._asked[entry.number])
        self._questions.update({(of, one.key): one for one in found})
        return [(one.key, one.query) for one in found]

    def query(self, of: str, key: str) -> Query[Any]:
        """What was asked, by the key of its answer."""
        return self._find(of, key).query

    def _find(self, of: str, key: str) -> Asked:
        if (of, key) not in self._questions:
            self.questions(of)
        found = self._questions.get((of, key))
        if found is None:
            raise NotFound(f"There is no such answer about {of!r}. Ask the question.")
        return found

    async def summaries(self, of: str, keys: Sequence[str], asker: str) -> list[Summary]:
        """Stored answers in a few words."""
        return [await self.summary(of, key, asker) for key in keys]

    async def summary(self, of: str, key: str, asker: str) -> Summary:
        """A stored answer in a few words."""
        found = await self.encoded(of, key, "summary", asker)
        text = found.content
        if isinstance(text, Path):
            text = await run_in_threadpool(text.read_bytes)
        asked = self._questions.get((of, key))  # a page of twenty would wait for twenty threads
        if asked is None:
            asked = await run_in_threadpool(self._find, of, key)
        return Summary(key=key, query=asked.query, **json.loads(text))

    def ready(self, of: str, query: Query[Any]) -> Encoded | None:
        """The answer to a question, if it was encoded before."""
        with self._lock:
            found = self._kept.get((of, answer_key(query), "answer"))
        return found if found is not None and found.is_there() else None

    async def encoded(self, of: str, key: str, form: Form, asker: str) -> Encoded:
        """A stored answer in one form: as it is kept, or encoded now."""
        place = (of, key, form)
        with self._lock:
            found = self._kept.get(place)
            if found is not None:
                self._kept.move_to_end(place)
        if found is not None and found.is_there():
            return found
        return await self._encode(place, asker)

    async def scored(
        self, of: str, key: str, records: bytes, dialect: CsvDialect, most: int, asker: str
    ) -> dict[str, Any]:
        """A visitor's own records scored against a stored answer; neither is kept."""
        task = await run_in_threadpool(self._task, of, key)
        task |= {
            "kind": "score",
            "records": records.decode("latin-1"),  # bytes, as JSON can carry them
            "dialect": asdict(dialect),
            "most": most,
        }
        future = self.writers.submit(asker, task, self._limits.picture_seconds)
        done: dict[str, Any] = json.loads(await _result(future))
        return done

    async def compared(self, of: str, keys: Sequence[str], asker: str) -> dict[str, Any] | None:
        """The cells of two histograms beside each other; None if they count other cells."""
        tasks = [await run_in_threadpool(self._task, of, key) for key in keys]
        task = {"kind": "compare", "answers": tasks}
        future = self.writers.submit(asker, task, self._limits.picture_seconds)
        done: dict[str, Any] | None = json.loads(await _result(future))
        return done

    async def history_picture(
        self, of: str, title: str, budget: Loss, charges: list[tuple[str, Loss]], asker: str
    ) -> bytes:
        """A budget over time as a picture; of many charges the oldest are drawn as one."""
        oldest, newest = charges[:-MOST_CHARGES_DRAWN], charges[-MOST_CHARGES_DRAWN:]
        drawn = [(name, _plain(loss)) for name, loss in newest]
        if oldest:
            earlier = sum((loss for _, loss in oldest), Loss(0))
            drawn.insert(0, ("earlier charges", _plain(earlier)))
        task = {"kind": "budget", "title": title, "budget": _plain(budget), "charges": drawn}
        digest = hashlib.sha256(json.dumps(task).encode()).hexdigest()

        def made(drawn: bytes) -> Encoded:
            return Encoded("budget", digest, len(drawn), "", drawn)

        kept = await self._joined((of, digest, "budget"), task, asker, made)
        assert isinstance(kept.content, bytes)  # noqa: S101 - what is drawn is never a file
        return kept.content

    def close(self) -> None:
        """End the worker processes."""
        self.writers.close()

    def _task(self, of: str, key: str) -> dict[str, Any]:
        """Where a worker finds a release, once all of its entry is durable."""
        found = self._find(of, key)
        question, stored = self._curator.stored_release(of, found.query)
        # By the hash of its entry: a restored ledger never shows what it does not hold.
        name = hashlib.sha256(f"{of}\n{key}\n{found.entry}".encode()).hexdigest()[:32]
        return {
            "directory": str(self._curator.directory),
            "database": self._curator.database.address,
            "question": question.key,
            "head": str(stored.head),
            "name": name,
        }

    async def _encode(self, place: Place, asker: str) -> Encoded:
        of, key, form = place
        task = await run_in_threadpool(self._task, of, key)
        folder, name = self._curator.directory / FOLDER, f"{task['name']}-{form}"
        found = await run_in_threadpool(_on_disk, folder, name, form, task["head"])
        if found is None:
            titles = (await run_in_threadpool(self._curator.dataset, of)).domain.titles
            task |= {"kind": "encode", "form": form, "titles": dict(titles)}
            task |= {"folder": str(folder), "name": name}
            made = partial(_sent, folder / name, form, task["head"])
            return await self._joined(place, task, asker, made)
        self._keep(place, found)
        return found

    async def _joined(
        self, place: Place, task: dict[str, Any], asker: str, made: Callable[[bytes], Encoded]
    ) -> Encoded:
        """What a worker makes of a task, once however many ask for it; kept before it is over."""
        limits, is_drawn = self._limits, place[2] in ("svg", "budget")
        seconds = limits.picture_seconds if is_drawn else limits.encoding_seconds

        def keep(done: Future[bytes]) -> None:
            if done.exception() is None:
                self._keep(place, made(done.result()))
            with self._lock:
                self._underway.pop(place, None)

        with self._lock:
            kept = self._kept.get(place)
            if kept is not None and kept.is_there():
                return kept
            future = self._underway.get(place)
            is_new = future is None
            if future is None:
                future = self._underway[place] = self.writers.submit(asker, task, seconds)
        if is_new:
            future.add_done_callback(keep)
        try:  # what is encoded is waited for, what is drawn is kept for who comes back
            async with asyncio.timeout(limits.picture_wait_seconds if is_drawn else None):
                return made(await _result(future))
        except TimeoutError:
            raise BeingDrawn("The picture is still being drawn. Come back in a moment.") from None

    def _keep(self, place: Place, found: Encoded) -> None:
        with self._lock:
            earlier = self._kept.pop(place, None)
            self._kept[place] = found
            self._size += _held(found) - (_held(earlier) if earlier is not None else 0)
            while self._size > KEPT_BYTES and len(self._kept) > 1:  # the newest stays
                _, dropped = self._kept.popitem(last=False)
                self._size -= _held(dropped)


def _sent(start: Path, form: str, head: str, sent: bytes) -> Encoded:
    """What a worker encoded: its digest, then its content, which a large one has as a file."""
    digest, content = sent[:DIGEST_BYTES].decode(), sent[DIGEST_BYTES:]
    if content:
        return Encoded(form, digest, len(content), head, content)
    path = start.with_name(f"{start.name}-{digest}")
    return Encoded(form, digest, path.stat().st_size, head, path)


def _held(found: Encoded) -> int:
    """The memory that is taken by what is kept, with its name."""
    return 500 + (len(found.content) if isinstance(found.content, bytes) else 0)


def _on_disk(folder: Path, name: str, form: str, head: str) -> Encoded | None:
    """What was encoded before, perhaps by an earlier server."""
    for path in folder.glob(f"{name}-*"):
        digest = path.name.rpartition("-")[2]
        return Encoded(form, digest, path.stat().st_size, head, path)
    return None


async def _result(future: Future[bytes]) -> bytes:
    return await asyncio.shield(asyncio.wrap_future(future))


def _plain(loss: Loss) -> list[str]:
    return [str(loss.epsilon), str(loss.delta)]
