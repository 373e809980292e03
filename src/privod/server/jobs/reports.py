"""Whom narrow promises protect, counted over the rows in a worker process, for the owner alone."""

from __future__ import annotations

import json
import threading

from privod.curator import Curator
from privod.curator.protection import SAMPLE, Protection
from privod.errors import LimitReached, Unavailable
from privod.privacy import Adjacency
from privod.server.jobs.worker import where
from privod.server.jobs.workers import TaskFailed, Worker
from privod.server.limits import Limits

ONE_AT_A_TIME = (
    "This server is making a report of who is protected, and makes one at a time. Try again when it"
    " is done, or run `privod protected` where the curator is."
)
TOO_MUCH = (
    "The report took longer, or more memory, than this server allows. Run `privod protected` where"
    " the curator is."
)


class Reports:
    """Reports about rows, one at a time, within the server's limits.

    Such a report may end at a limit because of rows: its reader, the owner, may know them.

    Parameters
    ----------
    curator : Curator
        Who holds the rows.
    limits : Limits
        What a report may take.
    """

    def __init__(self, curator: Curator, limits: Limits) -> None:
        self._curator = curator
        self._limits = limits
        self._worker = Worker(limits.answer_bytes, limits.result_bytes)
        self._one = threading.Lock()

    def who_is_protected(
        self, of: str, adjacency: Adjacency | None = None, *, sample: int = SAMPLE
    ) -> tuple[Protection, ...]:
        """Of each narrow promise by itself and, if there are several, of all of them together."""
        rows, groups = self._curator.narrow_promises(of, adjacency)
        task = {
            "kind": "protected",
            "groups": [[one.to_json() for one in group] for group in groups],
            "sample": sample,
            **where(rows),
        }
        if not self._one.acquire(blocking=False):
            raise LimitReached(ONE_AT_A_TIME)
        try:
            self._worker.prepare(of)
            written = self._worker.run(task, self._limits.report_seconds)
        except TaskFailed:
            raise Unavailable(TOO_MUCH) from None
        finally:
            self._worker.end()  # it holds rows, and reports are rare
            self._one.release()
        return tuple(Protection.from_json(one) for one in json.loads(written))

    def close(self) -> None:
        """End the worker process."""
        self._worker.end()
