"""Draft a domain from the names and types of columns alone; no row is read.

What follows from rows stays out: counts, statistics of Parquet files, the index of a pandas frame
(it holds the number of rows), the categories of a frame (they come from its rows). So every range
and every list of values is left "unknown", with a note that says what to write there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from privod.data.csv_file import CsvDialect, csv_header
from privod.data.sources import check_named_once, parquet_files, told_of_file
from privod.data.sql import SqlQuery, sql_schema
from privod.errors import InvalidData, InvalidParameter, NeedsConfirmation

UNKNOWN = "unknown"
KNOWN = "known without looking at the data"
NOTES = {
    "number": f"Write the least and the largest possible number, {KNOWN}.",
    "date": f"Write the first and the last possible day, such as 2015-01-01, {KNOWN}.",
    "boolean": "Nothing to fill in.",
    "category": f"List every possible value, {KNOWN}; add other: true if there may be more. Write"
    " type: ordinal if they have an order. Leave out a column of free text.",
    UNKNOWN: 'Write type: number or date with low and high (of a number both may be "unknown"),'
    f" boolean, or category or ordinal with values, {KNOWN}. Leave out a column of free text.",
}
LIKE_A_CELL = re.compile(r"\s*|[+-]?[\d.,' ]+([eE][+-]?\d+)?|\d{1,4}[-./]\d{1,2}[-./]\d{1,4}.*")


def draft_domain(
    source: Any, dialect: CsvDialect | None = None, *, confirmed: bool = False
) -> dict[str, Any]:
    """A declaration to be filled in, as plain values.

    The source is a .csv or .parquet file or a folder of the latter, a frame of pandas, polars or
    Arrow, an Arrow schema, a mapping of names to types, or a query in a database. `confirmed` says
    that the first line of a CSV file is a header although it looks like a record.
    """
    kinds = _kinds(source, dialect or CsvDialect(), confirmed)
    if not kinds:
        raise InvalidData("There are no columns to draft a domain from.")
    return {"columns": [_entry(name, kind) for name, kind in kinds.items()]}


def _entry(name: str, kind: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "type": kind}
    if kind in ("number", "date"):
        entry |= {"low": UNKNOWN, "high": UNKNOWN}
    elif kind == "category":
        entry["values"] = UNKNOWN
    return {**entry, "note": NOTES[kind]}


def _kinds(source: Any, dialect: CsvDialect, confirmed: bool) -> dict[str, str]:
    """The type of each column, by its name."""
    if isinstance(source, str | Path):
        path = Path(source)
        if path.suffix.lower() == ".csv" and path.is_file():
            return dict.fromkeys(_header(path, dialect, confirmed), UNKNOWN)
        first = parquet_files(path)[0]
        with told_of_file(first):
            return _kinds(pa_parquet.read_schema(first).remove_metadata(), dialect, confirmed)
    if isinstance(source, SqlQuery):
        return {name: _named(kind) for name, kind in sql_schema(source).items()}
    schema = getattr(source, "schema", source)
    if isinstance(schema, pa.Schema):
        return {
            field.name: _named("category" if pa.types.is_dictionary(field.type) else field.type)
            for field in schema
        }
    package = type(source).__module__.split(".")[0]  # neither is imported for it
    if package == "pandas" and hasattr(source, "dtypes"):
        return {str(name): _named(kind) for name, kind in source.dtypes.items()}
    if package == "polars" and hasattr(source, "collect_schema"):
        return {name: _named(kind) for name, kind in source.collect_schema().items()}
    if isinstance(source, Mapping):
        return {str(name): _named(kind) for name, kind in source.items()}
    way_out = "Give a .csv or .parquet file, a frame, an Arrow schema or a query."
    raise InvalidParameter("source", "must have named columns", type(source), way_out)


def _header(path: Path, dialect: CsvDialect, confirmed: bool) -> list[str]:
    names = csv_header(path, dialect)
    told_apart = len(set(names)) == len(names)
    if not confirmed and (not told_apart or any(map(LIKE_A_CELL.fullmatch, names))):
        raise NeedsConfirmation(
            f"The first line of {str(path)!r} looks like a record, not like names of columns."
            " Nothing was written. Add a header; or confirm (--yes) that it is one."
        )
    check_named_once(names, names)
    return names


def _named(kind: Any) -> str:
    """The type that a name such as int64, DOUBLE, timestamp[ns] or varchar stands for."""
    name = str(kind).lower()
    for found, words in (
        ("date", ("date", "timestamp")),
        ("boolean", ("bool",)),
        ("number", ("int", "float", "double", "decimal", "numeric", "real", "number")),
        ("category", ("str", "char", "text", "categor", "enum", "dictionary", "utf8")),
    ):
        if any(word in name for word in words):
            return found
    return UNKNOWN
