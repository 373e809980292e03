"""Ask a privod curator on a server, with httpx and nothing else.

>>> from privod_client import connect, question
>>> curator = connect("https://curator.example", token)  # doctest: +SKIP
>>> wards = question("histogram", columns=["ward"], epsilon="0.2")
>>> curator.ask(wards, of="patients").sentence  # doctest: +SKIP

Everything that privod has too (errors, nouns, the connection) is made of its very files.
"""

from .client import Client, connect, question
from .errors import (
    AlreadyExists,
    AnswerFailed,
    BudgetExceeded,
    InvalidData,
    InvalidParameter,
    LedgerDamaged,
    LimitReached,
    NeedsConfirmation,
    NoPromise,
    NotAllowed,
    NotFound,
    PrivodError,
    Unavailable,
)
from .version import __version__

__all__ = [
    "AlreadyExists",
    "AnswerFailed",
    "BudgetExceeded",
    "Client",
    "InvalidData",
    "InvalidParameter",
    "LedgerDamaged",
    "LimitReached",
    "NeedsConfirmation",
    "NoPromise",
    "NotAllowed",
    "NotFound",
    "PrivodError",
    "Unavailable",
    "__version__",
    "connect",
    "question",
]
