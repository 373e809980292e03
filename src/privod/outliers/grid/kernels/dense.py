"""Walk outward from a point's cell over a grid that holds every cell [Rauch, Algorithm 1].

The walk goes shell by shell (shell.py), in ascending (distance, index). Noisy counts of
empty cells add up to a random walk: it may take thousands of cells to end, most of them far below
the goal. So a shell is cut into bands of equal width, and only a band whose positive counts could
end the walk is looked into: split at one of its cells into the nearer and the farther ones, which
are then treated alike, until few are left to be put in order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privod.compiling import njit
from privod.outliers.grid.kernels.shell import (
    AXIS,
    AXIS_CELL,
    CELL,
    PIGEONHOLES,
    SLACK,
    TAIL,
    TAIL_AXES,
    Shell,
    Tails,
    list_axes,
    list_shell,
    list_tails,
    restart,
)
from privod.outliers.grid.kernels.walks import Axes, Walked, cell_on, place_in

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Records = NDArray[Any]  # mypy knows no fields

FIRST_ROOM = 1024  # for the cells of a shell, and for tails, to begin with
MOST_ROOM = 16384  # past this many cells a shell is rather made narrower
FIRST_SHELL = 16  # cells the first shells aim at; later ones at as many as were walked already
CELLS_PER_BAND = 4
FEW = 6  # so many cells are put in order one by one
NO_ROOM_FOR_TAILS = -1
NO_ROOM_FOR_CELLS = -2

BAND = np.dtype(
    [
        ("latest", np.int64),  # the cell listed last, or -1
        ("sum", np.int64),  # of counts,
        ("gain", np.int64),  # of positive counts,
        ("weight", np.int64),  # and of counts times steps
    ],
    align=True,
)


class Listing(NamedTuple):
    """Room for the cells of a shell, for its bands, and to put one band in order."""

    cells: Records
    bands: Records
    order: Ints  # places of a band's cells
    cuts: Ints  # where the parts of `order` end that are still to be visited


@njit(cache=True, nogil=True)
def _tally(begin: float, per_length: float, cells: Records, bands: Records, counts: Ints) -> None:
    """Look up the counts of a shell's cells, all at once, and add them up by bands."""
    for place in range(cells.size):
        cells[place].count = counts[cells[place].index]
    for number in range(bands.size):
        band = bands[number]
        band.latest = -1
        band.sum = 0
        band.gain = 0
        band.weight = 0
    for place in range(cells.size):
        cell = cells[place]
        band = bands[min(int((cell.distance - begin) * per_length), bands.size - 1)]
        cell.before = band.latest
        band.latest = place
        band.sum += cell.count
        band.gain += max(cell.count, 0)
        band.weight += cell.count * cell.steps


@njit(cache=True, nogil=True, inline="always")
def _precedes(cell: Any, other: Any) -> bool:
    """Whether a cell comes before another in order of (distance, index)."""
    nearer: bool = cell.distance < other.distance
    return nearer or bool(cell.distance == other.distance and cell.index < other.index)


