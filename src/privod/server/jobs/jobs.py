"""Long answers as jobs: started, watched and fetched, without telling how long the rows took.

How long an answer takes may depend on the rows. So it waits for a release time, each a fixed factor
after the one before: only then is it stored and shown, and its worker goes on to the next. Progress
is shown in tenths, at the same times. No clock ends a worker. What nobody waits for any more is
ended, and its charge stands. What a stopping server ends is begun again by the next one.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from privod.curator.publication import GivenUp, Interrupted
from privod.curator.questions import Question
from privod.curator.rows import KeptRows
from privod.errors import (
    AnswerFailed,
    BudgetExceeded,
    NotAllowed,
    NotFound,
    PrivodError,
    Unavailable,
)
from privod.ledger.store import ReleaseText
from privod.server.jobs.estimates import Allowed
from privod.server.jobs.queue import FairQueue, Taken
from privod.server.jobs.worker import where
from privod.server.jobs.workers import TaskStopped, Worker
from privod.server.limits import Limits

Result = TypeVar("Result")
State = Literal["waiting", "answering", "done", "failed"]
Key = tuple[str, str]
"""One question about one data set."""

LOG = logging.getLogger("privod.server")
END_SECONDS = 10.0  # for a stopped answer to be cleared away, on a busy machine too
FIRST_RELEASE_SECONDS = 0.2  # seconds
RELEASE_RATIO = 1.25
LOOK_SECONDS = 0.02
STORE_SECONDS = 600.0  # for a database that is away to come back, so that an answer is stored
AGAIN_SECONDS = 2.0
KEPT_JOBS = 2000
KEPT_SECONDS = 3600.0
VALID_SECONDS = 1.0  # between two looks whether the tokens of those who wait are valid
NO_JOB = (
    "There is no such job. It ended more than an hour ago, or the server was restarted;"
    " ask the question again: a stored answer costs nothing."
)
LEFT_WAITING = (
    "The server was stopped first. Nothing was charged. The question waits for the server to be"
    " back, and is answered then."
)
STOPPED_WAITING = "It was stopped before its turn came. Nothing was charged."
STOPPED_JOINED = "You no longer wait for it. What was charged in your name stays charged."
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
REVOKED_WAITING = "The token was revoked before its turn came. Nothing was charged."


def new_id() -> str:
    """A job's id, which nobody can guess."""
    return secrets.token_urlsafe(16)


def next_release_time(seconds: float) -> float:
    """The first release time at or after so many seconds."""
    if seconds <= FIRST_RELEASE_SECONDS:
        return FIRST_RELEASE_SECONDS
    moment = FIRST_RELEASE_SECONDS * RELEASE_RATIO ** math.ceil(
        math.log(seconds / FIRST_RELEASE_SECONDS, RELEASE_RATIO) - 1e-9
    )
    return moment if moment >= seconds else moment * RELEASE_RATIO


class Stopping(Unavailable):
    """The server is being stopped before a question's turn came; ask again when it is back."""


