"""Try to catch a mechanism breaking its promise."""

from __future__ import annotations

from privod.audit.callables import Finding, Mechanism, Pairs, search
from privod.audit.game import Game, Power, Reading, Verdict, fineness, play
from privod.audit.pairs import numbers_in, search_question, table_pairs
from privod.audit.work import work_of
from privod.registry import load, question

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
    "numbers_in",
    "play",
    "search",
    "search_question",
    "table_pairs",
    "work_of",
]


def games_of(name: str) -> tuple[Game, ...]:
    """The games of a question: the worst pairs of adjacent tables we know."""
    return load(question(name).games)()  # type: ignore[no-any-return]
