"""Errors as JSON: ``{"error": {"kind": "budget-exceeded", "message": "..."}}``, everywhere.

An invalid parameter brings its name, rule, value and way out beside. No message depends on rows.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from .. import errors
from ..errors import (
    AnswerFailed,
    InvalidParameter,
    LimitReached,
    NotAllowed,
    PrivodError,
    Unavailable,
)

__all__ = ["Failure", "Problem", "kind_of", "problem_of"]

LONGEST_MESSAGE = 2000
LONGEST_VALUE = 200
BEHIND_A_SERVER = {
    "unknown-token": NotAllowed,
    "no-room": Unavailable,
    "too-large": LimitReached,
    "too-slow": LimitReached,
    "too-much-work": LimitReached,
    "interrupted": Unavailable,
    "stopping": Unavailable,
}
"""Kinds that only a server raises, and what they are to whoever asked."""


@dataclass(frozen=True)
class Problem:
    """One error: its kind as a word, a sentence, and what was wrong with which parameter."""

    kind: str
    message: str
    parameter: str | None = None
    rule: str | None = None
    value: Any = None
    way_out: str | None = None

    @classmethod
    def of(cls, problem: PrivodError) -> Problem:
        message = _cut(str(problem))
        if not isinstance(problem, InvalidParameter):
            return cls(kind_of(problem), message)
        return cls(
            kind_of(problem),
            message,
            _cut(problem.parameter),
            _cut(problem.rule),
            _plain(problem.value),
            _cut(problem.way_out),
        )

    def exception(self) -> PrivodError:
        """The error that this tells of."""
        if self.kind == "invalid-parameter" and self.parameter is not None:
            rule, way_out = self.rule or "does not fit", self.way_out or ""
            return InvalidParameter(self.parameter, rule, self.value, way_out)
        name = "".join(word.capitalize() for word in self.kind.split("-"))
        known = BEHIND_A_SERVER.get(self.kind) or getattr(errors, name, None)
        if not (isinstance(known, type) and issubclass(known, PrivodError)):
            return AnswerFailed(self.message)
        return AnswerFailed(self.message) if known is InvalidParameter else known(self.message)


@dataclass(frozen=True)
class Failure:
    """The one shape of every error."""

    error: Problem


def kind_of(problem: PrivodError) -> str:
    """The error's class as a word: BudgetExceeded is "budget-exceeded"."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", type(problem).__name__).lower()


def problem_of(problem: PrivodError) -> dict[str, Any]:
    """The error in its one shape; what has nothing to say is left out."""
    told = vars(Problem.of(problem))
    short = {name: told[name] for name in ("kind", "message")}
    return {"error": told if isinstance(problem, InvalidParameter) else short}


def _cut(text: str, longest: int = LONGEST_MESSAGE) -> str:
    """The text if it is short, with escapes for what cannot be written."""
    whole = text if len(text) <= longest else text[:longest] + " ..."
    return whole.encode("utf-8", "backslashreplace").decode()


def _plain(value: object) -> Any:
    """The refused value if JSON can carry it and it is short, else its text."""
    try:
        written = json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        if len(written) <= LONGEST_VALUE:
            return value
    except (TypeError, ValueError, RecursionError):
        pass
    return _cut(str(value), LONGEST_VALUE)
