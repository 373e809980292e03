"""Score an asker's own records against a release: no private rows are read, nothing is charged.

The command line and the console both come here. Records are read as registration reads rows, cell
by cell, and gaps are filled as it fills them; a record that it would have dropped is not scored. A
record outside the ranges is scored at their border, plus how far outside it lies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.data.cells import texts_of, values_of
from privod.data.columns import Column, Numeric
from privod.data.csv_file import CsvDialect, LineTally
from privod.data.domain import Domain
from privod.data.sources import portions_of
from privod.errors import InvalidData, InvalidParameter
from privod.query.score_counts import between
from privod.query.scorer import Scorer
from privod.query.scores import filled

MOST_ROWS = 10  # named in a sentence


@dataclass(frozen=True)
class ColumnGaps:
    """How many cells of a column held no declared value, and what the owner declared instead."""

    name: str
    missing: int
    fill: float | str | None


@dataclass(frozen=True)
class NewRecords:
    """The asker's own records, read as registered rows were.

    Categories are places in their lists, NaN missing. `rows` counts lines below the header, or rows
    of a frame, from 1; `left_out` those that registration would have dropped; `wrong_lines` lines
    that are no records. `ids` is what the asker calls each row, where a column says it.
    """

    points: NDArray[np.float64]
    rows: NDArray[np.int64]
    left_out: NDArray[np.int64]
    gaps: tuple[ColumnGaps, ...]
    takes_gaps: bool
    wrong_lines: int
    ids: dict[int, str] = field(default_factory=dict)

    def sentences(self) -> tuple[str, ...]:
        """What became of cells and lines that say nothing, for the asker."""
        said = [self._told(column) for column in self.gaps]
        in_all = len(self.rows) + len(self.left_out)
        if any(2 * column.missing > in_all for column in self.gaps):
            said.append(
                "Most cells of a column could not be read. If the file writes 3,5 for 3.5, or"
                " groups of three digits, say so (--decimal and --thousands in the shell)."
            )
        if len(self.left_out):
            some = ", ".join(map(str, self.left_out[:MOST_ROWS].tolist()))
            more = " and so on" if len(self.left_out) > MOST_ROWS else ""
            said.append(
                f"{len(self.left_out):,} not scored, since records with such a gap were dropped at"
                f" registration: row {some}{more}."
            )
        if self.wrong_lines:
            said.append(
                f"{self.wrong_lines} not read: lines with not as many cells as the header, or too"
                " long. Rows are counted with them."
            )
        return tuple(said)

    def _told(self, column: ColumnGaps) -> str:
        cells = f"Column {column.name!r}: {column.missing} without a declared value"
        if column.fill is not None:
            fill = repr(column.fill) if isinstance(column.fill, str) else f"{column.fill:g}"
            return f"{cells}, read as {fill} as at registration."
        return (
            f"{cells}, scored as missing." if self.takes_gaps else f"{cells}, and without a fill."
        )


@dataclass(frozen=True)
class Scored:
    """Scores, higher more outlying; the limit beyond which records stand out, where one is known.

    `hidden_share` is the share of the reference that cannot be told from noise; `beyond`, where it
    is known, between which shares of the reference lie beyond the limit, with 95 % certainty.
    """

    scores: NDArray[np.float64]
    limit: float | None
    hidden_share: float
    beyond: tuple[float, float] | None = None

    @property
    def stands_out(self) -> NDArray[np.bool_] | None:
        """Which records lie beyond the limit; None without one."""
        return None if self.limit is None else self.scores > self.limit

    def doubt(self, target: float) -> str:
        """How far off the limit for a share of the reference may be, in a sentence; or nothing."""
        if self.limit is None:
            return ""
        known = ""
        if self.beyond is not None:
            known = f"The threshold for {100 * target:.3g} % of the reference flags"
            known += f" {between(self.beyond)} of it (95 % confidence)."
        if self.hidden_share <= target:
            return known
        hidden = f"About {100 * self.hidden_share:.0f} % of the reference cannot be told from noise"
        if self.hidden_share >= 1:
            hidden = "How the reference itself scores was not counted, or noise hides it"
        return f"{hidden}: the limit is a guess. {known}".strip()


def score(scorer: Scorer[Any], points: NDArray[np.float64], target: float) -> Scored:
    """Score records; about a share `target` of the reference lies beyond the limit."""
    limit = scorer.threshold(target)
    beyond = None if limit is None else scorer.share_beyond(limit)
    return Scored(scorer.scores(points), limit, scorer.hidden_share, beyond)


def explains(scorer: Scorer[Any]) -> bool:
    """Whether the release can say which columns made a score."""
    return scorer.explain(np.empty((0, len(scorer.columns)))) is not None


def reasons(scorer: Scorer[Any], points: NDArray[np.float64], scored: Scored) -> list[str]:
    """Of each record that stands out why it does [`Explanation.reasons`]; nothing if unknown."""
    texts, beyond = [""] * len(points), scored.stands_out
    places = np.flatnonzero(beyond) if beyond is not None else np.zeros(0, np.int64)
    explained = scorer.explain(points[places])
    if explained is not None:
        for place, why in zip(places.tolist(), explained.reasons(), strict=True):
            texts[place] = why
    return texts


def shown(value: float, column: Column) -> str:
    """A value as it was written: a category by its name, a missing one as a dash."""
    return "-" if value != value else column.shown(value)  # NaN


def read_records(
    source: Any, scorer: Scorer[Any], dialect: CsvDialect | None = None, ids: str | None = None
) -> NewRecords:
    """Read the columns that the release needs by the rules of registration; fill what it fills.

    A record that misses what has no fill is left out, unless the scorer takes gaps. `ids` is a
    column that says what the asker calls the records.
    """
    columns, dialect = scorer.columns, dialect or CsvDialect()
    if ids in [column.name for column in columns]:
        way_out = "Name a column that is not scored, such as a record number."
        raise InvalidParameter("ids", "must not be a column that is scored", ids, way_out)
    read_as = Domain(columns, person=ids)  # ids are read as they are, like whose a record is
    names: list[str] = []
    places: list[NDArray[np.int64]] = []
    lines = LineTally(places=places)
    read = []
    for portion in portions_of(source, read_as, dialect, lines):
        read.append(np.column_stack([_values(portion[one.name], one, dialect) for one in columns]))
        names += texts_of(portion[ids]) if ids is not None else []
    points = np.concatenate(read) if read else np.empty((0, len(columns)))
    rows = np.concatenate(places) if places else np.arange(1, len(points) + 1)
    missing = np.isnan(points)
    gaps = tuple(
        ColumnGaps(column.name, count, column.fill)
        for column, count in zip(columns, missing.sum(axis=0).tolist(), strict=True)
        if count
    )
    points = filled(points, columns)
    kept = np.full(len(points), True) if scorer.takes_gaps else ~np.isnan(points).any(axis=1)
    wrong = lines.wrong_cells + lines.too_long
    called = dict(zip(rows.tolist(), names, strict=False))
    left_out, takes_gaps = rows[~kept], scorer.takes_gaps
    new = NewRecords(points[kept], rows[kept], left_out, gaps, takes_gaps, wrong, called)
    if not len(new.points) and (len(left_out) or wrong):
        raise InvalidData(f"No record can be scored. {' '.join(new.sentences())}")
    return new


def _values(cells: Any, declared: Column, dialect: CsvDialect) -> NDArray[np.float64]:
    """A column's numbers, or the places of its categories; NaN where nothing known is said."""
    values = values_of(cells, declared, dialect.marks)
    infinite = np.isinf(values)  # beyond every range, of which registration takes the end
    if not infinite.any() or not isinstance(declared, Numeric):
        return values
    return np.where(infinite, np.clip(values, declared.low, declared.high), values)
