"""Walk outward from a point's cell over a grid that holds every cell [Rauch, Algorithm 1].

All lengths are in cells: cell i of an axis has its center at i + 0.5. The walk goes shell by shell.
A shell holds the cells whose distance d to the point has inner < d <= outer; it is listed by going
through the axes, each axis' cells in ascending distance, and leaving a branch as soon as it must
fall outside. A heap then hands out the shell in ascending (distance, index). Distances are added up
in the order of the axes, so every listing of the same cells gives the same floats and ties.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["walk_dense"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SLACK = 1e-9  # branches are left only when they miss the shell by more than rounding can explain
FIRST_SHELL = 16  # cells the first shells aim at; later ones grow with what was walked already


@njit(cache=True, nogil=True)
def _extend(
    place: float, axis: int, reach: float, n_cells: int, near: Floats, cell: Ints, filled: Ints
) -> None:
    """List the cells of one axis by ascending distance to `place`, until one is beyond `reach`."""
    count = filled[axis, 0]
    low = filled[axis, 1]
    high = filled[axis, 2]
    while count < n_cells and (count == 0 or near[axis, count - 1] <= reach):
        below = place - (low + 0.5) if low >= 0 else np.inf
        above = abs(high + 0.5 - place) if high < n_cells else np.inf
        if abs(below) <= above:  # a tie goes to the smaller index
            near[axis, count] = abs(below)
            cell[axis, count] = low
            low -= 1
        else:
            near[axis, count] = above
            cell[axis, count] = high
            high += 1
        count += 1
    filled[axis, 0] = count
    filled[axis, 1] = low
    filled[axis, 2] = high


@njit(cache=True, nogil=True)
def _list_shell(
    inner: float,
    outer: float,
    max_steps: int,
    own: Ints,
    near: Floats,
    cell: Ints,
    filled: Ints,
    strides: Ints,
    least: Floats,
    most: Floats,
    turn: Ints,
    partial: Floats,
    ids: Ints,
    steps_so_far: Ints,
    shell_distance: Floats,
    shell_id: Ints,
    shell_steps: Ints,
) -> int:
    """Write the cells of a shell; minus one if there are more than the arrays can take."""
    n_axes = own.size
    last = n_axes - 1
    found = 0
    axis = 0
    turn[0] = 0
    partial[0] = 0.0
    ids[0] = 0
    steps_so_far[0] = 0
    while axis >= 0:
        if axis < last:
            step = turn[axis]
            turn[axis] += 1
            if step >= filled[axis, 0]:
                axis -= 1
                continue
            so_far = partial[axis] + near[axis, step]
            if so_far + least[axis + 1] > outer + SLACK:
                axis -= 1
                continue
            if so_far + most[axis + 1] < inner - SLACK:
                continue
            steps = steps_so_far[axis] + abs(cell[axis, step] - own[axis])
            if steps > max_steps:
                continue
            partial[axis + 1] = so_far
            ids[axis + 1] = ids[axis] + cell[axis, step] * strides[axis]
            steps_so_far[axis + 1] = steps
            axis += 1
            turn[axis] = 0
            continue
        for step in range(filled[last, 0]):
            distance = partial[last] + near[last, step]
            if distance > outer:
                break
            if distance <= inner:
                continue
            steps = steps_so_far[last] + abs(cell[last, step] - own[last])
            if steps > max_steps:
                continue
            if found == shell_id.size:
                return -1
            shell_distance[found] = distance
            shell_id[found] = ids[last] + cell[last, step]
            shell_steps[found] = steps
            found += 1
        axis -= 1
    return found


@njit(cache=True, nogil=True)
def _sink(distance: Floats, ids: Ints, steps: Ints, start: int, size: int) -> None:
    """Let the entry at `start` sink to its place in a heap ordered by (distance, index)."""
    moved_distance = distance[start]
    moved_id = ids[start]
    moved_steps = steps[start]
    hole = start
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            distance[right] < distance[child]
            or (distance[right] == distance[child] and ids[right] < ids[child])
        ):
            child = right
        if distance[child] > moved_distance or (
            distance[child] == moved_distance and ids[child] > moved_id
        ):
            break
        distance[hole] = distance[child]
        ids[hole] = ids[child]
        steps[hole] = steps[child]
        hole = child
    distance[hole] = moved_distance
    ids[hole] = moved_id
    steps[hole] = moved_steps


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
    n_rows, n_axes = points.shape
    place = np.empty(n_axes)
    own = np.empty(n_axes, np.int64)
    strides = np.ones(n_axes, np.int64)
    for axis in range(n_axes - 2, -1, -1):
        strides[axis] = strides[axis + 1] * cells_per_axis
    near = np.empty((n_axes, cells_per_axis))
    cell = np.empty((n_axes, cells_per_axis), np.int64)
    filled = np.empty((n_axes, 3), np.int64)
    least = np.zeros(n_axes + 1)
    most = np.zeros(n_axes + 1)
    turn = np.empty(n_axes, np.int64)
    partial = np.empty(n_axes)
    ids = np.empty(n_axes, np.int64)
    steps_so_far = np.empty(n_axes, np.int64)
    shell_distance = np.empty(4096)
    shell_id = np.empty(4096, np.int64)
    shell_steps = np.empty(4096, np.int64)
    edge = float(cells_per_axis)

    for row in range(n_rows):
        own_id = 0
        on_border = False
        for axis in range(n_axes):
            where = min(max((points[row, axis] - lows[axis]) * scales[axis], 0.0), edge)
            place[axis] = where
            own[axis] = int(min(where, edge - 1.0))
            own_id += own[axis] * strides[axis]
            on_border = on_border or abs(where - (own[axis] + 0.5)) == 0.5
        seen = counts[own_id]
        if not on_border and seen >= n_neighbors:
            basic[row] = 0  # the own cell comes first and is enough: most inliers end here
            weighted[row] = 0
            share[row] = n_neighbors / seen
            continue

        for axis in range(n_axes - 1, -1, -1):
            filled[axis, 0] = 0
            filled[axis, 1] = own[axis]
            filled[axis, 2] = own[axis] + 1
            if own[axis] > 0 and place[axis] == own[axis]:  # the cell below is exactly as near
                filled[axis, 1] = own[axis] - 1
                filled[axis, 2] = own[axis]
            offset = abs(place[axis] - (own[axis] + 0.5))
            least[axis] = least[axis + 1] + offset
            most[axis] = most[axis + 1] + max(
                abs(place[axis] - 0.5), abs(place[axis] - (edge - 0.5))
            )
        seen = 0
        total = 0
        last_steps = 0
        share[row] = 1.0
        walked = 0
        inner = -1.0
        width = min(0.5, 3.0 / n_axes)
        outer = least[0] + width
        while True:
            if outer >= most[0] - SLACK:
                outer = np.inf
            for axis in range(n_axes):
                _extend(place[axis], axis, outer, cells_per_axis, near, cell, filled)
            found = _list_shell(
                inner, outer, max_steps, own, near, cell, filled, strides, least, most, turn,
                partial, ids, steps_so_far, shell_distance, shell_id, shell_steps,
            )  # fmt: skip
            if found < 0:
                if outer == np.inf:
                    outer = most[0]
                begin = max(inner, least[0])
                if outer - begin > SLACK * edge * n_axes:
                    width = (outer - begin) / 2.0
                    outer = begin + width
                else:  # more cells at one and the same distance than the arrays can take
                    outer = begin + 2.0 * SLACK * edge * n_axes
                    shell_distance = np.empty(2 * shell_id.size)
                    shell_steps = np.empty(2 * shell_id.size, np.int64)
                    shell_id = np.empty(2 * shell_id.size, np.int64)
                continue
            for start in range(found // 2 - 1, -1, -1):
                _sink(shell_distance, shell_id, shell_steps, start, found)
            size = found
            while size > 0:
                count = counts[shell_id[0]]
                last_steps = shell_steps[0]
                seen += count
                total += count * last_steps
                if seen >= n_neighbors:
                    share[row] = (n_neighbors - (seen - count)) / count
                    break
                size -= 1
                shell_distance[0] = shell_distance[size]
                shell_id[0] = shell_id[size]
                shell_steps[0] = shell_steps[size]
                _sink(shell_distance, shell_id, shell_steps, 0, size)
            if seen >= n_neighbors or outer == np.inf:
                break
            walked += found
            aim = max(FIRST_SHELL, walked // 2)
            if found == 0:
                width *= 4.0
            elif found < aim // 2:
                width *= 1.5
            elif found > 2 * aim:
                width *= 0.7
            inner = outer
            outer = inner + width
        basic[row] = last_steps
        weighted[row] = total
