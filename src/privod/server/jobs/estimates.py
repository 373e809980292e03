"""What will an answer take, and what may it take? From public sizes, before anything is charged.

How long an answer is *estimated* to take, on as many records as the server assumes, decides what is
refused. After the charge no clock ends it. A worker is ended when it takes more memory, or says
more, than the largest table that the owner's declaration allows can take, counted by the question
(`most_bytes`): so no answer is ended because of what rows say, nor because of how many there are.
Proof: docs/proofs/limits.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from privod.curator import Curator
from privod.data import Domain
from privod.engines.size import IN_MEMORY
from privod.queries.memory import BYTES_A_NUMBER
from privod.queries.query import Query
from privod.server.limits import Limits, TooMuchWork
from privod.threads import available_threads

__all__ = ["Allowed", "allowed", "assumed_records", "check_work", "estimated_seconds", "most_bytes"]

LOADED_BYTES = 2**31  # the library, stacks of threads, compiled loops, and all that is small
PARTITION_BYTES = 2**27  # of rows that each thread unpacks at a time
TABLE_TIMES = 4  # columns as they are read, cut, joined and kept, in the first version's files


@dataclass(frozen=True)
class Allowed:
    """When a worker that looks at rows is ended: the same for every table of a declared size."""

    bytes: int
    result_bytes: int


def allowed(curator: Curator, query: Query[Any], of: str, limits: Limits) -> Allowed:
    """What one answer may take: at least what the server allows, and enough for any such table."""
    domain, most = curator.dataset(of).domain, curator.size_class(of).most_records
    numbers = query.most_numbers(domain, most)
    return Allowed(
        max(limits.answer_bytes, most_bytes(query, domain, most)),
        max(limits.result_bytes, BYTES_A_NUMBER * numbers),
    )


def most_bytes(query: Query[Any], domain: Domain, most_records: int) -> int:
    """At most what a worker allocates for an answer, its table and itself."""
    table = TABLE_TIMES * 8 * min(most_records, IN_MEMORY) * len(domain.columns)
    read = table + available_threads() * PARTITION_BYTES
    return LOADED_BYTES + read + query.most_bytes(domain, most_records)


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
    domain = curator.dataset(of).domain
    numbers = query.most_numbers(domain, assumed_records(curator, of, limits))
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
