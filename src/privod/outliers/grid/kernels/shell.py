"""List the cells of a grid that lie between two distances from a point: a shell.

All lengths are in cells: cell i of an axis has its center at i + 0.5. A cell is a head, its place
along all but the last three axes, and a tail, its place along those. The tails are listed once for
a shell and put into pigeonholes by distance; then the heads are gone through, and each takes its
tails from the few pigeonholes that complete it. Distances are added up in the order of the axes, so
every listing of the same cells gives the same floats and ties.

What a walk holds is few arrays of records, whose fields are named below: an array for every field
would have its references counted at every call, which takes longer than to list a small shell.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privod.compiling import njit

Ints = NDArray[np.int64]
Records = NDArray[Any]  # mypy knows no fields

SLACK = 1e-9  # cells are left out early only if they miss by more than rounding can explain
TAIL_AXES = 3
PIGEONHOLES = 64

AXIS = np.dtype(
    [
        ("n_cells", np.int64),
        ("stride", np.int64),  # how far apart neighbors along this axis are by index
        ("place", np.float64),  # of the point
        ("own", np.int64),  # the cell that the point lies in
        ("listed", np.int64),  # how many cells are listed by distance,
        ("below", np.int64),  # and the next ones on either side
        ("above", np.int64),
        ("least", np.float64),  # what this axis and the later ones add to a distance
        ("most", np.float64),
        ("turn", np.int64),  # the rank of the cell that a head takes next
        ("head_distance", np.float64),  # what a head has from the axes before
        ("head_index", np.int64),
        ("head_steps", np.int64),
    ],
    align=True,
)

AXIS_CELL = np.dtype(  # a cell of one axis
    [
        ("distance", np.float64),
        ("number", np.int64),
        ("steps", np.int64),  # from the point's own cell
    ],
    align=True,
)

TAIL = np.dtype(
    [
        ("x", np.float64),  # distance along each of the last three axes
        ("y", np.float64),
        ("z", np.float64),
        ("index", np.int64),
        ("steps", np.int64),
        ("hole", np.int64),
    ],
    align=True,
)

CELL = np.dtype(  # a cell of the shell
    [
        ("distance", np.float64),
        ("index", np.int64),
        ("steps", np.int64),
        ("count", np.int64),
        ("before", np.int64),  # the cell listed before in the same band, or -1
    ],
    align=True,
)


class Shell(NamedTuple):
    """The cells with inner < distance <= outer, at most so many steps from the point's own."""

    inner: float
    outer: float
    max_steps: int


class Holes(NamedTuple):
    """Where the pigeonholes begin and how many there are per length; 0 for want of room."""

    lowest: float
    per_length: float


class Tails(NamedTuple):
    """The tails as listed and as sorted by pigeonhole, and where each pigeonhole ends."""

    listed: Records
    sorted: Records
    ends: Ints


@njit(cache=True, nogil=True)
def restart(axes: Records) -> None:
    """Forget the last point's lists and bound the distances of this one's.

    The record after the last axis bounds what is still to come by zero.
    """
    for number in range(axes.size - 2, -1, -1):
        axis = axes[number]
        later = axes[number + 1]
        place = axis.place
        own = axis.own
        tied = own > 0 and place == own  # the cell below is exactly as near
        axis.listed = 0
        axis.below = own - tied
        axis.above = own + 1 - tied
        axis.least = later.least + abs(place - (own + 0.5))
        farther_end = max(abs(place - 0.5), abs(place - (float(axis.n_cells) - 0.5)))
        axis.most = later.most + farther_end


@njit(cache=True, nogil=True)
def list_axes(reach: float, axes: Records, near: Records) -> None:
    """List the cells of each axis by ascending distance, until one is beyond `reach`."""
    for number in range(axes.size - 1):
        axis = axes[number]
        place, own, n_cells = axis.place, axis.own, axis.n_cells
        rank, low, high = axis.listed, axis.below, axis.above
        while rank < n_cells and (rank == 0 or near[number, rank - 1].distance <= reach):
            below = abs(place - (low + 0.5)) if low >= 0 else np.inf
            above = abs(place - (high + 0.5)) if high < n_cells else np.inf
            cell = near[number, rank]
            if below <= above:  # a tie goes to the smaller index
                cell.distance = below
                cell.number = low
                cell.steps = abs(low - own)
                low -= 1
            else:
                cell.distance = above
                cell.number = high
                cell.steps = abs(high - own)
                high += 1
            rank += 1
        axis.listed = rank
        axis.below = low
        axis.above = high


