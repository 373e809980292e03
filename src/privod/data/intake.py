"""What becomes of the records of a source, one by one, and what is the owner told about it?

A record is put inside its domain by its own cells: a value outside a range is marked as below or
above it, a missing one as missing, and of each person only the allowed number of records is kept.
Questions see them clipped and filled (`privod.data.views`). The report counts all of it. It is
about rows: for the owner alone, never for analysts, and no part of any guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privod.arrays import Ints
from privod.data.cells import (
    MISSING,
    PLAIN,
    UNDECLARED,
    Marks,
    as_arrow,
    codes_of,
    names_of,
    numbers_of,
)
from privod.data.columns import Categorical, Numeric
from privod.data.csv_file import CsvDialect, LineTally
from privod.data.domain import Domain
from privod.data.kernels.ranges import mark
from privod.errors import InvalidData, InvalidParameter, NeedsConfirmation
from privod.texts import did_you_mean

# With more than half of the records gone, a data set speaks of a minority of those it is named
# after, and no noise tells. Wrong declarations (f for F, a point for a comma) lose about all of a
# column, or the half of it that one of two values makes up; gaps in ordinary data lose less.
MOST_LOST = Fraction(1, 2)


@dataclass(frozen=True)
class ColumnReport:
    """What became of one column's cells, for the owner alone.

    `missing` cells have no declared value, and `filled` of them a fill; `clipped` numbers lay
    outside the range; `undeclared` categories are missing, or, in an open column, other. In a
    `constant` column all cells that are not missing say the same.
    """

    name: str
    missing: int
    filled: int
    clipped: int
    undeclared: int = 0
    constant: bool = False


@dataclass(frozen=True)
class IntakeReport:
    """What became of the records of a source, for the owner alone: it tells about rows.

    Of the records `read`, questions look at those `kept`. Lines have `wrong_cells`, or are
    `too_long`; records are of `nobody`, `incomplete` without a fill, or `capped`: beyond the number
    that is kept of each person. Dropped or not, lines have `open_quotes` and records `quoted_ids`,
    where a stray quote makes another person. `remarks` name lines of a CSV file.
    """

    read: int
    kept: int
    wrong_cells: int
    too_long: int
    nobody: int
    incomplete: int
    capped: int
    open_quotes: int
    columns: tuple[ColumnReport, ...]
    quoted_ids: int = 0
    remarks: tuple[str, ...] = ()

    @property
    def dropped(self) -> int:
        """Records that are not kept although the cap would allow it."""
        return self.wrong_cells + self.too_long + self.nobody + self.incomplete

    def with_lines(self, lines: LineTally) -> IntakeReport:
        """The same with the lines that never became records."""
        return replace(
            self,
            read=self.read + lines.wrong_cells + lines.too_long,
            wrong_cells=self.wrong_cells + lines.wrong_cells,
            too_long=self.too_long + lines.too_long,
            open_quotes=self.open_quotes + lines.open_quotes,
            remarks=(*self.remarks, *lines.remarks()),
        )

    def to_json(self) -> dict[str, Any]:
        columns = [vars(column).copy() for column in self.columns]
        return {**vars(self), "columns": columns, "remarks": list(self.remarks)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> IntakeReport:
        try:
            columns = tuple(ColumnReport(**column) for column in data["columns"])
            report = cls(**{**data, "columns": columns, "remarks": tuple(data["remarks"])})
        except (TypeError, KeyError, AttributeError):
            way_out = "Send what `to_json` of an intake report writes."
            raise InvalidParameter("intake", "must be a report", type(data), way_out) from None
        counts = [*vars(report).values(), *(each for one in columns for each in vars(one).values())]
        plain = all(type(count) in (bool, int, str, tuple) for count in counts)
        if not plain or any(isinstance(count, int) and count < 0 for count in counts):
            raise InvalidParameter("intake", "must hold counts", type(data), "Send counts.")
        return report

    def sentences(self) -> tuple[str, ...]:
        """The report for people, most important first."""
        said = [f"Of {_records(self.read)} read, {self.kept:,} are kept."]
        reasons = (
            (
                self.incomplete,
                "left out because a column without a fill has no declared value there",
            ),
            (self.nobody, "dropped because no person is named"),
            (self.wrong_cells, "dropped because the line has not as many cells as the header"),
            (self.too_long, "dropped because the line is too long"),
            (self.capped, "left out because their person has the allowed number already"),
        )
        said += [f"{_records(count)} {why}." for count, why in reasons if count]
        for column in self.columns:
            parts = (
                (column.missing - column.filled, "missing or not a declared value"),
                (column.filled, "filled"),
                (column.clipped, "clipped to the range"),
                (column.undeclared, "not among the declared values"),
            )
            told = [f"{count:,} {what}" for count, what in parts if count]
            told += ["all cells that are not missing say the same"] if column.constant else []
            if told:
                said.append(f"Column {column.name!r}: {', '.join(told)}.")
        if self.open_quotes:
            said.append(
                f"{_records(self.open_quotes)} with a quote that does not close on its line: a"
                " stray one, or a cell with a line end in it, of which every line is a record here."
                ' If it is the latter, register with quoting "multiline" (--quoting in the shell).'
            )
        said += self.remarks
        if self.quoted_ids:
            said.append(
                f"{_records(self.quoted_ids)} with a quote in the id of the person. It is part of"
                " the id: where it is a stray one, the record is taken for another person's, and"
                " neither the cap nor the protection joins the two. Mend such ids and register"
                " again."
            )
        return tuple(said)

    def refuse_loss(self, confirmed: bool) -> None:
        """Raise unless most of the data arrived, or the owner confirmed that it did not."""
        if confirmed or not self.read:
            return
        filled = [column.name for column in self.columns if self._most(column.filled)]
        if not self._most(self.dropped) and not filled:
            return
        what = "More than half of the records would be dropped" if self._most(self.dropped) else ""
        missing = [column.name for column in self.columns if self._most(column.missing)]
        if missing:
            listed = ", ".join(map(repr, missing))
            what += f"{', and' if what else 'In'} most cells of {listed} hold no declared value"
            what = what.replace("In most", "Most")
        raise LossyIntake(
            f"{what}. Compare the declared values, number format, separator and encoding with the"
            " file. Nothing was registered. Confirm to register what is left (shell: --yes).",
            self,
        )

    def _most(self, count: int) -> bool:
        return count > MOST_LOST * self.read


def _records(count: int) -> str:
    return f"{count} record" if count == 1 else f"{count:,} records"


class LossyIntake(NeedsConfirmation):
    """Most of a source would be lost; the report, for the owner alone, says where."""

    def __init__(self, message: str, report: IntakeReport) -> None:
        super().__init__(message)
        self.report = report


@dataclass(frozen=True)
class Portion:
    """Records as they are stored, in order, before persons are capped.

    Numbers are -inf below the range, inf above it, NaN where missing; codes are positions in lists
    of values, -1 where missing; persons are in the one form in which they are compared. `complete`
    records miss nothing but what has a fill; `somebody` says which records of the source these are.
    """

    numbers: dict[str, NDArray[np.float64]]
    codes: dict[str, Ints]
    persons: pa.Array | None
    complete: NDArray[np.bool_]
    somebody: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.complete)


class Intake:
    """Takes in records, portion by portion, and keeps count for the owner.

    Portions may be taken in by several threads at once.
    """

    def __init__(self, domain: Domain, dialect: CsvDialect | None = None) -> None:
        self.domain = domain
        dialect = dialect or CsvDialect()
        self.marks = dialect.marks
        self._quote = dialect.quote
        self._records = np.zeros(5, np.int64)  # quoted ids, read, nobody's, incomplete, complete
        # missing, filled, clipped, undeclared
        self._cells = np.zeros((len(domain.columns), 4), np.int64)
        self._ends = np.full((len(domain.columns), 2), (np.inf, -np.inf))
        self._counting = Lock()

    def take(self, columns: Mapping[str, pa.Array]) -> Portion:
        """Put records inside the domain; those of nobody are left out."""
        absent_columns(columns, self.domain)
        numbers: dict[str, NDArray[np.float64]] = {}
        codes: dict[str, Ints] = {}
        tallies = np.zeros_like(self._cells)
        for tally, column in zip(tallies, self.domain.columns, strict=True):
            if isinstance(column, Numeric):
                numbers[column.name] = self._numbers(columns[column.name], column, tally)
            else:
                codes[column.name] = self._codes(columns[column.name], column, tally)
        persons = None
        if self.domain.person is not None:
            persons = names_of(columns[self.domain.person], self.domain.person, self.marks)
        both: dict[str, NDArray[Any]] = {**numbers, **codes}
        cells = [both[column.name] for column in self.domain.columns]
        parts = (*cells, *([] if persons is None else [persons]))
        if len({len(part) for part in parts}) != 1:
            raise InvalidData("The columns have different lengths. Give arrays of one length.")
        somebody, complete = np.ones((2, len(cells[0])), dtype=bool)
        for values, (missing, filled, _, _) in zip(cells, tallies, strict=True):
            if missing > filled:
                complete &= ~_gaps(values)
        if persons is not None and persons.null_count:
            somebody = np.array(persons.is_valid().to_numpy(zero_copy_only=False))
        self._count(tallies, cells, Portion(numbers, codes, persons, complete, somebody))
        if persons is not None and not somebody.all():
            numbers = {name: values[somebody] for name, values in numbers.items()}
            codes = {name: values[somebody] for name, values in codes.items()}
            persons, complete = persons.filter(pa.array(somebody)), complete[somebody]
        return Portion(numbers, codes, persons, complete, somebody)

    def report(self, kept: int, lines: LineTally | None = None) -> IntakeReport:
        """What became of everything, now that so many complete records are kept."""
        quoted, read, nobody, incomplete, complete = self._records.tolist()
        constant = (self._ends[:, 0] == self._ends[:, 1]) & (read > 1)
        columns = tuple(
            ColumnReport(column.name, *(*tally.tolist(), bool(alike)))
            for column, tally, alike in zip(self.domain.columns, self._cells, constant, strict=True)
        )
        report = IntakeReport(
            read=read,
            kept=kept,
            wrong_cells=0,
            too_long=0,
            nobody=nobody,
            incomplete=incomplete,
            capped=complete - kept,
            open_quotes=0,
            columns=columns,
            quoted_ids=quoted,
        )
        return report if lines is None else report.with_lines(lines)

    def tally(self) -> tuple[Any, ...]:
        """What was counted so far, to be added to another intake of the same domain."""
        return self._cells, self._ends, self._records

    def add(self, tally: tuple[Any, ...]) -> None:
        """Count what another intake took in."""
        cells, ends, records = tally
        self._cells += cells
        self._ends[:, 0] = np.minimum(self._ends[:, 0], ends[:, 0])
        self._ends[:, 1] = np.maximum(self._ends[:, 1], ends[:, 1])
        self._records += records

    def _count(self, tallies: Ints, cells: list[NDArray[Any]], whole: Portion) -> None:
        quoted = 0
        if whole.persons is not None and self._quote is not None:
            quoted = pc.sum(pc.match_substring(whole.persons, self._quote)).as_py() or 0
        n, n_somebody = len(whole), int(whole.somebody.sum())
        n_complete = int((whole.somebody & whole.complete).sum())
        records = quoted, n, n - n_somebody, n_somebody - n_complete, n_complete
        ends = np.array([_ends(values) for values in cells])
        with self._counting:
            self.add((tallies, ends, np.array(records)))

    def _numbers(self, cells: pa.Array, column: Numeric, tally: Ints) -> NDArray[np.float64]:
        values = np.require(numbers_of(cells, column, self.marks), requirements="W")
        missing, clipped = mark(values, column.low, column.high)
        tally += (missing, 0 if column.fill is None else missing, clipped, 0)
        return values

    def _codes(self, cells: pa.Array, column: Categorical, tally: Ints) -> Ints:
        places = codes_of(cells, column, self.marks)
        missing = int((places < 0).sum())
        foreign = places == (len(column.values) - 1 if column.other else UNDECLARED)
        tally += (missing, 0 if column.fill is None else missing, 0, int(foreign.sum()))
        return np.maximum(places, MISSING)


def _gaps(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which cells are missing, of numbers or of codes."""
    return np.asarray(values < 0 if values.dtype == np.int64 else np.isnan(values))


