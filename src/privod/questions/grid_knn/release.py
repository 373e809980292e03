"""A noisy grid that may be carried away: score new records against it, free, forever, offline.

Whatever is computed here looks at the released counts only, so none of it costs budget: scores, a
threshold, a merge with the grids of other holders, a file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privod.arrays import Floats, Ints
from privod.data import Numeric
from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms.merged import MergedNoise
from privod.outliers.grid.folds import OccupiedCells
from privod.outliers.grid.grid import Grid, WalkScores, different
from privod.privacy import Guarantee, Number, exact
from privod.query.checks import LARGEST_COUNT, checked_truth, one_of, whole_number
from privod.query.count_query import NoisyTotal
from privod.query.release_file import ArrayOf, check_counts, checked_columns, checked_promise
from privod.query.scorer import Scorable, Scorer
from privod.query.scores import check_fraction, limit, scored_points

Cells = NDArray[np.int32]

FALSE_SHARE = 0.01  # of the records, from which on a count that noise alone reaches is believed
FEWEST_PLACES, MOST_PLACES = 200, 2000  # scored for a threshold ...
MOST_COMPARED = 50_000_000  # ... by how many pairs of such a place and a kept cell there are
MOST_WALKED = 100_000  # cells in a walk from one, where all cells are held


@dataclass(frozen=True, eq=False)
class NoisyGrid(Scorable):
    """Noisy counts of the cells of a grid: all of them, or those that reach `drop_below`.

    Guarantee
    ---------
    What `guarantee` says holds for the counts and `records` together, and so for every score,
    threshold, merge or file made of them.

    `counts` are of every cell in order of index, or of the kept `cells`, ascending, one row each.
    `noise` is that of each count: one draw, or in a merged grid one for every part. `records` says
    how many records there are, where cells are dropped; all counts together say it otherwise.
    """

    question = "grid-knn"
    added = ("noise", "records")

    grid: Grid
    counts: Ints
    cells: Cells | None
    drop_below: int | None
    guarantee: Guarantee
    seeded: bool
    noise: MergedNoise
    records: NoisyTotal | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # no cache

    @property
    def columns(self) -> tuple[Numeric, ...]:
        return self.grid.columns

    @property
    def total(self) -> int:
        """About how many records the grid stands for; in dropped cells too, where it was bought."""
        return int(self.counts.sum()) if self.records is None else self.records.count

    def scorer(self, **settings: Any) -> GridScorer:
        """Score records by a walk with these settings: n_neighbors, max_depth, score_by."""
        return GridScorer.chosen(self, settings)

    def scores(self, records: ArrayLike) -> Floats:
        return self.scorer().scores(records)

    def threshold(self, share: float) -> float:
        return self.scorer().threshold(share)

    def walk(
        self, points: ArrayLike, n_neighbors: int = 5, max_depth: Number | None = None
    ) -> WalkScores:
        """Walk outward from each point's cell [Rauch 2021]; a point outside a range is clipped.

        The walk ends when `n_neighbors` noisy records have been seen, or at `max_depth`, center to
        center in lengths of a range; None: at the end of the grid.
        """
        depth = walk_depth(n_neighbors, max_depth)
        asked = self.grid.cells_of(scored_points(points, self.grid.n_axes))
        cells, numbers = different(asked)
        if self.cells is None:
            walked = self.grid.walk(self.counts, cells, n_neighbors, depth)
        else:
            some = OccupiedCells(self.cells, self.counts)
            walked = self.grid.walk_some(some, cells, n_neighbors, depth)
        return WalkScores(*(part[numbers] for part in walked))

    @cached_property
    def believed(self) -> Ints:
        """The places of the counts that are more than noise, but for about a record in 100.

        Noise alone reaches a count in so many of the cells that hold nobody.
        """
        seen = FALSE_SHARE * max(1, self.total)
        least = self.noise.scale * (math.log(self.grid.n_cells) - math.log(seen))
        return np.flatnonzero(self.counts >= max(1.0, least))

    @property
    def hidden_share(self) -> float:
        """About which share of the records lies in cells that cannot be told from noise."""
        seen = int(self.counts[self.believed].sum())
        return max(0.0, 1 - seen / max(1, self.total))

    def alike(self) -> tuple[Any, ...]:
        """What grids must have in common, so that the sum's noise says its promise."""
        split = self.records and self.records.noise.least_scale / self.noise.least_scale
        return self.grid, self.drop_below, self.guarantee.adjacency, split

    def plus(self, other: Self) -> dict[str, Any]:
        """The sums of the counts, of every cell that one of the two keeps."""
        summed = super().plus(other)
        if self.cells is None or other.cells is None:
            return {**summed, "counts": self.counts + other.counts}
        every = np.concatenate([self.cells, other.cells])
        cells, place = np.unique(every, axis=0, return_inverse=True)
        counts = np.zeros(len(cells), dtype=np.int64)
        np.add.at(counts, place.reshape(-1), np.concatenate([self.counts, other.counts]))
        return {**summed, "cells": cells, "counts": counts}

    def header(self) -> dict[str, Any]:
        return {
            "columns": [column.to_json() for column in self.grid.columns],
            "cells_per_axis": self.grid.cells_per_axis,
            "drop_below": self.drop_below,
            "records": None if self.records is None else self.records.to_json(),
            "noise": self.noise.to_json(),
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"counts": self.counts} | ({} if self.cells is None else {"cells": self.cells})

    @classmethod
    def build(cls, header: dict[str, Any], array: ArrayOf) -> Self:
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
            ascending = (np.lexsort(cells.T[::-1]) == np.arange(len(cells))).all()
            repeated = len(cells) > 1 and (np.diff(cells, axis=0) == 0).all(axis=1).any()
            if outside or (counts < threshold).any() or not ascending or repeated:
                raise InvalidData("The counts do not fit the cells that are declared.")
            records = NoisyTotal.from_json(header["records"])
        check_counts(counts)
        promise, noise = checked_promise(header, 1, None if records is None else records.noise)
        seeded = checked_truth(header["seeded"])
        return cls(grid, counts, cells, threshold, promise, seeded, noise, records)


