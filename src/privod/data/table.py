"""Private rows inside a public domain: clipped, complete, capped per person, and never shown.

A `Table` is what questions see. Where its rows are, is `Rows`: in memory here, or stored in
partitions (`privod.engines`). What adds up over rows is asked as a fold; only what cannot be
added up exactly gathers columns side by side. Questions that count gaps ask `as_stored`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privod.arrays import Ints
from privod.data.binning import Binning, Codes, Ranks
from privod.data.cells import MISSING
from privod.data.columns import Ordinal
from privod.data.conditions import Conditions
from privod.data.domain import Domain
from privod.data.folding import (
    Adding,
    Block,
    CellCounts,
    Fold,
    Rows,
    RowSums,
    Sweep,
    folded_in_threads,
    one_block,
    side_by_side,
    swept,
)
from privod.data.intake import Intake, Portion, arrow_columns
from privod.data.persons import first_rows, numbered
from privod.data.views import COMPLETE, Records, SeenRows, View

State = TypeVar("State")

BLOCK = 1 << 16  # rows in a block of a fold


class RowsInMemory:
    """Rows as one array for each column; categories as positions in their lists of values.

    `as_stored` are the same rows with their gaps, if they are others.
    """

    __slots__ = ("_codes", "_length", "_numbers", "as_stored", "most_records")

    held_in_memory = True

    def __init__(
        self,
        length: int,
        numbers: Mapping[str, NDArray[np.float64]],
        codes: Mapping[str, Ints],
        most_records: int | None = None,
        as_stored: Rows | None = None,
    ) -> None:
        self._length, self._numbers, self._codes = length, numbers, codes
        self.most_records = most_records
        self.as_stored: Rows = self if as_stored is None else as_stored

    def __len__(self) -> int:
        return self._length

    def fold(self, fold: Fold[State]) -> State:
        """Add up in threads, where there are enough rows for several."""
        return folded_in_threads(fold, self._length, partial(self._blocks, fold))

    def sweep(self, sweep: Sweep[State]) -> State:
        points: list[list[NDArray[np.float64]]] = [[] for _ in range(sweep.n_parts)]
        for block in self._blocks(sweep, 0, self._length):
            for number, some in sweep.spread(block):
                points[number].append(some)
        parts = (sweep.part(number, points.__getitem__) for number in range(sweep.n_parts))
        return swept(sweep, parts)

    def gathered(self, numbers: Sequence[str], codes: Sequence[str]) -> Block:
        """All rows of some columns, in the order in which they came."""
        blocks = self.in_order(numbers, codes)
        return one_block(blocks, self._length, (len(numbers), len(codes)))

    def in_order(self, numbers: Sequence[str], codes: Sequence[str]) -> Iterator[Block]:
        return self._blocks(Records(tuple(numbers), tuple(codes)), 0, self._length)

    def _blocks(self, fold: Adding[Any], start: int, end: int) -> Iterator[Block]:
        for first in range(start, end, BLOCK):
            some = slice(first, min(first + BLOCK, end))
            n = some.stop - some.start
            numbers = [self._numbers[name][some] for name in fold.numbers]
            codes = [self._codes[name][some] for name in fold.codes]
            yield Block(side_by_side(numbers, n, np.float64), side_by_side(codes, n, np.int64))


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

    __slots__ = ("__weakref__", "_persons", "_rows", "domain")

    _rows: Rows

    def __init__(self, domain: Domain, columns: Mapping[str, Any]) -> None:
        self._hold(domain, [Intake(domain).take(arrow_columns(columns, domain))])

    @classmethod
    def of_portions(cls, domain: Domain, portions: Sequence[Portion]) -> Self:
        """A table of complete records, the first of each person."""
        table = cls.__new__(cls)
        table._hold(domain, portions)
        return table

    @classmethod
    def over(cls, domain: Domain, rows: Rows) -> Self:
        """A table of rows that are inside the domain already, wherever they are."""
        table = cls.__new__(cls)
        table.domain, table._rows, table._persons = domain, rows, {}
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
        complete = _joined([portion.complete for portion in portions], np.bool_)
        self._persons = {}
        if domain.person is not None:
            whose = [portion.persons for portion in portions]
            persons = numbered(pa.chunked_array(whose, pa.large_binary()).combine_chunks())
            keep = first_rows(persons, domain.max_rows_per_person, complete)
            if not keep.all():
                numbers = {name: array[keep] for name, array in numbers.items()}
                codes = {name: array[keep] for name, array in codes.items()}
                complete, persons = complete[keep], persons[keep]
            self._persons = {domain.person: persons}
        stored = RowsInMemory(len(complete), numbers, {**codes, COMPLETE: complete.astype(int)})
        view, rows = View(domain), slice(None) if complete.all() else complete
        self._rows = RowsInMemory(
            int(complete.sum()),
            {name: view.settled(name, array[rows]) for name, array in numbers.items()},
            {name: view.settled(name, array[rows]) for name, array in codes.items()},
            as_stored=stored,
        )

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"Table(of {len(self.domain.columns)} columns, rows private)"

    def as_stored(self) -> Table:
        """All stored records: NaN or -1 where missing, -inf and inf outside the range."""
        return Table.over(self.domain, self._rows.as_stored)

    def where(self, conditions: Conditions) -> Table:
        """The records that meet some conditions; how many they are is private."""
        if not conditions:
            return self
        view, base = View(self.domain, conditions, settles=False), self._rows
        if isinstance(base, SeenRows):
            view, base = replace(view, settles=base.view.settles), base.base
        return Table.over(self.domain, SeenRows(base, view))

    def fold(self, fold: Fold[State]) -> State:
        """Add up over all rows; not private."""
        return self._rows.fold(fold)

    def sweep(self, sweep: Sweep[State]) -> State:
        """Add up over parts that each look at others too; not private."""
        return self._rows.sweep(sweep)

    @property
    def most_records(self) -> int | None:
        """How many rows there may be, as declared; None where nothing was declared."""
        return self._rows.most_records

    @property
    def held_in_memory(self) -> bool:
        """Whether all rows are held in memory, so that they may be indexed."""
        return self._rows.held_in_memory

    def counts(self, axes: Sequence[tuple[str, Binning]]) -> Ints:
        """How many rows lie in each cell that bins of some columns span; not private."""
        numeric = self.domain.numeric_names
        ranks = {name: Ranks(bins.size) for name, bins in axes if isinstance(bins, Codes)}
        places = [
            (name, ranks[name] if name in ranks and name in numeric else bins)
            for name, bins in axes
        ]
        return self.fold(CellCounts(tuple(places)))

    def sums(self, columns: Sequence[str], work: Callable[[NDArray[np.float64]], Ints]) -> Ints:
        """The whole numbers that `work` makes of rows of these columns, added up; not private."""
        numeric = self.domain.numeric_names
        names = tuple(columns)
        return self.fold(RowSums(names, tuple(name for name in names if name in numeric), work))

    def numbers(self, columns: Sequence[str] = ()) -> NDArray[np.float64]:
        """The numeric columns side by side, shape (n, d), each value within its range."""
        names = [column.name for column in self.domain.numeric(columns)]
        return self._rows.gathered(names, ()).numbers

    def codes(self, columns: Sequence[str] = ()) -> Ints:
        """The categorical columns side by side, as positions in their lists of values."""
        names = [column.name for column in self.domain.categorical(columns)]
        ordered = [name for name in names if name in self.domain.numeric_names]
        rows = self._rows.gathered(ordered, [name for name in names if name not in ordered])
        if not ordered:
            return rows.codes
        numbers, codes = iter(rows.numbers.T), iter(rows.codes.T)
        columns_of = [next(numbers if name in ordered else codes) for name in names]
        return np.ascontiguousarray(side_by_side(columns_of, len(rows), np.int64))

    def columns(self) -> dict[str, Any]:
        """The stored rows as columns that make an equal table again; persons are mere numbers."""
        numbers, codes = self.domain.numeric(), self.domain.categorical()
        names = [column.name for column in numbers]
        rows = self._rows.as_stored.gathered(names, [column.name for column in codes])
        coded = dict(zip((column.name for column in codes), rows.codes.T, strict=True))
        written = dict(zip(names, rows.numbers.T, strict=True))
        for column in numbers:
            if isinstance(column, Ordinal):
                ranks = written.pop(column.name)
                coded[column.name] = np.where(np.isnan(ranks), MISSING, ranks).astype(np.int64)
        values = {
            name: pa.DictionaryArray.from_arrays(
                pa.array(places, mask=places < 0), pa.array(_told_apart(self.domain[name]))
            )
            for name, places in coded.items()
        }
        return {**written, **values, **self._persons}


def _told_apart(column: Any) -> list[Any]:
    """The values of a column such that each is read as itself, what is other as none of them."""
    if isinstance(column, Ordinal) or not column.other or isinstance(column.values[0], str):
        return list(column.values)
    return [*column.declared, max(map(int, column.declared)) + 1]


def _joined(parts: list[Any], kind: Any) -> Any:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, kind)
