"""Points sorted into parts, on disk, in a file that nobody else can open and no crash leaves.

The file has no name: it is gone from its folder as soon as it is open, and its blocks are freed
when the process ends, however it ends. What it takes on disk is what the points take.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Self

import numpy as np

from privod.arrays import Floats

MOST_WAITING = 1 << 22  # values of all parts that wait to be written: 32 MB
WORTH_WRITING = 1 << 14  # values of one part


class SpilledParts:
    """Points in parts, written once to a private folder's disk and then read part by part.

    Several threads may do so at once.
    """

    def __init__(self, folder: Path, n_parts: int) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - kept open
        self._writing = Lock()
        self._waiting: list[list[Floats]] = [[] for _ in range(n_parts)]
        self._n_waiting = [0] * n_parts
        self._places: list[list[tuple[int, int, int]]] = [[] for _ in range(n_parts)]
        self._worth_writing = min(WORTH_WRITING, max(1, MOST_WAITING // n_parts))
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, part: int, points: Floats) -> None:
        """Add points, an array of shape (n, d), to a part."""
        with self._writing:
            self._waiting[part].append(points)
            self._n_waiting[part] += points.size
            if self._n_waiting[part] >= self._worth_writing:
                self._write(part)

    def finish(self) -> None:
        """Write what waits; afterwards parts are only read."""
        with self._writing:
            for part, waiting in enumerate(self._waiting):
                if waiting:
                    self._write(part)

    def read(self, part: int) -> Iterator[Floats]:
        """The points of a part, some at a time."""
        for start, n, n_axes in self._places[part]:
            points = np.empty((n, n_axes))
            view, done = _bytes(points), 0
            while done < len(view):
                some = os.preadv(self._file.fileno(), [view[done:]], start + done)
                if not some:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                done += some
            yield points

    def _write(self, part: int) -> None:
        points = np.ascontiguousarray(np.concatenate(self._waiting[part]))
        view, done = _bytes(points), 0
        while done < len(view):
            done += os.pwrite(self._file.fileno(), view[done:], self._end + done)
        n, n_axes = points.shape
        self._places[part].append((self._end, n, n_axes))
        self._end += len(view)
        self._waiting[part], self._n_waiting[part] = [], 0


def _bytes(points: Floats) -> memoryview:
    return points.reshape(-1).view(np.uint8).data
