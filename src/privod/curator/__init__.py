"""The curator: holds the data, answers questions and keeps count."""

from privod.curator.backups import backup, restore
from privod.curator.curator import Curator
from privod.curator.protection import Protection, who_is_protected
from privod.curator.questions import adapted
from privod.curator.results import Answer, Registered
from privod.curator.tokens import ROLES, Role, Token
from privod.ledger.acts import (
    AdmitPerson,
    AllowExactCounts,
    Approve,
    ChargeAhead,
    ChargeElsewhere,
    CloseBudget,
    Decline,
    FileRequest,
    LimitToken,
    OpenBudget,
    RaiseBudget,
    Retire,
)
from privod.ledger.budget_state import Accounting, BudgetState
from privod.ledger.chain import Entry, acting
from privod.ledger.prices import Price, fitting
from privod.ledger.store import DataSet
from privod.ledger.values import Charge, PricedCharge, Request, Verification
from privod.ledger.witness import Head

__all__ = [
    "ROLES",
    "Accounting",
    "AdmitPerson",
    "AllowExactCounts",
    "Answer",
    "Approve",
    "BudgetState",
    "Charge",
    "ChargeAhead",
    "ChargeElsewhere",
    "CloseBudget",
    "Curator",
    "DataSet",
    "Decline",
    "Entry",
    "FileRequest",
    "Head",
    "LimitToken",
    "OpenBudget",
    "Price",
    "PricedCharge",
    "Protection",
    "RaiseBudget",
    "Registered",
    "Request",
    "Retire",
    "Role",
    "Token",
    "Verification",
    "acting",
    "adapted",
    "backup",
    "fitting",
    "restore",
    "who_is_protected",
]
