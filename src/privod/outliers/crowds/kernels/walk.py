"""Count crowds by walking a tree of boxes with one block of query points at a time.

Boxes farther than the radius are skipped and boxes within it are taken whole, both decided by
the very float64 operations of the predicate. What remains is block against leaf, in tiles.
"""

from __future__ import annotations

import numpy as np

from privod.arrays import Floats, Ints
from privod.compiling import njit
from privod.outliers.crowds.kernels.boxes import Queries, bound_box, box_gap, box_reach, sift
from privod.outliers.crowds.kernels.leaf import clear_workspace, make_workspace, meet_leaf
from privod.outliers.crowds.kernels.tree import Tiles, Tree

SIFT_EVERY = 3  # levels of the tree between two looks at each query point of a block by itself
SIFT_LEAVES_BELOW = 12  # in more dimensions a leaf's box is too wide to settle anything


@njit(cache=True, nogil=True)
def walk(
    asked: Floats, block: int, own: bool, tree: Tree, tiles: Tiles, worker: int, workers: int
) -> Ints:
    """Crowds of the asked points, blocks worker, worker + workers, ...; all workers' add up.

    Asked points are taken `block` at a time, so they should come sorted into leaves. The tree's
    own points, asked for in its order and leaf by leaf, are looked at once a pair: a leaf meets
    only leaves after it, and every pair found is credited to both; boxes taken whole are credited
    to the node and handed down in the end.
    """
    total, d = asked.shape
    n = tree.ordered.shape[0]
    square = tiles.square
    credit = np.zeros(total, np.int64)
    passed = np.zeros(tree.first.size, np.int64)
    work = make_workspace(block, d, tree.leaf_size)
    counts = work.counts
    columns = np.empty((d, block))
    pool = np.empty(64 * block, np.int64)
    held = Queries(columns, pool, counts, np.empty(block), np.empty(block))
    low, high = np.empty(d), np.empty(d)
    stack = np.empty((64, 4), np.int64)  # node, its queries' place in the pool, their number, level
    for leaf in range(worker, (total + block - 1) // block, workers):
        begin, m = leaf * block, min(block, total - leaf * block)
        queries = asked[begin : begin + m]
        bound_box(queries, low, high)
        clear_workspace(work)
        for i in range(m):
            pool[i] = i
            for j in range(d):
                columns[j, i] = queries[i, j]
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, 0, m, 0
        top = 1
        while top > 0:
            top -= 1
            node, place, count, level = (stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3])
            if own and tree.end[node] <= leaf:
                continue
            if box_gap(low, high, tree.low, tree.high, node) > square:
                continue
            size = min(tree.end[node] * tree.leaf_size, n) - tree.first[node] * tree.leaf_size
            ahead = not own or tree.first[node] > leaf
            if ahead and box_reach(low, high, tree.low, tree.high, node) <= square:
                for c in range(place, place + count):
                    counts[pool[c]] += size
                passed[node] += count
                continue
            bottom = tree.end[node] - tree.first[node] == 1
            close = level % SIFT_EVERY == SIFT_EVERY - 1 or (bottom and d <= SIFT_LEAVES_BELOW)
            if close and m > 1:  # a lone query's box is the query
                within = size if ahead else 0
                kept, took = sift(held, m, tree, node, square, place, count, within)
                passed[node] += took
                place, count = place + count, kept
                if count == 0:
                    continue
            if bottom:
                other = tree.first[node]
                meet_leaf(
                    queries,
                    pool[place : place + count],
                    count,
                    other,
                    tree,
                    tiles,
                    work,
                    credit,
                    own and other != leaf,
                )
                continue
            stack[top, 0], stack[top, 1], stack[top, 2] = tree.right[node], place, count
            stack[top + 1, 0], stack[top + 1, 1], stack[top + 1, 2] = node + 1, place, count
            stack[top, 3], stack[top + 1, 3] = level + 1, level + 1
            top += 2
        for i in range(m):
            credit[begin + i] += counts[i]
    if own:
        _hand_down(passed, tree, credit)
    return credit


@njit(cache=True, nogil=True)
def _hand_down(passed: Ints, tree: Tree, credit: Ints) -> None:
    """Credit the points of every node with the queries that took it whole."""
    for node in range(passed.size):
        if tree.end[node] - tree.first[node] > 1:
            passed[node + 1] += passed[node]
            passed[tree.right[node]] += passed[node]
        else:
            start = tree.first[node] * tree.leaf_size
            for i in range(start, min(start + tree.leaf_size, credit.size)):
                credit[i] += passed[node]
