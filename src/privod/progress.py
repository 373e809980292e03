"""Tell whoever listens how far a long step has come, without knowing who listens.

A terminal shows a bar, a server a job's share; a library call shows nothing. What is reported are
steps of work whose number is public (candidates, blocks, draws), never anything read off rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Item = TypeVar("Item")

Listener = Callable[[str, int, int | None], None]
"""Called with what is being done, how many steps are done, and how many there are if known."""

_listener: ContextVar[Listener | None] = ContextVar("privod_progress_listener", default=None)


@contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Send the progress of everything inside to `listener`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def overhearing(listener: Listener) -> Iterator[None]:
    """Send the progress of everything inside to `listener` too, besides whoever listens already."""
    before = _listener.get()

    def both(phase: str, done: int, total: int | None) -> None:
        listener(phase, done, total)
        if before is not None:
            before(phase, done, total)

    with listening(both):
        yield


def report(phase: str, done: int, total: int | None = None) -> None:
    """Tell the listener, if there is one, that `done` of `total` steps are behind us."""
    listener = _listener.get()
    if listener is not None:
        listener(phase, done, total)


def track(items: Iterable[Item], phase: str, total: int | None = None) -> Iterator[Item]:
    """Yield the items and report each one done."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    report(phase, 0, total)
    for done, item in enumerate(items, start=1):
        yield item
        report(phase, done, total)
