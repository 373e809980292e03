"""About how long will it take? From public sizes, before anything is charged."""

from __future__ import annotations

from typing import Any

from privod.curator import Curator
from privod.queries.query import Query
from privod.server.limits import Limits, TooMuchWork

__all__ = ["assumed_records", "check_work", "estimated_seconds"]


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
            f" {seconds / 3600:.1f} hours, and this server ends answers after"
            f" {limits.answer_seconds:g} seconds. Nothing was charged. Ask about fewer column sets"
            " or columns."
        )
