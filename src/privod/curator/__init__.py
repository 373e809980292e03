"""Who holds the data, answers, and keeps count."""

from privod.curator.accounting import Total
from privod.curator.curator import Answer, Curator
from privod.curator.ledger import BookState, Charge, Entry
from privod.curator.moving import backup, migrate
from privod.curator.prices import Price, PricedCharge
from privod.curator.store import DataSet
from privod.curator.tokens import ROLES, Role, Token, TokenStore
from privod.curator.verification import Verification

__all__ = [
    "ROLES",
    "Answer",
    "BookState",
    "Charge",
    "Curator",
    "DataSet",
    "Entry",
    "Price",
    "PricedCharge",
    "Role",
    "Token",
    "TokenStore",
    "Total",
    "Verification",
    "backup",
    "migrate",
]
