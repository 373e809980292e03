"""Where do the cells of each line begin and end? Every line is split by its own bytes alone.

In a file that is well-formed as a whole, `strict` says so, a record may have several lines.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Bytes, Ints
from privod.compiling import njit

Ints32 = NDArray[np.int32]

NO_QUOTE = -1
LINE_FEED, CARRIAGE_RETURN = 10, 13
CELLS, TOO_LONG, OPEN_QUOTE, LAST_CELLS, TRAILING, WRONG_LINE = range(6)  # places in the tally
START, PLAIN, QUOTED, CLOSED = range(4)  # where in a cell a byte stands
STATE, AT_CELL, AT_LINE, RECORDS, PROBLEM = range(5)  # what is known of a file so far
STRAY_QUOTE, STRAY_RETURN, OTHER_CELLS = 1, 2, 3  # why a file is not well-formed


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
    multiline: bool,
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
    lines stay; of each its cells lie at `starts[place, line]` to `ends[place, line]`. Where records
    may have several lines, one ends at a line feed outside quotes.
    """
    n_cells = len(places)
    kept = lines = at = 0
    while at < len(block):
        line_end = at
        inside = False
        lines += 1
        this_line = lines
        while block[line_end] != LINE_FEED or inside:
            if multiline and block[line_end] == quote:
                inside = not inside
            lines += block[line_end] == LINE_FEED
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
            tally[TRAILING] += cell == n_cells + 1 and block[end - 1] == separator
            if tally[WRONG_LINE] == 0:
                tally[WRONG_LINE] = this_line
        at = line_end + 1
    return kept


@njit(cache=True, nogil=True)
def cut_records(block: Bytes, quote: int, inside: bool) -> tuple[int, bool]:
    """Where the last record that ends in a block ends, and whether a quote is open at its end."""
    cut = 0
    for at in range(len(block)):
        if block[at] == quote:
            inside = not inside
        elif block[at] == LINE_FEED and not inside:
            cut = at + 1
    return cut, inside


@njit(cache=True, nogil=True)
def strict(block: Bytes, separator: int, quote: int, n_cells: int, known: Ints) -> None:
    """Go on reading a file as [RFC 4180] has it, until something is not as it must be.

    A cell that opens with a quote closes with one, before a separator or the end of its record, and
    holds others doubled; no other cell holds a quote. Every record has as many cells as the header.
    """
    for at in range(len(block)):
        byte = block[at]
        if known[STATE] == QUOTED:
            if byte == quote:
                known[STATE] = CLOSED
            known[AT_LINE] += byte == LINE_FEED
            continue
        if byte == quote:
            if known[STATE] == PLAIN:
                known[PROBLEM] = STRAY_QUOTE
                return
            known[STATE] = QUOTED  # opens, or is the second of two
            continue
        if byte == separator:
            known[AT_CELL] += 1
            known[STATE] = START
        elif byte == LINE_FEED:
            empty = known[STATE] == START and known[AT_CELL] == 0
            if not empty and known[AT_CELL] + 1 != n_cells:
                known[PROBLEM] = OTHER_CELLS
                return
            known[RECORDS] += not empty
            known[AT_CELL], known[STATE] = 0, START
            known[AT_LINE] += 1
        elif byte == CARRIAGE_RETURN and at + 1 < len(block) and block[at + 1] == LINE_FEED:
            continue
        elif known[STATE] == CLOSED:
            known[PROBLEM] = STRAY_QUOTE
            return
        elif byte == CARRIAGE_RETURN:
            known[PROBLEM] = STRAY_RETURN
            return
        else:
            known[STATE] = PLAIN


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
