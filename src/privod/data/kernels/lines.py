"""Where do the cells of each line begin and end? Every line is split by its own bytes alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.compiling import njit

__all__ = ["CELLS", "LAST_CELLS", "NO_QUOTE", "OPEN_QUOTE", "TOO_LONG", "copy_cells", "split_lines"]

Bytes = NDArray[np.uint8]
Ints32 = NDArray[np.int32]
Ints = NDArray[np.int64]

NO_QUOTE = -1
LINE_FEED, CARRIAGE_RETURN = 10, 13
CELLS, TOO_LONG, OPEN_QUOTE, LAST_CELLS = 0, 1, 2, 3  # places in the tally


@njit(cache=True, nogil=True)
def _closing_quote(block: Bytes, start: int, end: int, separator: int, quote: int) -> int:
    """Where the cell that opens with a quote at `start` closes on this line; -1 if it does not."""
    at = start + 1
    while at < end:
        if block[at] == quote:
            if at + 1 == end or block[at + 1] == separator:
                return at
            if block[at + 1] != quote:
                return -1
            at += 1  # two quotes stand for one
        at += 1
    return -1


@njit(cache=True, nogil=True)
def split_lines(
    block: Bytes,
    separator: int,
    quote: int,
    places: Ints,
    longest: int,
    starts: Ints32,
    ends: Ints32,
    doubled: Bytes,
    tally: Ints,
) -> int:
    """Find the wanted cells of every line of a block, which ends with a line feed.

    Lines of another number of cells than `places` has, or longer than `longest`, are left out and
    counted; so are, though they stay, lines that open a quote and do not close it. Returns how many
    lines stay; of each its cells lie at `starts[place, line]` to `ends[place, line]`.
    """
    n_cells = len(places)
    kept = 0
    at = 0
    while at < len(block):
        line_end = at
        while block[line_end] != LINE_FEED:
            line_end += 1
        end = line_end
        if end > at and block[end - 1] == CARRIAGE_RETURN:
            end -= 1
        if end == at:  # an empty line is no record
            at = line_end + 1
            continue
        if end - at > longest:
            tally[TOO_LONG] += 1
            at = line_end + 1
            continue
        cell = 0
        open_quote = False
        while True:
            closing = -1
            if quote >= 0 and at < end and block[at] == quote:
                closing = _closing_quote(block, at, end, separator, quote)
                open_quote = open_quote or closing < 0
            if closing >= 0:
                begin, stop, after = at + 1, closing, closing + 1
            else:
                begin, stop = at, at
                while stop < end and block[stop] != separator:
                    stop += 1
                after = stop
            if cell < n_cells and places[cell] >= 0:
                starts[places[cell], kept] = begin
                ends[places[cell], kept] = stop
                doubled[places[cell], kept] = closing >= 0
            cell += 1
            if after == end:
                break
            at = after + 1
        tally[LAST_CELLS] = cell
        if open_quote:
            tally[OPEN_QUOTE] += 1
        if cell == n_cells:
            kept += 1
        else:
            tally[CELLS] += 1
        at = line_end + 1
    return kept


@njit(cache=True, nogil=True)
def copy_cells(
    block: Bytes, starts: Any, ends: Any, doubled: Any, quote: int, cells: Bytes, offsets: Ints
) -> int:
    """Lay the cells of one column end to end, two quotes of a quoted cell as one; say how long."""
    used = 0
    offsets[0] = 0
    for line in range(len(starts)):
        at, end = starts[line], ends[line]
        while at < end:
            byte = block[at]
            cells[used] = byte
            used += 1
            at += 2 if doubled[line] and byte == quote else 1
        offsets[line + 1] = used
    return used
