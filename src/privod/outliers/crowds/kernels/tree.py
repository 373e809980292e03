"""A balanced tree of boxes over points, and its leaves laid out for the tiles.

Leaves hold `leaf_size` points each (the last one perhaps fewer), so leaf number and position
determine each other. Nodes are in preorder: the left child of a node follows it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Floats, Ints
from privod.compiling import njit
from privod.outliers.crowds.kernels.tile import POINTS

Singles = NDArray[np.float32]


class Tree(NamedTuple):
    """Points in the order of the leaves, and the nodes: leaves, right child, box, mean point."""

    ordered: Floats
    first: Ints
    end: Ints
    right: Ints
    low: Floats
    high: Floats
    mean: Floats
    leaf_size: int


class Tiles(NamedTuple):
    """The points in float32, 16 a tile, for one radius.

    Every leaf is laid around the mean of a node, its frame; `norms` are -|x|^2 / 2, and `longest`
    is the largest |x| of a frame. `scale` is a power of two that brings the radius near 1, or 0
    where float32 is of no use.
    """

    frame: Ints
    laid: Singles
    norms: Singles
    longest: Floats
    radius: float
    square: float
    scale: float


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


class Nodes(NamedTuple):
    """A tree while it grows."""

    order: Ints
    keys: Floats
    first: Ints
    end: Ints
    right: Ints
    low: Floats
    high: Floats
    mean: Floats


@njit(cache=True, nogil=True)
def plant(points: Floats, leaf_size: int) -> Nodes:
    """Room for the nodes over some points, with the root in it."""
    n, d = points.shape
    leaves = (n + leaf_size - 1) // leaf_size
    total = 2 * leaves - 1
    nodes = Nodes(
        np.arange(n),
        np.empty(n),
        np.empty(total, np.int64),
        np.empty(total, np.int64),
        np.full(total, -1, np.int64),
        np.empty((total, d)),
        np.empty((total, d)),
        np.empty((total, d)),
    )
    nodes.first[0], nodes.end[0] = 0, leaves
    return nodes


@njit(cache=True, nogil=True)
def split(points: Floats, leaf_size: int, nodes: Nodes, node: int) -> None:
    """Find the box of a node; make two nodes of its lower and upper half, if it is no leaf."""
    a, b = nodes.first[node], nodes.end[node]
    start, stop = a * leaf_size, min(b * leaf_size, points.shape[0])
    low, high = nodes.low[node], nodes.high[node]
    for j in range(points.shape[1]):
        low[j] = high[j] = points[nodes.order[start], j]
    for i in range(start + 1, stop):
        row = nodes.order[i]
        for j in range(points.shape[1]):
            value = points[row, j]
            low[j] = min(low[j], value)
            high[j] = max(high[j], value)
    if b - a == 1:
        return
    widest = 0
    for j in range(1, points.shape[1]):
        if high[j] - low[j] > high[widest] - low[widest]:
            widest = j
    half = (a + b + 1) // 2
    for i in range(start, stop):
        nodes.keys[i] = points[nodes.order[i], widest]
    _select(nodes.keys, nodes.order, start, stop, half * leaf_size)
    left, right = node + 1, node + 2 * (half - a)  # so many nodes has a tree of half - a leaves
    nodes.right[node] = right
    nodes.first[left], nodes.end[left] = a, half
    nodes.first[right], nodes.end[right] = half, b


@njit(cache=True, nogil=True)
def grow(points: Floats, leaf_size: int, nodes: Nodes, root: int) -> None:
    """Split a node, and all that come of it."""
    for node in range(root, root + 2 * (nodes.end[root] - nodes.first[root]) - 1):
        split(points, leaf_size, nodes, node)


@njit(cache=True, nogil=True)
def average(points: Floats, leaf_size: int, nodes: Nodes) -> None:
    """Find the mean point of every node, children before parents."""
    for node in range(nodes.first.size - 1, -1, -1):
        start = nodes.first[node] * leaf_size
        stop = min(nodes.end[node] * leaf_size, points.shape[0])
        right, mean = nodes.right[node], nodes.mean[node]
        if right < 0:
            mean[:] = 0.0
            for i in range(start, stop):
                row = nodes.order[i]
                for j in range(points.shape[1]):
                    mean[j] += points[row, j] / (stop - start)
        else:
            share = (nodes.first[right] * leaf_size - start) / (stop - start)
            for j in range(points.shape[1]):
                mean[j] = share * nodes.mean[node + 1, j] + (1.0 - share) * nodes.mean[right, j]


@njit(cache=True, nogil=True)
def frames(tree: Tree, reach: float) -> Ints:
    """For each leaf, the highest node whose mean is within `reach` of the whole leaf, or its own.

    Points are rounded to float32 around that mean. High nodes are shared by many leaves, so that
    queries are rounded rarely; a few far points keep only their own leaves from sharing.
    """
    frame = np.full(tree.end[0], -1, np.int64)
    for node in range(tree.first.size):
        if tree.end[node] - tree.first[node] == 1:
            leaf, above = tree.first[node], 0
            while frame[leaf] < 0:
                if above == node or _farthest(
                    tree.mean[above], tree.low[node], tree.high[node]
                ) <= (reach * reach):
                    frame[leaf] = above
                elif leaf < tree.first[tree.right[above]]:
                    above += 1
                else:
                    above = tree.right[above]
    return frame


@njit(cache=True, nogil=True)
def _farthest(point: Floats, low: Floats, high: Floats) -> float:
    total = 0.0
    for j in range(point.size):
        total += max(high[j] - point[j], point[j] - low[j]) ** 2
    return total


@njit(cache=True, nogil=True)
def lay_tiles(tree: Tree, frame: Ints, scale: float) -> tuple[Singles, Singles, Floats]:
    """Points around their frame's mean, 16 a tile; -|x|^2 / 2; the longest |x| of each frame.

    Padding has -|x|^2 / 2 = -inf: no query is ever near it.
    """
    n, d = tree.ordered.shape
    tiles = frame.size * tree.leaf_size // POINTS
    laid = np.zeros((tiles, d, POINTS), np.float32)
    norms = np.full((tiles, POINTS), -np.inf, np.float32)
    longest = np.zeros(tree.first.size)
    for i in range(n):
        node = frame[i // tree.leaf_size]
        tile, lane = i // POINTS, i % POINTS
        square = 0.0
        for j in range(d):
            value = np.float32((tree.ordered[i, j] - tree.mean[node, j]) * scale)
            laid[tile, j, lane] = value
            square += np.float64(value) * np.float64(value)
        norms[tile, lane] = np.float32(-0.5 * square)
        longest[node] = max(longest[node], np.sqrt(square))
    return laid, norms, longest
