"""Private rows inside a public domain: clipped, complete, capped per person, and never shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.data.domain import Categorical, Domain, Numeric
from privod.data.fineness import round_in_place
from privod.data.persons import first_inexact, numbered, one_by_one, plain_list
from privod.errors import InvalidData

__all__ = ["Table"]

BLOCK = 2048  # rows laid side by side at a time


class Table:
    """Rows that a question may look at, already within their domain.

    Missing and foreign values are filled or their rows dropped as the domain says, numbers are
    clipped to their ranges and read as multiples of 2^-500, and of each person only the allowed
    number of rows is kept; all of it silently, since any report would be about rows.

    Parameters
    ----------
    domain : Domain
        What is public.
    columns : mapping of str to array
        One array per column of the domain (and for the person column, if there is one), all of one
        length. Numeric columns hold numbers, NaN where missing; categorical columns hold the
        declared values, or anything else (None, NaN) where missing; the person column holds whole
        numbers or texts, None or NaN where missing. Floats may stand in for whole numbers as long
        as they are exact: a person column of larger ones is refused, whoever's they are.
    """

    __slots__ = ("__weakref__", "_codes", "_length", "_numbers", "_persons", "domain")

    def __init__(self, domain: Domain, columns: Mapping[str, Any]) -> None:
        self.domain = domain
        persons = [] if domain.person is None else [domain.person]
        absent = [name for name in (*domain.names, *persons) if name not in columns]
        if absent:
            raise InvalidData(
                f"The data has no column {', '.join(map(repr, absent))}, which its domain declares."
                " Add the column, or leave it out of the domain."
            )
        numbers = {
            column.name: _numbers(columns[column.name], column) for column in domain.numeric()
        }
        codes = {
            column.name: _codes(columns[column.name], column) for column in domain.categorical()
        }
        whose = {name: numbered(columns[name], name) for name in persons}
        arrays = [*numbers.values(), *codes.values(), *whose.values()]
        if len({len(array) for array in arrays}) != 1:
            raise InvalidData("The columns have different lengths. Give arrays of one length.")
        keep = np.ones(len(arrays[0]), dtype=bool)
        for values in numbers.values():
            keep &= ~np.isnan(values)
        for places in (*codes.values(), *whose.values()):
            keep &= places >= 0
        for owners in whose.values():
            keep = _first_rows(owners, keep, domain.max_rows_per_person)
        rows = slice(None) if keep.all() else keep
        self._numbers = {name: array[rows] for name, array in numbers.items()}
        self._codes = {name: array[rows] for name, array in codes.items()}
        self._persons = {name: array[rows] for name, array in whose.items()}
        self._length = int(keep.sum())

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"Table(of {len(self.domain.columns)} columns, rows private)"

    def numbers(self, columns: Sequence[str] = ()) -> NDArray[np.float64]:
        """The numeric columns side by side, shape (n, d), each value within its range."""
        names = [column.name for column in self.domain.numeric(columns)]
        side_by_side = np.empty((self._length, len(names)))
        for start in range(0, self._length, BLOCK):  # so that a block's rows stay in the cache
            for place, name in enumerate(names):
                column = self._numbers[name][start : start + BLOCK]
                side_by_side[start : start + BLOCK, place] = column
        return side_by_side

    def codes(self, columns: Sequence[str] = ()) -> NDArray[np.int64]:
        """The categorical columns side by side, as positions in their lists of values."""
        names = [column.name for column in self.domain.categorical(columns)]
        side_by_side = np.empty((self._length, len(names)), dtype=np.int64)
        for place, name in enumerate(names):
            side_by_side[:, place] = self._codes[name]
        return side_by_side

    def columns(self) -> dict[str, Any]:
        """The rows as columns that make an equal table again; persons are mere numbers."""
        values = {
            column.name: np.array(column.values, dtype=object)[self._codes[column.name]]
            for column in self.domain.categorical()
        }
        return {**self._numbers, **values, **self._persons}


def _numbers(values: Any, column: Numeric) -> NDArray[np.float64]:
    try:
        array = _floats(values)
    except (TypeError, ValueError):
        raise InvalidData(
            f"The column {column.name!r} is declared numeric and its data is of another type."
            " Declare it categorical, or convert it."
        ) from None
    if array.ndim != 1:
        raise InvalidData(f"The column {column.name!r} must be one-dimensional.")
    if column.fill is not None:
        array[np.isnan(array)] = column.fill
    np.clip(array, column.low, column.high, out=array)
    round_in_place(array)
    return array


def _floats(values: Any) -> NDArray[np.float64]:
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:  # an integer beyond all floats, which lies beyond every range too
        most = int(np.finfo(np.float64).max)
        within = [min(max(v, -most), most) if isinstance(v, int) else v for v in values]
        return np.array(within, dtype=np.float64)


def _codes(values: Any, column: Categorical) -> NDArray[np.int64]:
    array = one_by_one(values)
    if array.ndim != 1:
        raise InvalidData(f"The column {column.name!r} must be one-dimensional.")
    if array.dtype.kind == "f" and not _told_apart(column, array.dtype):
        raise InvalidData(
            f"The column {column.name!r} is declared to hold whole numbers that {array.dtype}, the"
            " type of its data, does not tell apart. Give it as integers or texts."
        )
    fill = -1 if column.fill is None else column.values.index(column.fill)
    positions = {value: position for position, value in enumerate(column.values)}
    # 1.0 and True find 1 in the dictionary; what cannot be looked up is missing.
    found = (
        positions.get(value, fill) if _hashable(value) else fill for value in plain_list(array)
    )
    return np.fromiter(found, dtype=np.int64, count=len(array))


def _told_apart(column: Categorical, floats: np.dtype[Any]) -> bool:
    return all(abs(v) < first_inexact(floats) for v in column.values if isinstance(v, int))


def _hashable(value: object) -> bool:
    return isinstance(value, str | int | float) or (
        isinstance(value, Decimal) and value.is_finite()
    )


def _first_rows(
    persons: NDArray[np.int64], keep: NDArray[np.bool_], most: int
) -> NDArray[np.bool_]:
    """Mark the first `most` kept rows of each person; what one person has moves nobody else's."""
    rows = np.flatnonzero(keep)
    by_person = rows[np.argsort(persons[rows], kind="stable")]
    owners = persons[by_person]
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    position = np.arange(len(owners)) - np.repeat(starts, np.diff(starts, append=len(owners)))
    first = np.zeros(len(persons), dtype=bool)
    first[by_person[position < most]] = True
    return first
