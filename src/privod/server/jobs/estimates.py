"""What an answer may take at worst, from public sizes alone: docs/proofs/limits.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from privod.curator import Curator
from privod.data import Domain
from privod.engines.size import IN_MEMORY, SizeClass
from privod.query.memory import BYTES_A_NUMBER
from privod.query.preview import duration
from privod.query.query import Query
from privod.server.limits import Limits, TooMuchWork
from privod.threads import available_threads

LOADED_BYTES = 2**31  # the library, stacks of threads, compiled loops, and all that is small
RESIDENT_BYTES = 2**28  # of these, what a worker is taken to fill: four times what it was seen to
PARTITION_BYTES = 2**27  # of rows that each thread unpacks at a time
SHORT_SECONDS = 600.0  # at worst; one worker is kept for questions that take no longer
TABLE_TIMES = 4  # columns as they are read, cut, joined and kept


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
    size, n_columns = SizeClass(most_records), len(domain.columns)
    table = TABLE_TIMES * 8 * min(most_records, IN_MEMORY) * n_columns
    # What is held in memory is read one partition after another.
    at_once = 1 if size.in_memory else min(available_threads(), size.partitions(n_columns))
    read = table + at_once * PARTITION_BYTES
    return LOADED_BYTES + read + query.most_bytes(domain, most_records)


def needed_bytes(query: Query[Any], domain: Domain, most_records: int) -> int:
    """How much of the machine's memory that can be: what is only mapped or shared takes none."""
    return most_bytes(query, domain, most_records) - LOADED_BYTES + RESIDENT_BYTES


def most_seconds(curator: Curator, query: Query[Any], of: str) -> float:
    """About how long an answer takes one core at worst, on as many records as were declared."""
    domain, most = curator.dataset(of).domain, curator.size_class(of).most_records
    return query.work(domain, most) / 1e9


def is_long(curator: Curator, query: Query[Any], of: str) -> bool:
    """Whether an answer may take so long that others should not have to wait for it."""
    return most_seconds(curator, query, of) > SHORT_SECONDS


def check_work(curator: Curator, query: Query[Any], of: str, limits: Limits) -> None:
    """Refuse what may take too long, too much memory, or be too long to be written and read."""
    domain, most = curator.dataset(of).domain, curator.size_class(of).most_records
    on = f"On {most:,} records, as many as its owner declared,"
    fewer = "Nothing was charged. Ask about fewer column sets or columns, or of a data set that was"
    fewer += " declared to have fewer records"
    numbers = query.most_numbers(domain, most)
    if numbers > limits.answer_numbers:
        raise TooMuchWork(
            f"{on} the answer may hold {numbers:,} numbers, and this server writes"
            f" {limits.answer_numbers:,} at most (--answer-numbers). {fewer}; fewer bins give fewer"
            " numbers too."
        )
    seconds = most_seconds(curator, query, of)
    if seconds > limits.answer_seconds:
        raise TooMuchWork(
            f"{on} this may take {duration(seconds)}, and this server accepts no question that may"
            f" take more than {duration(limits.answer_seconds)} (--answer-seconds). {fewer}."
        )
    needed = needed_bytes(query, domain, most)
    if needed > limits.answer_bytes:
        raise TooMuchWork(
            f"{on} this may need {math.ceil(needed / 2**20)} MB of memory, and a worker of this"
            f" server may take {limits.answer_bytes >> 20} MB (--worker-memory; fewer --workers"
            f" leave more for each). {fewer}."
        )
