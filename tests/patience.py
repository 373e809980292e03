"""How long tests wait for what must come: a busy machine comes late to everything."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 300.0  # seconds, which cost nothing where what is waited for comes


def eventually(happened: Callable[[], bool]) -> None:
    """Wait until something has happened, however busy the machine."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)
