"""Judge every context that contains a record, or a list of them, from per-cell sums.

A cell is one combination of attribute values; only cells that hold other records are listed. In
every attribute the record's own value has code 0, so a context that contains the record is a choice
of free values: bit j of an attribute's free bits stands for code j + 1. A context's number is its
free bits in a row, the last attribute in the lowest bits.

Sums of floats depend on their order, so there is one order for all paths: cells as listed, summed
within each code of the last attribute; then code 0, then the other codes from the highest down.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privod.outliers.kernels.contexts_decide import (
    EVERYTHING,
    GRUBBS,
    LOCAL_OUTLIER_FACTOR,
    grubbs_stands_out,
    histogram_stands_out,
    local_outlier_factor,
)

__all__ = ["NO_MATCH", "Cells", "Rule", "Side", "judge_contexts", "scan_contexts"]

NO_MATCH = -1

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Cells(NamedTuple):
    """The other records, summed by cell; deviations are from the record's value."""

    codes: NDArray[np.uint8]
    """Shape (attributes, cells)."""
    counts: Ints
    weights: Ints
    """What each cell adds to the utility of a context that contains it; the record adds 1."""
    totals: Floats
    squares: Floats
    lows: Floats
    highs: Floats


class Side(NamedTuple):
    """The other records on one side of the record's value, nearest first."""

    values: Floats
    codes: NDArray[np.uint8]
    """Shape (attributes, records)."""
    cells: NDArray[np.int32]
    settled: NDArray[np.int8]
    """After which attribute a record has nothing but the record's own values; -1: all along."""


class Rule(NamedTuple):
    """A detector as numbers."""

    kind: int
    value: float
    n_neighbors: int
    bound: float
    """The least factor that is normal still, or the share that fills a bin."""
    critical: Floats
    reach: int
    """How many members on each side of the value the rule may look at."""


@njit(cache=True, nogil=True)
def _stands_out(
    rule: Rule,
    size: int,
    total: float,
    squares: float,
    low: float,
    high: float,
    below: Floats,
    n_below: int,
    above: Floats,
    n_above: int,
    line: Floats,
    starts: Ints,
    far: Floats,
) -> bool:
    if rule.kind == EVERYTHING:
        return True
    if rule.kind == GRUBBS:
        return grubbs_stands_out(size, total, squares, rule.critical)
    if rule.kind == LOCAL_OUTLIER_FACTOR:
        if size < 2:
            return False
        for place in range(n_below):
            line[n_below - 1 - place] = below[place]
        line[n_below] = rule.value
        for place in range(n_above):
            line[n_below + 1 + place] = above[place]
        k = min(rule.n_neighbors, size - 1)
        factor = local_outlier_factor(line, n_below, n_below + 1 + n_above, k, starts, far)
        return factor > rule.bound
    return histogram_stands_out(
        rule.value, low, high, size, rule.bound, below, n_below, above, n_above
    )


@njit(cache=True, nogil=True)
def _members(
    values: Floats, codes: NDArray[np.uint8], length: int, chosen: int, reach: int, into: Floats
) -> int:
    """The first `reach` values whose code is chosen."""
    found = 0
    for place in range(length):
        into[found] = values[place]
        found += int((chosen >> np.int64(codes[place])) & 1)
        if found == reach:
            break
    return found


@njit(cache=True, nogil=True)
def _narrow(
    side: Side,
    level: int,
    chosen: int,
    reach: int,
    source: NDArray[np.int32],
    length: int,
    into: NDArray[np.int32],
) -> int:
    """Those of the source whose code at this level is chosen, as far out as any context looks."""
    codes = side.codes[level]
    kept = 0
    own = 0
    for place in range(length):
        record = source[place]
        inside = int((chosen >> np.int64(codes[record])) & 1)
        into[kept] = record
        kept += inside
        if inside == 1 and side.settled[record] <= level:
            own += 1  # it belongs to every context from here on
            if own == reach:
                break
    return kept


@njit(cache=True, nogil=True)
def _nearest(
    side: Side,
    chosen: int,
    always: int,
    reach: int,
    source: NDArray[np.int32],
    length: int,
    seen: Ints,
    values: Floats,
    codes: NDArray[np.uint8],
) -> int:
    """The records any choice within `chosen` may look at: `reach` of each code, if so many."""
    last = side.codes[len(side.codes) - 1]
    seen[:] = 0
    kept = 0
    own = 0
    for place in range(length):
        record = source[place]
        code = np.int64(last[record])
        if (chosen >> code) & 1 == 1 and seen[code] < reach:
            seen[code] += 1
            values[kept] = side.values[record]
            codes[kept] = last[record]
            kept += 1
            own += int((always >> code) & 1)
            if own == reach:
                break
    return kept


