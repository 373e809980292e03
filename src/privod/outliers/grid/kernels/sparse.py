"""The same walk over a grid that holds only some cells, all others counting zero.

Counts kept are positive, so at most `n_neighbors` of the nearest kept cells decide. The kept cells
ascend by index, so those that agree in their first few axes lie side by side: a bucket. The buckets
are gone through from the near to the far, axis by axis; a bucket or a cell is left as soon as it
must be too far. This works in any number of dimensions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privod.compiling import njit
from privod.outliers.grid.kernels.walks import Axes, Walked, cell_on, place_in

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SLACK = 1e-9  # buckets are left only when they are too far by more than rounding can explain


class Buckets(NamedTuple):
    """The kept cells, ascending by index, with positive counts.

    `starts` says where the bucket of each combination of the first `prefix` axes begins.
    """

    cells: NDArray[np.int32]
    counts: Ints
    prefix: int
    starts: Ints


@njit(cache=True, nogil=True)
def _last_steps(place: Floats, own: Ints, cells_per_axis: int, max_steps: int) -> int:
    """Steps to the very last cell of the walk: the farthest within depth, ties by index.

    Goes through the axes and keeps, for every number of steps used, the farthest partial cell.
    """
    n_axes = place.size
    top = cells_per_axis - 1
    reach = 0
    steps = 0
    for axis in range(n_axes):
        reach += max(own[axis], top - own[axis])
        to_top = abs(place[axis] - (top + 0.5)) >= abs(place[axis] - 0.5)
        steps += top - own[axis] if to_top else own[axis]
    if max_steps >= reach:  # no limit: each axis may go to its farther end
        return steps
    reach = max_steps
    best = np.full(reach + 1, -1.0)
    chosen = np.zeros((reach + 1, n_axes), np.int64)
    best[0] = 0.0
    for axis in range(n_axes):
        grown = np.full(reach + 1, -1.0)
        grown_chosen = np.zeros((reach + 1, n_axes), np.int64)
        for used in range(reach + 1):
            if best[used] < 0.0:
                continue
            low = max(0, own[axis] - (reach - used))
            high = min(cells_per_axis - 1, own[axis] + (reach - used))
            for cell in range(low, high + 1):
                distance = best[used] + abs(place[axis] - (cell + 0.5))
                steps = used + abs(cell - own[axis])
                better = distance > grown[steps]
                if distance == grown[steps]:
                    better = cell > grown_chosen[steps, axis]
                    for before in range(axis):
                        if chosen[used, before] != grown_chosen[steps, before]:
                            better = chosen[used, before] > grown_chosen[steps, before]
                            break
                if better:
                    grown[steps] = distance
                    grown_chosen[steps, :axis] = chosen[used, :axis]
                    grown_chosen[steps, axis] = cell
        best = grown
        chosen = grown_chosen
    last = 0
    for steps in range(1, reach + 1):
        better = best[steps] > best[last]
        if best[steps] == best[last]:
            for axis in range(n_axes):
                if chosen[steps, axis] != chosen[last, axis]:
                    better = chosen[steps, axis] > chosen[last, axis]
                    break
        if better:
            last = steps
    return last


@njit(cache=True, nogil=True)
def _by_distance(place: float, own: int, near: Floats, cell: Ints) -> None:
    """List all cells of one axis by ascending distance to `place`."""
    low, high = own, own + 1
    for rank in range(cell.size):
        below = abs(place - (low + 0.5)) if low >= 0 else np.inf
        above = abs(place - (high + 0.5)) if high < cell.size else np.inf
        if below <= above:
            near[rank] = below
            cell[rank] = low
            low -= 1
        else:
            near[rank] = above
            cell[rank] = high
            high += 1


@njit(cache=True, nogil=True)
def _insert(
    distance: float,
    kept: int,
    size: int,
    n_neighbors: int,
    counts: Ints,
    nearest: Floats,
    which: Ints,
) -> int:
    """Put a cell among the nearest, in order of (distance, index), and cut what is not needed."""
    spot = size
    while spot > 0 and (
        nearest[spot - 1] > distance or (nearest[spot - 1] == distance and which[spot - 1] > kept)
    ):
        nearest[spot] = nearest[spot - 1]
        which[spot] = which[spot - 1]
        spot -= 1
    nearest[spot] = distance
    which[spot] = kept
    seen = 0
    for spot in range(size + 1):
        seen += counts[which[spot]]
        if seen >= n_neighbors:
            return spot + 1
    return -(size + 1)  # negative: not yet enough


@njit(cache=True, nogil=True)
def _find(own: Ints, prefix: int, low: int, high: int, cells: NDArray[np.int32]) -> int:
    """Where `own` is among the cells of its bucket, low to high - 1, by halving; -1 if nowhere."""
    while low < high:
        middle = (low + high) // 2
        axis = prefix
        while axis < own.size and cells[middle, axis] == own[axis]:
            axis += 1
        if axis == own.size:
            return middle
        if cells[middle, axis] < own[axis]:
            low = middle + 1
        else:
            high = middle
    return -1


@njit(cache=True, nogil=True)
def walk_sparse(
    points: Floats,
    grid: Axes,
    kept_cells: Buckets,
    n_neighbors: int,
    max_steps: int,
    walked: Walked,
) -> None:
    """Score each row as `walk_dense` would."""
    cells_per_axis = grid.cells_per_axis
    cells, counts, prefix, starts = kept_cells
    basic, weighted, share = walked
    n_rows, n_axes = points.shape
    limited = max_steps < n_axes * cells_per_axis
    place = np.empty(n_axes)
    own = np.empty(n_axes, np.int64)
    near = np.empty((prefix, cells_per_axis))
    cell = np.empty((prefix, cells_per_axis), np.int64)
    least = np.zeros(n_axes + 1)
    turn = np.zeros(prefix + 1, np.int64)
    partial = np.zeros(prefix + 1)
    bucket = np.zeros(prefix + 1, np.int64)
    held = min(n_neighbors, counts.size) + 1
    nearest = np.empty(held)
    which = np.empty(held, np.int64)
    for row in range(n_rows):
        own_bucket = 0
        for axis in range(n_axes):
            own[axis] = cell_on(grid, axis, points[row, axis])
            if axis < prefix:
                own_bucket = own_bucket * cells_per_axis + own[axis]
        kept = _find(own, prefix, starts[own_bucket], starts[own_bucket + 1], cells)
        if kept >= 0 and counts[kept] >= n_neighbors:
            basic[row] = 0  # the own cell comes first and is enough: most inliers end here
            weighted[row] = 0
            share[row] = n_neighbors / counts[kept]
            continue
        for axis in range(n_axes - 1, -1, -1):
            place[axis] = place_in(grid, axis, points[row, axis], own[axis])
            least[axis] = least[axis + 1] + abs(place[axis] - (own[axis] + 0.5))
        for axis in range(prefix):
            _by_distance(place[axis], own[axis], near[axis], cell[axis])
        size = 0
        bound = np.inf
        axis = 0
        turn[0] = 0
        while axis >= 0:
            if axis < prefix:
                rank = turn[axis]
                turn[axis] += 1
                if rank >= cells_per_axis:
                    axis -= 1
                    continue
                so_far = partial[axis] + near[axis, rank]
                if so_far + least[axis + 1] > bound + SLACK:
                    axis -= 1
                    continue
                partial[axis + 1] = so_far
                bucket[axis + 1] = bucket[axis] * cells_per_axis + cell[axis, rank]
                axis += 1
                turn[axis] = 0
                continue
            for kept in range(starts[bucket[prefix]], starts[bucket[prefix] + 1]):
                distance = partial[prefix]
                for later in range(prefix, n_axes):
                    distance += abs(place[later] - (cells[kept, later] + 0.5))
                    if distance > bound:
                        break
                if distance > bound:
                    continue
                if limited:
                    steps = 0
                    for each in range(n_axes):
                        steps += abs(cells[kept, each] - own[each])
                    if steps > max_steps:
                        continue
                if bound < np.inf and distance == bound and kept > which[size - 1]:
                    continue
                size = _insert(distance, kept, size, n_neighbors, counts, nearest, which)
                if size > 0:
                    bound = nearest[size - 1]
                else:
                    size = -size
            axis -= 1
        seen = 0
        total = 0
        last = 0
        for spot in range(size):
            steps = 0
            for each in range(n_axes):
                steps += abs(cells[which[spot], each] - own[each])
            count = counts[which[spot]]
            seen += count
            total += count * steps
            last = steps
            share[row] = (n_neighbors - (seen - count)) / count
        if seen < n_neighbors:
            share[row] = 1.0
            last = _last_steps(place, own, cells_per_axis, max_steps)
        basic[row] = last
        weighted[row] = total
