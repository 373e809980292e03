"""The same walk over a grid that holds only some cells, all others counting zero.

Counts kept are positive, so at most `n_neighbors` of the nearest kept cells decide. One scan over
the kept cells finds them in any number of dimensions; a cell is left as soon as it is too far.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["walk_sparse"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@njit(cache=True, nogil=True)
def _last_steps(place: Floats, own: Ints, cells_per_axis: int, max_steps: int) -> int:
    """Steps to the very last cell of the walk: the farthest within depth, ties by index.

    Goes through the axes and keeps, for every number of steps used, the farthest partial cell.
    """
    n_axes = place.size
    reach = 0
    for axis in range(n_axes):
        reach += max(own[axis], cells_per_axis - 1 - own[axis])
    reach = min(reach, max_steps)
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
def walk_sparse(
    points: Floats,
    lows: Floats,
    scales: Floats,
    cells_per_axis: int,
    cells: NDArray[np.int32],
    counts: Ints,
    n_neighbors: int,
    max_steps: int,
    basic: Ints,
    weighted: Ints,
    share: Floats,
) -> None:
    """Score each row as `walk_dense` would; `cells` ascend by index and `counts` are positive."""
    n_rows, n_axes = points.shape
    n_kept = counts.size
    edge = float(cells_per_axis)
    place = np.empty(n_axes)
    own = np.empty(n_axes, np.int64)
    held = min(n_neighbors, n_kept) + 1
    nearest = np.empty(held)
    which = np.empty(held, np.int64)
    for row in range(n_rows):
        for axis in range(n_axes):
            where = min(max((points[row, axis] - lows[axis]) * scales[axis], 0.0), edge)
            place[axis] = where
            own[axis] = int(min(where, edge - 1.0))
        size = 0
        bound = np.inf
        for kept in range(n_kept):
            distance = 0.0
            for axis in range(n_axes):
                distance += abs(place[axis] - (cells[kept, axis] + 0.5))
                if distance >= bound:
                    break
            if distance >= bound:  # as far and later by index: it comes after the walk's end
                continue
            if max_steps < n_axes * cells_per_axis:
                steps = 0
                for axis in range(n_axes):
                    steps += abs(cells[kept, axis] - own[axis])
                if steps > max_steps:
                    continue
            spot = size
            while spot > 0 and nearest[spot - 1] > distance:
                nearest[spot] = nearest[spot - 1]
                which[spot] = which[spot - 1]
                spot -= 1
            nearest[spot] = distance
            which[spot] = kept
            seen = 0
            size += 1
            for spot in range(size):
                seen += counts[which[spot]]
                if seen >= n_neighbors:
                    size = spot + 1
                    bound = nearest[spot]
                    break
        seen = 0
        total = 0
        last = 0
        for spot in range(size):
            steps = 0
            for axis in range(n_axes):
                steps += abs(cells[which[spot], axis] - own[axis])
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
