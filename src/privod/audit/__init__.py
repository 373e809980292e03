"""Try to catch a mechanism breaking its promise."""

from __future__ import annotations

from privod.audit.callables import Finding, Mechanism, Pairs, Power, search
from privod.audit.game import Game, Reading, Verdict, fineness, play
from privod.questions import load, question

__all__ = [
    "Finding",
    "Game",
    "Mechanism",
    "Pairs",
    "Power",
    "Reading",
    "Verdict",
    "fineness",
    "games_of",
    "play",
    "search",
]


def games_of(name: str) -> tuple[Game, ...]:
    """The games of a question: the worst pairs of adjacent tables we know."""
    return load(question(name).games)()  # type: ignore[no-any-return]
