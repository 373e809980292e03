"""A blurred grid that may be carried away: score new records against it, free, forever, offline.

Whatever is computed here looks at the released counts only, so none of it costs budget: scores, a
threshold, a merge with the grids of other holders, a file.
"""

from __future__ import annotations

import json
import math
import zipfile
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privod.data import Numeric
from privod.errors import InvalidData, InvalidParameter
from privod.outliers.grid import Grid, OccupiedCells, WalkScores
from privod.privacy import AddRemove, Guarantee, Number, exact, in_parallel
from privod.queries.count_query import COUNTS_CHANGED
from privod.queries.query import LARGEST_COUNT, whole_number

__all__ = ["NoisyGrid", "scored_points", "walk_depth"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Cells = NDArray[np.int32]

FORMAT = "privod grid"
VERSION = 1
MOST_BYTES = 2**30  # of a saved grid, unpacked
MOST_CENTERS = 500  # of the cells whose counts are noise, as many are scored for a threshold
MOST_WALKED = 2000  # cells in a walk for a threshold


@dataclass(frozen=True, eq=False)
class NoisyGrid:
    """Blurred counts of the cells of a grid: all of them, or those that reach `drop_below`.

    Guarantee
    ---------
    What `guarantee` says holds for the counts, and so for every score, threshold, merge or file
    made of them.

    Parameters
    ----------
    grid : Grid
        The columns with their ranges, and the number of cells per axis.
    counts : array of int
        A blurred count for every cell in order of index, or for every kept cell.
    cells : array of int, optional
        The kept cells, ascending, one row each; None where all cells are kept.
    drop_below : int, optional
        Cells whose blurred count stays below are dropped and count zero; None: none is dropped.
    guarantee : Guarantee
        The promise of the release.
    seeded : bool
        Whether the noise came from a test seed; such a grid protects nobody.
    """

    grid: Grid
    counts: Ints
    cells: Cells | None
    drop_below: int | None
    guarantee: Guarantee
    seeded: bool

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NoisyGrid):
            return NotImplemented
        mine, theirs = (replace(part, counts=_NONE, cells=None) for part in (self, other))
        if vars(mine) != vars(theirs) or not np.array_equal(self.counts, other.counts):
            return False
        if self.cells is None or other.cells is None:
            return self.cells is other.cells
        return np.array_equal(self.cells, other.cells)

    __hash__ = None  # type: ignore[assignment]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in the order that points have them."""
        return tuple(column.name for column in self.grid.columns)

    @property
    def total(self) -> int:
        """About how many records the grid stands for; less those in dropped cells."""
        return int(self.counts.sum())

    def scores(
        self, points: ArrayLike, n_neighbors: int = 5, max_depth: Number | None = None
    ) -> WalkScores:
        """Score new records; higher is more outlying.

        Parameters
        ----------
        points : array of shape (n, d)
            The records, with the grid's columns in its order; what lies outside a range is clipped.
        n_neighbors : int
            The walk ends when this many blurred records have been seen, at least 1.
        max_depth : number, optional
            How far the walk may go, center to center, in lengths of a range; None: to the end.
        """
        depth = walk_depth(n_neighbors, max_depth)
        asked = scored_points(points, self.grid.n_axes)
        if self.cells is None:
            return self.grid.walk(self.counts, asked, n_neighbors, depth)
        some = OccupiedCells(self.cells, self.counts)
        return self.grid.walk_some(some, asked, n_neighbors, depth)

    def threshold(
        self, target_fraction: float, n_neighbors: int = 5, max_depth: Number | None = None
    ) -> WalkScores:
        """The scores beyond which about this share of the reference records lie.

        Computed from the blurred grid alone: the centers of its cells are scored, and each stands
        for as many records as its blurred count says. Counts that noise alone could reach are not
        believed one by one: what the total has beyond the believed ones is spread over a sample of
        the other cells. Walks go some two thousand cells deep. Changing the share later is free.
        """
        if not 0 < target_fraction < 1:
            rule = "must lie between 0 and 1"
            raise InvalidParameter("target_fraction", rule, target_fraction, "Try 0.1.")
        cells, weights = self._weighted_cells()
        near = Fraction(self.grid.steps_within(MOST_WALKED), self.grid.cells_per_axis)
        depth = near if max_depth is None else min(near, exact(max_depth, "max_depth"))
        scores = self.scores(self.grid.centers_of(cells), n_neighbors, depth)
        limits = [np.array([_quantile(part, weights, 1 - target_fraction)]) for part in scores]
        return WalkScores(*limits)

    def _weighted_cells(self) -> tuple[Cells, Floats]:
        """Cells and the records each stands for: the believed ones, and a sample of the others."""
        believed = self.counts >= self._believable
        sure, others = np.flatnonzero(believed), np.flatnonzero(~believed)
        stride = max(1, math.ceil(len(others) / MOST_CENTERS))
        some = others[:: _coprime(stride, self.grid.cells_per_axis)]
        rest = max(0, self.total - int(self.counts[sure].sum()))
        shares = np.maximum(self.counts[some], 0)
        spread = shares * (rest / max(1, int(shares.sum())))
        chosen = np.concatenate([sure, some])
        cells = self.grid.cells_at(chosen) if self.cells is None else self.cells[chosen]
        return cells, np.concatenate([self.counts[sure].astype(np.float64), spread])

    @property
    def _believable(self) -> int:
        """The count from which on noise makes up about a hundredth of what is seen, or less."""
        if self.drop_below is not None:
            return self.drop_below
        scale = COUNTS_CHANGED[self.guarantee.adjacency] / float(self.guarantee.loss.epsilon)
        false_per_record = self.grid.n_cells / max(1, self.total)
        return max(1, math.ceil(scale * math.log(max(1.0, 100 * false_per_record))))

    def merge(self, *others: NoisyGrid) -> NoisyGrid:
        """Add up the grids of several holders, or of several batches: free post-processing.

        The promise of the sum counts on the records being disjoint, as those of different holders
        or of new batches are: under AddRemove it is the largest loss (parallel composition), under
        Replace too, since a replaced record stays where it is.
        """
        parts = (self, *others)
        for part in others:
            same = (part.grid, part.drop_below, part.guarantee.adjacency)
            if same != (self.grid, self.drop_below, self.guarantee.adjacency):
                raise InvalidData(
                    "Grids add up only with the same columns, ranges, cells per axis, drop_below"
                    " and adjacency. Ask for them alike."
                )
        losses = [Guarantee(part.guarantee.loss, AddRemove()) for part in parts]
        promise = Guarantee(in_parallel(losses).loss, self.guarantee.adjacency)
        marked = any(part.seeded for part in parts)
        if self.cells is None:
            counts = np.stack([part.counts for part in parts]).sum(axis=0, dtype=np.int64)
            return replace(self, counts=counts, guarantee=promise, seeded=marked)
        every = np.concatenate([part.cells for part in parts if part.cells is not None])
        cells, place = np.unique(every, axis=0, return_inverse=True)
        counts = np.zeros(len(cells), dtype=np.int64)
        np.add.at(counts, place.reshape(-1), np.concatenate([part.counts for part in parts]))
        return replace(self, cells=cells, counts=counts, guarantee=promise, seeded=marked)

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        data = {**self._header(), "counts": self.counts.tolist()}
        return data if self.cells is None else {**data, "cells": self.cells.tolist()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> NoisyGrid:
        """Read back what `to_json` wrote."""
        cells = data.get("cells")
        n_axes = len(data["columns"])
        return cls._checked(
            data,
            np.asarray(data["counts"], dtype=np.int64).reshape(-1),
            None if cells is None else np.asarray(cells, dtype=np.int32).reshape(-1, n_axes),
        )

    def save(self, path: str | Path) -> None:
        """Write one file: a zip of a JSON header and plain arrays, no pickle."""
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("grid.json", json.dumps(self._header(), indent=1))
            arrays = {"counts.npy": self.counts, "cells.npy": self.cells}
            for name, array in arrays.items():
                if array is not None:
                    with file.open(name, "w", force_zip64=True) as entry:
                        np.lib.format.write_array(entry, array, allow_pickle=False)

    @classmethod
    def load(cls, path: str | Path) -> NoisyGrid:
        """Read a file that `save` wrote; needs neither the data nor a curator."""
        try:
            with zipfile.ZipFile(path) as file:
                if sum(entry.file_size for entry in file.infolist()) > MOST_BYTES:
                    raise InvalidData(f"{path} is larger than any grid that privod saves.")
                header = json.loads(file.read("grid.json"))
                arrays = {}
                for name in ("counts.npy", "cells.npy"):
                    if name in file.namelist():
                        with file.open(name) as entry:
                            arrays[name] = np.lib.format.read_array(entry, allow_pickle=False)
            return cls._checked(header, arrays["counts.npy"], arrays.get("cells.npy"))
        except (zipfile.BadZipFile, KeyError, TypeError, ValueError) as problem:
            if isinstance(problem, InvalidData):
                raise
            raise InvalidData(f"{path} is not a grid that privod saved.") from None

    def _header(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "columns": [column.to_json() for column in self.grid.columns],
            "cells_per_axis": self.grid.cells_per_axis,
            "drop_below": self.drop_below,
            "guarantee": self.guarantee.to_json(),
            "seeded": self.seeded,
        }

    @classmethod
    def _checked(cls, header: dict[str, Any], counts: Any, cells: Any) -> NoisyGrid:
        """Build a grid of parts that came from outside."""
        if header.get("format") != FORMAT or header.get("version") != VERSION:
            found = f"{header.get('format')!r}, version {header.get('version')!r}"
            message = f"This reads {FORMAT!r}, version {VERSION}; the file is {found}."
            raise InvalidData(f"{message} Use the privod that wrote it.")
        columns = tuple(Numeric(**column) for column in header["columns"])
        grid = Grid(columns, header["cells_per_axis"])
        promise = Guarantee.from_json(header["guarantee"])
        threshold = header["drop_below"]
        damaged = InvalidData("The grid is damaged: its counts do not fit its cells.")
        if counts.dtype != np.int64 or counts.ndim != 1:
            raise damaged
        if threshold is None:
            if cells is not None or len(counts) != grid.n_cells:
                raise damaged
        else:
            whole_number(threshold, "drop_below", at_least=1)
            if (
                cells is None
                or cells.dtype != np.int32
                or cells.shape != (len(counts), len(columns))
            ):
                raise damaged
            outside = cells.size and (cells.min() < 0 or cells.max() >= grid.cells_per_axis)
            if outside or (counts < threshold).any() or not _ascending(cells):
                raise damaged
        return cls(grid, counts, cells, threshold, promise, bool(header["seeded"]))


def scored_points(points: ArrayLike, n_axes: int) -> Floats:
    """Read records to be scored: finite numbers, as many as there are axes."""
    try:
        asked = np.ascontiguousarray(points, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidData("points must be numbers. Give an array of numbers.") from None
    if asked.ndim != 2 or asked.shape[1] != n_axes:
        raise InvalidData(
            f"points must have {n_axes} columns, got an array of shape {asked.shape}."
            " Give one row per record, with the columns in order."
        )
    if not np.isfinite(asked).all():
        raise InvalidData("points must be finite. Drop or fill what is missing.")
    return asked


def walk_depth(n_neighbors: int, max_depth: Number | None) -> Fraction | None:
    """Read the two limits of a walk, and return its depth."""
    whole_number(n_neighbors, "n_neighbors", at_least=1, at_most=LARGEST_COUNT)
    depth = None if max_depth is None else exact(max_depth, "max_depth")
    if depth is not None and depth < 0:
        raise InvalidParameter("max_depth", "must be at least 0", max_depth, "Try 0.5.")
    return depth


_NONE: Ints = np.empty(0, dtype=np.int64)


def _quantile(scores: Floats, weights: Floats, share: float) -> float:
    """The smallest score that `share` of the weight does not pass."""
    if not len(scores):
        return 0.0
    ordered, place = np.unique(scores, return_inverse=True)
    upto = np.bincount(place, weights=weights).cumsum()
    reached = np.flatnonzero(upto >= share * upto[-1]) if upto[-1] > 0 else _NONE
    return float(ordered[reached[0]] if len(reached) else ordered[-1])


def _coprime(stride: int, cells_per_axis: int) -> int:
    """The next stride that shares no factor with the axes, so that it meets every interval."""
    while math.gcd(stride, cells_per_axis) > 1:
        stride += 1
    return stride


def _ascending(cells: Cells) -> bool:
    order = np.lexsort(cells.T[::-1])
    repeated = len(cells) > 1 and bool((np.diff(cells, axis=0) == 0).all(axis=1).any())
    return bool((order == np.arange(len(cells))).all()) and not repeated
