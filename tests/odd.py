"""The odd question of `tests/odd_questions`, registered for the length of a test."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from privod.questions import registry

FOLDER = Path(__file__).parent / "odd_questions"


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the question be found, here and in every process started meanwhile."""
    monkeypatch.syspath_prepend(FOLDER)
    registry._registry.cache_clear()
    try:
        yield
    finally:
        sys.modules.pop("odd_question", None)
        registry._registry.cache_clear()


def eventually(happened: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until something has happened, however busy the machine."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)
