"""How much, how often and how many at once: one place for every limit of the server."""

from __future__ import annotations

import ipaddress
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from privod.control_groups import group_limits
from privod.errors import LimitReached, Unavailable

TOO_OFTEN = "Too many requests. Wait a few seconds, then come back more slowly."
NETWORK_BITS = 64  # of an IPv6 address: who has one address of such a network has all of them
MOST_BUCKETS = 20_000  # visitors remembered; past this the longest unseen are forgotten
RESERVE_BYTES = 2**30  # the server itself, the process that draws pictures, and the system
LEAST_BYTES = 2**30  # for a small table; where there is less, give one worker all there is
FIRST_VERSION = Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of control groups


def network_of(address: str) -> str:
    """Whom an address counts for: itself, or the whole network that an IPv6 address comes from."""
    if ":" not in address:
        return address
    try:
        found = ipaddress.IPv6Address(address)
    except ValueError:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(found), NETWORK_BITS), strict=False))


class TooLarge(LimitReached):
    """A body or a file is larger than the server accepts."""


class NoRoom(Unavailable):
    """A file is larger than the room that is left on the curator's disk."""


class BeingDrawn(Unavailable):
    """A picture is being drawn, and takes longer than a request waits."""


class TooSlow(LimitReached):
    """A body took longer to arrive than the server waits."""


class TooMuchWork(LimitReached):
    """By its public sizes an answer may take longer, or more memory, than the server allows."""


def share_of_memory(workers: int = 2) -> int:
    """How much memory one of so many workers may take; one more share is for an owner's report."""
    return max(LEAST_BYTES, (machine_bytes() - RESERVE_BYTES) // (workers + 1))


def machine_bytes() -> int:
    """The memory of this machine, or less where a container or a service may take less."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([whole, *_allowed()])


def _allowed() -> list[int]:
    """What control groups let this process take."""
    limits = group_limits("memory.max")
    with suppress(OSError):
        limits.append(FIRST_VERSION.read_text())
    return [int(limit) for limit in limits if limit.strip().isdecimal()]  # or "max"


@dataclass(frozen=True)
class Rate:
    """So many requests a second in the long run, and so many at once."""

    per_second: float
    burst: int


@dataclass(frozen=True)
class Limits:
    """What one server accepts, of each token unless said otherwise.

    Strangers, who show no token, are counted by address; 50 browsers hold six `connections_each`.
    Requests are `arriving` until their body is there. Large answers go out at `sent_bytes` a
    second. An answer is refused if it may take more seconds, bytes or numbers on as many records as
    were declared; `answer_bytes` is a share of the machine's memory. `writers` encode, draw and
    score stored answers, each in at most `encoding_seconds` or `picture_seconds` of a processor. A
    request waits `picture_wait_seconds` for a picture, then it is told to come back. A server whose
    disk has less than `least_free_bytes` says that it is not ready; one that is stopped waits
    `stop_seconds` for answers being computed.
    """

    connections_each: int = 300
    body_bytes: int = 128 * 1024
    body_seconds: float = 10
    upload_bytes: int = 512 * 1024 * 1024
    requests: Rate = Rate(100, 300)
    strangers: Rate = Rate(20, 100)
    failures: Rate = Rate(1 / 6, 20)
    sent_bytes: int = 16 * 1024 * 1024
    at_once: int = 200
    at_once_each: int = 60
    arriving: int = 200
    arriving_each: int = 40
    strangers_at_once: int = 60
    strangers_at_once_each: int = 20
    workers: int = 2
    waiting_jobs: int = 64
    waiting_jobs_per_token: int = 8
    answer_seconds: float = 6 * 3600
    answer_bytes: int = field(default_factory=share_of_memory)
    answer_numbers: int = 1_000_000
    report_seconds: float = 600
    writers: int = 2
    waiting_writes_per_token: int = 16
    picture_wait_seconds: float = 20
    picture_seconds: float = 20
    encoding_seconds: float = 120
    result_bytes: int = 256 * 1024**2
    least_free_bytes: int = 100 * 1024 * 1024
    stop_seconds: float = 30


class Slots:
    """Requests being served: so many in all, and so many for each one who asks."""

    def __init__(self, most: int, most_each: int) -> None:
        self._most = most
        self._most_each = most_each
        self._taken: Counter[str] = Counter()

    @contextmanager
    def taken(self, who: str) -> Iterator[None]:
        """Take a slot, or raise if there is none."""
        if self._taken.total() >= self._most or self._taken[who] >= self._most_each:
            raise LimitReached("Too many requests are being answered. Try again in a few seconds.")
        self._taken[who] += 1
        try:
            yield
        finally:
            self._taken[who] -= 1
            if not self._taken[who]:
                del self._taken[who]


class Pace:
    """So many bytes a second for everyone who asks, however many answers they take at a time."""

    def __init__(self, bytes_per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._free: dict[str, float] = {}

    def delay(self, who: str, size: int) -> float:
        """How many seconds to wait before so many bytes are sent to somebody."""
        now = self._clock()
        if len(self._free) > MOST_BUCKETS:
            self._free = {name: at for name, at in self._free.items() if at > now}
        begin = max(now, self._free.get(who, now))
        self._free[who] = begin + size / self._rate
        return begin - now


class RateLimiter:
    """A bucket of requests for everyone who asks, refilled at a steady rate."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()
        self.among = 1
        """How many server processes share the rate: each allows its part of it."""

    def take(self, who: str) -> None:
        """Take one request out of someone's bucket, or raise if it is empty."""
        with self._lock:
            now = self._clock()
            left = self._left(who, now)
            if left < 1:
                raise LimitReached(TOO_OFTEN)
            self._buckets.pop(who, None)  # to the end: the longest unseen come first
            self._buckets[who] = (left - 1, now)
            if len(self._buckets) > MOST_BUCKETS:
                del self._buckets[next(iter(self._buckets))]

    def _left(self, who: str, now: float) -> float:
        burst = max(1.0, self._rate.burst / self.among)
        left, since = self._buckets.get(who, (burst, now))
        return min(burst, left + (now - since) * self._rate.per_second / self.among)
