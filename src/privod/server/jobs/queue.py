"""Whose turn is it: one line for each asker, served in turn, however long some of them are."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["FairQueue"]

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """Lines of waiting items; whoever uses it brings the lock.

    Parameters
    ----------
    most : int
        How many items of one asker may be out at once.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lines: dict[str, deque[Item]] = {}
        self._out: Counter[str] = Counter()

    def add(self, asker: str, item: Item) -> None:
        """Put an item at the end of an asker's line; the same item may stand in several lines."""
        self._lines.setdefault(asker, deque()).append(item)

    def take(self, wanted: Callable[[Item], bool]) -> tuple[str, Item] | None:
        """The next item, and from whose line: of those with the fewest out, the longest not served.

        An item that is no longer wanted is passed over.
        """
        for asker in sorted(self._lines, key=self._out.__getitem__):
            if self._out[asker] >= self._most:
                continue
            line = self._lines.pop(asker)
            while line:
                item = line.popleft()
                if wanted(item):
                    if line:
                        self._lines[asker] = line  # behind the others
                    self._out[asker] += 1
                    return asker, item
        return None

    def leave(self, asker: str) -> None:
        """One of the asker's items is back."""
        self._out[asker] -= 1
        if not self._out[asker]:
            del self._out[asker]
