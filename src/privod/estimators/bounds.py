"""What is known of the columns without looking at the rows: `bounds`, however they are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from typing import Any

import numpy as np

from privod.data import Boolean, Categorical, Column, Date, Numeric
from privod.data.cells import as_arrow, values_of
from privod.data.columns import UNIVERSE, column_from_json
from privod.errors import InvalidParameter
from privod.texts import did_you_mean, named

DATES = "1900-01-01", "2100-01-01"  # where dates are looked for whose range nobody declared
NUMBERS = ("int", "uint", "float", "double", "halffloat", "decimal")

WAY_OUT = (
    "Give (low, high), a list of one pair a column, (lows, highs), or a dict by column name,"
    " known without looking at the data."
)


def frame_names(X: Any) -> tuple[str, ...] | None:  # noqa: N803 - scikit-learn's name
    """The names of a frame's columns; None for arrays and for names that cannot be used."""
    if not hasattr(X, "columns") or not hasattr(X, "shape"):
        return None
    names = tuple(X.columns)
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        rule = "must not have two columns of one name"
        raise InvalidParameter("X", rule, twice[0], "Rename one of them.")
    usable = all(isinstance(name, str) and name and name.isprintable() for name in names)
    return names if usable else None


def names_of(X: Any, width: int) -> tuple[str, ...]:  # noqa: N803 - scikit-learn's name
    """The names of a frame's columns where they can be used, x0, x1, ... otherwise."""
    return frame_names(X) or numbered_names(width)


def numbered_names(n_columns: int) -> tuple[str, ...]:
    return tuple(f"x{place}" for place in range(n_columns))


def width_of(X: Any) -> int | None:  # noqa: N803 - scikit-learn's name
    """How many columns there are in an array, a frame or a list of lists; None if it is none."""
    try:
        shape = X.shape if hasattr(X, "shape") else np.asarray(X, dtype=object).shape
    except ValueError:  # lists of arrays of different lengths
        return None
    return shape[1] if len(shape) == 2 else None


def open_columns(
    X: Any,  # noqa: N803 - scikit-learn's name
    bounds: Any,
    names: tuple[str, ...],
) -> tuple[Column, ...]:
    """What is known of the columns of these names, where some or all ranges may be open.

    What was not declared follows from the types of a frame's columns, and from nothing in them.
    """
    if isinstance(bounds, Mapping):
        strange = [name for name in bounds if name not in names]
        if strange:
            rule = "must be about columns that are there"
            way_out = f"{did_you_mean(strange[0], names)} Those are {named(names)}.".strip()
            if hasattr(X, "columns") and frame_names(X) is None:
                way_out += " Their own names are not all printable texts: rename them."
            raise InvalidParameter("bounds", rule, strange[:5], way_out)
    known = [None] * len(names) if bounds is None else _one_by_one(bounds, names)
    if known is None:
        return _ranges(bounds, names)
    kinds = [_kind(X, place) for place in range(len(names))]
    told = list(zip(names, known, kinds, strict=True))
    texts = [name for name, one, kind in told if one is None and kind in ("text", "category")]
    if texts:
        rule = f"must list the categories of {named(texts)}"
        way_out = (
            f"Give bounds={{{texts[0]!r}: [...]}} with all values that may occur, or leave the"
            " column out. For a column of objects that are dates or numbers, as pandas makes of"
            " Parquet's dates and decimals, give their range. Turn texts that are dates or numbers"
            " into such (pandas.to_datetime, pandas.to_numeric), and durations into numbers of"
            " seconds."
        )
        raise InvalidParameter("bounds", rule, None, way_out)
    return tuple(
        _open(name, kind) if one is None else _column(name, one, kind) for name, one, kind in told
    )


def _kind(X: Any, place: int) -> str:  # noqa: N803 - scikit-learn's name
    """What a column's type says it holds: number, boolean, date, datetime, category or text."""
    if not hasattr(X, "columns") or not hasattr(X, "dtypes"):
        return "number"  # of an array: whatever is no number is refused by whoever reads it
    dtypes = X.dtypes
    name = str(dtypes.iloc[place] if hasattr(dtypes, "iloc") else dtypes[place]).lower()
    name = name.removeprefix("sparse[")
    if name.startswith(("datetime", "timestamp")):
        return "datetime"
    if name.startswith("date"):
        return "date"
    if name.startswith("bool"):
        return "boolean"
    if name.startswith(("categor", "dictionary", "enum")):
        return "category"
    return "number" if name.startswith(NUMBERS) else "text"


def _open(name: str, kind: str) -> Column:
    if kind == "boolean":
        return Boolean(name)
    if kind in ("date", "datetime"):
        return Date(name, *DATES, step="day" if kind == "date" else "second")
    return Numeric(name, -UNIVERSE, UNIVERSE)


