"""Judge a list of contexts that contain a record, from per-cell sums and the nearest members.

A cell is one combination of attribute values; only cells that hold other records are listed. In
every attribute the record's own value has code 0. Up to 64 contexts are judged together: bit j of
a word says what is true of the j-th, so that one pass over cells and records does for all.
Sums of floats depend on their order, so there is one order for all paths: cells as listed, summed
within each code of the last attribute; then code 0, then the other codes from the highest down.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Floats, Ints, Smalls
from privod.compiling import njit
from privod.outliers.contexts.kernels.decide import (
    GRUBBS,
    HISTOGRAM,
    Near,
    Population,
    Rule,
    members_needed,
    room_for,
    stands_out,
)

SIZE, WEIGHT = 0, 1
TOTAL, SQUARES, LOW, HIGH = 0, 1, 2, 3

WORD = 64  # contexts judged together: a bit of a word for each
NEAR_ROOM = 1 << 16  # nearest members kept on a side, of all contexts together: half a megabyte
# A power of two times this number begins with six bits of its own [Leiserson 1998].
DE_BRUIJN = 0x03F79D71B4CB0A89
PLACES = np.zeros(WORD, np.int64)
for _place in range(WORD):
    PLACES[((1 << _place) * DE_BRUIJN & (1 << WORD) - 1) >> WORD - 6] = _place


class Cells(NamedTuple):
    """The other records, summed by cell."""

    codes: NDArray[np.uint16]
    """Shape (attributes, cells)."""
    counts: Ints
    """Shape (cells, 2): how many records, and what they add to the utility of a context."""
    sums: Floats
    """Shape (cells, 4): deviations from the record's value, their squares; lowest, highest."""


class Side(NamedTuple):
    """The other records on one side of the record's value, nearest first."""

    values: Floats
    codes: NDArray[np.uint16]
    """Shape (attributes, records)."""
    cells: NDArray[np.int32]
    settled: NDArray[np.int8]
    """After which attribute a record has nothing but the record's own values; -1: all along."""


@njit(cache=True, nogil=True)
def _ends(codes: NDArray[np.uint16]) -> Smalls:
    """Where cells begin to differ: row l has, for each cell, the next with other first l codes."""
    m, n_cells = codes.shape
    ends = np.full((m, n_cells), n_cells, np.int32)
    for fixed in range(1, m):
        for cell in range(n_cells - 2, -1, -1):
            same = (
                ends[fixed - 1, cell] != cell + 1
                and codes[fixed - 1, cell] == codes[fixed - 1, cell + 1]
            )
            ends[fixed, cell] = ends[fixed, cell + 1] if same else cell + 1
    return ends


class Together(NamedTuple):
    """What is known of some contexts that are judged together, each at its place."""

    counts: Ints
    """Shape (contexts, 2): how many members, and what the context is worth."""
    by_code: Floats
    """Shape (codes of the last attribute, contexts, 2): deviations and squares, for sums."""
    ends: Floats
    """Shape (contexts, 2): the lowest and the highest value."""
    needed: Ints
    """How many members on each side of the value decide."""
    near: Floats
    """Shape (2, contexts, members): those nearest to the value, below and above it."""
    n_near: Ints
    """Shape (2, contexts)."""


