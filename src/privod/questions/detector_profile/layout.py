"""Where are the cells? Chosen from noisy counts and public declarations, never from rows."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from privod.arrays import Floats, Ints
from privod.data import Categorical, Column, Numeric
from privod.data.columns import column_from_json
from privod.errors import InvalidData, InvalidParameter
from privod.outliers.grid.kernels.profile import count_cells, put_in_octaves
from privod.query.count_query import FEWEST_BINS, MOST_BINS

LARGEST_END = 1e150  # of a range: the square of twice as much still is a float
LEAST_SCALE = 2.0**-600  # by which rows are divided: rows are whole steps of 2^-500
LARGEST_UNIT, LEAST_UNIT = 2.0**40, 2.0**-40  # of scores
MOST_OCTAVES = 600.0  # from the least unit that noisy counts find to the largest end


@dataclass(frozen=True)
class Reading:
    """How columns are read: as they are, or where one has a unit, in octaves from zero.

    One octave up to the unit, another one for each doubling, straight in between.
    """

    units: tuple[float, ...]

    def __call__(self, rows: Floats) -> Floats:
        """The rows as read; themselves where no column has a unit."""
        places = np.flatnonzero(self.units)
        if len(places):
            rows = np.array(rows)
            put_in_octaves(rows, places, 1 / np.array(self.units)[places])
        return rows

    def range_of(self, column: int, low: float, high: float) -> tuple[float, float]:
        """The range of a column as read."""
        both = Reading(self.units[column : column + 1])(np.array([[low], [high]]))
        return float(both[0, 0]), float(both[1, 0])

    def number(self, column: int, read: float) -> float:
        """What is read so."""
        if not self.units[column]:
            return read
        part, whole = math.modf(abs(read))
        return math.copysign(self.units[column] * (math.ldexp(1 + part, int(whole)) - 1), read)


class Axes(NamedTuple):
    """Columns as compiled loops see them: where cells begin, how many to a unit, the last one.

    Numeric columns have a cell below their range and one above, and after the last cell every
    column has one for what is missing.
    """

    origins: Floats
    scales: Floats
    tops: Ints
    starts: Ints

    @property
    def size(self) -> int:
        """How many cells there are in all."""
        return int(self.starts[-1])

    def counts(self, rows: Floats) -> Ints:
        """How many records lie in each cell, column after column; every record in one of each."""
        counts = np.zeros(self.size, dtype=np.int64)
        count_cells(rows, self.origins, self.scales, self.tops, self.starts, counts)
        return counts

    def cells_of(self, rows: Floats) -> Ints:
        """The cell of every value in its column."""
        with np.errstate(over="ignore"):
            cells = np.clip((rows - self.origins) * self.scales, 0, self.tops)
        return np.asarray(np.where(np.isnan(rows), self.tops + 1, cells).astype(np.int64))


def axes_of(
    columns: tuple[Column, ...], ranges: tuple[tuple[float, float], ...], bins: int
) -> Axes:
    """The cells of columns, the numeric ones cut into so many bins in these ranges."""
    origins, scales, tops = [], [], []
    spans = iter(ranges)
    for column in columns:
        if isinstance(column, Categorical):
            origin, scale, top = 0.0, 1.0, len(column.values) - 1
        else:
            low, high = next(spans)
            origin, scale, top = low - (high - low) / bins, bins / (high - low), bins + 1
        origins.append(origin)
        scales.append(scale)
        tops.append(top)
    starts = np.append(0, np.cumsum(np.array(tops) + 2))
    return Axes(np.array(origins), np.array(scales), np.array(tops), starts)


@dataclass(frozen=True)
class Layout:
    """The cells of every column, and by what products were scaled; public.

    Each numeric column is cut into `bins` in its range; two more lie beyond its ends, one is for
    missing values. One that has a unit is read in octaves (`Reading`); so are its range, center and
    scale then. Centers and scales are empty without products, `score_unit`, which stretches the
    bins of scores, is 0 where records were not counted by them. With `gaps` records might miss
    values of columns without a fill, as rows in memory may; a table drops such records.
    """

    columns: tuple[Column, ...]
    ranges: tuple[tuple[float, float], ...]
    bins: int
    centers: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()
    score_unit: float = 0.0
    gaps: bool = False
    units: tuple[float, ...] = ()

    @property
    def numeric(self) -> list[int]:
        """The places of the numeric columns."""
        return [at for at, column in enumerate(self.columns) if isinstance(column, Numeric)]

    @property
    def places(self) -> Ints:
        """The same as an array."""
        return np.array(self.numeric, dtype=np.int64)

    @cached_property
    def reading(self) -> Reading:
        """How all columns are read."""
        units = np.zeros(len(self.columns))
        units[self.numeric] = self.units or 0.0
        return Reading(tuple(units.tolist()))

    @property
    def declared(self) -> list[tuple[float, float]]:
        """The declared ranges of the numeric columns, as read."""
        numeric = [(at, one) for at, one in enumerate(self.columns) if isinstance(one, Numeric)]
        return [self.reading.range_of(at, one.low, one.high) for at, one in numeric]

    def number(self, place: int, read: float) -> float:
        """What a column reads so; no farther out than declared, however floats are rounded."""
        column, found = self.columns[place], self.reading.number(place, read)
        if not self.reading.units[place] or not isinstance(column, Numeric):
            return found
        return min(max(found, column.low), column.high)

    @cached_property
    def axes(self) -> Axes:
        """The cells of all columns."""
        return axes_of(self.columns, self.ranges, self.bins)

    @property
    def starts(self) -> list[int]:
        """Where each column's cells begin, and where the last ones end."""
        return [int(start) for start in self.axes.starts]

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values; what is not so is left out, as before it could be so."""
        return {
            "columns": [column.to_json() for column in self.columns],
            "ranges": [list(pair) for pair in self.ranges],
            "bins": self.bins,
            "centers": list(self.centers),
            "scales": list(self.scales),
            **({"score_unit": self.score_unit} if self.score_unit else {}),
            **({"gaps": True} if self.gaps else {}),
            **({"units": list(self.units)} if self.units else {}),
        }

    @property
    def text(self) -> str:
        """Everything in one line, which a question takes."""
        return json.dumps(self.to_json(), sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, data: Any) -> Layout:
        """Read back what `to_json` wrote; it may come from anywhere."""
        columns = tuple(map(column_from_json, data["columns"]))
        ranges = tuple((float(low), float(high)) for low, high in data["ranges"])
        centers, scales = (tuple(map(float, data[name])) for name in ("centers", "scales"))
        unit, gaps = float(data.get("score_unit", 0.0)), data.get("gaps", False)
        units = tuple(map(float, data.get("units", ())))
        found = cls(columns, ranges, data["bins"], centers, scales, unit, gaps, units)
        wrong = InvalidData("The cells do not fit the columns.")
        if unit and not LEAST_UNIT <= unit <= LARGEST_UNIT:
            raise _outside(f"a score_unit of 0 or from {LEAST_UNIT} to {LARGEST_UNIT}", unit)
        if type(gaps) is not bool:
            raise wrong
        if len({column.name for column in columns}) != len(columns) or not columns:
            raise wrong
        if type(found.bins) is not int or not FEWEST_BINS <= found.bins <= MOST_BINS:
            raise wrong
        n_numeric = len(found.numeric)
        if len(ranges) != n_numeric or len(centers) not in (0, n_numeric):
            raise wrong
        if len(scales) != len(centers) or len(units) not in (0, n_numeric):
            raise wrong
        if not all(unit == 0 or LEAST_SCALE <= unit <= LARGEST_END for unit in units):
            raise _outside(f"units of 0 or from {LEAST_SCALE} to {LARGEST_END}", max(units))
        read = zip(found.numeric, units, (max(map(abs, pair)) for pair in ranges), strict=False)
        far = [(at, end) for at, unit, end in read if unit]
        if any(
            end > MOST_OCTAVES or found.reading.number(at, end) > 2 * LARGEST_END for at, end in far
        ):
            raise wrong
        if not all(LEAST_SCALE <= scale <= LARGEST_END for scale in scales):
            raise _outside(f"scales from {LEAST_SCALE} to {LARGEST_END}", min(scales))
        ends = [end for pair in (*ranges, centers) for end in pair]
        if not all(abs(end) <= LARGEST_END for end in ends):
            raise _outside(f"ranges and centers within {LARGEST_END} of zero", max(ends, key=abs))
        widths = [(high - low) / found.bins for low, high in ranges]
        if not all(width > 0 and math.isfinite(1 / width) for width in widths):
            raise wrong
        return found


def _outside(rule: str, value: float) -> InvalidParameter:
    """What is said of a number that no release has."""
    return InvalidParameter("layout", f"must have {rule}", value, "Take it from a release.")