def _ends(values: NDArray[Any]) -> tuple[float, float]:
    """The least and the largest of a column's cells; those that are missing do not count."""
    gaps = _gaps(values)
    given = values[~gaps] if gaps.any() else values
    return (float(given.min()), float(given.max())) if len(given) else (np.inf, -np.inf)


def wanted_of(domain: Domain) -> list[str]:
    """The columns that are read, the person's last."""
    return [*domain.names, *([] if domain.person is None else [domain.person])]


def arrow_columns(
    source: Mapping[str, Any], domain: Domain, marks: Marks = PLAIN
) -> dict[str, pa.Array]:
    """The declared columns of a mapping, of whatever kind, as Arrow's."""
    absent_columns(source, domain)
    declared = {column.name: column for column in domain.columns}
    return {
        name: as_arrow(source[name], declared.get(name, name), marks) for name in wanted_of(domain)
    }


def absent_columns(names: Any, domain: Domain) -> None:
    """Refuse data that lacks a declared column."""
    absent = [name for name in wanted_of(domain) if name not in names]
    if absent:
        raise InvalidData(
            f"The data has no column {', '.join(map(repr, absent))}, which its domain declares."
            f"{did_you_mean(absent[0], map(str, names))} Add the column; or its owner"
            " leaves it out of the domain."
        )
