"""What both walks take and fill: the grid's axes, and a score for each row.

A point on the border of two cells is as near to both; its own cell, the one it is counted in, must
come first all the same, or the noise of an empty one beside it could end the walk. So a point is
taken to lie a little inside its own cell.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privod.compiling import njit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

INSIDE = 2.0**-20  # of a cell's width: far more than sums of distances are rounded by


class Axes(NamedTuple):
    """How a point's columns become places on the grid: 0 to `cells_per_axis` along each axis."""

    lows: Floats
    scales: Floats
    cells_per_axis: int


class Walked(NamedTuple):
    """What a walk says of each row.

    Steps to the last visited cell, the sum of counts times steps, and what part of the last cell's
    count was needed to reach the number of neighbors.
    """

    basic: Ints
    weighted: Ints
    share: Floats


@njit(cache=True, nogil=True, inline="always")
def cell_on(axes: Axes, axis: int, value: float) -> int:
    """In which cell of an axis a value lies; what is outside the range lies in its last one."""
    place = (value - axes.lows[axis]) * axes.scales[axis]
    return int(min(max(place, 0.0), axes.cells_per_axis - 1.0))


@njit(cache=True, nogil=True, inline="always")
def place_in(axes: Axes, axis: int, value: float, own: int) -> float:
    """Where a value lies along an axis, in cells, inside its own cell."""
    place: float = (value - axes.lows[axis]) * axes.scales[axis]
    return min(max(place, own + INSIDE), own + 1 - INSIDE)
