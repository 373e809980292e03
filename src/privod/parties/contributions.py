"""An input enters one roster only.

Two sums over rosters that differ in one party differ by that party's input. So a party that sent
an input, even in a run that failed later, sends it again only to exactly the same roster.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from privod.errors import ProtocolAborted

__all__ = ["Contributions"]


class Contributions:
    """Which input went to which roster, kept in a file of the party, or in memory.

    Parameters
    ----------
    path : path, optional
        A file that only this party uses; without one, the memory ends with the process.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._known: dict[str, str] = {}
        if self._path is not None and self._path.exists():
            try:
                self._known = dict(json.loads(self._path.read_text()))
            except ValueError:
                raise ProtocolAborted(
                    f"The record of contributions at {str(path)!r} cannot be read. Restore it from"
                    " a backup; without it an input could be sent to two rosters."
                ) from None

    def claim(self, input_digest: bytes, roster_digest: bytes) -> None:
        """Bind an input to a roster before any of it is sent."""
        name, roster = input_digest.hex(), roster_digest.hex()
        if self._known.setdefault(name, roster) != roster:
            raise ProtocolAborted(
                "These rows were already sent to another roster, and the difference of two sums"
                " would reveal a party. Run with the earlier roster."
            )
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft = self._path.with_suffix(".new")
            with draft.open("w") as file:
                file.write(json.dumps(self._known, indent=1))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
