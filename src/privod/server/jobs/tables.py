"""A stored answer as a table that spreadsheets open without running anything."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from privod.queries.query import Release, canonical_json

__all__ = ["as_csv", "safe_cell"]

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def as_csv(release: Release[Any]) -> str:
    """The answer as a table that a spreadsheet opens without running anything."""
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(["what", "value"])
    writer.writerow(["question", safe_cell(release.query.question)])
    writer.writerow(["answer", safe_cell(release.sentence())])
    writer.writerow(["guarantee", safe_cell(release.guarantee.sentence())])
    for name, value in release.query.parameters().items():
        written = value if isinstance(value, int | float) else canonical_json(value).strip('"')
        writer.writerow([safe_cell(name), safe_cell(written)])
    for place, value in _leaves(release.query.value_to_json(release.value), "value"):
        writer.writerow([safe_cell(place), safe_cell(value)])
    return file.getvalue()


def safe_cell(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula; numbers stay numbers."""
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return f"'{value}"
    return value


def _leaves(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{place}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{place}[{index}]")
    else:
        yield place, value