@dataclass(frozen=True, eq=False)
class GridScorer(Scorer[NoisyGrid]):
    """Scores records by how far the walk from their cell goes, and how far outside they lie.

    Every record of a cell has the score of its middle: the order of a walk from the record itself
    would tell where in the cell it lies. Outside the ranges a record is scored at their border,
    plus how far outside it lies, in whole cells.

    Parameters
    ----------
    n_neighbors : int
        The walk ends when this many noisy records have been seen, at least 1.
    max_depth : number, optional
        How far the walk may go, in lengths of a range; None: to the end.
    score_by : {"graded", "basic", "weighted"}
        "basic" and "weighted" are the paper's; "graded" spreads the steps of "basic".
    """

    n_neighbors: int = 5
    max_depth: Number | None = None
    score_by: Literal["graded", "basic", "weighted"] = "graded"

    def __post_init__(self) -> None:
        walk_depth(self.n_neighbors, self.max_depth)
        one_of(self.score_by, "score_by", WalkScores._fields)

    def scores(self, records: ArrayLike) -> Floats:
        """The score of each record's cell."""
        grid = self.value.grid
        asked = scored_points(records, grid.n_axes)
        walked = self.value.walk(asked, self.n_neighbors, self.max_depth)
        found: Floats = getattr(walked, self.score_by)
        # In whole cells: where in a cell a record lies says nothing.
        return found + np.ceil(grid.overshoot(asked) * grid.cells_per_axis) / grid.cells_per_axis

    def threshold(self, share: float) -> float:
        """The score beyond which about this share of the reference lies, from the grid alone.

        A quantile of the scores of cells, each weighted by its count where that is more than noise.
        Records that noise hides are in the emptiest cells: they are taken to lie farther out. So a
        share below `hidden_share` is a guess.
        """
        check_fraction(share)
        value, grid = self.value, self.value.grid
        depth = walk_depth(self.n_neighbors, self.max_depth)
        cells = np.zeros((1, grid.n_axes), np.int32)  # of nobody, as far as can be seen
        if len(value.believed):
            upto = value.counts[value.believed].cumsum()
            most = MOST_COMPARED // len(value.counts) if value.cells is not None else MOST_PLACES
            size = min(max(most, FEWEST_PLACES), MOST_PLACES)
            steps = (np.arange(size) + 0.5) / size * upto[-1]
            chosen = value.believed[np.searchsorted(upto, steps)]
            cells = grid.cells_at(chosen) if value.cells is None else value.cells[chosen]
        if value.cells is None:  # a walk through noise can be as long as the grid is large
            near = Fraction(grid.steps_within(MOST_WALKED), grid.cells_per_axis)
            depth = near if depth is None else min(near, depth)
        walked = value.walk(grid.centers_of(cells), self.n_neighbors, depth)
        hidden = min(value.hidden_share, 1 - 1e-9)
        target = max(0.0, (share - hidden) / (1 - hidden))
        return limit(getattr(walked, self.score_by), target)


def walk_depth(n_neighbors: int, max_depth: Number | None) -> Fraction | None:
    """Read the two limits of a walk, and return its depth."""
    whole_number(n_neighbors, "n_neighbors", at_least=1, at_most=LARGEST_COUNT)
    depth = None if max_depth is None else exact(max_depth, "max_depth")
    if depth is not None and depth < 0:
        raise InvalidParameter("max_depth", "must be at least 0", max_depth, "Try 0.5.")
    return depth
