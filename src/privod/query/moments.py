"""Sums of products of records in a ball, in whole numbers: what one record changes is proved.

Proof: docs/proofs/detector_profile.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Floats, Ints
from privod.outliers.grid.kernels.profile import add_products

UNIT = 4096  # steps of the lattice to the ball's radius: 12 bits, finer than any noise here
FARTHEST = 5.0  # scales from the center beyond which a value is taken for one at that distance


def standardized(rows: Floats, centers: Floats, scales: Floats) -> Floats:
    """Distances from the centers in scales, cut at `FARTHEST`; missing values lie at the center."""
    rows = np.ascontiguousarray(rows)  # so that lengths add up in one order, however rows came
    with np.errstate(over="ignore"):  # what is too far for a float is cut below
        found = (rows - centers) / scales
    np.clip(found, -FARTHEST, FARTHEST, out=found)
    np.nan_to_num(found, copy=False)
    return found


def product_sums(rows: Floats, centers: Floats, scales: Floats, radius: float) -> Ints:
    """The sums over all records of the products of two coordinates, upper triangle, in UNIT^-2."""
    n_axes = rows.shape[1]
    sums = np.zeros((n_axes, n_axes), dtype=np.int64)
    with np.errstate(over="ignore", divide="ignore"):  # no number, then: such records count as zero
        inverse = 1 / scales
    add_products(rows, centers, inverse, FARTHEST, radius, float(UNIT), sums)
    return sums[np.triu_indices(n_axes)]


def products_change(n_axes: int) -> int:
    """By how much one record more or less changes the sums, all together.

    (|q|_1^2 + |q|_2^2) / 2 with |q|_2 <= UNIT and |q|_1^2 <= n |q|_2^2.
    """
    return UNIT**2 * (n_axes + 1) // 2


def squared_products_change() -> int:
    """The sum of the squares of the changes: at most |q|_2^4."""
    return UNIT**4


def symmetric(triangle: NDArray[np.generic], n_axes: int) -> Floats:
    """The whole matrix of an upper triangle, in units of the ball."""
    matrix = np.zeros((n_axes, n_axes))
    matrix[np.triu_indices(n_axes)] = triangle
    return (matrix + np.triu(matrix, 1).T) / UNIT**2
