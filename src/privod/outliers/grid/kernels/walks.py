"""What both walks take and fill: the grid's axes, and a score for each row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Axes", "Walked"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
