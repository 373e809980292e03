"""Judge every context that contains a record, block by block.

A context that contains the record is a choice in every attribute: of free values, where bit j of
the number of a choice stands for code j + 1, or one of a list of ranges. A context's number has a
digit for each attribute, the last one lowest. A block is all choices of some of the last
attribute's values, everything else fixed; of one range, if that attribute is ordered.
Lists of cells and records are narrowed attribute by attribute, and kept while the attribute's
choice stays.

When records are lost, only those contexts are judged anew whose verdict may have changed: they held
one of the lost, near enough to the record's value for the rule to look at it; or, where a rule can
tell how many it takes to change its mind, they held more than that, or one at their ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    losses_endured,
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
MOST_LOST = 64  # records; when more are gone, nearly every context held one of them

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Codes = NDArray[np.uint16]
List = NDArray[np.int32]


class Menus(NamedTuple):
    """What can be chosen in each attribute."""

    n_choices: Ints
    is_ordered: NDArray[np.bool_]
    runs: Ints
    """Shape (attributes, most): the choices of an ordered attribute, as bits."""


class Verdicts(NamedTuple):
    """What a scan says of contexts, in their order."""

    utilities: NDArray[np.int32]
    """NO_MATCH where the record does not stand out."""
    room: NDArray[np.int16]
    """Of a histogram, how many members a context may lose, its lowest and highest not among them,
    before its verdict can change; of a local outlier factor, behind how many to a side of the value
    it may lose anyone. Empty if nobody asked, or by another rule."""


class Lost(NamedTuple):
    """Records that are gone since an earlier scan; none, where every context is to be judged."""

    codes: Codes
    """Shape (attributes, lost)."""
    values: Floats
    nearer: NDArray[np.int32]
    """Shape (lost, cells): how many that are left come before it on its side of the value."""
    reach: int
    """Behind so many members of a context nobody is looked at; 0: the rule looks at everyone."""


@njit(cache=True, nogil=True)
def _choice(menus: Menus, level: int, digit: int, skipped_bits: int) -> int:
    """A choice by its number, less so many of the lowest free values."""
    if menus.is_ordered[level]:
        return int(menus.runs[level, digit])
    return (digit << (skipped_bits + 1)) | 1


@njit(cache=True, nogil=True)
def _narrowed(codes: Codes, chosen: int, source: List, length: int, into: List) -> int:
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
    source: List,
    length: int,
    into: List,
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
    source: List,
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
    touched: NDArray[np.bool_],
    counts_of: Ints,
    values: Floats,
    codes: Ints,
    lengths: tuple[int, int],
    near: Near,
    marked: NDArray[np.bool_],
    room: NDArray[np.int16],
) -> None:
    """Mark the choices of a block in which the value's factor is above the bound.

    Unless it is empty, `room` is written as well.
    """
    line, middle = near.line, rule.reach
    line[middle] = rule.value
    for choice in range(len(touched)):
        size = counts_of[choice, SIZE]
        if len(room) > 0:
            room[choice] = rule.reach
        if not touched[choice] or size < 2:
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
        marked[choice], looked = is_local_outlier(
            line[first:], middle - first, end - first, min(rule.n_neighbors, size - 1), rule.bound,
            near.starts, near.far, near.total,
        )  # fmt: skip
        if len(room) > 0 and size - MOST_LOST > rule.n_neighbors:  # or it may have fewer neighbors
            room[choice] = looked


@njit(cache=True, nogil=True, error_model="numpy")
def _mark_bare_bins(
    rule: Rule,
    always: int,
    touched: NDArray[np.bool_],
    counts_of: Ints,
    sums_of: Floats,
    values: Floats,
    codes: Ints,
    lengths: tuple[int, int],
    marked: NDArray[np.bool_],
    room: NDArray[np.int16],
) -> None:
    """Mark the choices of a block in which the value's bin of a histogram is nearly empty.

    Unless it is empty, `room` is written as well.
    """
    more = MOST_LOST if len(room) > 0 else 0
    for choice in range(len(touched)):
        if not touched[choice]:
            continue
        chosen = always | (choice << 1)
        size, low, high = counts_of[choice, SIZE], sums_of[choice, LOW], sums_of[choice, HIGH]
        own = own_bin(rule.value, low, high, size, rule.bound)
        held = 1
        for side in range(2):
            for place in range(lengths[side]):
                if held >= own.full + more or not is_inside(values[side, place], own):
                    break
                held += int((chosen >> codes[side, place]) & 1)
        marked[choice] = held < own.full
        if len(room) > 0:
            room[choice] = min(losses_endured(own, held, size, rule.bound), MOST_LOST)


@njit(cache=True, nogil=True, error_model="numpy")
def _mark_decimated(
    lost: Lost,
    inside: List,
    n_inside: int,
    always: int,
    inner_bits: int,
    sums_of: Floats,
    room: NDArray[np.int16],
    gone: Floats,
    gone_of: Floats,
    touched: NDArray[np.bool_],
) -> None:
    """Mark the choices of a block that lost more than they have room for, or one of their ends.

    `gone` and `gone_of` are room to work in: of each code and of each choice, how many are lost,
    the lowest and the highest.
    """
    gone[:, 0], gone[:, 1], gone[:, 2] = 0.0, np.inf, -np.inf
    for place in range(n_inside):
        one = inside[place]
        code = lost.codes[len(lost.codes) - 1, one]
        gone[code, 0] += 1.0
        gone[code, 1] = min(gone[code, 1], lost.values[one])
        gone[code, 2] = max(gone[code, 2], lost.values[one])
    gone_of[0, 0], gone_of[0, 1], gone_of[0, 2] = 0.0, np.inf, -np.inf
    for code in range(len(gone)):
        if (always >> code) & 1 == 1:
            gone_of[0, 0] += gone[code, 0]
            gone_of[0, 1] = min(gone_of[0, 1], gone[code, 1])
            gone_of[0, 2] = max(gone_of[0, 2], gone[code, 2])
    for code in range(inner_bits, 0, -1):
        bit, more, low, high = 1 << (code - 1), gone[code, 0], gone[code, 1], gone[code, 2]
        for without in range(0, 1 << inner_bits, 2 * bit):
            gone_of[without + bit, 0] = gone_of[without, 0] + more
            gone_of[without + bit, 1] = min(gone_of[without, 1], low)
            gone_of[without + bit, 2] = max(gone_of[without, 2], high)
    for choice in range(1 << inner_bits):
        shrunk = gone_of[choice, 1] < sums_of[choice, LOW]
        shrunk |= gone_of[choice, 2] > sums_of[choice, HIGH]
        touched[choice] = shrunk or gone_of[choice, 0] > room[choice]


@njit(cache=True, nogil=True)
def _add(counts: Ints, sums: Floats, more_counts: Ints, more_sums: Floats) -> None:
    counts[0] += more_counts[0]
    counts[1] += more_counts[1]
    sums[0] += more_sums[0]
    sums[1] += more_sums[1]
    sums[LOW] = min(sums[LOW], more_sums[LOW])
    sums[HIGH] = max(sums[HIGH], more_sums[HIGH])


@njit(cache=True, nogil=True)
def _sum_by_code(cells: Cells, listed: List, length: int, counts: Ints, sums: Floats) -> None:
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


@njit(cache=True, nogil=True)
def _lost_inside(lost: Lost, choices: Ints, into: List) -> int:
    """Those of the lost that some context of a block held."""
    kept = 0
    for one in range(lost.codes.shape[1]):
        inside = True
        for level in range(len(choices)):
            inside &= (choices[level] >> np.int64(lost.codes[level, one])) & 1 == 1
        into[kept] = one
        kept += int(inside)
    return kept


@njit(cache=True, nogil=True)
def _mark_touched(
    lost: Lost,
    one: int,
    last: Codes,
    listed: List,
    length: int,
    always: int,
    inner_bits: int,
    room: NDArray[np.int16],
    nearer: Ints,
    nearer_of: Ints,
    touched: NDArray[np.bool_],
) -> None:
    """Mark the choices of a block that looked at one of the lost."""
    own = 1 << np.int64(lost.codes[len(lost.codes) - 1, one])
    nearer[:] = 0
    nearer_of[0] = 0
    for place in range(length):
        code, more = last[listed[place]], lost.nearer[one, listed[place]]
        nearer[code] += more
        nearer_of[0] += more * int((always >> np.int64(code)) & 1)
        if nearer_of[0] >= lost.reach:
            return  # all choices hold these, so none looked so far
    for code in range(inner_bits, 0, -1):
        bit = 1 << (code - 1)
        for without in range(0, 1 << inner_bits, 2 * bit):
            nearer_of[without + bit] = nearer_of[without] + nearer[code]
    for choice in range(1 << inner_bits):
        held = (always | (choice << 1)) & own != 0
        touched[choice] |= held and nearer_of[choice] < room[choice]


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
    lost: Lost,
    known: Verdicts,
    found: Verdicts,
) -> None:
    """Write what is found of each context of blocks `first` to `stop`.

    `known` is what a scan said of them while the `lost` were there; where nobody is lost, nothing
    is read from it. Room is found where there is a place for it, and nobody lost.
    """
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
    anew = lost.codes.shape[1] == 0
    inside = np.empty(lost.codes.shape[1], np.int32)
    nearer, nearer_of = np.empty(n_codes, np.int64), np.empty(inner, np.int64)
    gone, gone_of = np.empty((n_codes, 3)), np.empty((inner, 3))
    touched, marked = np.ones(inner, np.bool_), np.empty(inner, np.bool_)
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
        if not anew:
            n_inside = _lost_inside(lost, choices, inside)
            if n_inside == 0:
                for choice in range(inner):
                    found.utilities[start + choice] = known.utilities[start + choice]
                continue
        _sum_by_code(cells, lists[0, last + 1], lengths[0, last + 1], counts, sums)
        _sum_by_choice(rule.value, counts, sums, always, inner_bits, counts_of, sums_of)
        if not anew and rule.kind == HISTOGRAM:
            _mark_decimated(
                lost, inside, n_inside, always, inner_bits, sums_of,
                known.room[start : start + inner], gone, gone_of, touched,
            )  # fmt: skip
        elif not anew:
            held = 0
            for place in range(n_inside):
                held |= int(1 << np.int64(lost.codes[last, inside[place]]))
            for choice in range(inner):
                touched[choice] = lost.reach == 0 and (always | (choice << 1)) & held != 0
            for place in range(n_inside if lost.reach > 0 else 0):
                _mark_touched(
                    lost, inside[place], cells.codes[last], lists[0, last + 1],
                    lengths[0, last + 1], always, inner_bits, known.room[start : start + inner],
                    nearer, nearer_of, touched,
                )  # fmt: skip
        if looks and touched.any():
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
                    rule, always, touched, counts_of, sums_of, nearest, near_codes, sides, marked,
                    found.room[start : start + inner],
                )  # fmt: skip
            else:
                _mark_local_outliers(
                    rule, always, touched, counts_of, nearest, near_codes, sides, near, marked,
                    found.room[start : start + inner],
                )  # fmt: skip
        for choice in range(inner):
            if not touched[choice]:
                matches = known.utilities[start + choice] != NO_MATCH
            elif rule.kind == GRUBBS:
                size = counts_of[choice, SIZE]
                total, squares = sums_of[choice, TOTAL], sums_of[choice, SQUARES]
                matches = grubbs_stands_out(size, total, squares, rule.critical)
            else:
                matches = rule.kind == EVERYTHING or marked[choice]
            utility = counts_of[choice, WEIGHT] if matches else NO_MATCH
            found.utilities[start + choice] = utility
