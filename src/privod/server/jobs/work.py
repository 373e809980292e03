"""One question on its way: its state, those who wait for it, and what it may use in its turn.

How long an answer takes may depend on the rows. So it waits for a release time, each a fixed factor
after the one before: only then is it stored and shown. Progress is shown in tenths, at the same
times, and a stop has its effect at one.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, cast

from privod.curator.publication import GivenUp, Interrupted
from privod.curator.questions import Question
from privod.curator.rows import KeptRows
from privod.errors import AnswerFailed, NotAllowed, PrivodError, Unavailable
from privod.ledger.store import ReleaseText
from privod.server.jobs.estimates import Allowed
from privod.server.jobs.worker import where
from privod.server.jobs.workers import TaskStopped, Worker

Result = TypeVar("Result")
State = Literal["waiting", "answering", "done", "failed"]
Key = tuple[str, str]
"""One question about one data set."""


FIRST_RELEASE_SECONDS = 0.2  # seconds
RELEASE_RATIO = 1.25
LOOK_SECONDS = 0.02
VALID_SECONDS = 1.0  # between two looks whether the tokens of those who wait are valid
LEFT_WAITING = (
    "The server was stopped first. Nothing was charged. The question waits for the server to be"
    " back, and is answered then."
)
STOPPED_WAITING = "It was stopped before its turn came. Nothing was charged."
STOPPED = "It was stopped on request. The charge stands; asking again may be a new charge."
LEFT_ANSWERING = (
    "The server was stopped before the answer came. The charge stands. The question waits for the"
    " server to be back, and is answered then at no further charge."
)
NO_PROCESS = (
    "No process could be started for the answer. Nothing was charged. Ask again in a minute; the"
    " operator should look at the memory of the machine."
)
NO_PROCESS_AGAIN = (
    "No process could be started to begin the answer again. The charge stands, and asking again in"
    " a minute costs nothing more; the operator should look at the memory of the machine."
)


def next_release_time(seconds: float) -> float:
    """The first release time at or after so many seconds."""
    if seconds <= FIRST_RELEASE_SECONDS:
        return FIRST_RELEASE_SECONDS
    moment = FIRST_RELEASE_SECONDS * RELEASE_RATIO ** math.ceil(
        math.log(seconds / FIRST_RELEASE_SECONDS, RELEASE_RATIO) - 1e-9
    )
    return moment if moment >= seconds else moment * RELEASE_RATIO


def _last_release_time(seconds: float) -> float:
    moment = next_release_time(seconds)
    if moment <= seconds:
        return moment
    return 0.0 if moment <= FIRST_RELEASE_SECONDS else moment / RELEASE_RATIO


Fate = Literal["wanted", "given up", "left", "parted"]
"""What people and the server want of it. Given up: a stop has had its effect, so that nobody can
join in any more. Left: the server stops and leaves it to the next one. Parted: its asker waits no
longer, and others still do."""


@dataclass(eq=False)
class Work(Generic[Result]):
    """One question, answered once for everybody who asks it meanwhile."""

    key: Key
    closing: threading.Event
    jobs: list[Job[Result]] = field(default_factory=list)
    leader: Job[Result] | None = None
    began: float | None = None
    computed: float | None = None
    ended: float | None = None
    outcome: Result | PrivodError | None = None
    ending: threading.Event = field(default_factory=threading.Event)
    """Set when the server stops and its patience is over."""
    stop_age: float | None = None
    """From which age on a stop has its effect: a release time, so that it tells no finer one."""
    is_long: bool = False
    """Whether it may take so long that a worker is kept free of it."""
    was_charged: bool = False
    """Whether its charge stands already, as where an earlier server process left it."""
    fate: Fate = "wanted"
    _reports: list[tuple[float, int]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def state(self) -> State:
        """Where it stands: `fate` says beside what is wanted of it."""
        if self.ended is not None:
            return "failed" if isinstance(self.outcome, PrivodError) else "done"
        return "waiting" if self.began is None else "answering"

    def begin(self) -> None:
        self.began = time.monotonic()

    def stop(self) -> None:
        """End the work at the next release time, whenever that was asked for."""
        with self._lock:
            if self.stop_age is None:
                self.stop_age = next_release_time(self._age(time.monotonic()))

    def take_stop_back(self) -> bool:
        """Go on because somebody waits again; false if the work was given up before."""
        with self._lock:
            if self.fate == "given up":
                return False
            self.stop_age = None
            return True

    def leave(self) -> None:
        """End the work with the server, for the next one to go on with; unless it was stopped."""
        with self._lock:
            if self.stop_age is None:
                self.fate = "left"
            self.ending.set()

    def left_words(self) -> str:
        """What is said of it when the server stops before its turn came."""
        return LEFT_ANSWERING if self.was_charged else LEFT_WAITING

    def refused(self, words: str) -> PrivodError:
        """What ends it before its turn came: an earlier server process may have charged it."""
        return AnswerFailed(STOPPED) if self.was_charged else NotAllowed(words)

    def is_stopped(self) -> bool:
        """Whether the work is given up now, for good; a server that is stopped does not wait."""
        with self._lock:
            if self.closing.is_set():
                return self.stop_age is not None or self.fate == "left"
            if self.stop_age is not None and self._age(time.monotonic()) >= self.stop_age:
                self.fate = "given up"
            return self.fate == "given up"

    def is_stopped_unbegun(self) -> bool:
        """The same before any row is looked at, when no release time needs to be waited for."""
        with self._lock:
            if self.stop_age is not None:
                self.fate = "given up"
            return self.fate == "given up"

    def finish(self, outcome: Result | PrivodError) -> None:
        self.outcome = outcome
        self.ended = time.monotonic()

    def hear(self, tenths: int) -> None:
        """Note how many tenths are done, never going back."""
        if tenths > (self._reports[-1][1] if self._reports else 0):
            self._reports.append((self._age(time.monotonic()), tenths))

    def tenths(self) -> int:
        if self.ended is not None:
            return 10
        moment = _last_release_time(self._age(time.monotonic()))
        return max((tenths for when, tenths in self._reports if when <= moment), default=0)

    def wait_for_release_time(self) -> None:
        """Wait for the release time after the answer was there; the second time that has passed."""
        if self.is_stopped() and self.computed is None:
            return  # at a release time, with the server, or before any row was looked at
        if self.computed is None:
            self.computed = time.monotonic()
        moment = next_release_time(self._age(self.computed))
        self.ending.wait(max(0.0, moment - self._age(time.monotonic())))

    def _age(self, now: float) -> float:
        return 0.0 if self.began is None else now - self.began


class Turn:
    """What a question whose turn has come may use: a worker process, and the release time."""

    def __init__(
        self,
        work: Work[Any],
        worker: Worker,
        check_leader: Callable[[], None],
        stop_unwanted: Callable[[], None],
    ) -> None:
        self._work = work
        self._worker = worker
        self._check_leader = check_leader
        self._stop_unwanted = stop_unwanted
        self._looked = time.monotonic()

    def prepare(self) -> None:
        """Have a process ready before anything is charged; release times count from here."""
        try:
            self._worker.prepare(self._work.key[0])
        except Unavailable:
            raise Unavailable(NO_PROCESS_AGAIN if self._work.was_charged else NO_PROCESS) from None
        self._check_left()
        if self._work.is_stopped_unbegun():
            raise self._work.refused(STOPPED_WAITING)
        self._work.begin()

    def go_on(self) -> None:
        """Raise if it is not to be charged, or begun again, for whoever it is asked for."""
        self._check_left()
        self._check_leader()

    def _check_left(self) -> None:
        if self._work.fate == "left":
            raise Interrupted(self._work.left_words())

    def look(
        self, question: Question, rows: KeptRows, key: bytes | None, allowed: Allowed
    ) -> ReleaseText:
        """Look at the rows in the worker process, within what public sizes allow."""
        assert key is not None  # noqa: S101 - who looks elsewhere gets one
        task = {
            "kind": "answer",
            "bytes": allowed.bytes,
            "query": question.query.to_json(),
            "rows_per_person": question.rows_per_person,
            "key": key.hex(),
            **where(rows),
        }
        try:
            written = self._worker.run(
                task,
                most_result_bytes=allowed.result_bytes,
                hear=self._work.hear,
                stopped=self._is_stopped,
            )
        except TaskStopped:
            if self._work.fate == "left":
                raise Interrupted(LEFT_ANSWERING) from None
            raise GivenUp(STOPPED) from None
        return ReleaseText(written.decode())

    def wait_for_release_time(self) -> None:
        """Wait, when the answer is there and before anybody can see it.

        A server whose patience is over does not wait, and what is there is shown by the next one.
        """
        self._work.wait_for_release_time()
        if self._work.ending.is_set():
            left = self._work.fate == "left"
            raise Interrupted(LEFT_ANSWERING) if left else GivenUp(STOPPED)

    def _is_stopped(self) -> bool:
        if time.monotonic() - self._looked > VALID_SECONDS:
            self._looked = time.monotonic()
            with suppress(PrivodError):  # the database is away: the next look asks it
                self._stop_unwanted()
        return self._work.is_stopped()


@dataclass(eq=False)
class Job(Generic[Result]):
    """One asker's sight of an answer on its way."""

    id: str
    asker: str
    """Which token asked; nobody else sees the job."""
    question: str
    ask: Callable[[Turn], Result]
    work: Work[Result]

    @property
    def of(self) -> str:
        """The data set that is asked about."""
        return self.work.key[0]

    @property
    def leads(self) -> bool:
        """Whether the question is asked in this asker's name; others join in."""
        return self.work.leader is self

    def tenths(self) -> int:
        """How far it had come at the last release time, from 0 to 10."""
        return self.work.tenths()

    def state(self) -> State:
        """Where it stands, which changes at release times only."""
        return self.work.state()

    async def wait(self, seconds: float) -> bool:
        """Wait until it is done, at most so long; say whether it is."""
        deadline = time.monotonic() + seconds
        while self.work.ended is None:
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(LOOK_SECONDS)
        return True

    def result(self) -> Result:
        """The answer, or the error in its place; only once the state is done or failed."""
        outcome = self.work.outcome
        if isinstance(outcome, PrivodError):
            raise outcome
        return cast(Result, outcome)
