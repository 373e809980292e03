"""How many records are near a place, and how many equal it? Looked up in an index kept for a table.

The index is made when a table is first asked and lives as long as the table does, in memory alone:
it is no part of the table, so it is never stored, sent or shown with it.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Floats
from privod.data import Table
from privod.data.folding import mixed
from privod.outliers.crowds.distance import CrowdIndex, crowds

KEPT = 4  # indexes for one table, of the columns and radii asked last

Key = tuple[tuple[str, ...], float]

_indexes: WeakKeyDictionary[Table, OrderedDict[Key, CrowdLookup]] = WeakKeyDictionary()
_mutex = Lock()


class CrowdLookup:
    """Crowds at one radius and copies of any record among some points."""

    def __init__(self, points: Floats, radius: float) -> None:
        self._index = CrowdIndex(points)
        self._radius = radius
        keys = mixed(self._index.points)
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]

    def __repr__(self) -> str:
        return f"CrowdLookup({self._index.dimensions} columns, points private)"

    def crowds_and_copies(self, records: Floats, cap: int | None = None) -> list[tuple[int, int]]:
        """The crowd of each record's values, up to the cap, and the number of its copies."""
        limit = None if cap is None or cap > self._index.size else cap
        crowds = self._index.crowds(self._radius, at=records, cap=limit)
        return list(zip(crowds.tolist(), self._copies(records), strict=True))

    def _copies(self, records: Floats) -> list[int]:
        """Equal records have equal keys; of those with equal keys, the equal ones are counted."""
        keys = mixed(records)
        starts = np.searchsorted(self._keys, keys, side="left").tolist()
        ends = np.searchsorted(self._keys, keys, side="right").tolist()
        found = []
        for record, start, end in zip(records, starts, ends, strict=True):
            alike = self._index.points[self._order[start:end]] == record
            found.append(int(alike.all(axis=1).sum()))
        return found


def crowds_and_copies(
    table: Table, columns: tuple[str, ...], radius: float, records: Floats, cap: int | None = None
) -> list[tuple[int, int]]:
    """The crowd of each record's values in a table, up to the cap, and the number of its copies."""
    if table.held_in_memory:
        return lookup_for(table, columns, radius).crowds_and_copies(records, cap)
    near, alike = table.sums(columns, partial(_near_and_alike, records, radius))
    if cap is not None:
        near = np.minimum(near, cap)
    return list(zip(near.tolist(), alike.tolist(), strict=True))


def _near_and_alike(records: Floats, radius: float, rows: Floats) -> NDArray[np.int64]:
    alike = [int((rows == record).all(axis=1).sum()) for record in records]
    return np.array([crowds(rows, radius, at=records, threads=1), alike], np.int64)


def lookup_for(table: Table, columns: tuple[str, ...], radius: float) -> CrowdLookup:
    """The index of a table's columns at a radius, made when first asked for."""
    key = (columns, radius)
    with _mutex:
        kept = _indexes.setdefault(table, OrderedDict())
        if key in kept:
            kept.move_to_end(key)
            return kept[key]
    made = CrowdLookup(table.numbers(columns), radius)  # others need not wait meanwhile
    with _mutex:
        kept[key] = made
        if len(kept) > KEPT:
            kept.popitem(last=False)
    return made
