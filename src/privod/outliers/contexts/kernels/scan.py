"""Judge every context that contains a record, block by block.

A context's number has a digit for each attribute, the last one lowest: a choice of free values,
where bit j stands for code j + 1, or one of a list of ranges. A block is all choices of some of the
last attribute's values, everything else fixed. Lists of cells and records are narrowed attribute by
attribute, and kept while the attribute's choice stays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Floats, Ints, Smalls
from privod.compiling import njit
from privod.outliers.contexts.kernels.decide import (
    EVERYTHING,
    GRUBBS,
    HISTOGRAM,
    Near,
    Rule,
    distance_needed,
    grubbs_stands_out,
    is_inside,
    is_local_outlier,
    own_bin,
    room_for,
)
from privod.outliers.contexts.kernels.judge import (
    HIGH,
    LOW,
    SIZE,
    SQUARES,
    TOTAL,
    WEIGHT,
    Cells,
    Side,
)

NO_MATCH = -1

Codes = NDArray[np.uint16]


class Menus(NamedTuple):
    """What can be chosen in each attribute."""

    n_choices: Ints
    is_ordered: NDArray[np.bool_]
    runs: Ints
    """Shape (attributes, most): the choices of an ordered attribute, as bits."""


@njit(cache=True, nogil=True)
def _choice(menus: Menus, level: int, digit: int, skipped_bits: int) -> int:
    """A choice by its number, less so many of the lowest free values."""
    if menus.is_ordered[level]:
        return int(menus.runs[level, digit])
    return (digit << (skipped_bits + 1)) | 1


@njit(cache=True, nogil=True)
def _narrowed(codes: Codes, chosen: int, source: Smalls, length: int, into: Smalls) -> int:
    """Those of the source whose code is chosen."""
    kept = 0
    for place in range(length):
        into[kept] = source[place]
        kept += int((chosen >> np.int64(codes[source[place]])) & 1)
    return kept


@njit(cache=True, nogil=True)
def _narrowed_side(
    side: Side,
    level: int,
    chosen: int,
    reach: int,
    ends: tuple[float, float],
    source: Smalls,
    length: int,
    into: Smalls,
) -> int:
    """Those of the source whose code at this level is chosen, as far out as any context looks."""
    codes = side.codes[level]
    kept = 0
    own = 0
    for place in range(length):
        record = source[place]
        if not ends[0] <= side.values[record] <= ends[1]:
            break
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
    source: Smalls,
    length: int,
    seen: Ints,
    values: Floats,
    bits: Ints,
) -> int:
    """The records any choice within `chosen` may look at: `reach` of each code, if so many."""
    last = side.codes[len(side.codes) - 1]
    for code in range(len(seen)):
        seen[code] = 0
    kept = 0
    own = 0
    for place in range(length):
        record = source[place]
        code = int(last[record])
        if (chosen >> code) & 1 == 1 and seen[code] < reach:
            seen[code] += 1
            values[kept] = side.values[record]
            bits[kept] = code
            kept += 1
            own += int((always >> code) & 1)
            if own == reach:
                break
    return kept


@njit(cache=True, nogil=True, error_model="numpy")
def _mark_local_outliers(
    rule: Rule,
    always: int,
    counts_of: Ints,
    values: Floats,
    codes: Ints,
    lengths: tuple[int, int],
    near: Near,
    marked: NDArray[np.bool_],
) -> None:
    """Mark the choices of a block in which the value's factor is above the bound."""
    line, middle = near.line, rule.reach
    line[middle] = rule.value
    for choice in range(len(marked)):
        size = counts_of[choice, SIZE]
        if size < 2:
            marked[choice] = False
            continue
        chosen = always | (choice << 1)
        first, end = middle, middle + 1
        for place in range(lengths[0]):
            line[first - 1] = values[0, place]
            first -= int((chosen >> codes[0, place]) & 1)
            if first == 0:
                break
        for place in range(lengths[1]):
            line[end] = values[1, place]
            end += int((chosen >> codes[1, place]) & 1)
            if end == len(line):
                break
        marked[choice] = is_local_outlier(
            line[first:], middle - first, end - first, min(rule.n_neighbors, size - 1), rule.bound,
            near.starts, near.far, near.total,
        )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def _mark_bare_bins(
    rule: Rule,
    always: int,
    counts_of: Ints,
    sums_of: Floats,
    values: Floats,
    codes: Ints,
    lengths: tuple[int, int],
    marked: NDArray[np.bool_],
) -> None:
    """Mark the choices of a block in which the value's bin of a histogram is nearly empty."""
    for choice in range(len(marked)):
        chosen = always | (choice << 1)
        size, low, high = counts_of[choice, SIZE], sums_of[choice, LOW], sums_of[choice, HIGH]
        own = own_bin(rule.value, low, high, size, rule.bound)
        held = 1
        for side in range(2):
            for place in range(lengths[side]):
                if held >= own.full or not is_inside(values[side, place], own):
                    break
                held += int((chosen >> codes[side, place]) & 1)
        marked[choice] = held < own.full


