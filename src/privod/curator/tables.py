"""What is held in memory between questions: a few tables, and the size that each declares."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress

from privod.curator.rows import KeptRows, RowStore
from privod.data import Table
from privod.engines.size import SizeClass
from privod.errors import InvalidData, Unavailable

MOST_HELD = 2


class Tables:
    """The tables that were asked last."""

    def __init__(self, rows: RowStore) -> None:
        self._rows = rows
        self._sizes: dict[str, SizeClass] = {}
        self._held: OrderedDict[str, Table] = OrderedDict()
        self._mutex = threading.Lock()

    def of(self, rows: KeptRows) -> Table:
        """The table of these rows, read if it is not held."""
        with self._mutex:
            table = self._held.get(rows.folder)
            if table is None:
                table = self._rows.load(rows.folder, rows.seal, rows.domain)
                self._held[rows.folder] = table
                if len(self._held) > MOST_HELD:
                    self._held.popitem(last=False)
            self._held.move_to_end(rows.folder)
        return table

    def forget(self, folder: str) -> None:
        """Hold the table of these rows no longer."""
        with self._mutex:
            self._held.pop(folder, None)

    def size(self, of: str, folder: str, seal: str) -> SizeClass | None:
        """What was declared about the size of a data set; None if its rows are not here."""
        size = self._sizes.get(folder)
        if size is None and not self._rows.has(folder):
            return None  # the rows are elsewhere, or deleted
        if size is None:
            with suppress(OSError, InvalidData):
                size = self._sizes[folder] = self._rows.size(folder, seal)
        if size is None:
            raise Unavailable(
                f"What was declared about the size of {of!r} cannot be read."
                " Nothing was charged. Restore its rows from a backup."
            )
        return size
