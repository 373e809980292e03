"""Walk outward from a point's cell over a grid that holds every cell [Rauch, Algorithm 1].

The walk goes shell by shell (grid_shell.py), in ascending (distance, index). Noisy counts of
empty cells add up to a random walk: it may take thousands of cells to end, most of them far below
the goal. So a shell is cut into bands of equal width, and only a band whose positive counts could
end the walk is looked into: split at one of its cells into the nearer and the farther ones, which
are then treated alike, until few are left to be put in order.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privod.outliers.grid.kernels.shell import (
    ID,
    LEAST,
    LISTED,
    MOST,
    PIGEONHOLES,
    SLACK,
    STEPS,
    STRIDE,
    TAIL_AXES,
    list_axes,
    list_shell,
    list_tails,
    restart,
)

__all__ = ["walk_dense"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIRST_ROOM = 1024  # for the cells of a shell, and for tails, to begin with
MOST_ROOM = 16384  # past this many cells a shell is rather made narrower
FIRST_SHELL = 16  # cells the first shells aim at; later ones at as many as were walked already
CELLS_PER_BAND = 4
FEW = 6  # so many cells are put in order one by one
NO_ROOM_FOR_TAILS = -1
NO_ROOM_FOR_CELLS = -2

COUNT, BEFORE = 2, 3  # more columns of cells: their count, the cell listed before in their band
LATEST = 0  # of bands: the cell listed last
SUM, GAIN, WEIGHT = 1, 2, 3  # of bands: counts, positive counts, counts times steps


@njit(cache=True, nogil=True)
def _tally(
    begin: float,
    per_length: float,
    n_bands: int,
    found: int,
    counts: Ints,
    distance: Floats,
    cells: Ints,
    bands: Ints,
) -> None:
    """Look up the counts of a shell's cells, all at once, and add them up by bands."""
    for cell in range(found):
        cells[cell, COUNT] = counts[cells[cell, ID]]
    for band in range(n_bands):
        bands[band, LATEST] = -1
        bands[band, SUM] = 0
        bands[band, GAIN] = 0
        bands[band, WEIGHT] = 0
    for cell in range(found):
        band = min(int((distance[cell] - begin) * per_length), n_bands - 1)
        count = cells[cell, COUNT]
        cells[cell, BEFORE] = bands[band, LATEST]
        bands[band, LATEST] = cell
        bands[band, SUM] += count
        bands[band, GAIN] += max(count, 0)
        bands[band, WEIGHT] += count * cells[cell, STEPS]