@njit(cache=True, nogil=True)
def scan_contexts(
    first: int,
    stop: int,
    free_bits: Ints,
    inner_bits: int,
    cells: Cells,
    below: Side,
    above: Side,
    rule: Rule,
    utilities: NDArray[np.int32],
) -> None:
    """Write the utility of contexts first * 2**inner_bits up to stop * 2**inner_bits, or NO_MATCH.

    `first` and `stop` count blocks: all choices of the last attribute's `inner_bits` lowest free
    values, everything else fixed. Lists of cells and records are narrowed attribute by attribute
    and kept while the attribute's choice stays.
    """
    m = len(free_bits)
    n_cells = cells.codes.shape[1]
    reach = rule.reach
    looks = rule.kind > GRUBBS
    n_below, n_above = len(below.values), len(above.values)
    cell_lists = np.empty((m + 1, n_cells), np.int32)
    below_lists = np.empty((m, n_below), np.int32)
    above_lists = np.empty((m, n_above), np.int32)
    cell_lengths = np.zeros(m + 1, np.int64)
    below_lengths = np.zeros(m, np.int64)
    above_lengths = np.zeros(m, np.int64)
    cell_lists[0] = np.arange(n_cells)
    below_lists[0] = np.arange(n_below)
    above_lists[0] = np.arange(n_above)
    cell_lengths[0], below_lengths[0], above_lengths[0] = n_cells, n_below, n_above

    last = m - 1
    n_codes = free_bits[last] + 1
    inner = 1 << inner_bits
    counts, weights = np.zeros(n_codes, np.int64), np.zeros(n_codes, np.int64)
    totals, squares = np.zeros(n_codes), np.zeros(n_codes)
    lows, highs = np.zeros(n_codes), np.zeros(n_codes)
    size_of, weight_of = np.zeros(inner, np.int64), np.zeros(inner, np.int64)
    total_of, square_of = np.zeros(inner), np.zeros(inner)
    low_of, high_of = np.zeros(inner), np.zeros(inner)
    seen = np.zeros(n_codes, np.int64)
    near_below, near_above = np.empty(n_below), np.empty(n_above)
    near_below_codes, near_above_codes = np.empty(n_below, np.uint8), np.empty(n_above, np.uint8)
    picked_below, picked_above = np.empty(reach + 1), np.empty(reach + 1)
    line, far = np.empty(2 * reach + 1), np.empty(2 * reach + 1)
    starts = np.empty(2 * reach + 1, np.int64)

    outer_bits_of_last = free_bits[last] - inner_bits
    choices = np.full(m, -1, np.int64)
    for block in range(first, stop):
        # Which attributes' choices changed since the block before: narrow from there on.
        rest = block >> outer_bits_of_last
        changed = last
        for level in range(last - 1, -1, -1):
            choice = ((rest & ((1 << free_bits[level]) - 1)) << 1) | 1
            rest >>= free_bits[level]
            if choice != choices[level]:
                choices[level] = choice
                changed = level
        always = ((block & ((1 << outer_bits_of_last) - 1)) << (inner_bits + 1)) | 1
        allowed = always | ((inner - 1) << 1)
        choices[last] = allowed
        for level in range(changed, m):
            length = 0
            codes = cells.codes[level]
            for place in range(cell_lengths[level]):
                cell = cell_lists[level, place]
                cell_lists[level + 1, length] = cell
                length += (choices[level] >> np.int64(codes[cell])) & 1
            cell_lengths[level + 1] = length
            if looks and level < last:
                below_lengths[level + 1] = _narrow(
                    below, level, choices[level], reach, below_lists[level],
                    below_lengths[level], below_lists[level + 1],
                )  # fmt: skip
                above_lengths[level + 1] = _narrow(
                    above, level, choices[level], reach, above_lists[level],
                    above_lengths[level], above_lists[level + 1],
                )  # fmt: skip
        k_below, k_above = 0, 0
        if looks:
            k_below = _nearest(
                below, allowed, always, reach, below_lists[last], below_lengths[last],
                seen, near_below, near_below_codes,
            )  # fmt: skip
            k_above = _nearest(
                above, allowed, always, reach, above_lists[last], above_lengths[last],
                seen, near_above, near_above_codes,
            )  # fmt: skip

        counts[:], weights[:], totals[:], squares[:] = 0, 0, 0.0, 0.0
        lows[:], highs[:] = np.inf, -np.inf
        for place in range(cell_lengths[m]):
            cell = cell_lists[m, place]
            code = cells.codes[last, cell]
            counts[code] += cells.counts[cell]
            weights[code] += cells.weights[cell]
            totals[code] += cells.totals[cell]
            squares[code] += cells.squares[cell]
            lows[code] = min(lows[code], cells.lows[cell])
            highs[code] = max(highs[code], cells.highs[cell])
        size_of[0], weight_of[0] = 1 + counts[0], 1 + weights[0]
        total_of[0], square_of[0] = totals[0], squares[0]
        low_of[0], high_of[0] = min(rule.value, lows[0]), max(rule.value, highs[0])
        for code in range(n_codes - 1, inner_bits, -1):
            if (always >> code) & 1 == 1:
                size_of[0] += counts[code]
                weight_of[0] += weights[code]
                total_of[0] += totals[code]
                square_of[0] += squares[code]
                low_of[0] = min(low_of[0], lows[code])
                high_of[0] = max(high_of[0], highs[code])

        for choice in range(inner):
            if choice > 0:
                code, without = 1, choice & (choice - 1)  # the lowest code is added last
                while (choice >> (code - 1)) & 1 == 0:
                    code += 1
                size_of[choice] = size_of[without] + counts[code]
                weight_of[choice] = weight_of[without] + weights[code]
                total_of[choice] = total_of[without] + totals[code]
                square_of[choice] = square_of[without] + squares[code]
                low_of[choice] = min(low_of[without], lows[code])
                high_of[choice] = max(high_of[without], highs[code])
            p_below, p_above = 0, 0
            if looks:
                chosen = always | (choice << 1)
                p_below = _members(
                    near_below, near_below_codes, k_below, chosen, reach, picked_below
                )
                p_above = _members(
                    near_above, near_above_codes, k_above, chosen, reach, picked_above
                )
            if _stands_out(
                rule, size_of[choice], total_of[choice], square_of[choice], low_of[choice],
                high_of[choice], picked_below, p_below, picked_above, p_above, line, starts, far,
            ):  # fmt: skip
                utilities[((block - first) << inner_bits) + choice] = weight_of[choice]
            else:
                utilities[((block - first) << inner_bits) + choice] = NO_MATCH


