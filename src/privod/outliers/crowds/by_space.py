"""Exact crowds of more points than can be held at once: by parts of space, with what is around.

The crowds of a box's own points are counted among the points of the box and of its surroundings,
one radius wide, some at a time where they are too many. How many boxes there are follows from the
declared size; where they lie, from a few points, which decides only how long counting takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Floats, Ints
from privod.data.folding import Block
from privod.engines.size import IN_MEMORY
from privod.outliers.crowds.distance import HUGE, CrowdIndex
from privod.threads import available_threads

VALUES_AT_ONCE = 1 << 24  # coordinates that one part holds: 128 MB, and about twice that to search
ROOM = 2  # a box's share of the points leaves as much room again for what is around it
SLACK = 1e-9  # by how much farther one looks than the radius: more than squares and sums round

Place = Callable[[Block], Floats]
"""Makes points of records, each by itself."""

Read = Callable[[int], Iterable[Floats]]
"""Reads the points of a box, some at a time."""


def credits_of(crowds: Ints, max_crowd: int, grades: int) -> Ints:
    """What each point counts, in parts: all up to `max_crowd`, one less for each further point."""
    found: Ints = np.clip(max_crowd + grades - crowds.astype(np.int64), 0, grades)
    return found


def n_boxes(most_points: int, n_axes: int) -> int:
    """Into how many boxes so many points are cut: a power of two."""
    wanted = -(-ROOM * most_points * n_axes // VALUES_AT_ONCE)
    return 1 << max(0, wanted - 1).bit_length()


def most_points_at_once(most_points: int, n_axes: int) -> int:
    """At most how many of so many points are held: all, or those of one part in every thread."""
    if most_points <= IN_MEMORY:
        return most_points
    return 3 * available_threads() * max(1, VALUES_AT_ONCE // n_axes)


@dataclass(frozen=True)
class Boxes:
    """Boxes that cover space, none of them twice: from `low` up to, not including, `high`."""

    low: Floats
    high: Floats

    def __len__(self) -> int:
        return len(self.low)

    def __repr__(self) -> str:
        return f"Boxes({len(self)} boxes, where they lie is private)"


def boxes_around(points: Floats, n_parts: int) -> Boxes:
    """So many boxes (a power of two), each with about as many of the points, halved by halves."""
    n_axes = points.shape[1]
    parts = [(points, np.full(n_axes, -np.inf), np.full(n_axes, np.inf))]
    while len(parts) < n_parts:
        parts = [half for part in parts for half in _halves(*part)]
    return Boxes(np.array([low for _, low, _ in parts]), np.array([high for _, _, high in parts]))


def _halves(points: Floats, low: Floats, high: Floats) -> list[tuple[Floats, Floats, Floats]]:
    """Cut where half of the points are on each side, across the axis along which they lie apart."""
    axis, cut = 0, 0.0
    if len(points):
        axis = int(np.argmax(points.max(axis=0) - points.min(axis=0)))
        cut = float(np.median(points[:, axis]))
    cut = min(max(cut, low[axis]), high[axis])
    below, above = high.copy(), low.copy()
    below[axis] = above[axis] = cut
    is_below = points[:, axis] < cut
    return [(points[is_below], low, below), (points[~is_below], above, high)]


@dataclass(frozen=True)
class CreditsBySpace:
    """What all points that `place` makes of records count together (`credits_of`), box by box.

    At most `values_at_once` coordinates are held at a time.
    """

    numbers: tuple[str, ...]
    codes: tuple[str, ...]
    place: Place
    radius: float
    max_crowd: int
    grades: int
    boxes: Boxes
    values_at_once: int = VALUES_AT_ONCE

    @property
    def n_parts(self) -> int:
        return len(self.boxes)

    def start(self) -> int:
        return 0

    def merge(self, left: int, right: int) -> int:
        return left + right

    def spread(self, block: Block) -> Iterator[tuple[int, Floats]]:
        """The points of some rows, each in its box: halves of the boxes, and halves of those."""
        waiting = [(0, len(self.boxes), self.place(block))]
        while waiting:
            first, end, points = waiting.pop()
            if not len(points):
                continue
            if end - first == 1:
                yield first, points
                continue
            middle = (first + end) // 2
            lower = slice(first, middle)
            low, high = self.boxes.low[lower].min(axis=0), self.boxes.high[lower].max(axis=0)
            is_lower = _inside(points, low, high)
            waiting.append((first, middle, points[is_lower]))
            waiting.append((middle, end, points[~is_lower]))

    def part(self, number: int, read: Read) -> int:
        low, high = self.boxes.low[number], self.boxes.high[number]
        chunks = self._chunks(read, *self._around(low, high))
        near = next(chunks, None)
        if near is None:
            return 0
        if next(chunks, None) is not None:
            del near, chunks  # others are held instead
            return self._part_of_many(low, high, read)
        own = near[_inside(near, low, high)]
        return self._credits(CrowdIndex(near, threads=1).crowds(self.radius, at=own, cap=self._cap))

    def _part_of_many(self, low: Floats, high: Floats, read: Read) -> int:
        """The same of a box with more points in and around it than may be held at once."""
        total = 0
        for own in self._chunks(read, low, high):
            crowds = np.zeros(len(own), np.int64)
            ends = (own.min(axis=0), np.nextafter(own.max(axis=0), np.inf))
            for near in self._chunks(read, *self._around(*ends)):
                few = np.flatnonzero(crowds < self._cap)
                if not len(few):
                    break
                index = CrowdIndex(near, threads=1)
                crowds[few] += index.crowds(self.radius, at=own[few], cap=self._cap)
            total += self._credits(crowds)
        return total

    def _chunks(self, read: Read, low: Floats, high: Floats) -> Iterator[Floats]:
        """The points within these bounds, as many at a time as may be held."""
        at_once = self._at_once(len(low))
        held = np.empty((at_once, len(low)))
        n_held = 0
        for points in self._read_within(read, low, high):
            some = points[_inside(points, low, high)]
            while len(some):
                taken = some[: at_once - n_held]
                held[n_held : n_held + len(taken)] = taken
                n_held += len(taken)
                some = some[len(taken) :]
                if n_held == at_once:
                    yield held
                    held, n_held = np.empty_like(held), 0
        if n_held:
            yield held[:n_held]

    def _read_within(self, read: Read, low: Floats, high: Floats) -> Iterator[Floats]:
        """The points of the boxes that reach into these bounds."""
        reaching = (self.boxes.low < high).all(axis=1) & (self.boxes.high > low).all(axis=1)
        for number in np.flatnonzero(reaching).tolist():
            yield from read(number)

    def _at_once(self, n_axes: int) -> int:
        return max(1, self.values_at_once // n_axes)

    def _around(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Bounds that leave out nobody who is within the radius, as it is computed."""
        reach = self.radius * (1 + SLACK) if self.radius < HUGE else np.inf
        return np.nextafter(low - reach, -np.inf), np.nextafter(high + reach, np.inf)

    @property
    def _cap(self) -> int:
        return self.max_crowd + self.grades

    def _credits(self, crowds: Ints) -> int:
        return int(credits_of(crowds, self.max_crowd, self.grades).sum())


def _inside(points: Floats, low: Floats, high: Floats) -> NDArray[np.bool_]:
    inside = np.ones(len(points), dtype=bool)
    for axis in range(points.shape[1]):
        column = points[:, axis]
        inside &= (column >= low[axis]) & (column < high[axis])
    return inside
