"""What is known of the columns without looking at the rows: `bounds`, however they are written."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

import numpy as np

from privod.data import Categorical, Column, Date, Numeric
from privod.data.cells import as_arrow, values_of
from privod.data.columns import column_from_json
from privod.errors import InvalidParameter

__all__ = ["coded", "declared_columns", "frame_names", "width_of"]

WAY_OUT = (
    "Give (low, high), a list of one pair a column, (lows, highs), or a dict by column name,"
    " known without looking at the data."
)


def frame_names(X: Any) -> tuple[str, ...] | None:  # noqa: N803 - scikit-learn's name
    """The names of a frame's columns; None for arrays and for names that cannot be used."""
    if not hasattr(X, "columns") or not hasattr(X, "shape"):
        return None
    names = tuple(X.columns)
    usable = all(isinstance(name, str) and name and name.isprintable() for name in names)
    return names if usable else None


def width_of(X: Any) -> int | None:  # noqa: N803 - scikit-learn's name
    """How many columns there are in an array, a frame or a list of lists; None if it is none."""
    try:
        shape = X.shape if hasattr(X, "shape") else np.asarray(X, dtype=object).shape
    except ValueError:  # lists of arrays of different lengths
        return None
    return shape[1] if len(shape) == 2 else None


def declared_columns(bounds: Any, names: tuple[str, ...]) -> tuple[Column, ...]:
    """Read what was declared of the columns of these names."""
    if isinstance(bounds, Mapping):
        absent = [name for name in names if name not in bounds]
        if absent:
            rule = "must declare every column"
            raise InvalidParameter("bounds", rule, absent[:5], "Add the columns that are missing.")
        return tuple(_column(name, bounds[name]) for name in names)
    if isinstance(bounds, list) and len(bounds) == len(names) and not _all_numbers(bounds):
        return tuple(_column(name, one) for name, one in zip(names, bounds, strict=True))
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
    if not any(type(column) is not Numeric for column in columns):
        return X
    if hasattr(X, "columns") and hasattr(X, "shape"):
        if X.shape[1] != len(columns):
            return X  # refused by whoever reads it
        named = zip(X.columns, columns, strict=True)
        return type(X)({name: _values(X[name], column) for name, column in named})
    array = np.asarray(X, dtype=object)
    if array.ndim != 2 or array.shape[1] != len(columns):
        return array
    sides = [_values(array[:, place], column) for place, column in enumerate(columns)]
    return np.column_stack(sides)


def _values(values: Any, column: Column) -> Any:
    if type(column) is Numeric:
        return np.asarray(values, dtype=float)
    return values_of(as_arrow(values, column), column)


def _all_numbers(bounds: list[Any]) -> bool:
    return len(bounds) == 2 and all(isinstance(side, int | float | np.generic) for side in bounds)


def _column(name: str, known: Any) -> Column:
    """One column: a pair, a list of categories, or a column that is described already."""
    if isinstance(known, Numeric | Categorical):
        return column_from_json({**known.to_json(), "name": name})
    try:
        entries = [each.item() if isinstance(each, np.generic) else each for each in known]
    except TypeError:
        entries = []
    plain = [isinstance(each, int | float) and not isinstance(each, bool) for each in entries]
    if len(entries) == 2 and all(plain):
        return Numeric(name, float(entries[0]), float(entries[1]))
    if len(entries) == 2 and all(isinstance(each, date) for each in entries):
        return Date(name, *entries)
    if entries and len({type(each) for each in entries}) == 1 and type(entries[0]) in (str, bool):
        return Categorical(name, tuple(entries))
    rule = f"must give {name!r} a pair of numbers or dates, or a list of texts or truth values"
    raise InvalidParameter("bounds", rule, known, "Whole numbers as categories: Categorical.")