@njit(cache=True, nogil=True)
def _add(counts: Ints, sums: Floats, more_counts: Ints, more_sums: Floats) -> None:
    counts[0] += more_counts[0]
    counts[1] += more_counts[1]
    sums[0] += more_sums[0]
    sums[1] += more_sums[1]
    sums[LOW] = min(sums[LOW], more_sums[LOW])
    sums[HIGH] = max(sums[HIGH], more_sums[HIGH])


@njit(cache=True, nogil=True)
def _sum_by_code(cells: Cells, listed: Smalls, length: int, counts: Ints, sums: Floats) -> None:
    """Sum the listed cells within each code of the last attribute."""
    for code in range(len(counts)):
        for kind in range(2):
            counts[code, kind] = 0
            sums[code, kind] = 0.0
        sums[code, LOW], sums[code, HIGH] = np.inf, -np.inf
    last = cells.codes[len(cells.codes) - 1]
    for place in range(length):
        cell = listed[place]
        code = int(last[cell])
        _add(counts[code], sums[code], cells.counts[cell], cells.sums[cell])


@njit(cache=True, nogil=True)
def _sum_by_choice(
    value: float,
    counts: Ints,
    sums: Floats,
    always: int,
    inner_bits: int,
    counts_of: Ints,
    sums_of: Floats,
) -> None:
    """Sum the codes within each choice of a block, the record itself included."""
    counts_of[0, 0], counts_of[0, 1] = 1, 1
    sums_of[0, 0], sums_of[0, 1] = 0.0, 0.0
    sums_of[0, LOW], sums_of[0, HIGH] = value, value
    _add(counts_of[0], sums_of[0], counts[0], sums[0])
    for code in range(len(counts) - 1, inner_bits, -1):
        if (always >> code) & 1 == 1:
            _add(counts_of[0], sums_of[0], counts[code], sums[code])
    for code in range(inner_bits, 0, -1):  # the lowest code is added last
        bit, size, weight = 1 << (code - 1), counts[code, SIZE], counts[code, WEIGHT]
        total, squares = sums[code, TOTAL], sums[code, SQUARES]
        low, high = sums[code, LOW], sums[code, HIGH]
        for without in range(0, 1 << inner_bits, 2 * bit):
            counts_of[without + bit, SIZE] = counts_of[without, SIZE] + size
            counts_of[without + bit, WEIGHT] = counts_of[without, WEIGHT] + weight
            sums_of[without + bit, TOTAL] = sums_of[without, TOTAL] + total
            sums_of[without + bit, SQUARES] = sums_of[without, SQUARES] + squares
            sums_of[without + bit, LOW] = min(sums_of[without, LOW], low)
            sums_of[without + bit, HIGH] = max(sums_of[without, HIGH], high)


