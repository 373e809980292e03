"""Walk outward from a cell until enough records are seen [Rauch, Algorithm 1].

Cells are visited by how many steps they are away, those equally far by their index. Where only some
cells are kept, all others count zero, so at most `n_neighbors` of the nearest decide: these are
searched for in buckets of cells that agree in their first few axes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Ints
from privod.compiling import njit

Cells = NDArray[np.int32]


class Walked(NamedTuple):
    """What a walk says of each row.

    Steps to the last visited cell, the sum of counts times steps, and what part of the last cell's
    count was needed to reach the number of neighbors.
    """

    basic: Ints
    weighted: Ints
    share: NDArray[np.float64]


class Buckets(NamedTuple):
    """The kept cells, ascending by index, with positive counts.

    `starts` says where the bucket of each combination of the first `prefix` axes begins.
    """

    cells: Cells
    counts: Ints
    prefix: int
    starts: Ints


@njit(cache=True, nogil=True)
def walk_all(
    asked: Cells, per_axis: int, counts: Ints, n_neighbors: int, max_steps: int, walked: Walked
) -> None:
    """Walk from each of the cells, over the counts of all, which may be negative."""
    basic, weighted, share = walked
    n_axes = asked.shape[1]
    last, top = n_axes - 1, per_axis - 1
    reach = np.zeros(n_axes + 1, np.int64)  # steps that an axis and the later ones can take
    left = np.zeros(n_axes + 1, np.int64)  # steps that they have to take
    index = np.zeros(n_axes + 1, np.int64)  # of the axes before
    turn = np.zeros(n_axes + 1, np.int64)  # the cell of an axis that comes next
    for row in range(len(asked)):
        own = asked[row]
        for axis in range(last, -1, -1):
            reach[axis] = reach[axis + 1] + max(own[axis], top - own[axis])
        farthest = min(max_steps, reach[0])
        seen, total, steps, axis = 0, 0, 0, 0
        basic[row], share[row] = farthest, 1.0
        left[0], turn[0] = 0, own[0]
        while steps <= farthest:
            if axis < 0:  # all that are so many steps away were visited
                steps, axis = steps + 1, 0
                left[0], turn[0] = steps, max(0, own[0] - steps)
                continue
            here, rest = own[axis], left[axis]
            if axis == last:  # takes what is left, either way
                for way in range(2 if rest else 1):
                    cell = here + rest if way else here - rest
                    if 0 <= cell <= top:
                        count = counts[index[axis] * per_axis + cell]
                        seen += count
                        total += count * steps
                        if seen >= n_neighbors:
                            basic[row], share[row] = steps, (n_neighbors - seen + count) / count
                            steps = farthest + 1
                            break
                axis -= 1
                continue
            least = rest - reach[axis + 1]  # steps that the later axes cannot take
            cell = turn[axis]
            if here - least < cell < here + least:
                cell = here + least
            if cell > min(top, here + rest):
                axis -= 1
                continue
            turn[axis] = cell + 1
            axis += 1
            index[axis] = index[axis - 1] * per_axis + cell
            left[axis] = rest - abs(cell - here)
            turn[axis] = max(0, own[axis] - left[axis])
        weighted[row] = total


@njit(cache=True, nogil=True)
def _insert(
    steps: int, kept: int, size: int, n_neighbors: int, counts: Ints, nearest: Ints, which: Ints
) -> int:
    """Put a cell among the nearest, in order of (steps, index), and cut what is not needed."""
    spot = size
    while spot > 0 and (
        nearest[spot - 1] > steps or (nearest[spot - 1] == steps and which[spot - 1] > kept)
    ):
        nearest[spot] = nearest[spot - 1]
        which[spot] = which[spot - 1]
        spot -= 1
    nearest[spot] = steps
    which[spot] = kept
    seen = 0
    for spot in range(size + 1):
        seen += counts[which[spot]]
        if seen >= n_neighbors:
            return spot + 1
    return -(size + 1)  # negative: not yet enough


@njit(cache=True, nogil=True)
def _find(own: Cells, prefix: int, low: int, high: int, cells: Cells) -> int:
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
def walk_some(
    asked: Cells, per_axis: int, buckets: Buckets, n_neighbors: int, max_steps: int, walked: Walked
) -> None:
    """Walk from each of the cells, over some that are kept, as `walk_all` would."""
    cells, counts, prefix, starts = buckets
    basic, weighted, share = walked
    n_axes, top = asked.shape[1], per_axis - 1
    turn = np.zeros(prefix + 1, np.int64)
    so_far = np.zeros(prefix + 1, np.int64)
    bucket = np.zeros(prefix + 1, np.int64)
    held = min(n_neighbors, counts.size) + 1
    nearest, which = np.empty(held, np.int64), np.empty(held, np.int64)
    for row in range(len(asked)):
        own = asked[row]
        own_bucket, reach = 0, 0
        for axis in range(n_axes):
            reach += max(own[axis], top - own[axis])
            if axis < prefix:
                own_bucket = own_bucket * per_axis + own[axis]
        kept = _find(own, prefix, starts[own_bucket], starts[own_bucket + 1], cells)
        if kept >= 0 and counts[kept] >= n_neighbors:
            basic[row], weighted[row] = 0, 0  # the own cell is enough: most inliers end here
            share[row] = n_neighbors / counts[kept]
            continue
        size, enough, bound = 0, False, max_steps
        axis = 0
        turn[0] = 0
        while axis >= 0:
            if axis < prefix:  # from the near to the far: own, one below, one above, two below ...
                away = (turn[axis] + 1) // 2
                below = turn[axis] % 2 == 1
                turn[axis] += 1
                cell = own[axis] - away if below else own[axis] + away
                if away > max(own[axis], top - own[axis]) or so_far[axis] + away > bound:
                    axis -= 1
                elif 0 <= cell <= top:
                    so_far[axis + 1] = so_far[axis] + away
                    bucket[axis + 1] = bucket[axis] * per_axis + cell
                    axis += 1
                    turn[axis] = 0
                continue
            for kept in range(starts[bucket[prefix]], starts[bucket[prefix] + 1]):
                steps = so_far[prefix]
                for later in range(prefix, n_axes):
                    steps += abs(cells[kept, later] - own[later])
                    if steps > bound:
                        break
                if steps > bound or (enough and steps == bound and kept > which[size - 1]):
                    continue
                size = _insert(steps, kept, size, n_neighbors, counts, nearest, which)
                enough = size > 0
                size = abs(size)
                if enough:
                    bound = nearest[size - 1]
            axis -= 1
        seen, total = 0, 0
        for spot in range(size):
            seen += counts[which[spot]]
            total += counts[which[spot]] * nearest[spot]
        basic[row], weighted[row], share[row] = min(max_steps, reach), total, 1.0
        if seen >= n_neighbors:
            count = counts[which[size - 1]]
            basic[row], share[row] = nearest[size - 1], (n_neighbors - seen + count) / count
