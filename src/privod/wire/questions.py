"""What is said of a question before it is asked: its name, its guarantee, its parameters."""

from __future__ import annotations

from typing import Any

from privod import wire
from privod.query.parameters import parameters_of, promise_of


def describe(kind: Any) -> wire.Question:
    """Describe a question of the catalog, or one between several holders."""
    parameters = tuple(wire.Parameter.of(parameter) for parameter in parameters_of(kind))
    return wire.Question(kind.name, kind.question, promise_of(kind), parameters)
