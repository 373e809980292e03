"""Private rows inside a public domain: clipped, complete, capped per person, and never shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privod.data.cells import as_arrow
from privod.data.domain import Domain
from privod.data.intake import Intake, Portion, absent_columns
from privod.data.persons import first_rows, numbered

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
        absent_columns(columns, domain)
        persons = [] if domain.person is None else [domain.person]
        declared = {column.name: column for column in domain.columns}
        cells = {
            name: as_arrow(columns[name], declared.get(name, name))
            for name in (*declared, *persons)
        }
        self._hold(domain, [Intake(domain).take(cells)])

    @classmethod
    def of_portions(cls, domain: Domain, portions: Sequence[Portion]) -> Self:
        """A table of complete records, the first of each person."""
        table = cls.__new__(cls)
        table._hold(domain, portions)
        return table

    def _hold(self, domain: Domain, portions: Sequence[Portion]) -> None:
        self.domain = domain
        numbers = {
            column.name: _joined([portion.numbers[column.name] for portion in portions], np.float64)
            for column in domain.numeric()
        }
        codes = {
            column.name: _joined([portion.codes[column.name] for portion in portions], np.int64)
            for column in domain.categorical()
        }
        rows: Any = slice(None)
        self._persons = {}
        if domain.person is not None:
            whose = [portion.persons for portion in portions]
            persons = numbered(pa.chunked_array(whose, pa.large_binary()))
            keep = first_rows(persons, domain.max_rows_per_person)
            rows = slice(None) if keep.all() else keep
            self._persons = {domain.person: persons[rows]}
        self._numbers = {name: array[rows] for name, array in numbers.items()}
        self._codes = {name: array[rows] for name, array in codes.items()}
        self._length = len(next(iter((*self._numbers.values(), *self._codes.values()))))

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
            column.name: pa.DictionaryArray.from_arrays(
                pa.array(self._codes[column.name]), pa.array(column.values)
            )
            for column in self.domain.categorical()
        }
        return {**self._numbers, **values, **self._persons}


def _joined(parts: list[Any], kind: Any) -> Any:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, kind)
