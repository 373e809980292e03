"""Try to catch a mechanism breaking its promise."""

from __future__ import annotations

from privod.audit.exact import replay_audit, replay_case
from privod.audit.pairs import WorstCase, table_pairs, to_the_middle
from privod.audit.replay import Mechanism, Replayed, replay, replay_pairs, replay_question

__all__ = [
    "Mechanism",
    "Replayed",
    "WorstCase",
    "replay",
    "replay_audit",
    "replay_case",
    "replay_pairs",
    "replay_question",
    "table_pairs",
    "to_the_middle",
]
