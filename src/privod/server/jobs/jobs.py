"""Long answers as jobs: started, watched and fetched, without telling how long the rows took.

Who asks the same joins one `Work`. It waits in a queue for a worker, which goes on to the next when
the answer is stored. No clock ends a worker. What nobody waits for any more is ended, and its
charge stands. What a stopping server ends is begun again by the next one.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from privod.curator.publication import Interrupted
from privod.errors import (
    AnswerFailed,
    BudgetExceeded,
    NotAllowed,
    NotFound,
    PrivodError,
    Unavailable,
)
from privod.server.jobs.queue import FairQueue, Taken
from privod.server.jobs.work import LEFT_ANSWERING, STOPPED, STOPPED_WAITING, Job, Key, Turn, Work
from privod.server.jobs.workers import Worker
from privod.server.limits import Limits

__all__ = ["LEFT_ANSWERING", "STOPPED", "Job", "Jobs", "Turn", "new_id", "recalled"]

Result = TypeVar("Result")

LOG = logging.getLogger("privod.server")
END_SECONDS = 10.0  # for a stopped answer to be cleared away, on a busy machine too
STORE_SECONDS = 600.0  # for a database that is away to come back, so that an answer is stored
AGAIN_SECONDS = 2.0
KEPT_JOBS = 2000
KEPT_SECONDS = 3600.0
NO_JOB = (
    "There is no such job. It ended more than an hour ago, or the server was restarted;"
    " ask the question again: a stored answer costs nothing."
)
STOPPED_JOINED = "You no longer wait for it. What was charged in your name stays charged."
REVOKED_WAITING = "The token was revoked before its turn came. Nothing was charged."


def new_id() -> str:
    """A job's id, which nobody can guess."""
    return secrets.token_urlsafe(16)


class Stopping(Unavailable):
    """The server is being stopped before a question's turn came; ask again when it is back."""


class _NotWaiting(PrivodError):
    """Whoever a question is asked for waits no longer; nothing was charged in their name."""


def recalled(
    job_id: str, asker: str, key: Key, question: str, outcome: Result | PrivodError | None
) -> Job[Result]:
    """The sight of a job that this process does not work on: as it ended, or as waiting."""
    work: Work[Result] = Work(key, threading.Event())

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
        self._works: dict[Key, Work[Result]] = {}
        # Neither one token nor long questions hold every worker for long, so that others come to
        # their turn.
        self._queue: FairQueue[Work[Result]] = FairQueue(max(1, limits.workers - 1))
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
            if work is not None and work.stop_age is not None:
                if work.take_stop_back():
                    parted = list(work.jobs)
                else:
                    work = None
            if work is None:
                work = self._works[key] = Work(key, self._closing, is_long=is_long)
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
        alone: Work[Result] = Work(job.work.key, self._closing, jobs=[job], fate="parted")
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

    def _take(self) -> Taken[Work[Result]] | None:
        """Wait for the next in the queue; None when the server stops."""
        with self._changed:
            while not self._closing.is_set():
                taken = self._queue.take(lambda work: work.began is None and work.ended is None)
                if taken is not None:
                    taken.item.begin()
                    return taken
                self._changed.wait()
        return None

    def _outcome(self, work: Work[Result], asker: str, worker: Worker) -> Result | PrivodError:
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

    def _asked_until_stored(self, work: Work[Result], asker: str, turn: Turn) -> Result:
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

    def _asked(self, work: Work[Result], asker: str, turn: Turn) -> Result:
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

    def _stop_unwanted(self, work: Work[Result]) -> None:
        """Stop what nobody waits for any more, unless somebody joined in meanwhile."""
        with self._changed:
            waiting = list(work.jobs)
        if not any(self._waits(job) for job in waiting):
            with self._changed:
                if work.jobs == waiting:
                    work.stop()

    def _check_leader(self, work: Work[Result]) -> None:
        """Raise if whoever a question is asked for waits no longer."""
        with self._changed:
            leader = work.leader
            waits = leader is not None and leader in work.jobs and not work.is_stopped_unbegun()
        if leader is None or not waits or not self._waits(leader):
            raise _NotWaiting

    def _waits(self, job: Job[Result]) -> bool:
        """Whether its asker may still have it, and did not stop it at another server process."""
        return self._token_is_valid(job.asker) and not self._was_stopped(job.id)

    def _leader(self, work: Work[Result], asker: str) -> Job[Result]:
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

    def _end(self, work: Work[Result], outcome: Result | PrivodError) -> list[Job[Result]]:
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
