"""A noisy grid that may be carried away: score new records against it, free, forever, offline.

Whatever is computed here looks at the released counts only, so none of it costs budget: scores, a
threshold, a merge with the grids of other holders, a file.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms.merged import MergedNoise
from privod.outliers.grid.grid import Grid, OccupiedCells, WalkScores
from privod.privacy import Guarantee, Number, exact
from privod.privacy.guarantee import merged_promise
from privod.query.checks import LARGEST_COUNT, checked_truth, whole_number
from privod.query.count_query import NoisyTotal
from privod.query.release_file import (
    ArrayOf,
    build_from_file,
    build_from_json,
    check_counts,
    checked_columns,
    checked_promise,
    signed,
    write_file,
)
from privod.query.scores import check_fraction, scored_points
from privod.questions.grid_knn.threshold import (
    Places,
    limits,
    limits_of_walks,
    places_of_all,
    places_of_kept,
)

__all__ = ["NoisyGrid", "walk_depth"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Cells = NDArray[np.int32]

KIND = "grid"


@dataclass(frozen=True, eq=False)
class NoisyGrid:
    """Noisy counts of the cells of a grid: all of them, or those that reach `drop_below`.

    Guarantee
    ---------
    What `guarantee` says holds for the counts and `records` together, and so for every score,
    threshold, merge or file made of them.

    Parameters
    ----------
    grid : Grid
        The columns with their ranges, and the number of cells per axis.
    counts : array of int
        A noisy count for every cell in order of index, or for every kept cell.
    cells : array of int, optional
        The kept cells, ascending, one row each; None where all cells are kept.
    drop_below : int, optional
        Cells whose noisy count stays below are dropped and count zero; None: none is dropped.
    guarantee : Guarantee
        The promise of the release.
    seeded : bool
        Whether the noise came from a test seed; such a grid protects nobody.
    noise : MergedNoise
        The noise of each count: one draw, or in a merged grid one for every part.
    records : NoisyTotal, optional
        How many records there are, where cells are dropped. All counts together say it otherwise.
    """

    grid: Grid
    counts: Ints
    cells: Cells | None
    drop_below: int | None
    guarantee: Guarantee
    seeded: bool
    noise: MergedNoise
    records: NoisyTotal | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NoisyGrid):
            return NotImplemented
        pairs = [(getattr(self, field.name), getattr(other, field.name)) for field in fields(self)]
        return all(
            np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs
            for mine, theirs in pairs
        )

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # no cache

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in the order that points have them."""
        return tuple(column.name for column in self.grid.columns)

    @property
    def total(self) -> int:
        """About how many records the grid stands for; in dropped cells too, where it was bought."""
        return int(self.counts.sum()) if self.records is None else self.records.count

    def scores(
        self, points: ArrayLike, n_neighbors: int = 5, max_depth: Number | None = None
    ) -> WalkScores:
        """Score new records; higher is more outlying.

        Parameters
        ----------
        points : array of shape (n, d)
            The records, with the grid's columns in its order; what lies outside a range is clipped.
        n_neighbors : int
            The walk ends when this many noisy records have been seen, at least 1.
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

        Computed from the noisy grid alone: as many points as can be are placed where the counts
        show records to be, and scored. Scores come in steps; of the two shares next to the one
        asked for, the nearer is taken. A share below `hidden_share` is a guess, since the records
        it is about cannot be told from noise. Changing the share later is free.
        """
        check_fraction(target_fraction)
        depth = walk_depth(n_neighbors, max_depth)

        def walked(points: Floats, depth: Fraction | None) -> WalkScores:
            return self.scores(points, n_neighbors, depth)

        if self.cells is not None:
            scores = walked(self.places.points, depth)
            return limits(scores, np.ones(len(scores.basic)), target_fraction)
        return limits_of_walks(self.grid, self.places.points, walked, depth, target_fraction)

    @property
    def hidden_share(self) -> float:
        """About which share of the records lies in cells that cannot be told from noise."""
        return self.places.hidden_share

    @cached_property
    def places(self) -> Places:
        """Where the reference records lie, as far as the counts show it."""
        if self.cells is None:
            return places_of_all(self.grid, self.counts, self.noise)
        deviation = 0.0 if self.records is None else self.records.noise.deviation
        return places_of_kept(self.grid, self.cells, self.counts, self.noise, self.total, deviation)

    def merge(self, *others: NoisyGrid) -> NoisyGrid:
        """Add up the grids of several holders, or of several batches: free post-processing.

        The promise of the sum counts on the records being disjoint, as those of different holders
        or of new batches are: under AddRemove it is the largest loss (parallel composition), under
        Replace too, since a replaced record stays where it is.
        """
        parts = (self, *others)
        for part in others:
            if not isinstance(part, NoisyGrid) or part._shape != self._shape:
                raise InvalidData(
                    "Grids add up only with the same columns, ranges, cells per axis, drop_below,"
                    " adjacency and share of epsilon for the number of records. Ask for them"
                    " alike."
                )
        promise = merged_promise([part.guarantee for part in parts])
        noise, records = self.noise, self.records
        for part in others:
            noise = noise + part.noise
            if records is not None and part.records is not None:
                records = records + part.records
        merged = replace(
            self,
            guarantee=promise,
            seeded=any(part.seeded for part in parts),
            noise=noise,
            records=records,
        )
        if self.cells is None:
            counts = np.stack([part.counts for part in parts]).sum(axis=0, dtype=np.int64)
            return replace(merged, counts=counts)
        every = np.concatenate([part.cells for part in parts if part.cells is not None])
        cells, place = np.unique(every, axis=0, return_inverse=True)
        counts = np.zeros(len(cells), dtype=np.int64)
        np.add.at(counts, place.reshape(-1), np.concatenate([part.counts for part in parts]))
        return replace(merged, cells=cells, counts=counts)

    @property
    def _shape(self) -> tuple[object, ...]:
        """What grids must have in common to add up, so that the sum's noise says its promise."""
        split = self.records and self.records.noise.least_scale / self.noise.least_scale
        return self.grid, self.drop_below, self.guarantee.adjacency, split

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        data = {**signed(KIND), **self._header(), "counts": self.counts.tolist()}
        return data if self.cells is None else {**data, "cells": self.cells.tolist()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> NoisyGrid:
        """Read back what `to_json` wrote."""
        return build_from_json(data, KIND, cls._built)

    def save(self, path: str | Path) -> None:
        """Write one file: a zip of a JSON header and plain arrays, no pickle."""
        write_file(path, KIND, self._header(), {"counts": self.counts, "cells": self.cells})

    @classmethod
    def load(cls, path: str | Path) -> NoisyGrid:
        """Read a file that `save` wrote; needs neither the data nor a curator."""
        return build_from_file(path, KIND, cls._built)

    def _header(self) -> dict[str, Any]:
        return {
            "columns": [column.to_json() for column in self.grid.columns],
            "cells_per_axis": self.grid.cells_per_axis,
            "drop_below": self.drop_below,
            "records": None if self.records is None else self.records.to_json(),
            "guarantee": self.guarantee.to_json(),
            "noise": self.noise.to_json(),
            "seeded": self.seeded,
        }

    @classmethod
    def _built(cls, header: dict[str, Any], array: ArrayOf) -> NoisyGrid:
        """Build a grid of parts that came from outside."""
        grid = Grid(checked_columns(header["columns"]), header["cells_per_axis"])
        threshold, cells, records = header["drop_below"], None, None
        if threshold is None:
            if "cells" in header or header["records"] is not None:
                raise InvalidData("All cells are kept, and some are named, or counted apart.")
            counts = array("counts", "<i8", (grid.n_cells,))
        else:
            whole_number(threshold, "drop_below", at_least=1)
            counts = array("counts", "<i8", (None,))
            cells = array("cells", "<i4", (len(counts), grid.n_axes))
            outside = cells.size and (cells.min() < 0 or cells.max() >= grid.cells_per_axis)
            if outside or (counts < threshold).any() or not _ascending(cells):
                raise InvalidData("The counts do not fit the cells that are declared.")
            records = NoisyTotal.from_json(header["records"])
        check_counts(counts)
        promise, noise = checked_promise(header, 1, None if records is None else records.noise)
        seeded = checked_truth(header["seeded"])
        return cls(grid, counts, cells, threshold, promise, seeded, noise, records)


def walk_depth(n_neighbors: int, max_depth: Number | None) -> Fraction | None:
    """Read the two limits of a walk, and return its depth."""
    whole_number(n_neighbors, "n_neighbors", at_least=1, at_most=LARGEST_COUNT)
    depth = None if max_depth is None else exact(max_depth, "max_depth")
    if depth is not None and depth < 0:
        raise InvalidParameter("max_depth", "must be at least 0", max_depth, "Try 0.5.")
    return depth


def _ascending(cells: Cells) -> bool:
    order = np.lexsort(cells.T[::-1])
    repeated = len(cells) > 1 and bool((np.diff(cells, axis=0) == 0).all(axis=1).any())
    return bool((order == np.arange(len(cells))).all()) and not repeated
