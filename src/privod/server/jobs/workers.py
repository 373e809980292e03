"""Processes that do the work of a server, each ended when it takes more than it may."""

from __future__ import annotations

import json
import math
import multiprocessing
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from privod.errors import Unavailable
from privod.registry import questions
from privod.server.jobs.worker import DONE, PROGRESS, READY, work

LOADED = f"{__package__}.loaded"  # done there once, not in the server nor in each worker
READY_SECONDS = 300.0  # the first one loads the library, perhaps on a busy machine
LOOK_SECONDS = 0.2  # between looks whether a task was stopped
END_SECONDS = 5.0
LOOKING_NICENESS = 19  # whoever reads stored answers comes first, by far
LOADING_BYTES = 2**30  # it waits for a task and gets none


class TaskFailed(Exception):
    """A task came to no result: it failed, died, took too much, or was stopped."""


class TaskStopped(TaskFailed):
    """A task was given up because whoever started it said so, whatever it did by then."""


class Worker:
    """A process for one task at a time; started when it is needed, and again after it died."""

    def __init__(
        self, most_bytes: int, most_result_bytes: int, niceness: int = LOOKING_NICENESS
    ) -> None:
        self._niceness = niceness
        self._most_bytes = most_bytes
        self._most_result_bytes = most_result_bytes
        self._process: BaseProcess | None = None
        self._channel: Connection | None = None
        self._of: str | None = None

    def prepare(self, of: str | None = None) -> None:
        """Have a process that waits for its task; raises `Unavailable` if none can be started."""
        if of != self._of:  # rows left in memory never decide about another data set's answer
            self.end()
            self._of = of
        if not self._is_ready(END_SECONDS):
            self.end()
            self._start()
            if not self._is_ready(READY_SECONDS):
                self.end()
                raise Unavailable(
                    "No process could be started. Ask again in a minute; the operator should look"
                    " at the memory of the machine."
                )

    def run(
        self,
        task: dict[str, Any],
        seconds: float = math.inf,
        *,
        most_result_bytes: int | None = None,
        hear: Callable[[int], None] | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> bytes:
        """The result of a task; `hear` is told the tenths that are done, `stopped` gives it up."""
        self.prepare(self._of)
        channel = self._channel
        deadline = time.monotonic() + seconds
        try:
            assert channel is not None  # noqa: S101 - what prepare made, told to the type checker
            channel.send_bytes(json.dumps(task).encode())
            while time.monotonic() < deadline:
                if stopped():
                    self.end()
                    raise TaskStopped
                if not channel.poll(min(LOOK_SECONDS, max(0.0, deadline - time.monotonic()))):
                    continue
                message = channel.recv_bytes(most_result_bytes or self._most_result_bytes)
                if message[:1] == PROGRESS:
                    if hear is not None:
                        hear(int(message[1:]))
                elif message[:1] == DONE:
                    return message[1:]
                else:
                    raise TaskFailed
        except (EOFError, OSError):  # it died, or said more than it may
            self.end()
            raise TaskFailed from None
        self.end()
        raise TaskFailed

    def end(self) -> None:
        """End the process, whatever it does."""
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            self._process.kill()
            self._process.join(END_SECONDS)
        self._process = self._channel = None

    def _is_ready(self, seconds: float) -> bool:
        if self._channel is None:
            return False
        try:
            self._channel.send_bytes(READY)
            return self._channel.poll(seconds) and self._channel.recv_bytes() == READY
        except (EOFError, OSError):
            return False

    def _start(self) -> None:
        context = multiprocessing.get_context("forkserver")
        # where questions are answered and drawn: loaded once, before any worker is forked
        modules = {one.query.partition(":")[0] for one in questions().values() if not one.joint}
        loaded = [LOADED, work.__module__, "privod.pictures", *sorted(modules)]
        context.set_forkserver_preload(loaded)
        ours, theirs = context.Pipe()
        process = context.Process(
            target=work,
            args=(theirs, self._most_bytes, self._niceness),
            name="privod-worker",
            daemon=True,
        )
        try:
            process.start()
        except OSError:
            ours.close()
        else:
            self._process, self._channel = process, ours
        finally:
            theirs.close()


def load_library() -> None:
    """Have the library loaded where workers are forked from, so that the first starts at once."""
    worker = Worker(LOADING_BYTES, LOADING_BYTES)
    with suppress(Unavailable):
        worker.prepare()
    worker.end()