@njit(cache=True, nogil=True)
def _sort_tails(size: int, tails: Tails) -> None:
    """Put the listed tails in order of pigeonholes, whose sizes `ends` holds at first."""
    ends = tails.ends
    start = 0
    for hole in range(PIGEONHOLES):
        start += ends[hole]
        ends[hole] = start - ends[hole]
    for place in range(size):
        tail = tails.listed[place]
        spot = ends[tail.hole]
        ends[tail.hole] = spot + 1
        tails.sorted[spot] = tail


@njit(cache=True, nogil=True)
def list_tails(shell: Shell, axes: Records, near: Records, tails: Tails) -> Holes:
    """List the tails that a cell of the shell can have."""
    listed, ends = tails.listed, tails.ends
    x = near.shape[0] - TAIL_AXES
    y, z = x + 1, x + 2
    heads_least = axes[0].least - axes[x].least
    heads_most = axes[0].most - axes[x].most
    lowest = max(axes[x].least, shell.inner - heads_most) - 2.0 * SLACK
    highest = min(axes[x].most, shell.outer - heads_least) + 2.0 * SLACK
    holes_per_length = PIGEONHOLES / (highest - lowest)
    for hole in range(PIGEONHOLES):
        ends[hole] = 0
    size = 0
    for i in range(axes[x].listed):
        along_x = near[x, i]
        if along_x.distance + axes[y].least > highest:
            break
        for j in range(axes[y].listed):
            along_y = near[y, j]
            so_far = along_x.distance + along_y.distance
            if so_far + axes[z].least > highest:
                break
            if so_far + axes[z].most < lowest:
                continue
            index = along_x.number * axes[x].stride + along_y.number * axes[y].stride
            for k in range(axes[z].listed):
                along_z = near[z, k]
                gap = so_far + along_z.distance
                if gap > highest:
                    break
                if gap < lowest:
                    continue
                if size < listed.size:
                    hole = min(int((gap - lowest) * holes_per_length), PIGEONHOLES - 1)
                    tail = listed[size]
                    tail.x = along_x.distance
                    tail.y = along_y.distance
                    tail.z = along_z.distance
                    tail.index = index + along_z.number
                    tail.steps = along_x.steps + along_y.steps + along_z.steps
                    tail.hole = hole
                    ends[hole] += 1
                size += 1
    if size > listed.size:
        return Holes(lowest, 0.0)
    _sort_tails(size, tails)
    return Holes(lowest, holes_per_length)


@njit(cache=True, nogil=True)
def list_shell(
    shell: Shell, holes: Holes, axes: Records, near: Records, tails: Tails, cells: Records
) -> int:
    """Write the cells of the shell and return how many; -1 for want of room."""
    inner, outer, max_steps = shell
    ends = tails.ends
    last = near.shape[0] - TAIL_AXES
    found = 0
    number = 0
    axes[0].turn = 0
    while number >= 0:
        axis = axes[number]
        if number < last:
            rank = axis.turn
            axis.turn = rank + 1
            if rank >= axis.listed:
                number -= 1
                continue
            cell = near[number, rank]
            later = axes[number + 1]
            so_far = axis.head_distance + cell.distance
            if so_far + later.least > outer + SLACK:
                number -= 1
                continue
            steps = axis.head_steps + cell.steps
            if so_far + later.most < inner - SLACK or steps > max_steps:
                continue
            later.head_distance = so_far
            later.head_index = axis.head_index + cell.number * axis.stride
            later.head_steps = steps
            later.turn = 0
            number += 1
            continue
        head = axis.head_distance
        missing = (inner - head - SLACK - holes.lowest) * holes.per_length
        allowed = (outer - head + SLACK - holes.lowest) * holes.per_length
        start = ends[int(missing) - 1] if missing >= 1.0 else 0
        end = ends[int(min(allowed, PIGEONHOLES - 1.0))]
        if found + end - start > cells.size:
            return -1
        for place in range(start, end):  # written first and kept only if in range: no branches
            tail = tails.sorted[place]
            distance = head + tail.x + tail.y + tail.z
            steps = axis.head_steps + tail.steps
            cells[found].distance = distance
            cells[found].index = axis.head_index + tail.index
            cells[found].steps = steps
            found += int((distance > inner) & (distance <= outer) & (steps <= max_steps))
        number -= 1
    return found
