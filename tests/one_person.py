"""Questions about the contexts of one person, given by attributes and a value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from privod.outliers.contexts.contexts import Context
from privod.query.query import Release
from privod.questions.outlier_context.query import OutlierContext

Record = tuple[tuple[str, Any], ...]


def about(record: Record, value: Any, **parameters: Any) -> OutlierContext:
    """A question about one person."""
    return OutlierContext(**_person(record, value), **parameters)


def asked(query: OutlierContext, **changes: Any) -> OutlierContext:
    """The question with another person, or with other parameters."""
    record = changes.pop("record", record_of(query))
    value = changes.pop("value", query.persons[0][-1])
    return replace(query, **(_person(record, value) | changes))


def record_of(query: OutlierContext) -> Record:
    """The attributes of the only person asked about."""
    (row,) = query.persons
    return tuple(zip(query.group_columns, row[:-1], strict=True))


def group_in(release: Release[Any]) -> Context | None:
    """The only group that was told, if one was."""
    (found,) = release.value
    return found.groups[0] if found.groups else None


def _person(record: Record, value: Any) -> dict[str, Any]:
    names, own = tuple(pair[0] for pair in record), tuple(pair[1] for pair in record)
    return {"group_columns": names, "persons": ((*own, value),)}
