"""Which cell a row lies in, and how many rows each cell holds: one pass, no table of ids."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["cell_rows", "count_dense", "count_runs", "measure_rows", "pack_rows", "table_sums"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCK = 256  # rows at a time, so that a block of a few axes stays in the nearest cache


@njit(cache=True, nogil=True)
def count_dense(
    points: Floats, lows: Floats, scales: Floats, cells_per_axis: int, counts: Ints
) -> None:
    """Add each row of `points` to the count of its cell; the last axis varies fastest.

    A block of rows is mapped to cells as one run of numbers, which the processor does several at a
    time; lows and scales are laid out block-wide for it. The counts of a block are raised last, so
    that their memory is waited for together.
    """
    n_rows, n_axes = points.shape
    top = float(cells_per_axis - 1)
    low = np.empty(BLOCK * n_axes)
    scale = np.empty(BLOCK * n_axes)
    for place in range(BLOCK * n_axes):
        low[place] = lows[place % n_axes]
        scale[place] = scales[place % n_axes]
    along = np.empty(BLOCK * n_axes, np.int64)
    cell = np.empty(BLOCK, np.int64)
    numbers = points.reshape(-1)
    for start in range(0, n_rows, BLOCK):
        size = min(BLOCK, n_rows - start)
        block = numbers[start * n_axes : (start + size) * n_axes]
        for place in range(size * n_axes):
            where = (block[place] - low[place]) * scale[place]
            where = where if where > 0.0 else 0.0
            where = where if where < top else top
            along[place] = np.int64(where)
        for row in range(size):
            cell[row] = along[row * n_axes]
        for axis in range(1, n_axes):
            for row in range(size):
                cell[row] = cell[row] * cells_per_axis + along[row * n_axes + axis]
        for row in range(size):
            counts[np.uint64(cell[row])] += 1


@njit(cache=True, nogil=True)
def cell_rows(
    points: Floats, lows: Floats, scales: Floats, cells_per_axis: int, cells: NDArray[np.int32]
) -> None:
    """Write each row's cell, one small number for every axis, into `cells`."""
    n_rows, n_axes = points.shape
    top = float(cells_per_axis - 1)
    for row in range(n_rows):
        for axis in range(n_axes):
            place = (points[row, axis] - lows[axis]) * scales[axis]
            cells[row, axis] = int(min(max(place, 0.0), top))


@njit(cache=True, nogil=True)
def measure_rows(
    points: Floats,
    lows: Floats,
    widths: Floats,
    scales: Floats,
    cells_per_axis: int,
    farthest: float,
    off_center: Floats,
    overshoot: Floats,
) -> None:
    """Write how far, L1, each row lies from its cell's middle, in cells, and outside the ranges."""
    n_rows, n_axes = points.shape
    edge = float(cells_per_axis)
    for row in range(n_rows):
        from_middle = 0.0
        outside = 0.0
        for axis in range(n_axes):
            above = points[row, axis] - lows[axis]
            place = min(max(above * scales[axis], 0.0), edge)
            from_middle += abs(place - (float(int(min(place, edge - 1.0))) + 0.5))
            beyond = max(-above, above - widths[axis]) / widths[axis]
            outside += min(max(beyond, 0.0), farthest)
        off_center[row] = from_middle
        overshoot[row] = outside


@njit(cache=True, nogil=True)
def table_sums(tables: Floats, cells: NDArray[np.int32], sums: Floats) -> None:
    """Add up, for every row and table, the entries of its cells: `tables` is (t, axes, cells)."""
    n_rows, n_axes = cells.shape
    for row in range(n_rows):
        for table in range(tables.shape[0]):
            total = 0.0
            for axis in range(n_axes):
                total += tables[table, axis, cells[row, axis]]
            sums[table, row] = total


@njit(cache=True, nogil=True)
def pack_rows(
    points: Floats,
    lows: Floats,
    scales: Floats,
    cells_per_axis: int,
    bits: int,
    words: NDArray[np.uint64],
) -> None:
    """Write each row's cell as a key of 64-bit words, `bits` bits an axis, first axis highest."""
    n_rows, n_axes = points.shape
    top = float(cells_per_axis - 1)
    axes_per_word = 64 // bits
    for row in range(n_rows):
        for word in range(words.shape[1]):
            key = np.uint64(0)
            for axis in range(word * axes_per_word, min((word + 1) * axes_per_word, n_axes)):
                place = (points[row, axis] - lows[axis]) * scales[axis]
                part = np.uint64(int(min(max(place, 0.0), top)))
                key = (key << np.uint64(bits)) | part
            words[row, word] = key


@njit(cache=True, nogil=True)
def count_runs(words: NDArray[np.uint64], order: Ints, starts: Ints, counts: Ints) -> int:
    """Number the runs of equal keys along `order`: where each starts, and how long it is."""
    n_runs = 0
    for place in range(order.size):
        fresh = place == 0
        if not fresh:
            for word in range(words.shape[1]):
                if words[order[place], word] != words[order[place - 1], word]:
                    fresh = True
        if fresh:
            starts[n_runs] = order[place]
            counts[n_runs] = 0
            n_runs += 1
        counts[n_runs - 1] += 1
    return n_runs
