"""Judge a list of contexts that contain a record, from per-cell sums and the nearest members.

A cell is one combination of attribute values; only cells that hold other records are listed. In
every attribute the record's own value has code 0. Sums of floats depend on their order, so there
is one order for all paths: cells as listed, summed within each code of the last attribute; then
code 0, then the other codes from the highest down.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privod.compiling import njit
from privod.outliers.contexts.kernels.decide import (
    GRUBBS,
    HISTOGRAM,
    Population,
    Rule,
    members_needed,
    room_for,
    stands_out,
)

__all__ = ["HIGH", "LOW", "SIZE", "SQUARES", "TOTAL", "WEIGHT", "Cells", "Side", "judge_contexts"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
List = NDArray[np.int32]

SIZE, WEIGHT = 0, 1
TOTAL, SQUARES, LOW, HIGH = 0, 1, 2, 3


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


@njit(cache=True, nogil=True, inline="always")
def _members(side: Side, inside: NDArray[np.uint8], reach: int, into: Floats) -> int:
    """Write the values of the nearest members; `into` has room for one more than `reach`."""
    found, place, n_others = 0, 0, len(side.values)
    while found < reach and place < n_others:
        into[found] = side.values[place]  # overwritten by the next one unless this is a member
        found += inside[side.cells[place]]
        place += 1
    return found


@njit(cache=True, nogil=True)
def _ends(codes: NDArray[np.uint16]) -> List:
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


@njit(cache=True, nogil=True, inline="always")
def _mark_members(
    chosen: NDArray[np.bool_],
    starts_at: Ints,
    codes: NDArray[np.uint16],
    ends: List,
    inside: NDArray[np.uint8],
    members: List,
) -> int:
    """List the cells that have a chosen code in every attribute, ascending, and mark them by 1.

    Cells that share the codes of all attributes but the last follow each other; many that
    share one that is not chosen are passed over at once.
    """
    last = len(starts_at) - 2
    n_members, cell = 0, 0
    while cell < codes.shape[1]:
        level = 0
        while level < last and chosen[starts_at[level] + np.int64(codes[level, cell])]:
            level += 1
        if level < last:
            cell = ends[level + 1, cell]
            continue
        for one in range(cell, ends[last, cell]):
            is_one = np.uint8(chosen[starts_at[last] + np.int64(codes[last, one])])
            members[n_members] = one  # overwritten by the next one unless this is a member
            inside[one] = is_one
            n_members += int(is_one)
        cell = ends[last, cell]
    return n_members


@njit(cache=True, nogil=True)
def _sums(
    chosen: NDArray[np.bool_], cells: Cells, members: List, by_code: Floats
) -> tuple[float, float]:
    """The members' deviations and their squares, in the one order for all paths.

    `chosen` are codes of the last attribute, and `by_code` room for the sums of each.
    """
    last = cells.codes[-1]
    by_code[:] = 0.0
    for cell in members:
        for kind in range(2):
            by_code[last[cell], kind] += cells.sums[cell, kind]
    total, squares = by_code[0, TOTAL], by_code[0, SQUARES]
    for code in range(len(chosen) - 1, 0, -1):
        if chosen[code]:
            total += by_code[code, TOTAL]
            squares += by_code[code, SQUARES]
    return total, squares


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
    n_cells = cells.codes.shape[1]
    ends = _ends(cells.codes)
    inside, listed = np.zeros(n_cells, np.uint8), np.empty(n_cells + 1, np.int32)
    by_code = np.empty((starts_at[-1] - starts_at[-2], 2))
    near = room_for(rule)
    for context in range(len(chosen)):
        n_members = _mark_members(chosen[context], starts_at, cells.codes, ends, inside, listed)
        members = listed[:n_members]
        size, weight = 1, 1
        for cell in members:
            size += cells.counts[cell, SIZE]
            weight += cells.counts[cell, WEIGHT]
        total, squares, low, high = 0.0, 0.0, rule.value, rule.value
        n_below, n_above = 0, 0
        if rule.kind == GRUBBS:
            codes = chosen[context, starts_at[-2] :]
            total, squares = _sums(codes, cells, members, by_code)
        elif rule.kind > GRUBBS:
            needed = members_needed(rule, size)
            n_below = _members(below, inside, needed, near.below)
            n_above = _members(above, inside, needed, near.above)
        if rule.kind == HISTOGRAM:
            for cell in members:
                low = min(low, cells.sums[cell, LOW])
                high = max(high, cells.sums[cell, HIGH])
        population = Population(size, total, squares, low, high, n_below, n_above)
        matches[context] = stands_out(rule, population, near)
        utilities[context] = weight
        sizes[context] = size
        for cell in members:
            inside[cell] = 0