class _NotWaiting(PrivodError):
    """Whoever a question is asked for waits no longer; nothing was charged in their name."""


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
class _Work(Generic[Result]):
    """One question, answered once for everybody who asks it meanwhile."""

    key: Key
    closing: threading.Event
    future: Future[Result] = field(default_factory=Future)
    jobs: list[Job[Result]] = field(default_factory=list)
    leader: Job[Result] | None = None
    began: float | None = None
    computed: float | None = None
    ended: float | None = None
    stopped: threading.Event = field(default_factory=threading.Event)
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

    def begin(self) -> None:
        self.began = time.monotonic()

    def stop(self) -> None:
        """End the work at the next release time, whenever that was asked for."""
        with self._lock:
            if self.stop_age is None:
                self.stop_age = next_release_time(self._age(time.monotonic()))
            self.stopped.set()

    def take_stop_back(self) -> bool:
        """Go on because somebody waits again; false if the work was given up before."""
        with self._lock:
            if self.fate == "given up":
                return False
            self.stop_age = None
            self.stopped.clear()
            return True

    def leave(self) -> None:
        """End the work with the server, for the next one to go on with; unless it was stopped."""
        with self._lock:
            if self.stop_age is None:
                self.fate = "left"
            self.stopped.set()
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
                return self.stopped.is_set()
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
        self.ended = time.monotonic()
        if isinstance(outcome, PrivodError):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)

    def hear(self, tenths: int) -> None:
        """Note how many tenths are done, never going back."""
        if tenths > (self._reports[-1][1] if self._reports else 0):
            self._reports.append((self._age(time.monotonic()), tenths))

    def tenths(self) -> int:
        if self.future.done():
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
        work: _Work[Any],
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
            "rows_per_person": question.guarantee.rows_per_person,
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
    work: _Work[Result]

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
        if self.work.future.done():
            return "failed" if self.work.future.exception() else "done"
        return "waiting" if self.work.began is None else "answering"

    async def wait(self, seconds: float) -> bool:
        """Wait until it is done, at most so long; say whether it is."""
        deadline = time.monotonic() + seconds
        while self.state() not in ("done", "failed"):
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(LOOK_SECONDS)
        return True

    def result(self) -> Result:
        """The answer, or the error in its place; only once the state is done or failed."""
        return self.work.future.result(timeout=0)


def recalled(
    job_id: str, asker: str, key: Key, question: str, outcome: Result | PrivodError | None
) -> Job[Result]:
    """The sight of a job that this process does not work on: as it ended, or as waiting."""
    work: _Work[Result] = _Work(key, threading.Event())

    def ask(_turn: Turn) -> Result:
        raise Unavailable("Another server process answers this question.")

    job = Job(job_id, asker, question, ask, work)
    if outcome is not None:
        work.finish(outcome)
    return job


