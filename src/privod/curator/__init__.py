"""Who holds the data, answers, and keeps count."""

from privod.curator.curator import Curator
from privod.curator.life_cycle import Request
from privod.curator.migration import backup, migrate, restore
from privod.curator.protection import Protection, who_is_protected
from privod.curator.questions import adapted
from privod.curator.results import Answer, Registered
from privod.curator.tokens import ROLES, Role, Token, TokenStore
from privod.ledger.accounting import Total
from privod.ledger.acting import acting
from privod.ledger.budget_state import Accounting, BudgetState, accounting_named
from privod.ledger.chain import Charge, Entry
from privod.ledger.prices import Price, PricedCharge, fitting
from privod.ledger.store import DataSet
from privod.ledger.verification import Verification
from privod.ledger.witness import Head

__all__ = [
    "ROLES",
    "Accounting",
    "Answer",
    "BudgetState",
    "Charge",
    "Curator",
    "DataSet",
    "Entry",
    "Head",
    "Price",
    "PricedCharge",
    "Protection",
    "Registered",
    "Request",
    "Role",
    "Token",
    "TokenStore",
    "Total",
    "Verification",
    "accounting_named",
    "acting",
    "adapted",
    "backup",
    "fitting",
    "migrate",
    "restore",
    "who_is_protected",
]
