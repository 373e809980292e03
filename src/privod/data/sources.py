"""Bring rows from files and frames into a table; everything goes through Arrow.

What a reader complains about is the file's form and its columns' types. A cell that does not fit
(a text among numbers, a foreign category) is a missing value, whoever's it is. In a CSV file an
empty cell is missing; "NA" or "null" is a text like any other, so it may be a category or a person.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from privod.data.domain import Categorical, Domain, Numeric
from privod.data.persons import first_inexact
from privod.data.table import Table
from privod.errors import InvalidData, InvalidParameter

__all__ = ["read", "write_parquet"]

FIRST_INEXACT = first_inexact(np.float64)


def read(source: Any, domain: Domain) -> Table:
    """Read the domain's columns from a source.

    Parameters
    ----------
    source : path, frame or mapping
        A path ending in .csv or .parquet; any frame that speaks Arrow (pandas, polars, pyarrow);
        or a mapping of column names to arrays.
    domain : Domain
        What is public; columns it does not name are not read.
    """
    if isinstance(source, Table):
        return Table(domain, source.columns())
    if isinstance(source, str | Path):
        return _from_arrow(_read_file(Path(source), domain), domain)
    if isinstance(source, pa.Table | pa.RecordBatch) or hasattr(source, "__arrow_c_stream__"):
        return _from_arrow(pa.table(source), domain)
    if isinstance(source, Mapping):
        return Table(domain, source)
    way_out = "Give a path to a .csv or .parquet file, a pandas, polars or Arrow frame, or a dict."
    raise InvalidParameter("source", "must be a file, a frame or a mapping", type(source), way_out)


def write_parquet(table: Table, path: Path) -> None:
    """Write a table's rows so that `read` makes an equal table of them."""
    pa_parquet.write_table(pa.table(table.columns()), path, compression="zstd")


def _wanted(domain: Domain) -> list[str]:
    return [*domain.names, *([] if domain.person is None else [domain.person])]


def _read_file(path: Path, domain: Domain) -> pa.Table:
    if not path.is_file():
        raise InvalidData(f"There is no file {str(path)!r}. Check the path.")
    reader = {".csv": _read_csv, ".parquet": _read_parquet}.get(path.suffix.lower())
    if reader is None:
        way_out = "Convert it to CSV or Parquet."
        raise InvalidParameter(
            "the file's ending", "must be .csv or .parquet", path.suffix, way_out
        )
    try:
        return reader(path, domain)
    except (pa.ArrowException, UnicodeDecodeError, OSError):
        # Arrow's own message quotes the row it stumbled over.
        raise InvalidData(
            f"The file {str(path)!r} is not a readable {path.suffix[1:].upper()} file."
            " Check its encoding (UTF-8) and its header."
        ) from None


def _read_parquet(path: Path, domain: Domain) -> pa.Table:
    known = pa_parquet.read_schema(path).names
    return pa_parquet.read_table(path, columns=[name for name in _wanted(domain) if name in known])


def _read_csv(path: Path, domain: Domain) -> pa.Table:
    """Every cell as text: types guessed from rows would make errors depend on rows."""
    form = pa_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda _row: "skip")
    with pa_csv.open_csv(path, parse_options=form) as first_block:
        header = first_block.schema.names
    _refuse_repeated(header, domain)
    wanted = [name for name in _wanted(domain) if name in header]
    return pa_csv.read_csv(
        path,
        parse_options=form,
        convert_options=pa_csv.ConvertOptions(
            column_types={name: pa.string() for name in wanted},
            include_columns=wanted,
            null_values=[""],
            strings_can_be_null=True,
        ),
    )


def _refuse_repeated(names: list[str], domain: Domain) -> None:
    repeated = sorted({name for name in _wanted(domain) if names.count(name) > 1})
    if repeated:
        raise InvalidData(f"The data has several columns named {', '.join(repeated)}. Rename them.")


def _from_arrow(frame: pa.Table, domain: Domain) -> Table:
    names = frame.column_names
    _refuse_repeated(names, domain)
    columns: dict[str, Any] = {}
    for column in domain.columns:
        if column.name in names:
            columns[column.name] = _convert(frame.column(column.name), column)
    if domain.person is not None and domain.person in names:
        columns[domain.person] = _persons(_plain(frame.column(domain.person)), domain.person)
    return Table(domain, columns)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dictionaries (pandas categories) spelled out, view and large strings as strings."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_large_string(column.type) or column.type == pa.string_view():
        column = column.cast(pa.string())
    return column


def _convert(column: pa.ChunkedArray, declared: Numeric | Categorical) -> Any:
    column = _plain(column)
    kind = column.type
    numeric = (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    )
    text = pa.types.is_string(kind)
    nothing = pa.types.is_null(kind)
    if isinstance(declared, Numeric):
        if numeric or nothing:
            return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        if text:
            numbers = (_number(cell) for cell in column.to_pylist())
            return np.fromiter(numbers, np.float64, len(column))
    elif isinstance(declared.values[0], int):
        if numeric or nothing:
            return _one_by_one(column)
        if text:
            return [_whole(cell) for cell in column.to_pylist()]
    elif text or nothing:
        return column.to_numpy(zero_copy_only=False)
    texts = isinstance(declared, Categorical) and isinstance(declared.values[0], str)
    raise InvalidData(
        f"The column {declared.name!r} is declared to hold {'texts' if texts else 'numbers'} and is"
        f" of type {kind}. Declare it otherwise, or convert it."
    )


def _persons(column: pa.ChunkedArray, name: str) -> Any:
    kinds = (
        pa.types.is_integer,
        pa.types.is_string,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_boolean,
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_fixed_size_binary,
        pa.types.is_null,
    )
    if not any(is_kind(column.type) for is_kind in kinds):
        raise InvalidData(
            f"The person column {name!r} must hold whole numbers or texts and is of type"
            f" {column.type}. Convert it."
        )
    return _one_by_one(column)


def _one_by_one(column: pa.ChunkedArray) -> Any:
    """Every cell as it is: Arrow would make floats of all integers for the sake of one gap."""
    if column.null_count and not pa.types.is_floating(column.type):
        return column.to_pylist()
    return column.to_numpy(zero_copy_only=False)


def _number(text: str | None) -> float:
    """A text as a number, NaN where it is none."""
    try:
        return float("nan" if text is None else text)
    except ValueError:
        return float("nan")


def _whole(text: str | None) -> int | float:
    """A text as a whole number, also if it is written "2.0"; NaN where it is none."""
    try:
        return int(text or "nan")
    except ValueError:
        number = _number(text)
        return number if abs(number) < FIRST_INEXACT else float("nan")
