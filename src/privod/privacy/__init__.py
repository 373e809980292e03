"""What is promised: losses, adjacencies and guarantees."""

from privod.privacy.adjacency import (
    AddRemove,
    Adjacency,
    InCrowd,
    Replace,
    SameContexts,
    adjacency_from_json,
)
from privod.privacy.guarantee import Guarantee, Secrecy, in_parallel
from privod.privacy.loss import Loss, Number, decimal_text, exact, positive

__all__ = [
    "AddRemove",
    "Adjacency",
    "Guarantee",
    "InCrowd",
    "Loss",
    "Number",
    "Replace",
    "SameContexts",
    "Secrecy",
    "adjacency_from_json",
    "decimal_text",
    "exact",
    "in_parallel",
    "positive",
]