class Jobs(Generic[Result]):
    """The answers being computed, few at a time, and those fetched lately.

    Whether a token is still valid is looked up again when its question comes up. `note_end` is told
    of every job that ended, but for those that a stopping server leaves in the queue. `was_stopped`
    says whether a job was stopped at another server process.
    """

    def __init__(
        self,
        limits: Limits,
        token_is_valid: Callable[[str], bool],
        note_end: Callable[[Job[Result]], None] = lambda _job: None,
        was_stopped: Callable[[str], bool] = lambda _job: False,
    ) -> None:
        self._limits = limits
        self._note_end = note_end
        self._was_stopped = was_stopped
        self._token_is_valid = token_is_valid
        self._jobs: dict[str, Job[Result]] = {}
        self._works: dict[Key, _Work[Result]] = {}
        # Neither one token nor long questions hold every worker for long, so that others come to
        # their turn.
        self._queue: FairQueue[_Work[Result]] = FairQueue(max(1, limits.workers - 1))
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self._workers: list[Worker] = []

    def start(
        self,
        ask: Callable[[Turn], Result],
        *,
        asker: str,
        key: Key,
        question: str,
        job_id: str | None = None,
        is_long: bool = False,
        was_left: bool = False,
        was_charged: bool = False,
    ) -> Job[Result]:
        """Start a job, or join the one that answers this question already.

        Whoever joins what everybody else stopped has it go on, unless that has had its effect.
        What an earlier server process left is a job of its own, whatever its asker asked since;
        what that one charged is said to be charged also where it ends before its turn comes.
        """
        parted: list[Job[Result]] = []
        with self._changed:
            self._forget_old()
            own = self._own(key, asker)
            if own is not None and not was_left:
                return own
            if self._closing.is_set():
                raise Stopping("The server is stopping. Ask again when it is back.")
            work = self._works.get(key)
            if work is not None and work.stopped.is_set():
                if work.take_stop_back():
                    parted = list(work.jobs)
                else:
                    work = None
            if work is None:
                work = self._works[key] = _Work(key, self._closing, is_long=is_long)
            work.was_charged |= was_charged
            for stopped in parted:
                self._part(stopped, NotAllowed(STOPPED_JOINED))
            job = Job(job_id or new_id(), asker, question, ask, work)
            work.jobs.append(job)
            self._jobs[job.id] = job
            if work.began is None:
                self._queue.add(asker, work, is_long=work.is_long)
                self._changed.notify()
            if len(self._threads) < self._limits.workers:
                name = f"privod-answer-{len(self._threads)}"
                self._workers.append(Worker(self._limits.answer_bytes, self._limits.result_bytes))
                self._threads.append(
                    threading.Thread(
                        target=self._serve, args=(self._workers[-1],), name=name, daemon=True
                    )
                )
                self._threads[-1].start()
        for stopped in parted:
            self._note_end(stopped)
        return job

    def own(self, key: Key, asker: str) -> Job[Result] | None:
        """The job by which somebody waits for the answer to a question already."""
        with self._changed:
            return self._own(key, asker)

    def _own(self, key: Key, asker: str) -> Job[Result] | None:
        work = self._works.get(key)
        waiting = work.jobs if work is not None else []
        return next((job for job in waiting if job.asker == asker), None)

    def has(self, key: Key) -> bool:
        """Whether a question is being answered."""
        with self._changed:
            return key in self._works

    def under_way(self) -> dict[str, int]:
        """How many questions wait, and how many are being answered."""
        with self._changed:
            answering = sum(work.began is not None for work in self._works.values())
            return {"waiting": len(self._works) - answering, "answering": answering}

    def closing(self) -> bool:
        """Whether the server is stopping, so that nothing new is taken in."""
        return self._closing.is_set()

    def wait_for_closing(self, seconds: float) -> None:
        """Wait so long, or until the server stops."""
        self._closing.wait(seconds)

    def find(self, job_id: str, asker: str) -> Job[Result]:
        """One's own job."""
        with self._changed:
            job = self._jobs.get(job_id)
        if job is None or job.asker != asker:
            raise NotFound(NO_JOB)
        return job

    def stop(self, job_id: str, may_stop: Callable[[Job[Result]], bool]) -> None:
        """Stop a job, if the visitor may: what nobody waits for any more is ended."""
        with self._changed:
            job = self._jobs.get(job_id)
            if job is None or not may_stop(job):
                raise NotFound(NO_JOB)
            work = job.work
            if work.ended is not None:
                return
            if len(work.jobs) == 1 and work.began is not None:
                work.stop()
                return
            if len(work.jobs) > 1:
                waits = work.began is None and not work.was_charged
                self._part(job, NotAllowed(STOPPED_WAITING if waits else STOPPED_JOINED))
            else:
                self._end(work, work.refused(STOPPED_WAITING))
        self._note_end(job)

    def _part(self, job: Job[Result], problem: PrivodError) -> None:
        """End one asker's job and leave the work to the others who wait for it."""
        job.work.jobs.remove(job)
        alone: _Work[Result] = _Work(job.work.key, self._closing, jobs=[job], fate="parted")
        alone.finish(problem)
        job.work = alone

    def close(self) -> None:
        """Drop what is waiting, give what is running a while to end, and end it then."""
        deadline = time.monotonic() + self._limits.stop_seconds
        with self._changed:
            self._closing.set()
            for work in [work for work in self._works.values() if work.began is None]:
                self._end(work, Stopping(work.left_words()))
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._changed:
            late = [work for work in self._works.values() if work.began is not None]
        for work in late:
            LOG.warning("an answer was left; its charge stands; the next server begins it again")
            work.leave()
        for thread in self._threads:
            thread.join(END_SECONDS)
        for worker in self._workers:
            worker.end()

    def _serve(self, worker: Worker) -> None:
        while (taken := self._take()) is not None:
            work = taken.item
            outcome = self._outcome(work, taken.asker, worker)
            with self._changed:
                ended = self._end(work, outcome)
                self._queue.leave(taken)
                self._changed.notify_all()
            for job in ended if not isinstance(outcome, Interrupted) else ():
                self._note_end(job)

    def _take(self) -> Taken[_Work[Result]] | None:
        """Wait for the next in the queue; None when the server stops."""
        with self._changed:
            while not self._closing.is_set():
                taken = self._queue.take(lambda work: work.began is None and work.ended is None)
                if taken is not None:
                    taken.item.begin()
                    return taken
                self._changed.wait()
        return None

    def _outcome(self, work: _Work[Result], asker: str, worker: Worker) -> Result | PrivodError:
        """Ask in the name of whoever's turn it is, unless the token was revoked meanwhile."""
        turn = Turn(
            work, worker, lambda: self._check_leader(work), lambda: self._stop_unwanted(work)
        )
        try:
            return self._asked_until_stored(work, asker, turn)
        except AnswerFailed as problem:
            return AnswerFailed(STOPPED) if work.stop_age is not None else problem
        except PrivodError as problem:
            return problem
        except Exception:  # its message might speak of rows, so it goes no further
            return AnswerFailed("The question could not be answered.")
        finally:
            work.wait_for_release_time()

    def _asked_until_stored(self, work: _Work[Result], asker: str, turn: Turn) -> Result:
        """Ask, and ask again while what was charged cannot be stored: that costs nothing more."""
        deadline = None
        while True:
            try:
                return self._asked(work, asker, turn)
            except Unavailable as problem:
                work.was_charged |= isinstance(problem, Interrupted)
                now = time.monotonic()
                deadline = now + STORE_SECONDS if deadline is None else deadline
                if not work.was_charged or work.fate == "left":
                    raise
                if now > deadline:  # it ends here, and who asks again goes on with it
                    raise Unavailable(str(problem)) from None
                self._closing.wait(AGAIN_SECONDS)
                if self._closing.is_set():
                    raise Interrupted(LEFT_ANSWERING) from None
                if work.is_stopped():
                    raise AnswerFailed(STOPPED) from None
                work.computed = None  # what comes next waits for a release time of its own

    def _asked(self, work: _Work[Result], asker: str, turn: Turn) -> Result:
        """Ask in one name after the other: who may not pay keeps nobody else from the answer."""
        while True:
            leader = self._leader(work, asker)
            try:
                return leader.ask(turn)
            except _NotWaiting:
                continue  # in the name of somebody who waits
            except (BudgetExceeded, NotAllowed) as problem:  # before anything was charged
                with self._changed:
                    if len(work.jobs) == 1 or leader not in work.jobs:
                        raise
                    self._part(leader, problem)
                self._note_end(leader)

    def _stop_unwanted(self, work: _Work[Result]) -> None:
        """Stop what nobody waits for any more, unless somebody joined in meanwhile."""
        with self._changed:
            waiting = list(work.jobs)
        if not any(self._waits(job) for job in waiting):
            with self._changed:
                if work.jobs == waiting:
                    work.stop()

    def _check_leader(self, work: _Work[Result]) -> None:
        """Raise if whoever a question is asked for waits no longer."""
        with self._changed:
            leader = work.leader
            waits = leader is not None and leader in work.jobs and not work.is_stopped_unbegun()
        if leader is None or not waits or not self._waits(leader):
            raise _NotWaiting

    def _waits(self, job: Job[Result]) -> bool:
        """Whether its asker may still have it, and did not stop it at another server process."""
        return self._token_is_valid(job.asker) and not self._was_stopped(job.id)

    def _leader(self, work: _Work[Result], asker: str) -> Job[Result]:
        with self._changed:
            waiting = sorted(work.jobs, key=lambda job: job.asker != asker)
        if work.is_stopped_unbegun():
            raise work.refused(STOPPED_WAITING)
        for job in waiting:
            if self._waits(job):
                work.leader = job
                return job
        if any(self._token_is_valid(job.asker) for job in waiting):
            raise work.refused(STOPPED_WAITING)
        raise work.refused(REVOKED_WAITING)

    def _end(self, work: _Work[Result], outcome: Result | PrivodError) -> list[Job[Result]]:
        """Let everybody see how it ended; returns their jobs."""
        work.finish(outcome)
        if self._works.get(work.key) is work:  # nobody asked again since it was given up
            del self._works[work.key]
        return list(work.jobs)

    def _forget_old(self) -> None:
        now = time.monotonic()
        ended = [job for job in self._jobs.values() if job.work.ended is not None]
        surplus = max(0, len(ended) - KEPT_JOBS)
        for place, job in enumerate(ended):
            if place < surplus or now - (job.work.ended or now) > KEPT_SECONDS:
                del self._jobs[job.id]
