"""Worker processes that encode, draw and score: one line for each token, served in turn."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import Future
from typing import Any, NamedTuple

from privod.errors import LimitReached, Unavailable
from privod.server.jobs.queue import FairQueue
from privod.server.jobs.workers import TaskFailed, Worker
from privod.server.limits import Limits

TOO_MANY = (
    "Too many of your answers are being encoded, drawn or scored against."
    " Try again when some are done."
)
TOO_LARGE = "This took longer, or more memory, than the server allows. Take the answer as JSON."


BUSY = 15  # times as long a task may last on a machine that has much else to do
NICENESS = 5  # behind the server, and before those who look at rows: people wait for pictures


class _Task(NamedTuple):
    what: dict[str, Any]
    future: Future[bytes]
    seconds: float


class Writers:
    """A few worker processes behind a fair queue."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queue: FairQueue[_Task] = FairQueue(1)
        self._waiting: Counter[str] = Counter()
        self._change = threading.Condition()
        self._is_closed = False
        self._workers = [
            Worker(limits.answer_bytes, limits.result_bytes, NICENESS)
            for _ in range(limits.writers)
        ]
        self._threads: list[threading.Thread] = []

    def submit(self, asker: str, task: dict[str, Any], seconds: float) -> Future[bytes]:
        """Have a task done when its asker's turn comes, in so many seconds of a processor."""
        future: Future[bytes] = Future()
        with self._change:
            if self._is_closed:
                raise Unavailable("The server is stopping. Ask again when it is back.")
            if self._waiting[asker] >= self._limits.waiting_writes_per_token:
                raise LimitReached(TOO_MANY)
            if not self._threads:
                self._threads = [
                    threading.Thread(target=self._serve, args=(worker,), daemon=True)
                    for worker in self._workers
                ]
                for thread in self._threads:
                    thread.start()
            self._waiting[asker] += 1
            self._queue.add(asker, _Task(task | {"seconds": seconds}, future, seconds))
            self._change.notify()
        return future

    def lengths(self) -> dict[str, int]:
        """How many tasks are waiting or at work, in all and for the token with most of them."""
        with self._change:
            return {"all": self._waiting.total(), "longest": max(self._waiting.values(), default=0)}

    def close(self) -> None:
        """End the processes; what waits is given up."""
        with self._change:
            self._is_closed = True
            self._change.notify_all()
        for worker in self._workers:
            worker.end()

    def _serve(self, worker: Worker) -> None:
        while True:
            with self._change:
                taken = self._queue.take(lambda _: True)
                while taken is None and not self._is_closed:
                    self._change.wait()
                    taken = self._queue.take(lambda _: True)
            if taken is None or self._is_closed:
                return
            try:
                self._do(worker, taken.item)
            finally:
                with self._change:
                    self._queue.leave(taken)
                    self._waiting[taken.asker] -= 1
                    self._waiting = +self._waiting
                    self._change.notify_all()

    def _do(self, worker: Worker, task: _Task) -> None:
        try:
            task.future.set_result(worker.run(task.what, BUSY * task.seconds))
        except TaskFailed:
            task.future.set_exception(Unavailable(TOO_LARGE))
        except Exception as problem:
            task.future.set_exception(problem)
