"""How many records have these values? Rare counts exactly, others with noise [Asif 2020, 8.1].

Asked about every combination of some categories, or about some records. A record lies in one cell,
so all counts together lose what one of them does. Proof in docs/proofs/rare_counts.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privod.data import Categorical, Domain, Numeric, Table
from privod.data.binning import Codes
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteLaplace, Randomness
from privod.outliers.crowds.anomalies import protected_crowd
from privod.privacy import Guarantee, positive
from privod.query.axes import Axis, table_of_counts
from privod.query.checks import (
    LARGEST_COUNT,
    ExactNumber,
    column_names,
    crowd_adjacency,
    whole_number,
)
from privod.query.frames import of_records
from privod.query.likeness import Entry, Likeness, checked_entries, end_of
from privod.query.preview import FEW, Preview, of_counts
from privod.query.query import Query, Release

MOST_CELLS = 100_000  # each is named and written out
MOST_NAMED = 3  # cells that a sentence names
LEAST_EXACT_EPSILON = Fraction(1, 10)  # ten exact answers from an allowance of 1, not 10^9
COUNT_SENSITIVITY = 1  # a record has one combination of values, so it lies in one count


@dataclass(frozen=True, eq=False)
class ValueCounts:
    """How many records have each combination of values, and which of these counts got noise.

    Of each combination of the categories in `axes`, or of each of the `records` asked about.
    """

    axes: tuple[Axis, ...]
    counts: NDArray[np.int64]
    noisy: NDArray[np.bool_]
    records: tuple[tuple[Entry, ...], ...] = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ValueCounts):
            return NotImplemented
        same = self.axes == other.axes and self.records == other.records
        same = same and np.array_equal(self.counts, other.counts)
        return same and np.array_equal(self.noisy, other.noisy)

    __hash__ = None  # type: ignore[assignment]

    def rare(self) -> list[tuple[tuple[str, ...], int]]:
        """The cells that occur and were told exactly, with their counts, rarest first."""
        if self.records:
            cells = [tuple(map(str, record)) for record in self.records]
        else:
            cells = list(product(*(axis.names for axis in self.axes)))
        told = zip(cells, self.counts.ravel().tolist(), self.noisy.ravel().tolist(), strict=True)
        found = [(names, count) for names, count, noisy in told if count > 0 and not noisy]
        return sorted(found, key=lambda pair: (pair[1], pair[0]))


@dataclass(frozen=True, kw_only=True)
class RareCounts(Query[ValueCounts]):
    """A count for each combination of values, or of your records; rare ones exactly, if allowed.

    Guarantee
    ---------
    Every record is protected if at least max_crowd + 1 - edit_margin records, itself included, have
    its values in these columns. Counts of rarer values are told exactly: their records are not
    protected, and whether a record with such values is in the data is told. Whether a count is
    noisy is told with it; that costs nothing.

    Parameters
    ----------
    columns : tuple of str
        The columns whose values are compared: categorical ones, 100,000 combinations at most; with
        `records` also numeric ones.
    max_crowd : int
        Values that at most this many records have are rare.
    epsilon : number
        The privacy loss of all counts together; at least 0.1 where rare ones are told exactly.
    edit_margin : int
        Within how many edits a protected record is normal, from 1.
    records : tuple of (str, int or float, ...) or None
        The records asked about, a value for each column, which are public: 1000 at most, no two
        alike. None counts every combination of the categories.
    """

    name: ClassVar[str] = "rare-counts"
    holds_rows: ClassVar[bool] = False
    question: ClassVar[str] = "How many records have these rare values?"
    goal: ClassVar[str] = "count"

    columns: tuple[str, ...]
    max_crowd: int
    epsilon: ExactNumber = ExactNumber(positive)
    edit_margin: int = 1
    records: tuple[tuple[Entry, ...], ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_names(self.columns))
        whole_number(self.max_crowd, "max_crowd", at_least=1, at_most=LARGEST_COUNT)
        whole_number(self.edit_margin, "edit_margin", at_least=1)
        if self.records is not None:
            records = checked_entries(self.records, len(self.columns))
            object.__setattr__(self, "records", records)
            if len({_as_held(record) for record in records}) < len(records):
                rule = "must differ: a record of the data may lie in one count only"
                raise InvalidParameter("records", rule, len(records), "Name each one once.")
        self.guarantee()  # refuses an epsilon that is out of reach

    @property
    def noise(self) -> DiscreteLaplace:
        """The noise of a count that is not rare."""
        return DiscreteLaplace.for_loss(self.epsilon, COUNT_SENSITIVITY)

    @property
    def noisy_from(self) -> int:
        """Counts from here on are noisy, one record before anyone is protected; 0 if all are."""
        looked_ahead = self.edit_margin + 1  # n = k + 1, so that both of an adjacent pair are
        return max(0, protected_crowd(self.max_crowd, looked_ahead))

    def guarantee(self) -> Guarantee:
        adjacency = crowd_adjacency(0.0, self.columns, self.max_crowd, self.edit_margin)
        return Guarantee(self.noise.loss(COUNT_SENSITIVITY), adjacency)

    def not_protected(self) -> str:
        if self.noisy_from == 0:
            return ""
        few = f"fewer than {self.noisy_from} records have" if self.noisy_from > 1 else "nobody has"
        return (
            f"Counts of values that {few} are told exactly, whatever epsilon is: whether a person"
            " with such values is in the data is told exactly."
        )

    def exact_counts(self, domain: Domain) -> int:
        return self._cells(domain) if self.noisy_from > 0 else 0

    def preview(self, domain: Domain) -> Preview:
        shown = of_counts(self.noise, self._cells(domain))
        return shown if self.records is None else replace(shown, typical_share=FEW)

    def check(self, domain: Domain) -> None:
        self._check_exactness()
        if self.records is not None:
            Likeness(self.columns, 0).check(domain, self.records)
            return
        domain.categorical(self.columns)
        cells = self._cells(domain)
        if cells > MOST_CELLS:
            rule = f"must give at most {MOST_CELLS} combinations"
            raise InvalidParameter("columns", rule, cells, "Name fewer columns, or some records.")

    def _check_exactness(self) -> None:
        """Refuse to tell rare counts exactly for next to nothing.

        What is told exactly does not depend on epsilon; only the price keeps one from asking about
        everybody.
        """
        if self.noisy_from > 0 and self.epsilon < LEAST_EXACT_EPSILON:
            rule = "must be at least 0.1 where rare counts are told exactly"
            way_out = "Pay that, or choose an edit_margin at which every count is noisy."
            raise InvalidParameter("epsilon", rule, f"{float(self.epsilon):.3g}", way_out)

    def n_numbers(self, domain: Domain) -> int:
        return self._cells(domain) * (len(self.columns) + 2)

    def answer(self, table: Table, randomness: Randomness) -> Release[ValueCounts]:
        if self.records is None:
            axes = self._axes(table.domain)
            counts = table.counts([(axis.column, Codes(len(axis.names))) for axis in axes])
        else:
            axes = ()
            counts = table.sums(self.columns, partial(_copies, self._coded(table.domain)))
        noisy = counts >= self.noisy_from
        drawn = self.noise.add_to(counts, randomness)  # for every cell: work tells nothing
        told = ValueCounts(axes, np.where(noisy, drawn, counts), noisy, self.records or ())
        return self.release(told, randomness)

    def sentence(self, value: ValueCounts) -> str:
        what = " and ".join(self.columns)
        margin = self.noise.quantile(0.95)
        if value.counts.size == 1 and value.records:
            told = f"± {margin:,} records have these values of {what} (95 % confidence)."
            count = int(value.counts[0])
            if value.noisy[0]:
                return f"{count:,} {told}"
            said = "1 record has" if count == 1 else f"{count:,} records have"
            return f"Exactly {said} these values of {what}."
        others = f"other counts are within ± {margin:,} (95 % confidence each)"
        asked = "records asked about" if value.records else f"combinations of {what}"
        if self.noisy_from < 2:
            return f"No count of the {asked} is told exactly; {others}."
        rare = value.rare()
        few = f"1 to {self.noisy_from - 1} records"
        if not rare:
            return f"None of the {value.counts.size:,} {asked} has {few}; {others}."
        named = "; ".join(f"{', '.join(names)} ({count})" for names, count in rare[:MOST_NAMED])
        rest = f" and {len(rare) - MOST_NAMED:,} more" if len(rare) > MOST_NAMED else ""
        return (
            f"Exactly {len(rare):,} of {value.counts.size:,} {asked} have {few}: {named}{rest};"
            f" {others}."
        )

    def table(self, value: ValueCounts) -> dict[str, list[Any]]:
        noisy = value.noisy.ravel().tolist()
        if self.records is not None:
            told = {"count": value.counts.tolist(), "noisy": noisy}
            return of_records(self.columns, self.records, told)
        return {**table_of_counts(value.axes, "count", value.counts), "noisy": noisy}

    def value_to_json(self, value: ValueCounts) -> Any:
        axes = [{"column": axis.column, "names": list(axis.names)} for axis in value.axes]
        return {"axes": axes, "counts": value.counts.tolist(), "noisy": value.noisy.tolist()}

    def value_from_json(self, data: Any) -> ValueCounts:
        axes = tuple(Axis(axis["column"], tuple(axis["names"])) for axis in data["axes"])
        counts = np.asarray(data["counts"], dtype=np.int64)
        noisy = np.asarray(data["noisy"], dtype=np.bool_)
        return ValueCounts(axes, counts, noisy, self.records or ())

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        found = []
        if domain.categorical_names:
            found.append(cls(columns=domain.categorical_names[:2], max_crowd=5, epsilon=1))
        columns: list[Categorical | Numeric] = [*domain.numeric()[:1], *domain.categorical()[:1]]
        if columns:
            ends = (tuple(end_of(one, last=end) for one in columns) for end in (0, 1))
            names = tuple(one.name for one in columns)
            asked: dict[str, Any] = {"columns": names, "max_crowd": 3, "epsilon": 1}
            found.append(cls(**asked, records=tuple(dict.fromkeys(ends))))  # of one category: one
        return tuple(found)

    def _cells(self, domain: Domain) -> int:
        if self.records is not None:
            return len(self.records)
        return math.prod(len(axis.names) for axis in self._axes(domain))

    def _axes(self, domain: Domain) -> tuple[Axis, ...]:
        return tuple(Axis.of(column, 1) for column in domain.categorical(self.columns))

    def _coded(self, domain: Domain) -> NDArray[np.float64]:
        """The records as rows hold them: numbers, and positions among the declared values."""
        columns = [domain[name] for name in self.columns]
        rows = [
            [
                one.values.index(entry) if isinstance(one, Categorical) else float(entry)
                for one, entry in zip(columns, record, strict=True)
            ]
            for record in self.records or ()
        ]
        return np.array(rows, dtype=np.float64)


def _as_held(record: tuple[Entry, ...]) -> tuple[str | float, ...]:
    """A record as columns would compare it, whatever their kind: large integers are rounded."""
    return tuple(one if isinstance(one, str) else float(one) for one in record)


def _copies(records: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.int64]:
    """How many rows equal each of the records."""
    return np.array([(rows == record).all(axis=1).sum() for record in records], np.int64)
