"""Files of results that only their owner can read, and that never replace one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path

from privod.errors import InvalidParameter

__all__ = ["private_file"]


@contextmanager
def private_file(path: Path) -> Iterator[TextIOWrapper]:
    """Open a new file that only its owner can read; one that is there is not overwritten."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        way_out = "Name a new one; results are not overwritten."
        raise InvalidParameter("file", "must not exist yet", str(path), way_out) from None
    with os.fdopen(handle, "w", newline="", encoding="utf-8") as file:
        yield file
