"""Count crowds by walking a tree of boxes with one leaf of query points at a time.

Boxes farther than the radius are skipped and boxes within it are taken whole, both decided by
the very float64 operations of the predicate: rounding is monotone, so the rounded distance to a
box bounds the rounded distance to every point in it, and no slack is needed. What remains is
leaf against leaf, in tiles.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from privod.outliers.kernels.crowds_boxes import (
    bound_box,
    box_gap,
    box_reach,
    center_gap,
    keep_hungry,
    sift,
)
from privod.outliers.kernels.crowds_leaf import enter_frame, leaf_exactly, leaf_in_tiles
from privod.outliers.kernels.crowds_tile import POINTS, QUERIES
from privod.outliers.kernels.crowds_tree import Floats, Ints, Singles

SIFT_EVERY = 3  # levels of the tree between two looks at each query point of a leaf by itself
SIFT_LEAVES_BELOW = 12  # in more dimensions a leaf's box is too wide to settle anything


@njit(cache=True, nogil=True)
def walk_own(
    ordered: Floats,
    first: Ints,
    end: Ints,
    right: Ints,
    low: Floats,
    high: Floats,
    frame: Ints,
    laid: Singles,
    norms: Singles,
    longest: Floats,
    leaf_size: int,
    radius: float,
    scale: float,
    worker: int,
    workers: int,
) -> Ints:
    """Crowds of the tree's own points, each pair looked at once; leaves worker, worker + workers...

    The counts of all workers have to be added up. A leaf meets only leaves after it, and every
    pair found is credited to both; boxes taken whole are credited to the node and handed down.
    """
    n, d = ordered.shape
    square = radius * radius
    leaves, nodes = frame.size, first.size
    credit = np.zeros(n, np.int64)
    passed = np.zeros(nodes, np.int64)
    counts = np.zeros(leaf_size, np.int64)
    moved = np.empty((leaf_size, d), np.float32)
    sure = np.empty(leaf_size, np.float32)
    maybe = np.empty(leaf_size, np.float32)
    columns = np.empty((d, leaf_size))
    pool = np.empty(64 * leaf_size, np.int64)
    gaps = np.empty(leaf_size)
    reaches = np.empty(leaf_size)
    group = np.zeros((d, QUERIES), np.float32)
    group_sure = np.empty(QUERIES, np.float32)
    group_maybe = np.empty(QUERIES, np.float32)
    near = np.zeros((QUERIES, 4), np.int32)
    far = np.zeros(4, np.int32)
    earned = np.zeros(leaf_size + POINTS, np.int32)
    own = np.empty(leaves, np.int64)
    for node in range(nodes):
        if end[node] - first[node] == 1:
            own[first[node]] = node
    stack = np.empty((64, 4), np.int64)  # node, its queries' place in the pool, their number, level
    for leaf in range(worker, leaves, workers):
        begin, finish = leaf * leaf_size, min((leaf + 1) * leaf_size, n)
        m = finish - begin
        queries = ordered[begin:finish]
        box = own[leaf]
        for i in range(m):
            counts[i] = 0
            pool[i] = i
            columns[:, i] = queries[i]
        entered, useful = -1, False
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, 0, m, 0
        top = 1
        while top > 0:
            top -= 1
            node, place, count, level = (stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3])
            if end[node] <= leaf or box_gap(low[box], high[box], low[node], high[node]) > square:
                continue
            size = min(end[node] * leaf_size, n) - first[node] * leaf_size
            ahead = first[node] > leaf
            if ahead and box_reach(low[box], high[box], low[node], high[node]) <= square:
                for c in range(place, place + count):
                    counts[pool[c]] += size
                passed[node] += count
                continue
            bottom = end[node] - first[node] == 1
            if level % SIFT_EVERY == SIFT_EVERY - 1 or (bottom and d <= SIFT_LEAVES_BELOW):
                kept, took = sift(
                    columns,
                    m,
                    low[node],
                    high[node],
                    square,
                    pool,
                    place,
                    count,
                    size if ahead else 0,
                    counts,
                    gaps,
                    reaches,
                )
                passed[node] += took
                place, count = place + count, kept
                if count == 0:
                    continue
            if not bottom:
                stack[top, 0], stack[top, 1], stack[top, 2] = right[node], place, count
                stack[top + 1, 0], stack[top + 1, 1], stack[top + 1, 2] = node + 1, place, count
                stack[top, 3], stack[top + 1, 3] = level + 1, level + 1
                top += 2
                continue
            other = first[node]
            start, stop = other * leaf_size, other * leaf_size + size
            both_ways = other != leaf
            picked = pool[place : place + count]
            if frame[other] != entered:
                entered = frame[other]
                useful = enter_frame(
                    queries,
                    m,
                    low[entered],
                    high[entered],
                    longest[entered],
                    scale,
                    radius,
                    moved,
                    sure,
                    maybe,
                )
            if useful:
                leaf_in_tiles(
                    queries,
                    moved,
                    sure,
                    maybe,
                    picked,
                    count,
                    ordered,
                    laid,
                    norms,
                    start,
                    stop,
                    square,
                    counts,
                    credit,
                    both_ways,
                    group,
                    group_sure,
                    group_maybe,
                    near,
                    far,
                    earned,
                )
            else:
                leaf_exactly(
                    queries, picked, count, ordered, start, stop, square, counts, credit, both_ways
                )
        for i in range(m):
            credit[begin + i] += counts[i]
    for node in range(nodes):
        if end[node] - first[node] > 1:
            passed[node + 1] += passed[node]
            passed[right[node]] += passed[node]
        else:
            for i in range(first[node] * leaf_size, min(end[node] * leaf_size, n)):
                credit[i] += passed[node]
    return credit


@njit(cache=True, nogil=True)
def walk_others(
    asked: Floats,
    query_leaf: int,
    cap: int,
    ordered: Floats,
    first: Ints,
    end: Ints,
    right: Ints,
    low: Floats,
    high: Floats,
    frame: Ints,
    laid: Singles,
    norms: Singles,
    longest: Floats,
    leaf_size: int,
    radius: float,
    scale: float,
    worker: int,
    workers: int,
    result: Ints,
) -> None:
    """Write min(crowd, cap) of the asked points into result; near boxes first, done points leave.

    Asked points are taken `query_leaf` at a time, so they should come sorted into leaves.
    """
    total, d = asked.shape
    n = ordered.shape[0]
    square = radius * radius
    counts = np.zeros(query_leaf, np.int64)
    moved = np.empty((query_leaf, d), np.float32)
    sure = np.empty(query_leaf, np.float32)
    maybe = np.empty(query_leaf, np.float32)
    columns = np.empty((d, query_leaf))
    pool = np.empty(160 * query_leaf, np.int64)
    gaps = np.empty(query_leaf)
    reaches = np.empty(query_leaf)
    group = np.zeros((d, QUERIES), np.float32)
    group_sure = np.empty(QUERIES, np.float32)
    group_maybe = np.empty(QUERIES, np.float32)
    near = np.zeros((QUERIES, 4), np.int32)
    far = np.zeros(4, np.int32)
    earned = np.zeros(1, np.int32)
    nothing = np.zeros(1, np.int64)
    box_low = np.empty(d)
    box_high = np.empty(d)
    stack = np.empty((64, 4), np.int64)  # node, its queries' place in the pool, their number, level
    for begin in range(worker * query_leaf, total, workers * query_leaf):
        m = min(query_leaf, total - begin)
        queries = asked[begin : begin + m]
        bound_box(queries, box_low, box_high)
        for i in range(m):
            counts[i] = 0
            pool[i] = i
            columns[:, i] = queries[i]
        entered, useful = -1, False
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, 0, m, 0
        top = 1
        while top > 0:
            top -= 1
            node, place, count, level = (stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3])
            if box_gap(box_low, box_high, low[node], high[node]) > square:
                continue
            hungry = keep_hungry(pool, place, count, counts, cap)
            place, count = place + count, hungry
            if count == 0:
                continue
            size = min(end[node] * leaf_size, n) - first[node] * leaf_size
            if box_reach(box_low, box_high, low[node], high[node]) <= square:
                for c in range(place, place + count):
                    counts[pool[c]] += size
                continue
            bottom = end[node] - first[node] == 1
            close = level % SIFT_EVERY == SIFT_EVERY - 1 or (bottom and d <= SIFT_LEAVES_BELOW)
            if close and m > 1:  # a lone query's box is the query
                kept, _ = sift(
                    columns,
                    m,
                    low[node],
                    high[node],
                    square,
                    pool,
                    place,
                    count,
                    size,
                    counts,
                    gaps,
                    reaches,
                )
                place, count = place + count, kept
                if count == 0:
                    continue
            if not bottom:
                one, two = node + 1, right[node]
                if center_gap(box_low, box_high, low[one], high[one]) < center_gap(
                    box_low, box_high, low[two], high[two]
                ):
                    one, two = two, one
                stack[top, 0], stack[top, 1], stack[top, 2] = one, place, count
                stack[top + 1, 0], stack[top + 1, 1], stack[top + 1, 2] = two, place, count
                stack[top, 3], stack[top + 1, 3] = level + 1, level + 1
                top += 2
                continue
            other = first[node]
            start, stop = other * leaf_size, other * leaf_size + size
            picked = pool[place : place + count]
            if frame[other] != entered:
                entered = frame[other]
                useful = enter_frame(
                    queries,
                    m,
                    low[entered],
                    high[entered],
                    longest[entered],
                    scale,
                    radius,
                    moved,
                    sure,
                    maybe,
                )
            if useful:
                leaf_in_tiles(
                    queries,
                    moved,
                    sure,
                    maybe,
                    picked,
                    count,
                    ordered,
                    laid,
                    norms,
                    start,
                    stop,
                    square,
                    counts,
                    nothing,
                    False,
                    group,
                    group_sure,
                    group_maybe,
                    near,
                    far,
                    earned,
                )
            else:
                leaf_exactly(
                    queries, picked, count, ordered, start, stop, square, counts, nothing, False
                )
        for i in range(m):
            result[begin + i] = min(counts[i], cap)
