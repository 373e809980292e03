"""Figures to be shown, kept until the ledger's head moves; charges never use them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

from privod.curator import Curator
from privod.ledger import chain

Figure = TypeVar("Figure")

MOST_BYTES = 32 * 1024 * 1024
OVERHEAD = 2000  # bytes that anything kept is taken to need beside its text


class Kept:
    """What was computed since the ledger's head last moved."""

    def __init__(self, curator: Curator) -> None:
        self._database = curator.database
        self.head: tuple[int, str] | None = None
        self._figures: OrderedDict[Hashable, Any] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def find(self, key: Hashable) -> Any:
        """What is kept under a key, if the ledger ends where it did then; None if nothing is."""
        self._follow()
        with self._lock:
            if key in self._figures:
                self._figures.move_to_end(key)
            return self._figures.get(key)

    def figure(self, key: Hashable, make: Callable[[], Figure]) -> Figure:
        """What is kept under a key, or what is made now."""
        found: Figure | None = self.find(key)
        if found is not None:
            return found
        before = self.head
        made = make()
        self.keep(key, made, before)
        return made

    async def look(self, key: Hashable) -> Any:
        """The same as `find`, from the serving thread."""
        if self._database.engine == "sqlite":  # sooner than a thread is found
            return self.find(key)
        return await run_in_threadpool(self.find, key)

    def keep(self, key: Hashable, made: Any, head: tuple[int, str] | None) -> None:
        """Keep what was made since the ledger was seen with this head, if it still has it."""
        with self._lock:
            if head == self.head and key not in self._figures:
                self._figures[key] = made
                self._size += _bytes(made)
                while self._size > MOST_BYTES:
                    self._size -= _bytes(self._figures.popitem(last=False)[1])

    def _follow(self) -> None:
        """Forget everything if the head moved.

        Who computes looks at the head before: what is newer than its head is forgotten with it.
        """
        with self._database.lookup() as connection:
            head = chain.read_head(connection)
        with self._lock:
            if head != self.head:
                self.head = head
                self._figures.clear()
                self._size = 0


def _bytes(figure: Any) -> int:
    return OVERHEAD + (len(figure) if isinstance(figure, bytes | str) else 0)
