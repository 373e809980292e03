"""Long answers as jobs: started, watched and fetched, without telling how long the rows took.

How long an answer takes may depend on the rows. So what a job shows changes only at beats, each a
fixed factor after the one before, counted from its start: whoever watches learns between which two
beats it ended, a few bits, and waits at most that factor longer. Progress is shown in tenths.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from privod.errors import AnswerFailed, LimitReached, NotFound, PrivodError
from privod.progress import listening
from privod.server.limits import Limits

__all__ = ["Job", "Jobs", "State", "next_beat"]

Result = TypeVar("Result")
State = Literal["waiting", "answering", "done", "failed"]

FIRST_BEAT = 0.2  # seconds
BEAT_RATIO = 1.25
LOOK_SECONDS = 0.02
KEPT_JOBS = 2000
KEPT_SECONDS = 3600.0


def next_beat(seconds: float) -> float:
    """The first beat at or after so many seconds."""
    if seconds <= FIRST_BEAT:
        return FIRST_BEAT
    beat = FIRST_BEAT * BEAT_RATIO ** math.ceil(math.log(seconds / FIRST_BEAT, BEAT_RATIO) - 1e-9)
    return beat if beat >= seconds else beat * BEAT_RATIO


@dataclass(eq=False)
class Job(Generic[Result]):
    """One answer on its way."""

    id: str
    asker: str
    """Which token asked; nobody else sees the job."""
    of: str
    question: str
    future: Future[Result]
    started: float = field(default_factory=time.monotonic)
    finished: float | None = None
    _reports: list[tuple[float, int]] = field(default_factory=list)

    def hear(self, _label: str, done: int, total: int | None) -> None:
        """Note a report of progress, in tenths, never going back."""
        tenths = min(9, 10 * done // total) if total else 0
        if tenths > (self._reports[-1][1] if self._reports else 0):
            self._reports.append((time.monotonic() - self.started, tenths))

    def tenths(self) -> int:
        """How far it had come at the last beat, from 0 to 10."""
        if self.state() in ("done", "failed"):
            return 10
        beat = _last_beat(time.monotonic() - self.started)
        return max((tenths for when, tenths in self._reports if when <= beat), default=0)

    def state(self) -> State:
        """Where it stood at the last beat."""
        if self.finished is not None and time.monotonic() >= self._shown_at(self.finished):
            return "failed" if self.future.exception() else "done"
        beat = _last_beat(time.monotonic() - self.started)
        return "answering" if beat > 0 and self.future.running() else "waiting"

    async def wait(self, seconds: float) -> bool:
        """Wait until it is seen to be done, at most so long; say whether it is."""
        deadline = time.monotonic() + seconds
        while self.state() not in ("done", "failed"):
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(LOOK_SECONDS)
        return True

    def result(self) -> Result:
        """The answer, or the error in its place; only once the state is done or failed."""
        return self.future.result(timeout=0)

    def end(self) -> None:
        """Note when the work ended, before its result can be seen."""
        self.finished = time.monotonic()

    def _shown_at(self, finished: float) -> float:
        return self.started + next_beat(finished - self.started)


def _last_beat(seconds: float) -> float:
    beat = next_beat(seconds)
    if beat <= seconds:
        return beat
    return 0.0 if beat <= FIRST_BEAT else beat / BEAT_RATIO


class Jobs(Generic[Result]):
    """The answers being computed, few at a time, and those fetched lately.

    Parameters
    ----------
    limits : Limits
        How many at once, and how many may wait.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pool = ThreadPoolExecutor(limits.workers, thread_name_prefix="privod-answer")
        self._jobs: dict[str, Job[Result]] = {}
        self._lock = threading.Lock()

    def start(
        self, work: Callable[[], Result], *, asker: str, of: str, question: str
    ) -> Job[Result]:
        """Start a job, or refuse when too many are under way."""
        with self._lock:
            self._forget_old()
            busy = [job.asker for job in self._jobs.values() if job.finished is None]
            if len(busy) >= self._limits.waiting_jobs:
                raise LimitReached("Too many answers are being computed. Try again in a minute.")
            if busy.count(asker) >= self._limits.waiting_jobs_per_token:
                most = self._limits.waiting_jobs_per_token
                raise LimitReached(
                    f"A token may have {most} answers under way. Wait until one is done."
                )
            job: Job[Result] = Job(secrets.token_urlsafe(16), asker, of, question, Future())
            self._jobs[job.id] = job
        self._pool.submit(self._run, job, work)
        return job

    def find(self, job_id: str, asker: str) -> Job[Result]:
        """One's own job."""
        with self._lock:
            job = self._jobs.get(job_id)
        if job is None or job.asker != asker:
            raise NotFound(
                "There is no such job. It ended more than an hour ago, or the server was restarted;"
                " ask the question again: a stored answer costs nothing."
            )
        return job

    def close(self) -> None:
        """Wait for what is running and drop what is waiting."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, job: Job[Result], work: Callable[[], Result]) -> None:
        job.future.set_running_or_notify_cancel()
        try:
            with listening(job.hear):
                result = work()
        except PrivodError as problem:
            job.end()
            job.future.set_exception(problem)
        except Exception:  # its message might speak of rows, so it goes no further
            job.end()
            job.future.set_exception(AnswerFailed("The question could not be answered."))
        else:
            job.end()
            job.future.set_result(result)

    def _forget_old(self) -> None:
        now = time.monotonic()
        ended = [job for job in self._jobs.values() if job.finished is not None]
        surplus = max(0, len(ended) - KEPT_JOBS)
        for place, job in enumerate(ended):
            if place < surplus or now - (job.finished or now) > KEPT_SECONDS:
                del self._jobs[job.id]
