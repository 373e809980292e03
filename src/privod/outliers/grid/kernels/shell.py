"""List the cells of a grid that lie between two distances from a point: a shell.

All lengths are in cells: cell i of an axis has its center at i + 0.5. A cell is a head, its place
along all but the last three axes, and a tail, its place along those. The tails are listed once for
a shell and put into pigeonholes by distance; then the heads are gone through, and each takes its
tails from the few pigeonholes that complete it. Distances are added up in the order of the axes, so
every listing of the same cells gives the same floats and ties.

What a walk holds is few plain arrays of several columns, named below: bundles of many arrays would
have their references counted at every call, which takes longer than to list a small shell.

near: an axis' cells by ascending distance, as far as needed; cell: their numbers and steps;
bound and state: what is known of each axis; gaps and tails: the tails as listed [0] and as sorted
[1]; ends: of each pigeonhole; distance and cells: the cells of a shell, in the order of listing.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = [
    "ID",
    "LEAST",
    "LISTED",
    "MOST",
    "PIGEONHOLES",
    "SLACK",
    "STEPS",
    "STRIDE",
    "TAIL_AXES",
    "list_axes",
    "list_shell",
    "list_tails",
    "restart",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SLACK = 1e-9  # cells are left out early only if they miss by more than rounding can explain
TAIL_AXES = 3
PIGEONHOLES = 64

ID, STEPS = 0, 1  # columns of cell, tails, cells: number or index, steps from the point's own cell
HOLE = 2  # of tails
LEAST, MOST = 0, 1  # of bound: what this axis and the later ones add to a distance
SO_FAR = 2  # of bound: the distance that a head has from the axes before
LISTED, BELOW, ABOVE = 0, 1, 2  # of state: how many cells are listed, the next ones on either side
STRIDE, TURN = 3, 4  # of state: of the index; the cell that a head takes next
HEAD_ID, HEAD_STEPS = 5, 6  # of state: what a head has from the axes before


@njit(cache=True, nogil=True)
def restart(place: Floats, own: Ints, padding: int, bound: Floats, state: Ints) -> None:
    """Forget the last point's lists and bound the distances of this one's.

    The first `padding` axes only fill up the tails: they have one cell, at no distance.
    """
    edge = float(state[own.size - 2, STRIDE])  # cells per axis
    for axis in range(own.size - 1, -1, -1):
        least, most = 0.0, 0.0
        if axis >= padding:
            tied = own[axis] > 0 and place[axis] == own[axis]  # the cell below is exactly as near
            state[axis, LISTED] = 0
            state[axis, BELOW] = own[axis] - tied
            state[axis, ABOVE] = own[axis] + 1 - tied
            least = abs(place[axis] - (own[axis] + 0.5))
            most = max(abs(place[axis] - 0.5), abs(place[axis] - (edge - 0.5)))
        bound[axis, LEAST] = bound[axis + 1, LEAST] + least
        bound[axis, MOST] = bound[axis + 1, MOST] + most


@njit(cache=True, nogil=True)
def list_axes(
    place: Floats, own: Ints, padding: int, reach: float, near: Floats, cell: Ints, state: Ints
) -> None:
    """List the cells of each axis by ascending distance, until one is beyond `reach`."""
    n_cells = near.shape[1]
    for axis in range(padding, own.size):
        count = state[axis, LISTED]
        low = state[axis, BELOW]
        high = state[axis, ABOVE]
        while count < n_cells and (count == 0 or near[axis, count - 1] <= reach):
            below = abs(place[axis] - (low + 0.5)) if low >= 0 else np.inf
            above = abs(place[axis] - (high + 0.5)) if high < n_cells else np.inf
            if below <= above:  # a tie goes to the smaller index
                near[axis, count] = below
                cell[axis, count, ID] = low
                low -= 1
            else:
                near[axis, count] = above
                cell[axis, count, ID] = high
                high += 1
            cell[axis, count, STEPS] = abs(cell[axis, count, ID] - own[axis])
            count += 1
        state[axis, LISTED] = count
        state[axis, BELOW] = low
        state[axis, ABOVE] = high


@njit(cache=True, nogil=True)
def _sort_tails(size: int, gaps: Floats, tails: Ints, ends: Ints) -> None:
    """Put the listed tails in order of pigeonholes, whose sizes `ends` holds at first."""
    start = 0
    for hole in range(PIGEONHOLES):
        start += ends[hole]
        ends[hole] = start - ends[hole]
    for tail in range(size):
        hole = tails[0, tail, HOLE]
        spot = ends[hole]
        ends[hole] = spot + 1
        for axis in range(TAIL_AXES):
            gaps[1, spot, axis] = gaps[0, tail, axis]
        tails[1, spot, ID] = tails[0, tail, ID]
        tails[1, spot, STEPS] = tails[0, tail, STEPS]


@njit(cache=True, nogil=True)
def list_tails(
    inner: float,
    outer: float,
    near: Floats,
    cell: Ints,
    bound: Floats,
    state: Ints,
    gaps: Floats,
    tails: Ints,
    ends: Ints,
) -> tuple[float, float]:
    """List the tails that a cell of the shell can have.

    Returns where the pigeonholes begin and how many there are per length, or 0 for want of room.
    """
    x = near.shape[0] - TAIL_AXES
    y, z = x + 1, x + 2
    heads_least = bound[0, LEAST] - bound[x, LEAST]
    heads_most = bound[0, MOST] - bound[x, MOST]
    lowest = max(bound[x, LEAST], inner - heads_most) - 2.0 * SLACK
    highest = min(bound[x, MOST], outer - heads_least) + 2.0 * SLACK
    holes_per_length = PIGEONHOLES / (highest - lowest)
    for hole in range(PIGEONHOLES):
        ends[hole] = 0
    size = 0
    for i in range(state[x, LISTED]):
        along_x = near[x, i]
        if along_x + bound[y, LEAST] > highest:
            break
        for j in range(state[y, LISTED]):
            along_y = along_x + near[y, j]
            if along_y + bound[z, LEAST] > highest:
                break
            if along_y + bound[z, MOST] < lowest:
                continue
            index = cell[x, i, ID] * state[x, STRIDE] + cell[y, j, ID] * state[y, STRIDE]
            for k in range(state[z, LISTED]):
                gap = along_y + near[z, k]
                if gap > highest:
                    break
                if gap < lowest:
                    continue
                if size < gaps.shape[1]:
                    hole = min(int((gap - lowest) * holes_per_length), PIGEONHOLES - 1)
                    gaps[0, size, 0] = along_x
                    gaps[0, size, 1] = near[y, j]
                    gaps[0, size, 2] = near[z, k]
                    tails[0, size, ID] = index + cell[z, k, ID]
                    steps = cell[x, i, STEPS] + cell[y, j, STEPS] + cell[z, k, STEPS]
                    tails[0, size, STEPS] = steps
                    tails[0, size, HOLE] = hole
                    ends[hole] += 1
                size += 1
    if size > gaps.shape[1]:
        return lowest, 0.0
    _sort_tails(size, gaps, tails, ends)
    return lowest, holes_per_length


@njit(cache=True, nogil=True)
def list_shell(
    inner: float,
    outer: float,
    max_steps: int,
    lowest: float,
    holes_per_length: float,
    near: Floats,
    cell: Ints,
    bound: Floats,
    state: Ints,
    gaps: Floats,
    tails: Ints,
    ends: Ints,
    distance: Floats,
    cells: Ints,
) -> int:
    """Write the cells with inner < distance <= outer within depth; -1 for want of room."""
    last = near.shape[0] - TAIL_AXES
    found = 0
    axis = 0
    state[0, TURN] = 0
    while axis >= 0:
        if axis < last:
            step = state[axis, TURN]
            state[axis, TURN] = step + 1
            if step >= state[axis, LISTED]:
                axis -= 1
                continue
            so_far = bound[axis, SO_FAR] + near[axis, step]
            if so_far + bound[axis + 1, LEAST] > outer + SLACK:
                axis -= 1
                continue
            steps = state[axis, HEAD_STEPS] + cell[axis, step, STEPS]
            if so_far + bound[axis + 1, MOST] < inner - SLACK or steps > max_steps:
                continue
            index = state[axis, HEAD_ID] + cell[axis, step, ID] * state[axis, STRIDE]
            axis += 1
            bound[axis, SO_FAR] = so_far
            state[axis, HEAD_ID] = index
            state[axis, HEAD_STEPS] = steps
            state[axis, TURN] = 0
            continue
        head = bound[last, SO_FAR]
        missing = (inner - head - SLACK - lowest) * holes_per_length
        allowed = (outer - head + SLACK - lowest) * holes_per_length
        start = ends[int(missing) - 1] if missing >= 1.0 else 0
        end = ends[int(min(allowed, PIGEONHOLES - 1.0))]
        if found + end - start > distance.size:
            return -1
        for tail in range(start, end):  # written first and kept only if in range: no branches
            total = head + gaps[1, tail, 0] + gaps[1, tail, 1] + gaps[1, tail, 2]
            steps = state[last, HEAD_STEPS] + tails[1, tail, STEPS]
            distance[found] = total
            cells[found, ID] = state[last, HEAD_ID] + tails[1, tail, ID]
            cells[found, STEPS] = steps
            found += int((total > inner) & (total <= outer) & (steps <= max_steps))
        axis -= 1
    return found
