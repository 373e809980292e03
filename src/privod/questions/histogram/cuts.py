"""Where a histogram cuts a column: at given edges, by powers, or by the calendar; and its gaps."""

from __future__ import annotations

from datetime import date
from itertools import pairwise
from typing import Any

import numpy as np

from privod.data import Categorical, Column, Date, Ordinal
from privod.data.binning import Binning, Codes, Edges, Equal, GapCodes, Ranks, WithGaps
from privod.errors import InvalidParameter
from privod.query.axes import Axis

MONTHS = {"month": 1, "quarter": 3, "year": 12}
WORDS = ("log", *MONTHS)
MOST_CELLS = 1_000_000  # each is named and written out: some seconds, 300 MB
MOST_EDGES = 10_000
GAPS = ("missing", "below", "above")
FORM = "Write {'amount': [0, 10, 100], 'day': 'month'}; the words are log, month, quarter, year."
Cut = tuple[Any, ...]


def read_edges(given: Any) -> tuple[Cut, ...]:
    """Read edges by column, or the canonical form: (column, edge, ...) or (column, word)."""
    rows: Any = given.items() if isinstance(given, dict) else None
    if rows is None:
        if not isinstance(given, list | tuple) or not all(
            isinstance(row, list | tuple) and len(row) >= 2 for row in given
        ):
            raise InvalidParameter("edges", "must be given by column", given, FORM)
        rows = ((row[0], row[1] if row[1:2] and row[1] in WORDS else row[1:]) for row in given)
    found: dict[str, Cut] = {}
    for name, cut in rows:
        if not isinstance(name, str) or name in found:
            raise InvalidParameter("edges", "must name each column once", name, FORM)
        if isinstance(cut, str):
            if cut not in WORDS:
                raise InvalidParameter("edges", "has a word that is not known", cut, FORM)
            found[name] = (name, cut)
            continue
        if not isinstance(cut, list | tuple) or not 2 <= len(cut) <= MOST_EDGES:
            rule = f"must be 2 to {MOST_EDGES} edges for {name!r}"
            raise InvalidParameter("edges", rule, cut, FORM)
        shown = [edge.isoformat() if isinstance(edge, date) else edge for edge in cut]
        if any(isinstance(edge, bool) or not isinstance(edge, str | int | float) for edge in shown):
            raise InvalidParameter("edges", "must be numbers or dates", cut, FORM)
        found[name] = (name, *shown)
    return tuple(found[name] for name in sorted(found))


def axis_of(column: Column, bins: int, cut: Cut, gaps: bool) -> Axis:
    """One side of the histogram; an error if the column cannot be cut so."""
    axis = Axis.of(column, bins) if not cut else _cut(column, bins, cut)
    if not gaps:
        return axis
    more = GAPS if axis.edges else GAPS[:1]
    return Axis(axis.column, (*axis.names, *more), axis.edges)


def axis_size(column: Column, bins: int, cut: Cut, gaps: bool) -> int:
    """How many cells a side has; those of equal intervals need not be named for that."""
    named = cut and (cut[1] != "log" or bins <= MOST_CELLS)  # more are refused
    if named or isinstance(column, Categorical | Ordinal):
        return len(axis_of(column, bins, cut, gaps).names)
    column.check_range()  # before a charge: an axis would refuse it only afterwards
    return bins + (len(GAPS) if gaps else 0)


def _cut(column: Column, bins: int, cut: Cut) -> Axis:
    if isinstance(column, Categorical | Ordinal):
        rule = f"must be of columns of numbers or dates, not of {column.name!r}"
        raise InvalidParameter("edges", rule, column.name, "Leave it out: its values are cells.")
    if cut[1] in MONTHS:
        return _calendar(column, MONTHS[cut[1]])
    if cut[1] == "log":
        if isinstance(column, Date) or column.low <= 0:
            rule = f"must not be log for {column.name!r}, whose range does not lie above 0"
            raise InvalidParameter("edges", rule, "log", "Give the edges themselves.")
        edges = np.geomspace(column.low, column.high, bins + 1).tolist()
        edges[0], edges[-1] = column.low, column.high
    else:
        edges = [column.number(edge) for edge in cut[1:]]
    if any(low >= high for low, high in pairwise(edges)):
        rule = f"must increase for {column.name!r}"
        raise InvalidParameter("edges", rule, cut[1:], "Put them in order, each once.")
    names = tuple(f"{low} to {high}" for low, high in pairwise(map(column.shown, edges)))
    return Axis(column.name, names, tuple(edges))


def _calendar(column: Column, months: int) -> Axis:
    """Months, quarters or years of a column of dates."""
    if not isinstance(column, Date):
        rule = f"must be of a column of dates, not of {column.name!r}"
        raise InvalidParameter("edges", rule, column.name, "Declare it as a date.")
    first, last = (date.fromisoformat(column.shown(end)[:10]) for end in (column.low, column.high))
    start = (first.year * 12 + first.month - 1) // months * months
    end = last.year * 12 + last.month - 1
    if (end - start) // months > MOST_EDGES:
        raise InvalidParameter("edges", f"gives more than {MOST_EDGES} cells", months, "Try year.")
    starts = range(start, end + 1, months)
    edges = [column.number(f"{at // 12:04d}-{at % 12 + 1:02d}-01") for at in starts]
    names = {1: "{0:04d}-{1:02d}", 3: "{0:04d} Q{2}", 12: "{0:04d}"}[months]
    shown = [names.format(at // 12, at % 12 + 1, at % 12 // 3 + 1) for at in starts]
    edges = [max(edges[0], column.low), *edges[1:], column.high]
    if edges[-1] <= edges[-2]:  # the last month begins on the last day
        edges[-1] = edges[-2] + 1
    return Axis(column.name, tuple(shown), tuple(edges))


def binning_of(column: Column, axis: Axis, cut: Cut, gaps: bool) -> Binning:
    """The rule that counts the records of an axis."""
    if not axis.edges:
        size = len(axis.names) - (1 if gaps else 0)
        if isinstance(column, Ordinal):
            return WithGaps(Ranks(size), 1) if gaps else Ranks(size)
        return GapCodes(size + 1) if gaps else Codes(size)
    size = len(axis.names) - (len(GAPS) if gaps else 0)
    inner: Binning = Edges(axis.edges) if cut else Equal(axis.edges[0], axis.edges[-1], size)
    return WithGaps(inner, len(GAPS)) if gaps else inner
