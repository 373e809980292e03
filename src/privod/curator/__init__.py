"""Who holds the data, answers, and keeps count."""

from privod.curator.accounting import Total
from privod.curator.curator import Answer, Curator, Price, PricedCharge
from privod.curator.ledger import BookState, Charge, Entry, Head
from privod.curator.store import DataSet
from privod.curator.tokens import ROLES, Token, TokenStore
from privod.curator.verification import Verification

__all__ = [
    "ROLES",
    "Answer",
    "BookState",
    "Charge",
    "Curator",
    "DataSet",
    "Entry",
    "Head",
    "Price",
    "PricedCharge",
    "Token",
    "TokenStore",
    "Total",
    "Verification",
]
