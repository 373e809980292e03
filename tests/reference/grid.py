"""The grid's rule the slow and obvious way: list every cell, sort, add up [Rauch, Algorithm 1]."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

__all__ = ["cell_of", "counts_of", "overshoot", "score"]

Floats = NDArray[np.float64]


def cell_of(point: Floats, lows: Floats, scales: Floats, cells_per_axis: int) -> tuple[int, ...]:
    """The cell a point lies in; what falls outside the range is clipped."""
    places = ((float(x) - low) * scale for x, low, scale in zip(point, lows, scales, strict=True))
    return tuple(int(min(max(place, 0.0), cells_per_axis - 1)) for place in places)


def counts_of(
    points: Floats, lows: Floats, scales: Floats, cells_per_axis: int
) -> dict[tuple[int, ...], int]:
    """How many points each occupied cell holds."""
    counts: dict[tuple[int, ...], int] = {}
    for point in points:
        cell = cell_of(point, lows, scales, cells_per_axis)
        counts[cell] = counts.get(cell, 0) + 1
    return counts


def score(
    own: tuple[int, ...],
    cells_per_axis: int,
    counts: dict[tuple[int, ...], int],
    n_neighbors: int,
    max_steps: int,
) -> tuple[int, int, float]:
    """Basic and weighted score in steps, and the needed share of the last count, cell by cell."""

    def steps(cell: tuple[int, ...]) -> int:
        return sum(abs(a - b) for a, b in zip(cell, own, strict=True))

    every = itertools.product(range(cells_per_axis), repeat=len(own))
    within = [cell for cell in every if steps(cell) <= max_steps]
    seen = total = last = 0
    share = 1.0
    for cell in sorted(within, key=lambda cell: (steps(cell), cell)):
        count = counts.get(cell, 0)
        seen += count
        total += count * steps(cell)
        last = steps(cell)
        if seen >= n_neighbors:
            share = (n_neighbors - (seen - count)) / count
            break
    return last, total, share


def overshoot(point: Floats, lows: Floats, scales: Floats, cells_per_axis: int) -> float:
    """How far a point lies outside, in ranges."""
    outside = 0.0
    for x, low, scale in zip(point, lows, scales, strict=True):
        width = cells_per_axis / float(scale)
        inside = min(max(float(x) - low, 0.0), width)
        outside += abs(float(x) - low - inside) / width
    return outside