@njit(cache=True, nogil=True)
def _split(start: int, end: int, order: Ints, distance: Floats, cells: Ints) -> int:
    """Move what does not come after some cell of `order[start:end]` to the front [Hoare]."""
    pivot = order[(start + end - 1) // 2]
    length, index = distance[pivot], cells[pivot, ID]
    low, high = start - 1, end
    while True:
        low += 1
        cell = order[low]
        while distance[cell] < length or (distance[cell] == length and cells[cell, ID] < index):
            low += 1
            cell = order[low]
        high -= 1
        cell = order[high]
        while distance[cell] > length or (distance[cell] == length and cells[cell, ID] > index):
            high -= 1
            cell = order[high]
        if low >= high:
            return high + 1
        order[low], order[high] = order[high], order[low]


@njit(cache=True, nogil=True)
def _sort(start: int, end: int, order: Ints, distance: Floats, cells: Ints) -> None:
    """Put a few cells in order of (distance, index), by insertion."""
    for place in range(start + 1, end):
        cell = order[place]
        spot = place
        while spot > start:
            other = order[spot - 1]
            gap = distance[cell] - distance[other]
            if gap > 0.0 or (gap == 0.0 and cells[cell, ID] > cells[other, ID]):
                break
            order[spot] = other
            spot -= 1
        order[spot] = cell


@njit(cache=True, nogil=True)
def _visit_band(
    cell: int,
    goal: int,
    seen: int,
    total: int,
    distance: Floats,
    cells: Ints,
    order: Ints,
    cuts: Ints,
) -> tuple[int, int, int]:
    """Visit the cells of the band that ends with `cell`, in order.

    Returns the sums so far and the cell that ends the walk, or -1.
    """
    size = 0
    while cell >= 0:
        order[size] = cell
        size += 1
        cell = cells[cell, BEFORE]
    start, end, n_cuts = 0, size, 0
    while start < size:
        gain, change, weight = 0, 0, 0
        for spot in range(start, end):
            count = cells[order[spot], COUNT]
            gain += max(count, 0)
            change += count
            weight += count * cells[order[spot], STEPS]
        if seen + gain >= goal and end - start > FEW:
            cuts[n_cuts] = end
            n_cuts += 1
            end = _split(start, end, order, distance, cells)
            continue
        if seen + gain < goal:
            seen += change
            total += weight
        else:
            _sort(start, end, order, distance, cells)
            for spot in range(start, end):
                cell = order[spot]
                seen += cells[cell, COUNT]
                total += cells[cell, COUNT] * cells[cell, STEPS]
                if seen >= goal:
                    return seen, total, cell
        start = end
        if n_cuts > 0:
            n_cuts -= 1
            end = cuts[n_cuts]
    return seen, total, -1


@njit(cache=True, nogil=True)
def _farthest(n_bands: int, distance: Floats, cells: Ints, bands: Ints) -> int:
    """The last cell of a shell that has any, in order of (distance, index)."""
    band = n_bands - 1
    while bands[band, LATEST] < 0:
        band -= 1
    cell = bands[band, LATEST]
    best: int = cell
    while cell >= 0:
        gap = distance[cell] - distance[best]
        if gap > 0.0 or (gap == 0.0 and cells[cell, ID] > cells[best, ID]):
            best = cell
        cell = cells[cell, BEFORE]
    return best


@njit(cache=True, nogil=True)
def _next_width(width: float, found: int, walked: int) -> float:
    """How wide the next shell shall be, to have about as many cells as were walked."""
    aim = max(FIRST_SHELL, walked)
    if found == 0:
        return 4.0 * width
    if found < aim // 2:
        return 1.5 * width
    return 0.7 * width if found > 2 * aim else width


@njit(cache=True, nogil=True)
def _walk(
    place: Floats,
    own: Ints,
    padding: int,
    counts: Ints,
    goal: int,
    max_steps: int,
    near: Floats,
    cell: Ints,
    bound: Floats,
    state: Ints,
    gaps: Floats,
    tails: Ints,
    ends: Ints,
    distance: Floats,
    cells: Ints,
    bands: Ints,
    order: Ints,
    cuts: Ints,
) -> tuple[int, int, float]:
    """Walk from one point: steps to the last cell, counts times steps, the last one's share.

    For the steps, `NO_ROOM_FOR_TAILS` or `NO_ROOM_FOR_CELLS` if the walk must be repeated.
    """
    restart(place, own, padding, bound, state)
    least = bound[0, LEAST]
    most = min(bound[0, MOST], max_steps + least + SLACK)  # no cell within depth is farther
    seen, total, walked, last_steps = 0, 0, 0, 0
    inner = -1.0
    width = min(0.5, 3.0 / (own.size - padding))
    outer = least + width
    while True:
        if outer >= most - SLACK:
            outer = most + 1.0
        begin = max(inner, least)
        list_axes(place, own, padding, outer, near, cell, state)
        lowest, holes_per_length = list_tails(
            inner, outer, near, cell, bound, state, gaps, tails, ends
        )
        if holes_per_length == 0.0:
            return NO_ROOM_FOR_TAILS, 0, 0.0
        found = list_shell(
            inner, outer, max_steps, lowest, holes_per_length,
            near, cell, bound, state, gaps, tails, ends, distance, cells,
        )  # fmt: skip
        if found < 0:
            outer = min(outer, most)
            if distance.size < MOST_ROOM or outer - begin < SLACK * near.size:  # equally far
                return NO_ROOM_FOR_CELLS, 0, 0.0
            width = (outer - begin) / 2.0
            outer = begin + width
            continue
        n_bands = min(max(FIRST_SHELL, walked) // CELLS_PER_BAND, len(bands))
        per_length = n_bands / max(min(outer, most) - begin, SLACK)
        _tally(begin, per_length, n_bands, found, counts, distance, cells, bands)
        for band in range(n_bands):
            if seen + bands[band, GAIN] < goal:
                seen += bands[band, SUM]
                total += bands[band, WEIGHT]
                continue
            seen, total, last = _visit_band(
                bands[band, LATEST], goal, seen, total, distance, cells, order, cuts
            )
            if last >= 0:
                count = cells[last, COUNT]
                return cells[last, STEPS], total, (goal - (seen - count)) / count
        if found > 0:
            last_steps = cells[_farthest(n_bands, distance, cells, bands), STEPS]
        if outer > most:
            return last_steps, total, 1.0
        walked += found
        width = _next_width(width, found, walked)
        inner = outer
        outer = inner + width


@njit(cache=True, nogil=True)
def walk_dense(
    points: Floats,
    lows: Floats,
    scales: Floats,
    cells_per_axis: int,
    counts: Ints,
    n_neighbors: int,
    max_steps: int,
    basic: Ints,
    weighted: Ints,
    share: Floats,
) -> None:
    """Score each row: steps to the last visited cell, and the sum of counts times steps.

    `share` says what part of the last cell's count was needed to reach `n_neighbors`.
    """
    n_rows, n_columns = points.shape
    padding = max(0, TAIL_AXES - n_columns)
    n_axes = padding + n_columns
    place = np.full(n_axes, 0.5)
    own = np.zeros(n_axes, np.int64)
    near = np.zeros((n_axes, cells_per_axis))
    cell = np.zeros((n_axes, cells_per_axis, 2), np.int64)
    bound = np.zeros((n_axes + 1, 3))
    state = np.zeros((n_axes, 7), np.int64)
    state[:padding, LISTED] = 1
    stride = 1
    for axis in range(n_axes - 1, -1, -1):
        state[axis, STRIDE] = stride
        stride *= cells_per_axis
    n_tails, n_cells = FIRST_ROOM, FIRST_ROOM
    gaps = np.empty((2, n_tails, TAIL_AXES))
    tails = np.empty((2, n_tails, 3), np.int64)
    ends = np.empty(PIGEONHOLES, np.int64)
    distance = np.empty(n_cells)
    cells = np.empty((n_cells, 4), np.int64)
    bands = np.empty((n_cells, 4), np.int64)
    order = np.empty(n_cells, np.int64)
    cuts = np.empty(n_cells, np.int64)
    edge = float(cells_per_axis)
    for row in range(n_rows):
        own_id = 0
        on_border = False
        for column in range(n_columns):
            where = min(max((points[row, column] - lows[column]) * scales[column], 0.0), edge)
            along = int(min(where, edge - 1.0))
            place[padding + column] = where
            own[padding + column] = along
            own_id = own_id * cells_per_axis + along
            on_border = on_border or abs(where - (along + 0.5)) == 0.5
        if not on_border and counts[own_id] >= n_neighbors:
            basic[row] = 0  # the own cell comes first and is enough: most inliers end here
            weighted[row] = 0
            share[row] = n_neighbors / counts[own_id]
            continue
        basic[row] = NO_ROOM_FOR_CELLS
        while basic[row] < 0:
            basic[row], weighted[row], share[row] = _walk(
                place, own, padding, counts, n_neighbors, max_steps, near, cell, bound, state,
                gaps, tails, ends, distance, cells, bands, order, cuts,
            )  # fmt: skip
            if basic[row] == NO_ROOM_FOR_TAILS:
                n_tails *= 2
                gaps = np.empty((2, n_tails, TAIL_AXES))
                tails = np.empty((2, n_tails, 3), np.int64)
            elif basic[row] == NO_ROOM_FOR_CELLS:
                n_cells *= 2
                distance = np.empty(n_cells)
                cells = np.empty((n_cells, 4), np.int64)
                bands = np.empty((n_cells, 4), np.int64)
                order = np.empty(n_cells, np.int64)
                cuts = np.empty(n_cells, np.int64)
