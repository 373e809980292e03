"""Count crowds up to a cap: the nearest leaves first, and done queries leave.

Most questions only ask whether a crowd is larger than some number, and most crowds are: a few
leaves around a point settle it, if they are the right ones. A heap hands out the leaves by the
distance of their mean point to the mean of the queries. Only whether a crowd is complete depends
on boxes, by the same float64 operations as in `walk.py`; the order never changes a count.
"""

from __future__ import annotations

import numpy as np

from privod.arrays import Floats, Ints
from privod.compiling import njit
from privod.outliers.crowds.kernels.boxes import bound_box, box_gap, box_reach, measure_gaps
from privod.outliers.crowds.kernels.leaf import clear_workspace, make_workspace, meet_leaf
from privod.outliers.crowds.kernels.tree import Tiles, Tree


@njit(cache=True, nogil=True)
def walk_to_cap(
    asked: Floats, block: int, cap: int, tree: Tree, tiles: Tiles, worker: int, workers: int
) -> Ints:
    """min(crowd, cap) of the asked points, blocks worker, worker + workers, ...; zero elsewhere.

    Asked points are taken `block` at a time, so they should come sorted into leaves.
    """
    total, d = asked.shape
    n = tree.ordered.shape[0]
    square = tiles.square
    result = np.zeros(total, np.int64)
    work = make_workspace(block, d, tree.leaf_size)
    counts = work.counts
    hungry, picked = np.empty(block, np.int64), np.empty(block, np.int64)
    columns, gaps = np.empty((d, block)), np.empty(block)
    low, high, mean = np.empty(d), np.empty(d), np.empty(d)
    keys = np.empty(tree.end[0] + 1)
    nodes = np.empty(tree.end[0] + 1, np.int64)
    nothing = np.zeros(1, np.int64)
    for begin in range(worker * block, total, workers * block):
        m = min(block, total - begin)
        queries = asked[begin : begin + m]
        bound_box(queries, low, high)
        clear_workspace(work)
        mean[:] = 0.0
        for i in range(m):
            hungry[i] = i
            for j in range(d):
                mean[j] += queries[i, j] / m
        n_hungry, n_columns = m, m + 1  # the columns hold the hungry queries, once they are needed
        waiting = _push(keys, nodes, 0, 0.0, 0)
        while waiting > 0 and n_hungry > 0:
            node, waiting = _pop(keys, nodes, waiting)
            if tree.end[node] - tree.first[node] > 1:
                for child in (node + 1, tree.right[node]):
                    if box_gap(low, high, tree.low, tree.high, child) > square:
                        continue
                    if box_reach(low, high, tree.low, tree.high, child) > square:
                        if tree.end[child] - tree.first[child] > 1:  # no later than its leaves
                            key = box_gap(mean, mean, tree.low, tree.high, child)
                        else:
                            key = box_gap(mean, mean, tree.mean, tree.mean, child)
                        waiting = _push(keys, nodes, waiting, key, child)
                        continue
                    start, stop = (
                        tree.first[child] * tree.leaf_size,
                        tree.end[child] * tree.leaf_size,
                    )
                    for c in range(n_hungry):
                        counts[hungry[c]] += min(stop, n) - start
                    n_hungry = _keep_below(counts, cap, hungry, n_hungry)
                continue
            n_picked = n_hungry
            for i in range(n_hungry):
                picked[i] = hungry[i]
            if box_gap(high, low, tree.low, tree.high, node) > square:
                if n_hungry < n_columns:
                    n_columns = n_hungry
                    for i in range(n_hungry):
                        for j in range(d):
                            columns[j, i] = queries[hungry[i], j]
                measure_gaps(columns, n_hungry, tree.low, tree.high, node, gaps)
                n_picked = _pick(hungry, n_hungry, gaps, square, picked)
            if n_picked > 0:
                leaf = tree.first[node]
                meet_leaf(queries, picked, n_picked, leaf, tree, tiles, work, nothing, False)
                n_hungry = _keep_below(counts, cap, hungry, n_hungry)
        for i in range(m):
            result[begin + i] = min(counts[i], cap)
    return result


@njit(cache=True, nogil=True)
def _pick(hungry: Ints, count: int, gaps: Floats, square: float, picked: Ints) -> int:
    """Write those of the hungry queries that a box does not rule out; how many they are."""
    kept = 0
    for c in range(count):
        picked[kept] = hungry[c]
        if gaps[c] <= square:
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def _keep_below(counts: Ints, cap: int, hungry: Ints, count: int) -> int:
    """Keep the queries below the cap; how many they are."""
    kept = 0
    for c in range(count):
        hungry[kept] = hungry[c]
        if counts[hungry[c]] < cap:
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def _push(keys: Floats, nodes: Ints, size: int, key: float, node: int) -> int:
    """Put a node into the heap; its new size."""
    hole = size
    while hole > 0 and keys[(hole - 1) // 2] > key:
        keys[hole], nodes[hole] = keys[(hole - 1) // 2], nodes[(hole - 1) // 2]
        hole = (hole - 1) // 2
    keys[hole], nodes[hole] = key, node
    return size + 1


@njit(cache=True, nogil=True)
def _pop(keys: Floats, nodes: Ints, size: int) -> tuple[int, int]:
    """Take the first node out of the heap; the node and the new size."""
    node = nodes[0]
    size -= 1
    key, last = keys[size], nodes[size]
    hole, child = 0, 1
    while child < size:
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[hole], nodes[hole] = keys[child], nodes[child]
        hole, child = child, 2 * child + 1
    keys[hole], nodes[hole] = key, last
    return node, size