@njit(cache=True, nogil=True)
def _split(start: int, end: int, order: Ints, cells: Records) -> int:
    """Move what does not come after some cell of `order[start:end]` to the front [Hoare]."""
    pivot = cells[order[(start + end - 1) // 2]]
    low, high = start - 1, end
    while True:
        low += 1
        while _precedes(cells[order[low]], pivot):
            low += 1
        high -= 1
        while _precedes(pivot, cells[order[high]]):
            high -= 1
        if low >= high:
            return high + 1
        order[low], order[high] = order[high], order[low]


@njit(cache=True, nogil=True)
def _sort(start: int, end: int, order: Ints, cells: Records) -> None:
    """Put a few cells in order of (distance, index), by insertion."""
    for place in range(start + 1, end):
        cell = order[place]
        spot = place
        while spot > start and not _precedes(cells[order[spot - 1]], cells[cell]):
            order[spot] = order[spot - 1]
            spot -= 1
        order[spot] = cell


@njit(cache=True, nogil=True)
def _visit_band(
    latest: int, goal: int, seen: int, total: int, cells: Records, order: Ints, cuts: Ints
) -> tuple[int, int, int]:
    """Visit the cells of the band that ends with `latest`, in order.

    Returns the sums so far and the cell that ends the walk, or -1.
    """
    size = 0
    while latest >= 0:
        order[size] = latest
        size += 1
        latest = cells[latest].before
    start, end, n_cuts = 0, size, 0
    while start < size:
        gain, change, weight = 0, 0, 0
        for spot in range(start, end):
            cell = cells[order[spot]]
            gain += max(cell.count, 0)
            change += cell.count
            weight += cell.count * cell.steps
        if seen + gain >= goal and end - start > FEW:
            cuts[n_cuts] = end
            n_cuts += 1
            end = _split(start, end, order, cells)
            continue
        if seen + gain < goal:
            seen += change
            total += weight
        else:
            _sort(start, end, order, cells)
            for spot in range(start, end):
                cell = cells[order[spot]]
                seen += cell.count
                total += cell.count * cell.steps
                if seen >= goal:
                    return seen, total, order[spot]
        start = end
        if n_cuts > 0:
            n_cuts -= 1
            end = cuts[n_cuts]
    return seen, total, -1


@njit(cache=True, nogil=True)
def _farthest(cells: Records, bands: Records) -> int:
    """The last cell of a shell that has any, in order of (distance, index)."""
    number = bands.size - 1
    while bands[number].latest < 0:
        number -= 1
    best: int = bands[number].latest
    place = cells[best].before
    while place >= 0:
        if _precedes(cells[best], cells[place]):
            best = place
        place = cells[place].before
    return best


@njit(cache=True, nogil=True)
def _next_width(width: float, found: int, walked: int) -> float:
    """How wide the next shell shall be, to have about as many cells as were walked."""
    aim = max(FIRST_SHELL, walked)
    if found == 0:
        return min(4.0 * width, 1.0)  # cells of an axis lie 1 apart: so wide a shell has some
    if found < aim // 2:
        return 1.5 * width
    return 0.7 * width if found > 2 * aim else width


@njit(cache=True, nogil=True)
def _walk(
    counts: Ints,
    goal: int,
    max_steps: int,
    axes: Records,
    near: Records,
    tails: Tails,
    listing: Listing,
) -> tuple[int, int, float]:
    """Walk from one point: steps to the last cell, counts times steps, the last one's share.

    For the steps, `NO_ROOM_FOR_TAILS` or `NO_ROOM_FOR_CELLS` if the walk must be repeated.
    """
    cells, bands, order, cuts = listing
    n_axes = len(near)
    restart(axes)
    least = axes[0].least
    most = min(axes[0].most, max_steps + least + SLACK)  # no cell within depth is farther
    seen, total, walked, last_steps = 0, 0, 0, 0
    inner = -1.0
    width = min(0.5, 3.0 / n_axes)
    outer = least + width
    while True:
        if outer >= most - SLACK:
            outer = most + 1.0
        begin = max(inner, least)
        shell = Shell(inner, outer, max_steps)
        list_axes(outer, axes, near)
        holes = list_tails(shell, axes, near, tails)
        if holes.per_length == 0.0:
            return NO_ROOM_FOR_TAILS, 0, 0.0
        found = list_shell(shell, holes, axes, near, tails, cells)
        if found < 0:
            outer = min(outer, most)
            if cells.size < MOST_ROOM or outer - begin < SLACK * n_axes:  # equally far
                return NO_ROOM_FOR_CELLS, 0, 0.0
            width = (outer - begin) / 2.0
            outer = begin + width
            continue
        n_bands = min(max(FIRST_SHELL, walked) // CELLS_PER_BAND, bands.size)
        per_length = n_bands / max(min(outer, most) - begin, SLACK)
        _tally(begin, per_length, cells[:found], bands[:n_bands], counts)
        for number in range(n_bands):
            band = bands[number]
            if seen + band.gain < goal:
                seen += band.sum
                total += band.weight
                continue
            seen, total, last = _visit_band(band.latest, goal, seen, total, cells, order, cuts)
            if last >= 0:
                count = cells[last].count
                return cells[last].steps, total, (goal - (seen - count)) / count
        if found > 0:
            last_steps = cells[_farthest(cells, bands[:n_bands])].steps
        if outer > most:
            return last_steps, total, 1.0
        walked += found
        width = _next_width(width, found, walked)
        inner = outer
        outer = inner + width


@njit(cache=True, nogil=True)
def _room_for_axes(n_axes: int, padding: int, cells_per_axis: int) -> Records:
    """Axes to walk along, and a record after the last; those that only fill up have one cell."""
    axes = np.zeros(n_axes + 1, AXIS)
    stride = 1
    for number in range(n_axes - 1, -1, -1):
        axes[number].place = 0.5
        axes[number].n_cells = cells_per_axis if number >= padding else 1
        axes[number].stride = stride
        stride *= axes[number].n_cells
    return axes


@njit(cache=True, nogil=True)
def _room_for_tails(size: int) -> Tails:
    return Tails(np.empty(size, TAIL), np.empty(size, TAIL), np.empty(PIGEONHOLES, np.int64))


@njit(cache=True, nogil=True)
def _room_for_cells(size: int) -> Listing:
    return Listing(
        np.empty(size, CELL),
        np.empty(size, BAND),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
    )


@njit(cache=True, nogil=True)
def walk_dense(
    points: Floats, grid: Axes, counts: Ints, n_neighbors: int, max_steps: int, walked: Walked
) -> None:
    """Score each row of the points."""
    cells_per_axis = grid.cells_per_axis
    basic, weighted, share = walked
    n_rows, n_columns = points.shape
    padding = max(0, TAIL_AXES - n_columns)  # axes of one cell, to have enough for a tail
    n_axes = padding + n_columns
    axes = _room_for_axes(n_axes, padding, cells_per_axis)
    near = np.zeros((n_axes, cells_per_axis), AXIS_CELL)
    tails = _room_for_tails(FIRST_ROOM)
    listing = _room_for_cells(FIRST_ROOM)
    for row in range(n_rows):
        own_index = 0
        for column in range(n_columns):
            own_index = own_index * cells_per_axis + cell_on(grid, column, points[row, column])
        if counts[own_index] >= n_neighbors:
            basic[row] = 0  # the own cell comes first and is enough: most inliers end here
            weighted[row] = 0
            share[row] = n_neighbors / counts[own_index]
            continue
        for column in range(n_columns):
            own = cell_on(grid, column, points[row, column])
            axes[padding + column].own = own
            axes[padding + column].place = place_in(grid, column, points[row, column], own)
        basic[row] = NO_ROOM_FOR_CELLS
        while basic[row] < 0:
            basic[row], weighted[row], share[row] = _walk(
                counts, n_neighbors, max_steps, axes, near, tails, listing
            )
            if basic[row] == NO_ROOM_FOR_TAILS:
                tails = _room_for_tails(2 * tails.listed.size)
            elif basic[row] == NO_ROOM_FOR_CELLS:
                listing = _room_for_cells(2 * listing.cells.size)
