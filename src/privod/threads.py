"""How many cores may this process use, and how is work spread over them?

The compiled loops let go of Python's lock, so threads are enough. What is spread are pieces whose
number is public; their results come back in order.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from privod.control_groups import group_limits

Item = TypeVar("Item")
Result = TypeVar("Result")


def available_threads() -> int:
    """How many processors this process may use; a part of one counts as one."""
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), _granted())
    return os.cpu_count() or 1


@cache
def _granted() -> int:
    """How many processors' time a container or a service gives this process."""
    granted = [sys.maxsize]
    for limit in group_limits("cpu.max"):
        time, _, period = limit.strip().partition(" ")
        if time.isdecimal() and period.isdecimal():  # and not "max"
            granted.append(max(1, -(-int(time) // int(period))))
    return min(granted)


def thread_pool(threads: int | None = None) -> ThreadPoolExecutor:
    """A pool of so many threads; by default one for each core."""
    return ThreadPoolExecutor(threads or available_threads())


def in_threads(
    work: Callable[[int], Result], pieces: int, threads: int | None = None
) -> list[Result]:
    """Do the pieces 0, 1, ... of the work, in threads where both are several; results in order."""
    workers = min(pieces, threads or available_threads())
    if workers <= 1:
        return [work(piece) for piece in range(pieces)]
    with thread_pool(workers) as pool:
        return list(pool.map(work, range(pieces)))


def ahead(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """The results for all items, in order, while threads work on those that come next.

    Items are read by whoever asks for results. No more are under way than there are threads, so
    what they hold is bounded however many come.
    """
    with thread_pool() as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(work, item))
            del item
            if len(waiting) >= available_threads():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
