"""What will an answer take, and what may it take? From public sizes, before anything is charged.

How long an answer is *estimated* to take, on as many records as the server assumes, decides what is
refused. When a worker is *ended* follows from the largest table that the owner's declaration
allows: several times what that would take. So an answer is not ended because of how many records
there are, nor, as far as the estimates hold, because of what they say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from privod.curator import Curator
from privod.engines.size import MOST_VALUES
from privod.queries.query import Query
from privod.server.limits import Limits, TooMuchWork

__all__ = ["Allowed", "allowed", "assumed_records", "check_work", "estimated_seconds"]

SLACK = 10  # times what the largest table is estimated to take: machines are slow, or busy
BYTES_A_VALUE = 48  # six copies of every value
LOADED_BYTES = 2**31  # libraries set aside half of it at the first look at rows


@dataclass(frozen=True)
class Allowed:
    """When a worker that looks at rows is ended: the same for every table of a declared size."""

    seconds: float
    bytes: int


def allowed(curator: Curator, query: Query[Any], of: str, limits: Limits) -> Allowed:
    """What one answer may take: at least what the server allows, and enough for any such table."""
    domain, most = curator.dataset(of).domain, curator.size_class(of).most_records
    values = min(most * len(domain.columns), MOST_VALUES)
    return Allowed(
        max(limits.answer_seconds, SLACK * query.work(domain, most) / 1e9),
        max(limits.answer_bytes, LOADED_BYTES + BYTES_A_VALUE * values),
    )


def assumed_records(curator: Curator, of: str, limits: Limits) -> int:
    """For how many records times are estimated: those declared, or fewer that the server assumes.

    How many there really are plays no part.
    """
    return min(curator.size_class(of).most_records, limits.estimated_records)


def estimated_seconds(curator: Curator, query: Query[Any], of: str, limits: Limits) -> float:
    """About how long an answer takes one core at worst, on as many records as are assumed."""
    return query.work(curator.dataset(of).domain, assumed_records(curator, of, limits)) / 1e9


def check_work(curator: Curator, query: Query[Any], of: str, limits: Limits) -> None:
    """Refuse what would not end in time, and answers too long to be written and read here."""
    numbers = query.n_numbers(curator.dataset(of).domain)
    if numbers > limits.answer_numbers:
        raise TooMuchWork(
            f"The answer would hold {numbers} numbers, and this server writes"
            f" {limits.answer_numbers} at most. Nothing was charged. Ask for fewer bins or columns."
        )
    seconds = estimated_seconds(curator, query, of, limits)
    if seconds > limits.answer_seconds:
        raise TooMuchWork(
            f"On {assumed_records(curator, of, limits)} records this may take"
            f" {math.ceil(seconds)} seconds, and this server accepts no question that is estimated"
            f" to take more than {limits.answer_seconds:g}. Nothing was charged. Ask about fewer"
            " column sets or columns."
        )