def declared_columns(bounds: Any, names: tuple[str, ...]) -> tuple[Column, ...]:
    """Read what was declared of the columns of these names, all of them."""
    known = _one_by_one(bounds, names)
    if known is None:
        return _ranges(bounds, names)
    absent = [name for name, one in zip(names, known, strict=True) if one is None]
    if absent:
        rule = "must declare every column"
        raise InvalidParameter("bounds", rule, None, f"Add {named(absent)}.")
    return tuple(_column(name, one) for name, one in zip(names, known, strict=True))


def _one_by_one(bounds: Any, names: tuple[str, ...]) -> list[Any] | None:
    """What is said of each column, None of those left out; None if it is said of all at once."""
    if isinstance(bounds, Mapping):
        return [bounds.get(name) for name in names]
    if isinstance(bounds, list) and len(bounds) == len(names) and not _all_numbers(bounds):
        return bounds
    return None


def _ranges(bounds: Any, names: tuple[str, ...]) -> tuple[Column, ...]:
    """Two numbers, or two arrays, for all columns."""
    if isinstance(bounds, np.ndarray) and bounds.shape == (2, 2):
        rule = "must say which numbers are a pair, and an array of two by two does not"
        raise InvalidParameter("bounds", rule, bounds.tolist(), "Give a list of pairs.")
    try:
        array = np.asarray(bounds)
        if array.ndim == 2 and array.shape == (len(names), 2) and len(names) != 2:
            bounds = array.T
        sides = [np.broadcast_to(np.asarray(side, dtype=float), len(names)) for side in bounds]
        lows, highs = (side.tolist() for side in sides)
    except (TypeError, ValueError):
        rule = f"must be two numbers, or describe {len(names)} columns"
        raise InvalidParameter("bounds", rule, bounds, WAY_OUT) from None
    ranges = zip(names, lows, highs, strict=True)
    return tuple(Numeric(name, low, high) for name, low, high in ranges)


def coded(X: Any, columns: tuple[Column, ...]) -> Any:  # noqa: N803 - scikit-learn's name
    """The rows as numbers: dates as steps, ordered values as ranks, others as places in a list."""
    framed = hasattr(X, "columns") and hasattr(X, "shape")
    if not framed and all(type(column) is Numeric for column in columns):
        return X
    cells = X if framed else np.asarray(X, dtype=object)
    if len(cells.shape) != 2 or cells.shape[1] != len(columns) or not columns:
        return cells  # refused by whoever reads it
    read = {
        str(place): values_of(as_arrow(_column_at(cells, place), column), column)
        for place, column in enumerate(columns)
    }
    if not framed:
        return np.column_stack(list(read.values()))
    found = type(X)(read)
    found.columns = X.columns
    return found


def _column_at(X: Any, place: int) -> Any:  # noqa: N803 - scikit-learn's name
    """A column of a frame of pandas or polars, whatever it is called."""
    return X.iloc[:, place] if hasattr(X, "iloc") else X[:, place]


def _all_numbers(bounds: list[Any]) -> bool:
    return len(bounds) == 2 and all(isinstance(side, int | float | np.generic) for side in bounds)


def _column(name: str, known: Any, kind: str = "number") -> Column:
    """One column: a pair, a list of categories, or a column that is described already.

    Two texts are dates where the column holds dates, or where both are written as dates are.
    """
    if isinstance(known, Numeric | Categorical):
        return column_from_json({**known.to_json(), "name": name})
    try:
        entries = [_plain(each) for each in known]
    except TypeError:
        entries = []
    types = {type(each) for each in entries}
    paired = len(entries) == 2 and kind != "category"
    if paired and types <= {int, float}:
        with suppress(OverflowError):  # of an integer beyond all floats
            return Numeric(name, float(entries[0]), float(entries[1]))
    if paired and ("date" in kind or all(map(_is_date, entries))):
        return Date(name, *entries)
    listed = len(types) == 1 and types <= {str, bool, int} and not isinstance(known, str)
    if listed and (types != {int} or len(entries) > 2 or kind == "category"):
        return Categorical(name, tuple(entries))
    rule = f"must give {name!r} a pair of numbers or dates, or a list of categories"
    way_out = "Write (0, 120) or ['north', 'south']. Two whole numbers as categories: Categorical."
    raise InvalidParameter("bounds", rule, known, way_out)


def _plain(value: Any) -> Any:
    """A scalar of NumPy as Python's own; nanoseconds, of which Python knows none, rounded down."""
    if isinstance(value, np.datetime64) and not isinstance(value.item(), date):
        value = value.astype("datetime64[us]")
    return value.item() if isinstance(value, np.generic) else value


def _is_date(value: Any) -> bool:
    """Whether it is a date, or a text that is written as one: 2024-01-31."""
    try:
        return isinstance(value, date) or bool(date.fromisoformat(value))
    except (TypeError, ValueError):
        return False
