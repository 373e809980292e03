"""One error shape for everything that goes wrong, and the status that goes with each kind.

``{"error": {"kind": "budget-exceeded", "message": "..."}}``, and for an invalid parameter its name,
rule, value and way out beside. No message depends on rows.
"""

from __future__ import annotations

import json
import re
from typing import Any

from privod import errors
from privod.errors import InvalidParameter, NotAllowed, PrivodError
from privod.server.limits import TooLarge, TooSlow

__all__ = ["STATUS", "UnknownToken", "described", "kind_of", "status_of"]


class UnknownToken(NotAllowed):
    """No token was shown, or one that is unknown or revoked."""


STATUS: dict[type[PrivodError], int] = {
    errors.InvalidParameter: 422,
    errors.InvalidData: 422,
    errors.NoPromise: 422,
    errors.NotFound: 404,
    errors.AlreadyExists: 409,
    errors.NeedsConfirmation: 409,
    errors.BudgetExceeded: 409,
    errors.SeededRelease: 409,
    errors.NotAllowed: 403,
    UnknownToken: 401,
    errors.LimitReached: 429,
    TooLarge: 413,
    TooSlow: 408,
    errors.AnswerFailed: 500,
    errors.LedgerDamaged: 409,
    errors.Unavailable: 503,
}

LONGEST_MESSAGE = 2000
LONGEST_VALUE = 200


def status_of(problem: PrivodError) -> int:
    """The HTTP status of an error."""
    return next((STATUS[kind] for kind in type(problem).__mro__ if kind in STATUS), 500)


def kind_of(problem: PrivodError) -> str:
    """The error's class as a word: BudgetExceeded is "budget-exceeded"."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", type(problem).__name__).lower()


def described(problem: PrivodError) -> dict[str, Any]:
    """The error in its one shape."""
    error: dict[str, Any] = {"kind": kind_of(problem), "message": _cut(str(problem))}
    if isinstance(problem, InvalidParameter):
        error |= {
            "parameter": problem.parameter,
            "rule": _cut(problem.rule),
            "value": _plain(problem.value),
            "way_out": _cut(problem.way_out),
        }
    return {"error": error}


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_MESSAGE else text[:LONGEST_MESSAGE] + " ..."


def _plain(value: object) -> Any:
    """The refused value if JSON can carry it and it is short, else its text."""
    try:
        if len(json.dumps(value, allow_nan=False)) <= LONGEST_VALUE:
            return value
    except (TypeError, ValueError, RecursionError):
        pass
    text = str(value)
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + " ..."
