"""Which HTTP status goes with each kind of error; what is said of it is `privod.wire.problems`."""

from __future__ import annotations

from privod import errors
from privod.errors import NotAllowed, PrivodError
from privod.server.limits import NoRoom, TooLarge, TooMuchWork, TooSlow


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
    TooMuchWork: 422,
    TooSlow: 408,
    errors.AnswerFailed: 500,
    errors.LedgerDamaged: 409,
    errors.Unavailable: 503,
    NoRoom: 507,
}


def status_of(problem: PrivodError) -> int:
    """The HTTP status of an error."""
    return next((STATUS[kind] for kind in type(problem).__mro__ if kind in STATUS), 500)
