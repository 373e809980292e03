"""What can go wrong, as a tree; no message ever depends on what private rows contain.

::

    PrivodError
    ├── InvalidParameter     a public parameter breaks its rule           (also a ValueError)
    ├── InvalidData          a file or frame has not the declared shape   (also a ValueError)
    ├── NotFound             no data set, budget, question or release of that name
    ├── AlreadyExists        the name is taken
    ├── NeedsConfirmation    the owner must confirm what a step gives up
    ├── NoPromise            a promise cannot be restated as asked
    ├── BudgetExceeded       the question would overspend a budget
    ├── AnswerFailed         the charge stands, no answer came; says nothing about the rows
    ├── SeededRelease        made with a test seed, so it may not be published
    ├── LedgerDamaged          the ledger's hash chain does not hold
    ├── NotAllowed           the token is unknown, revoked, or of another role
    ├── LimitReached         too large, too often, or too much at once
    ├── Unavailable          an optional part is not installed or cannot be reached
    └── ProtocolAborted      a run between several parties ended without a result
"""

from __future__ import annotations

from fractions import Fraction

__all__ = [
    "AlreadyExists",
    "AnswerFailed",
    "BudgetExceeded",
    "InvalidData",
    "InvalidParameter",
    "LedgerDamaged",
    "LimitReached",
    "NeedsConfirmation",
    "NoPromise",
    "NotAllowed",
    "NotFound",
    "PrivodError",
    "ProtocolAborted",
    "SeededRelease",
    "Unavailable",
]


class PrivodError(Exception):
    """Every error that privod raises on purpose."""


class InvalidParameter(PrivodError, ValueError):
    """A public parameter breaks its rule: the message names it, the rule, the value, a way out."""

    def __init__(self, parameter: str, rule: str, value: object, way_out: str) -> None:
        self.parameter = parameter
        self.rule = rule
        self.value = value
        self.way_out = way_out
        super().__init__(f"{parameter} {rule}, got {_shown(value)}. {way_out}")

    def __reduce__(self) -> tuple[type[InvalidParameter], tuple[str, str, object, str]]:
        return type(self), (self.parameter, self.rule, self.value, self.way_out)


def _shown(value: object) -> str:
    try:
        return _number(value) if isinstance(value, Fraction) else repr(value)
    except ValueError:  # Python does not write out integers of thousands of digits
        return "a number of thousands of digits"


def _number(value: Fraction) -> str:
    """A fraction as it is typed: as a decimal number where it is one."""
    if value.denominator == 1:
        return str(value.numerator)
    try:
        near = str(float(value))
    except OverflowError:
        return str(value)
    return near if Fraction(near) == value else str(value)


class InvalidData(PrivodError, ValueError):
    """A file or frame has not the columns or types its domain declares."""


class NotFound(PrivodError, LookupError):
    """Nothing of that name is known."""


class AlreadyExists(PrivodError):
    """The name is taken, and what it names never changes."""


class NeedsConfirmation(PrivodError):
    """The step gives something up; the message says what, and the owner must say yes."""


class NoPromise(PrivodError):
    """A promise cannot be restated under the adjacency asked for."""


class BudgetExceeded(PrivodError):
    """The question would overspend a budget; nothing was charged and nothing was looked at."""


class AnswerFailed(PrivodError):
    """Answering failed after the charge; the charge stands and the rows are not described."""


class SeededRelease(PrivodError):
    """The release was made with a test seed, so its noise can be replayed: it is not published."""


class LedgerDamaged(PrivodError):
    """An entry of the ledger was changed, removed or inserted."""


class NotAllowed(PrivodError):
    """The token is unknown, revoked, or of a role that may not do this."""


class LimitReached(PrivodError):
    """Too large, too often, or too much at once; the message says what the limit is."""


class Unavailable(PrivodError):
    """An optional part is missing here; the message says how to get it."""


class ProtocolAborted(PrivodError):
    """A run between parties ended early, at every party, without a result.

    `others` is what the other participants read instead, where the reason is a party's own affair.
    """

    def __init__(self, reason: str, others: str | None = None) -> None:
        self.others = others
        super().__init__(reason)