@njit(cache=True, nogil=True)
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
    last = m - 1
    n_cells = cells.codes.shape[1]
    n_codes = 64
    reach = rule.reach
    inside = np.empty(n_cells, np.bool_)
    counts, weights = np.zeros(n_codes, np.int64), np.zeros(n_codes, np.int64)
    totals, squares = np.zeros(n_codes), np.zeros(n_codes)
    picked_below, picked_above = np.empty(reach + 1), np.empty(reach + 1)
    line, far = np.empty(2 * reach + 1), np.empty(2 * reach + 1)
    starts = np.empty(2 * reach + 1, np.int64)
    for context in range(len(choices)):
        counts[:], weights[:], totals[:], squares[:] = 0, 0, 0.0, 0.0
        low, high = rule.value, rule.value
        for cell in range(n_cells):
            member = 1
            for level in range(m):
                member &= (choices[context, level] >> np.int64(cells.codes[level, cell])) & 1
            inside[cell] = member == 1
            if member == 1:
                code = cells.codes[last, cell]
                counts[code] += cells.counts[cell]
                weights[code] += cells.weights[cell]
                totals[code] += cells.totals[cell]
                squares[code] += cells.squares[cell]
                low = min(low, cells.lows[cell])
                high = max(high, cells.highs[cell])
        size, weight = 1 + counts[0], 1 + weights[0]
        total, square = totals[0], squares[0]
        for code in range(n_codes - 1, 0, -1):
            if (choices[context, last] >> code) & 1 == 1:
                size += counts[code]
                weight += weights[code]
                total += totals[code]
                square += squares[code]
        p_below, p_above = 0, 0
        if rule.kind > GRUBBS:
            for place in range(len(below.values)):
                if p_below == reach:
                    break
                if inside[below.cells[place]]:
                    picked_below[p_below] = below.values[place]
                    p_below += 1
            for place in range(len(above.values)):
                if p_above == reach:
                    break
                if inside[above.cells[place]]:
                    picked_above[p_above] = above.values[place]
                    p_above += 1
        matches[context] = _stands_out(
            rule, size, total, square, low, high,
            picked_below, p_below, picked_above, p_above, line, starts, far,
        )  # fmt: skip
        utilities[context] = weight
        sizes[context] = size
