"""Judge a list of contexts that contain a record, from per-cell sums and the nearest members.

A cell is one combination of attribute values; only cells that hold other records are listed. In
every attribute the record's own value has code 0. Sums of floats depend on their order, so there
is one order for all paths: cells as listed, summed within each code of the last attribute; then
code 0, then the other codes from the highest down.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privod.outliers.contexts.kernels.decide import (
    GRUBBS,
    Population,
    Rule,
    members_needed,
    room_for,
    stands_out,
)

__all__ = ["HIGH", "LOW", "SIZE", "SQUARES", "TOTAL", "WEIGHT", "Cells", "Side", "judge_contexts"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

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


@njit(cache=True, nogil=True)
def _members(side: Side, inside: NDArray[np.bool_], reach: int, into: Floats) -> int:
    found = 0
    for place in range(len(side.values)):
        if found == reach:
            break
        if inside[side.cells[place]]:
            into[found] = side.values[place]
            found += 1
    return found


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
    m = len(starts_at) - 1
    n_codes = starts_at[m] - starts_at[m - 1]
    n_cells = cells.codes.shape[1]
    inside = np.empty(n_cells, np.bool_)
    counts, sums = np.empty((n_codes, 2), np.int64), np.empty((n_codes, 2))
    near = room_for(rule)
    for context in range(len(chosen)):
        for code in range(n_codes):
            for kind in range(2):
                counts[code, kind] = 0
                sums[code, kind] = 0.0
        low, high = rule.value, rule.value
        for cell in range(n_cells):
            member = True
            for level in range(m):
                member &= chosen[context, starts_at[level] + np.int64(cells.codes[level, cell])]
            inside[cell] = member
            if member:
                code = int(cells.codes[m - 1, cell])
                for kind in range(2):
                    counts[code, kind] += cells.counts[cell, kind]
                    sums[code, kind] += cells.sums[cell, kind]
                low = min(low, cells.sums[cell, LOW])
                high = max(high, cells.sums[cell, HIGH])
        size, weight = 1 + counts[0, SIZE], 1 + counts[0, WEIGHT]
        total, squares = sums[0, TOTAL], sums[0, SQUARES]
        for code in range(n_codes - 1, 0, -1):
            if chosen[context, starts_at[m - 1] + code]:
                size += counts[code, SIZE]
                weight += counts[code, WEIGHT]
                total += sums[code, TOTAL]
                squares += sums[code, SQUARES]
        n_below, n_above = 0, 0
        if rule.kind > GRUBBS:
            needed = members_needed(rule, size)
            n_below = _members(below, inside, needed, near.below)
            n_above = _members(above, inside, needed, near.above)
        population = Population(size, total, squares, low, high, n_below, n_above)
        matches[context] = stands_out(rule, population, near)
        utilities[context] = weight
        sizes[context] = size
