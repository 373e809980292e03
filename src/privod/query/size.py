"""About how many records are there? A noisy count, bought once for a hundredth of epsilon.

How many records were declared is public and generous. An answer to this question is public too, and
nearer: prices then state usual times, and what is noise, for it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from privod.data import Domain
from privod.privacy import decimal_text
from privod.query.catalog import QUERIES
from privod.query.query import Query, Release

EPSILON = "0.01"


def size_question(domain: Domain) -> Query[Any] | None:
    """The question for the number of records; None without a column of a declared range."""
    for column in domain.numeric():
        if not column.is_open:
            given = {"columns": (column.name,), "bins": 1, "epsilon": EPSILON}
            return QUERIES["histogram"].from_parameters(given)
    return None


def size_told(release: Release[Any], domain: Domain) -> int:
    """At most how many records there are, with 95 % confidence, rounded up to two digits."""
    margin = release.query.preview(domain).margin or 0
    most = max(1, int(release.value.counts.sum()) + margin)
    digits = 10 ** max(0, len(str(most)) - 2)
    return int(math.ceil(most / digits) * digits)


def size_offer(price: Any, domain: Domain) -> tuple[str, Query[Any] | None]:
    """That a noisy count of the records can be bought, and as which question; "" if it was."""
    asked = None if price.most_records is None or price.records else size_question(domain)
    if asked is None:
        return "", None
    told = (
        f"This price assumes the declared {price.most_records:,} records. A noisy count of them"
        f" (± {asked.preview(domain).margin:,}) costs epsilon {decimal_text(Fraction(EPSILON))}"
    )
    return told, asked
