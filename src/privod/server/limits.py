"""How much, how often and how many at once: one place for every limit of the server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from privod.errors import LimitReached

__all__ = ["Limits", "Rate", "Rates", "TooLarge"]

TOO_OFTEN = "Too many requests. Wait a few seconds, then come back more slowly."
MOST_BUCKETS = 20_000  # visitors remembered; past this the longest unseen are forgotten


class TooLarge(LimitReached):
    """A body or a file is larger than the server accepts."""


@dataclass(frozen=True)
class Rate:
    """So many requests a second in the long run, and so many at once."""

    per_second: float
    burst: int


@dataclass(frozen=True)
class Limits:
    """What one server accepts.

    Parameters
    ----------
    body_bytes : int
        The largest body of any request, but for an owner's upload.
    upload_bytes : int
        The largest file that an owner may register.
    requests : Rate
        For each token.
    strangers : Rate
        For each address that shows no token.
    failures : Rate
        Unknown tokens, for each address.
    at_once : int
        Requests served at once.
    workers : int
        Answers computed at once.
    waiting_jobs, waiting_jobs_per_token : int
        Answers computed or waiting to be, in all and for one token.
    stop_seconds : float
        How long a server that is stopped waits for answers being computed.
    """

    body_bytes: int = 128 * 1024
    upload_bytes: int = 512 * 1024 * 1024
    requests: Rate = Rate(100, 300)
    strangers: Rate = Rate(20, 100)
    failures: Rate = Rate(1 / 6, 20)
    at_once: int = 200
    workers: int = 2
    waiting_jobs: int = 64
    waiting_jobs_per_token: int = 8
    stop_seconds: float = 30


class Rates:
    """A bucket of requests for everyone who asks, refilled at a steady rate.

    Parameters
    ----------
    rate : Rate
        How fast a bucket fills, and how much it holds.
    clock : callable
        Seconds; tests bring their own.
    """

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

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

    def check(self, who: str) -> None:
        """Raise if someone's bucket is empty, and take nothing."""
        with self._lock:
            if self._left(who, self._clock()) < 1:
                raise LimitReached(TOO_OFTEN)

    def _left(self, who: str, now: float) -> float:
        left, since = self._buckets.get(who, (float(self._rate.burst), now))
        return min(float(self._rate.burst), left + (now - since) * self._rate.per_second)
