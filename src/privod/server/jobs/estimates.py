"""About how long will it take? From public sizes, before anything is charged."""

from __future__ import annotations

from typing import Any

from privod.data import Domain
from privod.queries.query import Query
from privod.server.limits import Limits, TooMuchWork

__all__ = ["check_work", "estimated_seconds"]


def estimated_seconds(query: Query[Any], domain: Domain, limits: Limits) -> float:
    """About how long an answer takes one core at worst, on as many records as are assumed."""
    return query.work(domain, limits.estimated_records) / 1e9


def check_work(query: Query[Any], domain: Domain, limits: Limits) -> None:
    """Refuse what would not end in time; how many records there really are plays no part."""
    seconds = estimated_seconds(query, domain, limits)
    if seconds > limits.answer_seconds:
        raise TooMuchWork(
            f"On {limits.estimated_records} records this may take {seconds / 3600:.1f} hours, and"
            f" this server ends answers after {limits.answer_seconds:g} seconds. Nothing was"
            " charged. Ask about fewer column sets or columns."
        )
