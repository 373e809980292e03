"""The odd question of `tests/odd_questions`, registered for the length of a test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from privod import registry

FOLDER = Path(__file__).parent / "odd_questions"


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the question be found, here and in every process started meanwhile."""
    monkeypatch.syspath_prepend(FOLDER)
    registry.questions.cache_clear()
    try:
        yield
    finally:
        sys.modules.pop("odd_question", None)
        registry.questions.cache_clear()
