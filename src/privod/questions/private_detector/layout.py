"""Where are the cells? Chosen from noisy counts and public declarations, never from rows.

Declared ranges may be a hundred times too wide. A noisy histogram of public geometric bins shows
where the records of a column are, and its range is cut down to there. What a column's own bins
cannot show above their noise, the bins of all columns together may: those who declare one range too
wide declare others so. Which is bought, how many bins a column gets and whether products
of columns are worth their noise follows from the bought number of records, epsilon and the number
of columns. DOUBT, LEAST_WORTH and the number of bins were chosen by benchmarks/choose_detector.py,
which also says how good such a choice is on sets that it was not made by.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.data import Categorical, Column, Numeric
from privod.errors import InvalidData
from privod.outliers.grid.grid import Grid
from privod.outliers.grid.kernels.geometric import count_in_bins
from privod.query.count_query import FEWEST_BINS, MOST_BINS

__all__ = ["LARGEST_END", "GeometricBins", "Layout", "moments_pay", "sharpened", "sharpening_pays"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LARGEST_END = 1e150  # of a range: the square of twice as much still is a float
PARTS = 2  # bins to an octave
TAIL = 0.01  # of the records may lie beyond a sharpened end ...
TAIL_TOGETHER = 0.05  # ... or beyond an end that all columns share
DOUBT = 0.5  # deviations of noise that bins must exceed to be believed: cutting off costs more
RUNS = (1, 2, 4, 8)  # bins taken together ...
MOST_SUMMED = 64  # ... of a range with more bins than these
MARGIN = 0.25  # of a sharpened range, added at both ends
LEAST_WORTH = 5.0  # records to a noise scale of the bins below which they show nothing
MOMENTS_COST = 2.5  # noise of products grows so fast with the columns: their square, and a spectrum


@dataclass(frozen=True)
class GeometricBins:
    """Public bins of a declared range: halvings about zero, or about the end nearest to zero.

    Parameters
    ----------
    low, high : float
        The declared range.
    octaves : int
        How often the range is halved.
    """

    low: float
    high: float
    octaves: int

    @property
    def zero(self) -> float:
        """What the bins narrow down to."""
        return min(max(0.0, self.low), self.high)

    @property
    def edges(self) -> Floats:
        """The ends of all bins, ascending."""
        numbers = np.arange(self.octaves * PARTS)
        sizes = 0.5 ** (numbers // PARTS) * (1 - 0.5 * (numbers % PARTS) / PARTS)
        sizes = np.append(sizes, 0.5**self.octaves)  # farthest first
        below = [self.zero - sizes * (self.zero - self.low)] if self.low < self.zero else []
        above = [self.zero + sizes[::-1] * (self.high - self.zero)] if self.high > self.zero else []
        return np.concatenate([*below, [self.zero], *above])

    @property
    def steps(self) -> Ints:
        """The octave of every bin, 0 the farthest from zero."""
        steps = np.append(np.arange(self.octaves * PARTS) // PARTS, self.octaves)
        sides = [steps] * (self.low < self.zero) + [steps[::-1]] * (self.high > self.zero)
        return np.concatenate(sides)

    def counts(self, values: Floats) -> Ints:
        """How many values lie in each bin."""
        counts = np.zeros(len(self.steps), dtype=np.int64)
        below, above = self.zero - self.low, self.high - self.zero
        values = np.clip(values, self.low, self.high)
        count_in_bins(values, self.zero, below, above, self.octaves, PARTS, counts)
        return counts

    def cut(self, octave: int) -> tuple[float, float]:
        """The range less the octaves before this one."""
        share = 0.5**octave
        return (
            self.zero + (self.low - self.zero) * share,
            self.zero + (self.high - self.zero) * share,
        )


def sharpening_pays(records: float, scale: float) -> bool:
    """Whether geometric bins whose counts have noise of this scale can show anything."""
    return records >= LEAST_WORTH * scale


def moments_pay(records: float, epsilon: float, n_numeric: int) -> bool:
    """Whether sums of products say more than their noise, at this loss."""
    return n_numeric > 1 and n_numeric**MOMENTS_COST < records * epsilon


def sharpened(
    declared: list[GeometricBins], noisy: list[Ints], records: float, scale: float
) -> list[tuple[float, float]]:
    """The declared ranges, cut down to where the noisy counts of their bins show records."""
    deviation = scale * math.sqrt(2)
    ranges: list[tuple[float, float] | None] = [
        _own_range(bins, counts, records, deviation)
        for bins, counts in zip(declared, noisy, strict=True)
    ]
    octave = _shared_octave(declared, noisy, records, deviation) if None in ranges else 0
    return [
        bins.cut(octave) if own is None else own for bins, own in zip(declared, ranges, strict=True)
    ]


def _own_range(
    bins: GeometricBins, counts: Ints, records: float, deviation: float
) -> tuple[float, float] | None:
    """From the first to the last bin where more records lie than noise explains."""
    first = _first_believed(counts.astype(np.float64), TAIL * records, deviation)
    last = _first_believed(counts[::-1].astype(np.float64), TAIL * records, deviation)
    if first is None or last is None:
        return None
    first, last = sorted((first, len(counts) - 1 - last))
    low, high = float(bins.edges[first]), float(bins.edges[last + 1])
    margin = MARGIN * (high - low)
    return max(low - margin, bins.low), min(high + margin, bins.high)


def _shared_octave(
    declared: list[GeometricBins], noisy: list[Ints], records: float, deviation: float
) -> int:
    """The first octave from the top with records in it, by the bins of all columns."""
    together = np.zeros(declared[0].octaves + 1)
    for bins, counts in zip(declared, noisy, strict=True):
        np.add.at(together, bins.steps, counts)
    summed = sum(len(counts) for counts in noisy) / len(together)
    needed = TAIL_TOGETHER * records * len(declared)
    return _first_believed(together, needed, deviation * math.sqrt(summed)) or 0


def _first_believed(counts: Floats, needed: float, deviation: float) -> int | None:
    """The first place up to which, or from which on in a short run, more lies than noise explains.

    Counts are added up from the end. Over many places their noise walks far, so there runs of
    one, two, four or eight are looked at, and the more there are, the more one must hold.
    """
    if len(counts) <= MOST_SUMMED:
        needs = needed + DOUBT * deviation * np.sqrt(np.arange(1, len(counts) + 1))
        passing = np.flatnonzero(counts.cumsum() > needs)
        return int(passing[0]) if len(passing) else None
    doubt = math.sqrt(2 * math.log(len(counts)))  # so far the largest of as many strays
    best = None
    for size in RUNS:
        if size > len(counts):
            break
        sums = np.convolve(counts, np.ones(size), "valid")
        found = np.flatnonzero(sums > needed + doubt * deviation * math.sqrt(size))
        if len(found):
            start = int(found[0])
            end = start + size - 1
            while start < end and counts[start] <= deviation:  # empty, as far as one can tell
                start += 1
            best = start if best is None else min(best, start)
    return best


@dataclass(frozen=True)
class Layout:
    """The cells of every column, and by what products were scaled; public.

    Parameters
    ----------
    columns : tuple of Numeric or Categorical
        As declared.
    ranges : tuple of (float, float)
        Of the numeric columns, in their order.
    bins : int
        Into how many bins each of them is cut; two more lie beyond its ends, one is for missing
        values.
    centers, scales : tuple of float
        Of the numeric columns, for the sums of products; empty without them.
    scored : bool
        Whether the records were counted by their scores, too.
    gaps : bool
        Whether records might miss values of columns without a fill, and were counted as such: so
        it is for rows in memory, while a table drops these records.
    """

    columns: tuple[Column, ...]
    ranges: tuple[tuple[float, float], ...]
    bins: int
    centers: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()
    scored: bool = False
    gaps: bool = False

    @property
    def numeric(self) -> list[int]:
        """The places of the numeric columns."""
        return [at for at, column in enumerate(self.columns) if isinstance(column, Numeric)]

    @property
    def sizes(self) -> list[int]:
        """How many cells each column has."""
        return [
            len(column.values) + 1 if isinstance(column, Categorical) else self.bins + 3
            for column in self.columns
        ]

    @property
    def starts(self) -> list[int]:
        """Where each column's cells begin, and where the last ones end."""
        return [0, *np.cumsum(self.sizes).tolist()]

    @property
    def grid(self) -> Grid:
        """The bins of the numeric columns, the two beyond the ends included."""
        axes = []
        for place, (low, high) in zip(self.numeric, self.ranges, strict=True):
            width = (high - low) / self.bins
            axes.append(Numeric(self.columns[place].name, low - width, high + width))
        return Grid(tuple(axes), self.bins + 2)

    def counts(self, rows: Floats) -> Ints:
        """How many records lie in each cell, column after column; every record in one of each."""
        counts = np.zeros(self.starts[-1], dtype=np.int64)
        axes = iter(self.grid.columns) if self.numeric else iter(())
        for place, start in enumerate(self.starts[:-1]):
            values = np.ascontiguousarray(rows[:, place])
            missing = np.isnan(values)
            n_missing = int(missing.sum())
            known = values[~missing] if n_missing else values
            own = counts[start : start + self.sizes[place]]
            if isinstance(self.columns[place], Numeric):
                own[:-1] = Grid((next(axes),), self.bins + 2).all_counts(known[:, None])
            else:
                own[:-1] = np.bincount(known.astype(np.int64), minlength=len(own) - 1)
            own[-1] = n_missing
        return counts

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values; what is not so is left out, as before it could be so."""
        return {
            "columns": [column.to_json() for column in self.columns],
            "ranges": [list(pair) for pair in self.ranges],
            "bins": self.bins,
            "centers": list(self.centers),
            "scales": list(self.scales),
            **({"scored": True} if self.scored else {}),
            **({"gaps": True} if self.gaps else {}),
        }

    @property
    def text(self) -> str:
        """Everything in one line, which a question takes."""
        return json.dumps(self.to_json(), sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, data: Any) -> Layout:
        """Read back what `to_json` wrote; it may come from anywhere."""
        columns = tuple(
            Categorical(**{**entry, "values": tuple(entry["values"])})
            if "values" in entry
            else Numeric(**entry)
            for entry in data["columns"]
        )
        ranges = tuple((float(low), float(high)) for low, high in data["ranges"])
        centers, scales = (tuple(map(float, data[name])) for name in ("centers", "scales"))
        scored, gaps = (data.get(name, False) for name in ("scored", "gaps"))
        found = cls(columns, ranges, data["bins"], centers, scales, scored, gaps)
        wrong = InvalidData("The cells do not fit the columns.")
        if type(scored) is not bool or type(gaps) is not bool:
            raise wrong
        if len({column.name for column in columns}) != len(columns) or not columns:
            raise wrong
        if type(found.bins) is not int or not FEWEST_BINS <= found.bins <= MOST_BINS:
            raise wrong
        n_numeric = len(found.numeric)
        if len(ranges) != n_numeric or len(centers) not in (0, n_numeric):
            raise wrong
        finite = all(map(math.isfinite, (*centers, *scales)))
        if len(scales) != len(centers) or not finite or any(scale <= 0 for scale in scales):
            raise wrong
        ends = [end for pair in (*ranges, centers) for end in pair]
        if not all(abs(end) <= LARGEST_END for end in ends):
            raise wrong
        if n_numeric:
            found.grid  # noqa: B018 - refuses ranges that are none
        return found