@njit(cache=True, nogil=True, error_model="numpy")
def scan_contexts(
    first: int,
    stop: int,
    n_codes: int,
    menus: Menus,
    inner_bits: int,
    cells: Cells,
    below: Side,
    above: Side,
    rule: Rule,
    found: NDArray[np.int32],
) -> None:
    """Write the utility of each context of blocks `first` to `stop`, NO_MATCH where it does not."""
    last = len(menus.n_choices) - 1
    reach = rule.reach
    looks = rule.kind > GRUBBS
    longest = max(cells.codes.shape[1], len(below.values), len(above.values))
    lists = np.empty((3, last + 2, longest), np.int32)  # of cells, records below, records above
    lengths = np.zeros((3, last + 2), np.int64)
    lengths[0, 0] = cells.codes.shape[1]
    lengths[1, 0], lengths[2, 0] = len(below.values), len(above.values)
    for kind in range(3):
        for place in range(lengths[kind, 0]):
            lists[kind, 0, place] = place
    counts, sums = np.empty((n_codes, 2), np.int64), np.empty((n_codes, 4))
    inner = 1 << inner_bits
    counts_of, sums_of = np.empty((inner, 2), np.int64), np.empty((inner, 4))
    seen = np.empty(n_codes, np.int64)
    nearest, near_codes = np.empty((2, longest)), np.empty((2, longest), np.int64)
    near = room_for(rule)
    marked = np.empty(inner, np.bool_)
    choices = np.full(last + 1, -1)
    narrowed = 0  # so many attributes' choices are in the lists of records
    narrowed_to = np.inf  # so far from the value the last of these lists goes
    outer = menus.n_choices[last] >> inner_bits
    for block in range(first, stop):
        rest = block // outer
        changed = last
        for level in range(last - 1, -1, -1):
            choice = _choice(menus, level, rest % menus.n_choices[level], 0)
            rest //= menus.n_choices[level]
            if choice != choices[level]:
                choices[level] = choice
                changed = level
        always = _choice(menus, last, block % outer, inner_bits)
        choices[last] = always | ((inner - 1) << 1)
        for level in range(changed, last + 1):
            lengths[0, level + 1] = _narrowed(
                cells.codes[level], choices[level], lists[0, level], lengths[0, level],
                lists[0, level + 1],
            )  # fmt: skip
        narrowed = min(narrowed, changed)
        start = (block - first) << inner_bits
        _sum_by_code(cells, lists[0, last + 1], lengths[0, last + 1], counts, sums)
        _sum_by_choice(rule.value, counts, sums, always, inner_bits, counts_of, sums_of)
        if looks:
            low, high = sums_of[inner - 1, LOW], sums_of[inner - 1, HIGH]
            far = distance_needed(rule, counts_of[0, SIZE], low, high)
            if far > narrowed_to:
                narrowed = min(narrowed, last - 1)
            for level in range(narrowed, last):
                narrowed_to = far if level == last - 1 else np.inf  # others outlive the block
                ends = (rule.value - narrowed_to, rule.value + narrowed_to)
                chosen = choices[level]
                lengths[1, level + 1] = _narrowed_side(
                    below, level, chosen, reach, ends, lists[1, level], lengths[1, level],
                    lists[1, level + 1],
                )  # fmt: skip
                lengths[2, level + 1] = _narrowed_side(
                    above, level, chosen, reach, ends, lists[2, level], lengths[2, level],
                    lists[2, level + 1],
                )  # fmt: skip
            narrowed = last
            n_below = _nearest(
                below, choices[last], always, reach, lists[1, last], lengths[1, last],
                seen, nearest[0], near_codes[0],
            )  # fmt: skip
            n_above = _nearest(
                above, choices[last], always, reach, lists[2, last], lengths[2, last],
                seen, nearest[1], near_codes[1],
            )  # fmt: skip
            sides = (n_below, n_above)
            if rule.kind == HISTOGRAM:
                _mark_bare_bins(
                    rule, always, counts_of, sums_of, nearest, near_codes, sides, marked
                )  # fmt: skip
            else:
                _mark_local_outliers(
                    rule, always, counts_of, nearest, near_codes, sides, near, marked
                )  # fmt: skip
        for choice in range(inner):
            if rule.kind == GRUBBS:
                size = counts_of[choice, SIZE]
                total, squares = sums_of[choice, TOTAL], sums_of[choice, SQUARES]
                matches = grubbs_stands_out(size, total, squares, rule.critical)
            else:
                matches = rule.kind == EVERYTHING or marked[choice]
            utility = counts_of[choice, WEIGHT] if matches else NO_MATCH
            found[start + choice] = utility
