"""Who acts: the name and the token that stand in the entries made meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

ID_LENGTH = 16

_WHO: ContextVar[tuple[str, str | None]] = ContextVar("who acts", default=("owner", None))


@contextmanager
def acting(name: str, token: str | None) -> Iterator[None]:
    """Let entries that name nobody themselves say this name and token id."""
    before = _WHO.set((name, token))
    try:
        yield
    finally:
        _WHO.reset(before)


def who_acts() -> tuple[str, str | None]:
    """The name, and the id of the token if there is one; the owner at the machine has none."""
    return _WHO.get()


def token_id(hashed: str) -> str:
    """The name of a token in lists, addresses and entries, by its hash; it opens nothing."""
    return hashed[:ID_LENGTH]