@njit(cache=True, nogil=True)
def _room_together(rule: Rule, n_codes: int) -> Together:
    """Room for as many contexts as are judged together."""
    width = max(1, min(WORD, NEAR_ROOM // (rule.reach + 1)))
    summed = n_codes if rule.kind == GRUBBS else 0
    return Together(
        np.empty((width, 2), np.int64),
        np.empty((summed, width, 2)),
        np.empty((width, 2)),
        np.empty(width, np.int64),
        np.empty((2, width, rule.reach + 1)),
        np.empty((2, width), np.int64),
    )


@njit(cache=True, nogil=True)
def _gather_bits(chosen: NDArray[np.bool_], words: Ints) -> None:
    """Of each code a word: which contexts take it in."""
    words[:] = 0
    for context in range(len(chosen)):
        for code in range(len(words)):
            words[code] |= np.int64(chosen[context, code]) << context


@njit(cache=True, nogil=True)
def _mark_members(
    words: Ints, starts_at: Ints, codes: NDArray[np.uint16], ends: Smalls, inside: Ints
) -> None:
    """Of each cell a word: which contexts take in its code in every attribute.

    Cells that share the codes of all attributes but the last follow each other; many that
    share one that no context takes in are passed over at once.
    """
    last = len(starts_at) - 2
    inside[:] = 0
    cell = 0
    while cell < codes.shape[1]:
        level, shared = 0, -1
        while level < last and shared != 0:
            shared &= words[starts_at[level] + np.int64(codes[level, cell])]
            level += 1
        stop = ends[level, cell]
        if shared != 0:
            for one in range(cell, stop):
                inside[one] = shared & words[starts_at[last] + np.int64(codes[last, one])]
        cell = stop


@njit(cache=True, nogil=True, inline="always")
def _lowest(word: int) -> int:
    """The place of the lowest bit that is set."""
    return int(PLACES[((word & -word) * DE_BRUIJN >> WORD - 6) & WORD - 1])


@njit(cache=True, nogil=True)
def _count(cells: Cells, inside: Ints, counts: Ints) -> None:
    """Sizes and weights, the record itself included."""
    counts[:] = 1
    for cell in range(len(inside)):
        size, weight = cells.counts[cell, SIZE], cells.counts[cell, WEIGHT]
        word = inside[cell]
        while word != 0:
            context = _lowest(word)
            counts[context, SIZE] += size
            counts[context, WEIGHT] += weight
            word &= word - 1


@njit(cache=True, nogil=True)
def _sum_by_code(cells: Cells, inside: Ints, by_code: Floats) -> None:
    """Members' deviations and their squares, within each code of the last attribute."""
    last = cells.codes[-1]
    by_code[:] = 0.0
    for cell in range(len(inside)):
        total, squares = cells.sums[cell, TOTAL], cells.sums[cell, SQUARES]
        sums, word = by_code[last[cell]], inside[cell]
        while word != 0:
            context = _lowest(word)
            sums[context, TOTAL] += total
            sums[context, SQUARES] += squares
            word &= word - 1


@njit(cache=True, nogil=True)
def _sums(words: Ints, by_code: Floats, context: int) -> tuple[float, float]:
    """A context's deviations and squares, in the one order for all paths.

    `words` are those of the last attribute's codes.
    """
    total, squares = by_code[0, context, TOTAL], by_code[0, context, SQUARES]
    for code in range(len(by_code) - 1, 0, -1):
        if (words[code] >> context) & 1 == 1:
            total += by_code[code, context, TOTAL]
            squares += by_code[code, context, SQUARES]
    return total, squares


@njit(cache=True, nogil=True)
def _find_ends(cells: Cells, inside: Ints, value: float, ends: Floats) -> None:
    """The lowest and the highest value of each context, the record's own included."""
    ends[:] = value
    for cell in range(len(inside)):
        low, high = cells.sums[cell, LOW], cells.sums[cell, HIGH]
        word = inside[cell]
        while word != 0:
            context = _lowest(word)
            ends[context, 0] = min(ends[context, 0], low)
            ends[context, 1] = max(ends[context, 1], high)
            word &= word - 1


@njit(cache=True, nogil=True)
def _find_nearest(side: Side, inside: Ints, needed: Ints, near: Floats, n_near: Ints) -> None:
    """Write the values of the members of each context that are nearest to the record's."""
    n_near[:] = 0
    looking = np.int64(0)
    for context in range(len(needed)):
        if needed[context] > 0:
            looking |= np.int64(1) << context
    for place in range(len(side.values)):
        word, value = inside[side.cells[place]] & looking, side.values[place]
        while word != 0:
            context = _lowest(word)
            near[context, n_near[context]] = value
            n_near[context] += 1
            if n_near[context] == needed[context]:
                looking ^= np.int64(1) << context
            word &= word - 1
        if looking == 0:
            break


@njit(cache=True, nogil=True, error_model="numpy")
def judge_contexts(
    chosen: NDArray[np.bool_],
    starts_at: Ints,
    cells: Cells,
    below: Side,
    above: Side,
    rule: Rule,
    matches: NDArray[np.bool_],
    utilities: Ints,
    sizes: Ints,
) -> None:
    """Judge contexts, given as which codes of each attribute they take in: rows of `chosen`.

    The codes of attribute a begin at column `starts_at[a]`; the last entry is the end.
    """
    ends = _ends(cells.codes)
    words, inside = np.empty(chosen.shape[1], np.int64), np.empty(cells.codes.shape[1], np.int64)
    last_words = words[starts_at[-2] :]
    room = room_for(rule)
    most = _room_together(rule, len(last_words))
    width = len(most.needed)
    for first in range(0, len(chosen), width):
        n = min(width, len(chosen) - first)
        _gather_bits(chosen[first : first + n], words)
        _mark_members(words, starts_at, cells.codes, ends, inside)
        _count(cells, inside, most.counts)
        if rule.kind == GRUBBS:
            _sum_by_code(cells, inside, most.by_code)
        elif rule.kind > GRUBBS:
            for context in range(n):
                most.needed[context] = members_needed(rule, most.counts[context, SIZE])
            needed = most.needed[:n]
            _find_nearest(below, inside, needed, most.near[0], most.n_near[0])
            _find_nearest(above, inside, needed, most.near[1], most.n_near[1])
        if rule.kind == HISTOGRAM:
            _find_ends(cells, inside, rule.value, most.ends)
        for context in range(n):
            size = most.counts[context, SIZE]
            total, squares, low, high = 0.0, 0.0, rule.value, rule.value
            n_below, n_above = 0, 0
            if rule.kind == GRUBBS:
                total, squares = _sums(last_words, most.by_code, context)
            elif rule.kind > GRUBBS:
                n_below, n_above = most.n_near[0, context], most.n_near[1, context]
            if rule.kind == HISTOGRAM:
                low, high = most.ends[context]
            near = Near(
                most.near[0, context], most.near[1, context],
                room.line, room.starts, room.far, room.total,
            )  # fmt: skip
            population = Population(size, total, squares, low, high, n_below, n_above)
            matches[first + context] = stands_out(rule, population, near)
            utilities[first + context] = most.counts[context, WEIGHT]
            sizes[first + context] = size
