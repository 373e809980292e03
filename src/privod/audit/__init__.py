"""Try to catch a mechanism breaking its promise."""

from __future__ import annotations

from privod.audit.callables import Finding, Mechanism, Pairs, search
from privod.audit.exact import replay_audit, replay_game
from privod.audit.game import Game, Power, Reading, Verdict, fineness, play
from privod.audit.pairs import table_pairs
from privod.audit.replay import Replayed, replay, replay_pairs, replay_question
from privod.registry import load, question

__all__ = [
    "Finding",
    "Game",
    "Mechanism",
    "Pairs",
    "Power",
    "Reading",
    "Replayed",
    "Verdict",
    "fineness",
    "games_of",
    "play",
    "replay",
    "replay_audit",
    "replay_game",
    "replay_pairs",
    "replay_question",
    "search",
    "table_pairs",
]


def games_of(name: str) -> tuple[Game, ...]:
    """The games of a question: the worst pairs of adjacent tables we know."""
    return load(question(name).games)()  # type: ignore[no-any-return]
