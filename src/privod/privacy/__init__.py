"""What is promised: losses, adjacencies and guarantees."""

from .adjacency import (
    AddRemove,
    Adjacency,
    AdmittedContexts,
    BetweenTails,
    CrowdAdjacency,
    InAlikeCrowd,
    InCrowd,
    Replace,
    SameContexts,
    adjacency_from_json,
    adjacency_from_text,
)
from .guarantee import Guarantee, Secrecy
from .loss import Loss, Number, decimal_text, exact, positive
from .statement import Statement
from .zcdp import NOTHING_SPENT, Cost, Spent, Zcdp, ZcdpBudget

__all__ = [
    "NOTHING_SPENT",
    "AddRemove",
    "Adjacency",
    "AdmittedContexts",
    "BetweenTails",
    "Cost",
    "CrowdAdjacency",
    "Guarantee",
    "InAlikeCrowd",
    "InCrowd",
    "Loss",
    "Number",
    "Replace",
    "SameContexts",
    "Secrecy",
    "Spent",
    "Statement",
    "Zcdp",
    "ZcdpBudget",
    "adjacency_from_json",
    "adjacency_from_text",
    "decimal_text",
    "exact",
    "positive",
]
