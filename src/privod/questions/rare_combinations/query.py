"""Which combinations of categories are rare? Rare ones exactly, others noisy [Asif 2020, 8.1].

The lookahead of one record (`lookahead-count-1`), taken over every cell of a histogram at once: a
record lies in one cell, so all cells together lose what one of them does. Proof in
docs/proofs/rare_combinations.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privod.data import Categorical, Domain, Table
from privod.data.binning import Codes
from privod.errors import InvalidParameter
from privod.mechanisms import Randomness
from privod.privacy import positive
from privod.query.axes import Axis, table_of_counts
from privod.query.checks import (
    LARGEST_COUNT,
    ExactNumber,
    column_names,
    whole_number,
)
from privod.query.preview import Preview, of_counts
from privod.query.query import Query, Release
from privod.query.sensitive import ExactWhereRare

__all__ = ["CombinationCounts", "RareCombinations"]

MOST_CELLS = 100_000  # each is named and written out
MOST_NAMED = 3  # combinations that a sentence names


@dataclass(frozen=True, eq=False)
class CombinationCounts:
    """The count of every combination of categories, and which of them got noise."""

    axes: tuple[Axis, ...]
    counts: NDArray[np.int64]
    noisy: NDArray[np.bool_]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CombinationCounts):
            return NotImplemented
        same = self.axes == other.axes and np.array_equal(self.counts, other.counts)
        return same and np.array_equal(self.noisy, other.noisy)

    __hash__ = None  # type: ignore[assignment]

    def rare(self) -> list[tuple[tuple[str, ...], int]]:
        """The combinations that occur and were told exactly, with their counts, rarest first."""
        places = np.argwhere(~self.noisy & (self.counts > 0))
        found = [
            (
                tuple(axis.names[at] for axis, at in zip(self.axes, place, strict=True)),
                int(self.counts[tuple(place)]),
            )
            for place in places
        ]
        return sorted(found, key=lambda pair: (pair[1], pair[0]))


@dataclass(frozen=True, kw_only=True)
class RareCombinations(ExactWhereRare, Query[CombinationCounts]):
    """Which combinations of these categories occur rarely, and how often? [Asif 2020, 8.1].

    Guarantee
    ---------
    Every record is protected whose combination of categories has at least max_crowd + 1 -
    edit_margin records. Counts of rarer combinations are told exactly: their records are not
    protected, and whether a record with such a combination is in the data is told.

    Parameters
    ----------
    columns : tuple of str
        The categorical columns whose combinations are counted, 100,000 combinations at most.
    max_crowd : int
        A combination with at most this many records is rare.
    epsilon : number
        The privacy loss of all counts together; at least 0.1 where rare ones are told exactly.
    edit_margin : int
        Within how many edits a protected record's combination is not rare, from 1.
    """

    name: ClassVar[str] = "rare-combinations-1"
    column_kinds: ClassVar[dict[str, Any]] = {"columns": Categorical}
    question: ClassVar[str] = "Which combinations of these categories are rare?"

    columns: tuple[str, ...]
    max_crowd: int
    epsilon: ExactNumber = ExactNumber(positive)
    edit_margin: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_names(self.columns))
        whole_number(self.max_crowd, "max_crowd", at_least=1, at_most=LARGEST_COUNT)
        whole_number(self.edit_margin, "edit_margin", at_least=1)
        self.guarantee()  # refuses an epsilon that is out of reach

    def preview(self, domain: Domain) -> Preview:
        return of_counts(self.noise, self._cells(domain))

    def not_protected(self) -> str:
        return self.told_exactly("combinations", "records")

    def exact_counts(self, domain: Domain) -> int:
        return self._cells(domain) if self.noisy_from > 0 else 0

    def check(self, domain: Domain) -> None:
        self.check_exactness()
        domain.categorical(self.columns)
        cells = self._cells(domain)
        if cells > MOST_CELLS:
            rule = f"must give at most {MOST_CELLS} combinations"
            raise InvalidParameter("columns", rule, cells, "Name fewer columns.")

    def n_numbers(self, domain: Domain) -> int:
        return self._cells(domain) * (len(self.columns) + 2)

    def held_per_record(self, domain: Domain) -> int:  # noqa: ARG002
        return 0

    def answer(self, table: Table, randomness: Randomness) -> Release[CombinationCounts]:
        axes = self._axes(table.domain)
        counts = table.counts([(axis.column, Codes(len(axis.names))) for axis in axes])
        noisy = counts >= self.noisy_from
        drawn = self.noise.add_to(counts, randomness)  # for every cell: work tells nothing
        told = CombinationCounts(axes, np.where(noisy, drawn, counts), noisy)
        return self.release(told, randomness)

    def sentence(self, value: CombinationCounts) -> str:
        what = " and ".join(self.columns)
        margin = self.noise.quantile(0.95)
        others = f"other counts are right to within {margin} with 95 % certainty, each"
        if self.noisy_from < 2:
            return f"No count of {what} is told exactly; {others}."
        rare = value.rare()
        if not rare:
            return f"No combination of {what} has 1 to {self.noisy_from - 1} records; {others}."
        named = "; ".join(f"{', '.join(names)} ({count})" for names, count in rare[:MOST_NAMED])
        rest = f" and {len(rare) - MOST_NAMED} more" if len(rare) > MOST_NAMED else ""
        return (
            f"Exactly {len(rare)} of {value.counts.size} combinations of {what} have 1 to"
            f" {self.noisy_from - 1} records: {named}{rest}; {others}."
        )

    def table(self, value: CombinationCounts) -> dict[str, list[Any]]:
        counted = table_of_counts(value.axes, "count", value.counts)
        return {**counted, "noisy": value.noisy.ravel().tolist()}

    def value_to_json(self, value: CombinationCounts) -> Any:
        axes = [{"column": axis.column, "names": list(axis.names)} for axis in value.axes]
        return {"axes": axes, "counts": value.counts.tolist(), "noisy": value.noisy.tolist()}

    def value_from_json(self, data: Any) -> CombinationCounts:
        axes = tuple(Axis(axis["column"], tuple(axis["names"])) for axis in data["axes"])
        counts = np.asarray(data["counts"], dtype=np.int64)
        return CombinationCounts(axes, counts, np.asarray(data["noisy"], dtype=np.bool_))

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        if not domain.categorical_names:
            return ()
        return (cls(columns=domain.categorical_names[:2], max_crowd=5, epsilon=1),)

    def _cells(self, domain: Domain) -> int:
        return math.prod(len(axis.names) for axis in self._axes(domain))

    def _axes(self, domain: Domain) -> tuple[Axis, ...]:
        return tuple(Axis.of(column, 1) for column in domain.categorical(self.columns))
