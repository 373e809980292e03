"""Which cells lie near a point, and where does a walk over them end? One point at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Ints
from privod.outliers.grid.grid import Grid


def offsets_within(n_axes: int, widest: int, most: int) -> NDArray[np.int32]:
    """Every pattern of at most so many steps, `widest` on an axis, ascending by where it leads."""
    rows = np.zeros((1, 0), dtype=np.int32)
    left = np.full(1, most, dtype=np.int64)
    for _ in range(n_axes):
        reach = np.minimum(left, widest)
        repeats = 2 * reach + 1
        starts = np.repeat(np.cumsum(repeats) - repeats, repeats)
        step = np.arange(repeats.sum()) - starts - np.repeat(reach, repeats)
        rows = np.column_stack([np.repeat(rows, repeats, axis=0), step.astype(np.int32)])
        left = np.repeat(left, repeats) - np.abs(step)
    return rows


def cells_around(
    grid: Grid, point: NDArray[np.float64], offsets: NDArray[np.int32]
) -> tuple[NDArray[np.int32], Ints]:
    """The cells that a walk from a point visits, in order, and how many steps each is away."""
    cells = grid.cells_of(point[None])[0] + offsets
    inside = ((cells >= 0) & (cells < grid.cells_per_axis)).all(axis=1)
    cells, steps = cells[inside], np.abs(offsets[inside]).sum(axis=1)
    order = np.argsort(grid.distances(point, cells), kind="stable")  # offsets ascend
    return cells[order], steps[order]


def walk_scores(counts: Ints, steps: Ints, n_neighbors: int) -> tuple[int, int, float]:
    """Where a walk over cells ends, what it met weighted by steps, and the share of its last."""
    seen = counts.cumsum()
    end = int(np.argmax(seen >= n_neighbors)) if seen.max() >= n_neighbors else len(seen) - 1
    last = int(counts[end])
    short = n_neighbors - (int(seen[end]) - last)
    share = short / last if seen[end] >= n_neighbors else 1.0
    steps = steps[: end + 1]
    return int(steps[-1]), int((counts[: end + 1] * steps).sum()), share
