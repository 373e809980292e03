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

from privod.outliers.contexts.kernels.decide import GRUBBS, Rule, members_needed, stands_out

__all__ = ["HIGH", "LOW", "SIZE", "SQUARES", "TOTAL", "WEIGHT", "Cells", "Side", "judge_contexts"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SIZE, WEIGHT = 0, 1
TOTAL, SQUARES, LOW, HIGH = 0, 1, 2, 3

MOST_CODES = 64


class Cells(NamedTuple):
    """The other records, summed by cell."""

    codes: NDArray[np.uint8]
    """Shape (attributes, cells)."""
    counts: Ints
    """Shape (cells, 2): how many records, and what they add to the utility of a context."""
    sums: Floats
    """Shape (cells, 4): deviations from the record's value, their squares; lowest, highest."""


class Side(NamedTuple):
    """The other records on one side of the record's value, nearest first."""

    values: Floats
    codes: NDArray[np.uint8]
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
    choices: Ints,
    cells: Cells,
    below: Side,
    above: Side,
    rule: Rule,
    matches: NDArray[np.bool_],
    utilities: Ints,
    sizes: Ints,
) -> None:
    """Judge the contexts whose attributes' chosen codes are the bits of `choices`, shape (c, m)."""
    m = choices.shape[1]
    n_cells = cells.codes.shape[1]
    inside = np.empty(n_cells, np.bool_)
    counts, sums = np.empty((MOST_CODES, 2), np.int64), np.empty((MOST_CODES, 2))
    near_below, near_above = np.empty(rule.reach + 1), np.empty(rule.reach + 1)
    room, starts = np.empty((2, 2 * rule.reach + 1)), np.empty(2 * rule.reach + 1, np.int64)
    for context in range(len(choices)):
        for code in range(MOST_CODES):
            for kind in range(2):
                counts[code, kind] = 0
                sums[code, kind] = 0.0
        low, high = rule.value, rule.value
        for cell in range(n_cells):
            member = 1
            for level in range(m):
                member &= (choices[context, level] >> np.int64(cells.codes[level, cell])) & 1
            inside[cell] = member == 1
            if member == 1:
                code = int(cells.codes[m - 1, cell])
                for kind in range(2):
                    counts[code, kind] += cells.counts[cell, kind]
                    sums[code, kind] += cells.sums[cell, kind]
                low = min(low, cells.sums[cell, LOW])
                high = max(high, cells.sums[cell, HIGH])
        size, weight = 1 + counts[0, SIZE], 1 + counts[0, WEIGHT]
        total, squares = sums[0, TOTAL], sums[0, SQUARES]
        for code in range(MOST_CODES - 1, 0, -1):
            if (choices[context, m - 1] >> code) & 1 == 1:
                size += counts[code, SIZE]
                weight += counts[code, WEIGHT]
                total += sums[code, TOTAL]
                squares += sums[code, SQUARES]
        n_below, n_above = 0, 0
        if rule.kind > GRUBBS:
            needed = members_needed(rule, size)
            n_below = _members(below, inside, needed, near_below)
            n_above = _members(above, inside, needed, near_above)
        matches[context] = stands_out(
            rule, size, total, squares, low, high,
            near_below, n_below, near_above, n_above, room, starts,
        )  # fmt: skip
        utilities[context] = weight
        sizes[context] = size
