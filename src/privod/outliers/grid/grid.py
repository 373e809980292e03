"""A uniform grid over public ranges, its cell counts, and the walk outward from a point [Rauch].

Every column is mapped linearly onto [0, 1] and cut into `cells_per_axis` equal intervals. A cell's
score is read off a walk over the cells in ascending L1 distance from its middle to theirs, ties by
cell index, that ends as soon as the counts add up to `n_neighbors`. No noise here: the counts may
be exact or noisy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Floats, Ints
from privod.data import Numeric
from privod.data.binning import Equal
from privod.data.folding import Block, folded_in_threads
from privod.errors import InvalidParameter
from privod.outliers.grid.folds import AllCells, OccupiedCells, SomeCells
from privod.outliers.grid.kernels.alike import number_alike
from privod.outliers.grid.kernels.counts import cell_rows, overshoot_rows
from privod.outliers.grid.kernels.walks import Buckets, Walked, walk_all, walk_some
from privod.threads import in_threads

Cells = NDArray[np.int32]

MOST_CELLS_PER_AXIS = 1_000_000
FARTHEST = 1e6  # range lengths outside a range past which farther makes no difference
FEWEST_BUCKETS = 256
INSIDE = 2.0**-20  # of a cell: a point on a border lies in its own cell, by more than sums round
ROWS_PER_CHUNK = 8192  # small enough to share scoring work evenly between threads


class WalkScores(NamedTuple):
    """What the walk says of each point, in lengths of the unit range; higher is more outlying."""

    basic: Floats
    """How far the last visited cell is from the own one, center to center."""

    weighted: Floats
    """The sum of those lengths over all visited cells, each times its count."""

    graded: Floats
    """`basic`, plus the part of one cell that had to be filled to find the last neighbor.

    Basic scores come in steps of a cell; this one spreads the records of the last cell over such a
    step, so that points in fuller surroundings score lower.
    """


@dataclass(frozen=True)
class Grid:
    """The public geometry: columns with their ranges, and into how many equal cells each is cut."""

    columns: tuple[Numeric, ...]
    cells_per_axis: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        count = self.cells_per_axis
        if isinstance(count, bool) or not isinstance(count, int) or count < 2:
            raise InvalidParameter("cells_per_axis", "must be at least 2", count, "Try 10.")
        if count > MOST_CELLS_PER_AXIS:
            rule = f"must be at most {MOST_CELLS_PER_AXIS}"
            raise InvalidParameter("cells_per_axis", rule, count, "Try 10.")
        if not self.columns:
            raise InvalidParameter("columns", "must not be empty", (), "Name a numeric column.")
        for column in self.columns:
            column.check_range()

    @property
    def n_axes(self) -> int:
        """How many columns span the grid."""
        return len(self.columns)

    @property
    def n_cells(self) -> int:
        """How many cells there are: a plain integer of any size."""
        return int(self.cells_per_axis**self.n_axes)

    @cached_property
    def _lows(self) -> Floats:
        return np.array([column.low for column in self.columns])

    @cached_property
    def _scales(self) -> Floats:
        """Cells to a unit, by the one binning rule; finite: no range is narrower than 2^-500."""
        return np.array([self._scale(column) for column in self.columns])

    def _scale(self, column: Numeric) -> float:
        return Equal(column.low, column.high, self.cells_per_axis).scale

    def counting(self) -> AllCells:
        """The fold that counts the rows of each of the n_cells cells."""
        return AllCells(*self._axes)

    def listing(self) -> SomeCells:
        """The fold that lists the occupied cells, however many cells there are."""
        return SomeCells(*self._axes)

    @property
    def _axes(self) -> tuple[tuple[str, ...], tuple[float, ...], tuple[float, ...], int]:
        names = tuple(column.name for column in self.columns)
        lows = tuple(column.low for column in self.columns)
        return names, lows, tuple(map(self._scale, self.columns)), self.cells_per_axis

    def all_counts(self, points: Floats) -> Ints:
        """How many points each of the n_cells cells holds, by cell index."""
        return folded_in_threads(self.counting(), len(points), _between(points))

    def occupied_counts(self, points: Floats) -> OccupiedCells:
        """The occupied cells, ascending, and their counts, however many cells there are."""
        fold = self.listing()
        return fold.cells(folded_in_threads(fold, len(points), _between(points)))

    def cells_of(self, points: Floats) -> Cells:
        """Each point's cell, one small number for every axis."""
        cells = np.empty((len(points), self.n_axes), dtype=np.int32)
        cell_rows(points, self._lows, self._scales, self.cells_per_axis, cells)
        return cells

    def cells_at(self, indices: Sequence[int] | Ints) -> Cells:
        """The cells of these indices: their digits, the last axis' the lowest."""
        rest = np.array(indices, dtype=self._index_type)
        cells = np.empty((len(rest), self.n_axes), dtype=np.int32)
        for axis in range(self.n_axes - 1, -1, -1):
            rest, cells[:, axis] = rest // self.cells_per_axis, rest % self.cells_per_axis
        return cells

    def occupied_of(self, counts: Ints) -> OccupiedCells:
        """The cells that do not count zero, ascending, of the counts of all."""
        indices = np.flatnonzero(counts)
        return OccupiedCells(self.cells_at(indices), counts[indices])

    def indices_of(self, cells: Cells) -> NDArray[Any]:
        """The index of each cell, as Python's own integers where 64 bits are too few."""
        indices = np.zeros(len(cells), dtype=self._index_type)
        for axis in range(self.n_axes):
            indices = indices * self.cells_per_axis + cells[:, axis]
        return indices

    @property
    def _index_type(self) -> type[Any]:
        return np.int64 if self.n_cells < 2**63 else object  # Python's own integers have any size

    def centers_of(self, cells: Cells) -> Floats:
        """The middle of each cell, in the columns' own units."""
        widths = np.array([column.high - column.low for column in self.columns])
        centers: Floats = self._lows + (cells + 0.5) / self.cells_per_axis * widths
        return centers

    def overshoot(self, points: Floats) -> Floats:
        """How far outside the ranges each point lies, L1, in lengths of the ranges, up to a cap."""
        widths = np.array([column.high - column.low for column in self.columns])
        found = np.empty(len(points))
        overshoot_rows(points, self._lows, widths, FARTHEST, found)
        return found

    def distances(self, point: Floats, cells: Cells) -> Floats:
        """L1 distance of one point to the center of each cell, in cells, added axis by axis."""
        own = self.cells_of(point[None])[0]
        with np.errstate(over="ignore"):  # what is too far for a float is clipped
            place = np.clip((point - self._lows) * self._scales, own + INSIDE, own + 1 - INSIDE)
        total = np.zeros(len(cells))
        for axis in range(self.n_axes):
            total += np.abs(place[axis] - (cells[:, axis] + 0.5))
        return total

    def max_steps(self, max_depth: Fraction | None) -> int:
        """How many steps from cell to cell a depth allows; a step is 1 / cells_per_axis long."""
        farthest = self.n_axes * self.cells_per_axis
        if max_depth is None:
            return farthest
        return min(farthest, int(max_depth * self.cells_per_axis))

    def steps_within(self, most_cells: int) -> int:
        """The most steps, at least one, that lead from a cell to no more than so many cells."""
        steps = 1
        while steps < self.n_axes * self.cells_per_axis:
            if cells_within(self.n_axes, steps + 1) > most_cells:
                break
            steps += 1
        return steps

    def walk(
        self, counts: Ints, cells: Cells, n_neighbors: int, max_depth: Fraction | None = None
    ) -> WalkScores:
        """Score cells against the counts of all."""
        if counts.min() >= 0 and counts.sum() < n_neighbors:  # no walk can end early: list none
            return self.walk_some(self.occupied_of(counts), cells, n_neighbors, max_depth)
        return self._score(walk_all, counts, cells, n_neighbors, max_depth)

    def walk_some(
        self, some: OccupiedCells, cells: Cells, n_neighbors: int, max_depth: Fraction | None = None
    ) -> WalkScores:
        """Score cells against some with positive counts; all others count zero."""
        return self._score(walk_some, self._buckets(some), cells, n_neighbors, max_depth)

    def _buckets(self, some: OccupiedCells) -> Buckets:
        """The cells by what their first few axes say."""
        cells = some.cells
        prefix, n_buckets = 0, 1
        most = max(FEWEST_BUCKETS, len(cells))
        while prefix < self.n_axes and n_buckets * self.cells_per_axis <= most:
            prefix, n_buckets = prefix + 1, n_buckets * self.cells_per_axis
        keys = np.zeros(len(cells), dtype=np.int64)
        for axis in range(prefix):
            keys = keys * self.cells_per_axis + cells[:, axis]
        starts = np.searchsorted(keys, np.arange(n_buckets + 1)).astype(np.int64)
        return Buckets(cells, some.counts, prefix, starts)

    def _score(
        self,
        walk: Callable[..., None],
        held: Ints | Buckets,
        cells: Cells,
        n_neighbors: int,
        max_depth: Fraction | None,
    ) -> WalkScores:
        n, per_axis, steps = len(cells), self.cells_per_axis, self.max_steps(max_depth)
        basic, weighted, share = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n)

        def score_chunk(chunk: int) -> None:
            rows = slice(chunk * ROWS_PER_CHUNK, (chunk + 1) * ROWS_PER_CHUNK)
            walked = Walked(basic[rows], weighted[rows], share[rows])
            walk(cells[rows], per_axis, held, n_neighbors, steps, walked)

        in_threads(score_chunk, -(-n // ROWS_PER_CHUNK))
        return WalkScores(basic / per_axis, weighted / per_axis, (basic + share) / per_axis)


def _between(points: Floats) -> Callable[[int, int], list[Block]]:
    nothing = np.empty((len(points), 0), dtype=np.int64)
    return lambda start, end: [Block(points[start:end], nothing[start:end])]


def different(cells: Cells) -> tuple[Cells, Ints]:
    """Each cell once, and which of them every given one is."""
    n_slots = 2 << len(cells).bit_length()  # at most half of them are taken
    firsts, numbers = np.empty(len(cells), np.int64), np.empty(len(cells), np.int64)
    n_different = number_alike(cells, np.full(n_slots, -1), firsts, numbers)
    return cells[firsts[:n_different]], numbers


def cells_within(n_axes: int, steps: int) -> int:
    """How many cells of an endless grid are at most so many steps away: a count of patterns."""
    return sum(
        math.comb(n_axes, moved) * math.comb(steps, moved) * 2**moved
        for moved in range(min(n_axes, steps) + 1)
    )
