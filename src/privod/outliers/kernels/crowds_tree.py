"""A balanced tree of boxes over points, and its leaves laid out for the tiles.

Leaves hold `leaf_size` points each (the last one perhaps fewer), so leaf number and position
determine each other. Nodes are in preorder: the left child of a node follows it.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privod.outliers.kernels.crowds_tile import POINTS

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]
Smalls = NDArray[np.int32]


@njit(cache=True, nogil=True)
def _select(keys: Floats, order: Ints, low: int, high: int, rank: int) -> None:
    """Reorder keys and order on [low, high) so that the smallest up to `rank` come first."""
    high -= 1
    while low < high:
        middle = (low + high) // 2
        a, b, c = keys[low], keys[middle], keys[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if rank <= j:
            high = j
        elif rank >= i:
            low = i
        else:
            return


@njit(cache=True, nogil=True)
def grow(points: Floats, leaf_size: int) -> tuple[Ints, Ints, Ints, Ints, Floats, Floats]:
    """The order of the points and the nodes: first leaf, end leaf, right child, box."""
    n, d = points.shape
    leaves = (n + leaf_size - 1) // leaf_size
    total = 2 * leaves - 1
    order = np.arange(n)
    keys = np.empty(n)
    first = np.empty(total, np.int64)
    end = np.empty(total, np.int64)
    right = np.full(total, -1, np.int64)
    low = np.empty((total, d))
    high = np.empty((total, d))
    stack = np.empty((64, 3), np.int64)  # first leaf, end leaf, the parent it is right child of
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, leaves, -1
    top, node = 1, 0
    while top > 0:
        top -= 1
        a, b, parent = stack[top, 0], stack[top, 1], stack[top, 2]
        if parent >= 0:
            right[parent] = node
        first[node], end[node] = a, b
        start, stop = a * leaf_size, min(b * leaf_size, n)
        low[node] = points[order[start]]
        high[node] = points[order[start]]
        for i in range(start + 1, stop):
            row = order[i]
            for j in range(d):
                value = points[row, j]
                if value < low[node, j]:
                    low[node, j] = value
                if value > high[node, j]:
                    high[node, j] = value
        if b - a > 1:
            widest = 0
            for j in range(1, d):
                if high[node, j] - low[node, j] > high[node, widest] - low[node, widest]:
                    widest = j
            half = (a + b + 1) // 2
            cut = half * leaf_size
            for i in range(start, stop):
                keys[i] = points[order[i], widest]
            _select(keys, order, start, stop, cut)
            stack[top, 0], stack[top, 1], stack[top, 2] = half, b, node
            stack[top + 1, 0], stack[top + 1, 1], stack[top + 1, 2] = a, half, -1
            top += 2
        node += 1
    return order, first, end, right, low, high


@njit(cache=True, nogil=True)
def frames(first: Ints, end: Ints, low: Floats, high: Floats, width: int, reach: float) -> Ints:
    """For each leaf, the highest node with at most `width` leaves and a diagonal below `reach`.

    Points are rounded to float32 around the center of their frame; a leaf without such a node
    is its own frame.
    """
    frame = np.full(end[0], -1, np.int64)
    for node in range(first.size):
        if frame[first[node]] < 0 and end[node] - first[node] <= width:
            diagonal = 0.0
            for j in range(low.shape[1]):
                diagonal += (high[node, j] - low[node, j]) ** 2
            if diagonal <= reach * reach or end[node] - first[node] == 1:
                frame[first[node] : end[node]] = node
    return frame


@njit(cache=True, nogil=True)
def lay_tiles(
    ordered: Floats,
    frame: Ints,
    low: Floats,
    high: Floats,
    leaf_size: int,
    scale: float,
) -> tuple[Singles, Singles, Floats]:
    """Points in float32 around their frame's center, 16 a tile; -|x|^2/2; longest |x| a frame.

    Padding has -|x|^2/2 = -inf: no query is ever near it.
    """
    n, d = ordered.shape
    leaves = frame.size
    tiles = leaves * leaf_size // POINTS
    laid = np.zeros((tiles, d, POINTS), np.float32)
    norms = np.full((tiles, POINTS), -np.inf, np.float32)
    longest = np.zeros(low.shape[0])
    for i in range(n):
        node = frame[i // leaf_size]
        tile, lane = i // POINTS, i % POINTS
        square = 0.0
        for j in range(d):
            center = 0.5 * low[node, j] + 0.5 * high[node, j]
            value = np.float32((ordered[i, j] - center) * scale)
            laid[tile, j, lane] = value
            square += np.float64(value) * np.float64(value)
        norms[tile, lane] = np.float32(-0.5 * square)
        longest[node] = max(longest[node], np.sqrt(square))
    return laid, norms, longest
