"""A fair queue: one line for each asker, served in turn, however long some of them are."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")


class Taken(NamedTuple, Generic[Item]):
    """An item that is out, from whose line, and whether it may take long."""

    asker: str
    item: Item
    is_long: bool


class FairQueue(Generic[Item]):
    """Lines of waiting items; whoever uses it brings the lock.

    Of one asker `most` items may be out at once, and of all askers as many long ones. Of one whose
    long items are out, one short item more may be out.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lines: dict[str, deque[tuple[Item, bool]]] = {}
        self._out: Counter[str] = Counter()
        self._long_out: Counter[str] = Counter()

    def add(self, asker: str, item: Item, *, is_long: bool = False) -> None:
        """Put an item at the end of an asker's line; the same item may stand in several lines."""
        self._lines.setdefault(asker, deque()).append((item, is_long))

    def take(self, wanted: Callable[[Item], bool]) -> Taken[Item] | None:
        """The next item that may go out: of those with the fewest out, the longest not served."""
        for asker in sorted(self._lines, key=self._out.__getitem__):
            line = deque(one for one in self._lines[asker] if wanted(one[0]))
            place = next((n for n, one in enumerate(line) if self._may_go(asker, one[1])), None)
            if place is None and line:
                self._lines[asker] = line  # where it was
                continue
            del self._lines[asker]
            if place is None:
                continue
            item, is_long = line[place]
            del line[place]
            if line:
                self._lines[asker] = line  # behind the others
            self._out[asker] += 1
            self._long_out[asker] += is_long
            return Taken(asker, item, is_long)
        return None

    def leave(self, taken: Taken[Item]) -> None:
        """An item is back."""
        self._out[taken.asker] -= 1
        self._long_out[taken.asker] -= taken.is_long
        self._out, self._long_out = +self._out, +self._long_out  # without zeros

    def _may_go(self, asker: str, is_long: bool) -> bool:
        out, long_out = self._out[asker], self._long_out[asker]
        if is_long:
            return out < self._most and self._long_out.total() < self._most
        return out - long_out < max(1, self._most - long_out)
