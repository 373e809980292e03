"""Which cell a row lies in, and how many rows each cell holds: one pass, no table of ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from privod.arrays import Floats, Ints
from privod.compiling import njit

BLOCK = 2048  # rows at a time; their cells stay in the nearest cache
LARGEST_32_BITS = np.uint64(2**32 - 1)


def _saturating(_typing: Any, _number: Any) -> tuple[Any, Callable[..., Any]]:
    """The whole part of a number, 0 below 0 and 2^64 - 1 at most: one instruction on ARM."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        double, word = ir.DoubleType(), ir.IntType(64)
        name, kind = "llvm.fptoui.sat", ir.FunctionType(word, [double])
        convert = builder.module.declare_intrinsic(name, [word, double], kind)
        return builder.call(convert, arguments)

    return types.uint64(types.float64), build


_whole_part: Any = intrinsic(_saturating)


@njit(cache=True, nogil=True)
def _cells_of(
    numbers: Floats,
    lows: tuple[float, ...],
    scales: tuple[float, ...],
    cells_per_axis: np.uint32,
    cells: NDArray[np.uint32],
) -> None:
    """Write the index of each row's cell, for rows that follow each other in `numbers`.

    The tuples' length is known when this is compiled, so the loop over the axes is unrolled and
    the one over the rows is done four rows at a time, in 32 bits as soon as numbers are whole.
    """
    n_axes = len(lows)
    top = np.uint32(cells_per_axis - 1)
    for row in range(cells.size):
        cell = np.uint32(0)
        for axis in range(n_axes):
            whole = _whole_part((numbers[row * n_axes + axis] - lows[axis]) * scales[axis])
            along = min(np.uint32(min(whole, LARGEST_32_BITS)), top)
            cell = np.uint32(cell * cells_per_axis + along)
        cells[row] = cell


@njit(cache=True, nogil=True)
def count_dense(
    points: Floats,
    lows: tuple[float, ...],
    scales: tuple[float, ...],
    cells_per_axis: np.uint32,
    counts: Ints,
) -> None:
    """Add each row of `points` to the count of its cell; the last axis varies fastest.

    The cells of a block of rows are found first and their counts raised after, so that the
    processor computes several rows at a time and then waits for several counts at a time.
    """
    n_rows, n_axes = points.shape
    numbers = points.reshape(-1)
    cells = np.empty(BLOCK, np.uint32)
    for start in range(0, n_rows, BLOCK):
        found = cells[: min(BLOCK, n_rows - start)]
        _cells_of(numbers[start * n_axes :], lows, scales, cells_per_axis, found)
        for row in range(found.size):
            counts[np.uint64(found[row])] += 1


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
def overshoot_rows(
    points: Floats, lows: Floats, widths: Floats, farthest: float, overshoot: Floats
) -> None:
    """Write how far, L1, each row lies outside the ranges, in lengths of them."""
    n_rows, n_axes = points.shape
    for row in range(n_rows):
        outside = 0.0
        for axis in range(n_axes):
            above = points[row, axis] - lows[axis]
            beyond = max(-above, above - widths[axis])
            if beyond > 0.0:  # rare, and a division takes longer than all else
                outside += min(beyond / widths[axis], farthest)
        overshoot[row] = outside


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
