"""An answer, a price or a budget as a table: for pandas and polars, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from privod.errors import Unavailable

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def as_frame(library: str, columns: dict[str, list[Any]]) -> Any:
    """The columns as a data frame of pandas or polars; neither is needed for anything else."""
    try:
        module = import_module(library)
    except ImportError:
        raise Unavailable(f"{library} is not installed. Install it, or read `table()`.") from None
    return module.DataFrame(columns)


def as_csv(columns: Mapping[str, Sequence[Any]]) -> str:
    """The columns as text, names first; a spreadsheet opens it without running anything."""
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow([safe_cell(name) for name in columns])
    for row in zip(*columns.values(), strict=True):
        writer.writerow([safe_cell(value) for value in row])
    return file.getvalue()


def safe_cell(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula; numbers stay numbers."""
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return f"'{value}"
    return value


def of_records(
    columns: Sequence[str], records: Sequence[Sequence[Any]], told: Mapping[str, Sequence[Any]]
) -> dict[str, list[Any]]:
    """Records that were asked about, and beside them what is said of each."""
    asked = zip(*records, strict=True)
    found = {name: list(some) for name, some in zip(columns, asked, strict=True)}
    return {**found, **{name: list(some) for name, some in told.items()}}
