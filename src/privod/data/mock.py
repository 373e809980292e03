"""Rows that look like a domain and like nobody: to try an analysis before any budget is spent.

Made from the declaration alone, so they tell nothing about the private rows: numbers gather in the
middle of their range and a few lie anywhere in it, categories are equally likely.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privod.data.columns import Date, Numeric, Ordinal
from privod.data.domain import Domain
from privod.data.table import Table

SPREAD = 1 / 12  # of a range is the deviation of the usual values
SCATTERED = 0.01  # of the values lie anywhere in their range


def mock_rows(domain: Domain, n_records: int = 1000, seed: int = 0) -> dict[str, Any]:
    """Made-up values for each column, and a person of its own for each row."""
    generator = np.random.default_rng(seed)
    rows: dict[str, Any] = {}
    for column in domain.columns:
        if isinstance(column, Ordinal):
            ranks = generator.integers(0, len(column.values), n_records)
            rows[column.name] = [column.values[rank] for rank in ranks]
        elif isinstance(column, Numeric):
            width = column.high - column.low
            usual = generator.normal(column.low + width / 2, width * SPREAD, n_records)
            anywhere = generator.uniform(column.low, column.high, n_records)
            scattered = generator.random(n_records) < SCATTERED
            made = np.clip(np.where(scattered, anywhere, usual), column.low, column.high)
            rows[column.name] = np.floor(made) if isinstance(column, Date) else made
        else:
            places = generator.integers(0, len(column.values), n_records)
            rows[column.name] = [column.values[place] for place in places]
    if domain.person is not None:
        rows[domain.person] = [f"person {place}" for place in range(n_records)]
    return rows


def mock_table(domain: Domain, n_records: int = 1000) -> Table:
    """The same as a table."""
    return Table(domain, mock_rows(domain, n_records))
