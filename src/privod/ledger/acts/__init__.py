"""What people do to a ledger, each thing a frozen value: `privod.ledger.acts.act` says how."""

from privod.ledger.acts.act import ACTS, Act, Part, parts_of
from privod.ledger.acts.budgets import CloseBudget, OpenBudget, RaiseBudget, Retire, check_possible
from privod.ledger.acts.charges import ChargeAhead, ChargeElsewhere
from privod.ledger.acts.consequences import guessed_right, meaning
from privod.ledger.acts.permissions import AdmitPerson, AllowExactCounts, LimitToken
from privod.ledger.acts.requests import Approve, Decline, FileRequest, read_requests

__all__ = [
    "ACTS",
    "Act",
    "AdmitPerson",
    "AllowExactCounts",
    "Approve",
    "ChargeAhead",
    "ChargeElsewhere",
    "CloseBudget",
    "Decline",
    "FileRequest",
    "LimitToken",
    "OpenBudget",
    "Part",
    "RaiseBudget",
    "Retire",
    "check_possible",
    "guessed_right",
    "meaning",
    "parts_of",
    "read_requests",
]
