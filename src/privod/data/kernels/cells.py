"""What number, and whose name, do the bytes of a cell write? Each cell by its own bytes alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privod.compiling import njit

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

ZERO, NINE, POINT, PLUS, MINUS, SPACE = 48, 57, 46, 43, 45, 32
GROUP = 3  # digits between two thousands marks
INFINITY = np.frombuffer(b"infinity", np.uint8)


@njit(cache=True, nogil=True)
def _is_space(byte: int) -> bool:
    return byte == SPACE or 9 <= byte <= 13


@njit(cache=True, nogil=True)
def is_digit(byte: int) -> bool:
    return ZERO <= byte <= NINE


@njit(cache=True, nogil=True)
def trimmed(data: Bytes, start: int, end: int) -> tuple[int, int]:
    while start < end and _is_space(data[start]):
        start += 1
    while end > start and _is_space(data[end - 1]):
        end -= 1
    return start, end


@njit(cache=True, nogil=True)
def _thousands_mark(data: Bytes, at: int, end: int, mark: int) -> int:
    """How many bytes the mark takes here, 0 if it is not there; a space may be a hard one."""
    if mark < 0 or at >= end:
        return 0
    if data[at] == mark:
        return 1
    if mark == SPACE:  # U+00A0 and U+202F, as spreadsheets write them
        if at + 1 < end and data[at] == 0xC2 and data[at + 1] == 0xA0:
            return 2
        if at + 2 < end and data[at] == 0xE2 and data[at + 1] == 0x80 and data[at + 2] == 0xAF:
            return 3
    return 0


@njit(cache=True, nogil=True)
def _write_number(
    data: Bytes, start: int, end: int, decimal: int, thousands: int, out: Bytes, used: int
) -> int:
    """Write the number of one cell as Arrow reads it; say where it ends, -1 if there is none."""
    at, end = trimmed(data, start, end)
    if at < end and (data[at] == PLUS or data[at] == MINUS):
        if data[at] == MINUS:
            out[used] = MINUS
            used += 1
        at += 1
    if end - at == 3 or end - at == 8:
        same = 0
        while same < end - at and (data[at + same] | 32) == INFINITY[same]:
            same += 1
        if same == end - at:
            for place in range(3):
                out[used + place] = INFINITY[place]
            return used + 3
    whole, group, marks = 0, 0, 0
    while at < end:
        if is_digit(data[at]):
            out[used] = data[at]
            used += 1
            whole += 1
            group += 1
            at += 1
            continue
        width = _thousands_mark(data, at, end, thousands)
        if width == 0:
            break
        if group == 0 or group > GROUP or (marks > 0 and group != GROUP):
            return -1
        marks += 1
        group = 0
        at += width
    if marks > 0 and group != GROUP:
        return -1
    fraction = 0
    if at < end and data[at] == decimal:
        out[used] = POINT
        used += 1
        at += 1
        while at < end and is_digit(data[at]):
            out[used] = data[at]
            used += 1
            fraction += 1
            at += 1
    if whole + fraction == 0:
        return -1
    if at < end and (data[at] | 32) == 101:  # the letter e
        out[used] = data[at]
        used += 1
        at += 1
        if at < end and (data[at] == PLUS or data[at] == MINUS):
            out[used] = data[at]
            used += 1
            at += 1
        power = 0
        while at < end and is_digit(data[at]):
            out[used] = data[at]
            used += 1
            power += 1
            at += 1
        if power == 0:
            return -1
    return used if at == end else -1


@njit(cache=True, nogil=True)
def write_numbers(
    data: Bytes, offsets: Ints, decimal: int, thousands: int, out: Bytes, ends: Ints, is_one: Bytes
) -> None:
    """Write the number of each cell, nothing where there is none."""
    used = 0
    ends[0] = 0
    for row in range(len(offsets) - 1):
        written = _write_number(data, offsets[row], offsets[row + 1], decimal, thousands, out, used)
        is_one[row] = written >= 0
        used = max(used, written)
        ends[row + 1] = used


@njit(cache=True, nogil=True)
def _write_name(data: Bytes, start: int, end: int, decimal: int, out: Bytes, used: int) -> int:
    start, end = trimmed(data, start, end)
    at = start
    negative = at < end and data[at] == MINUS
    if at < end and (data[at] == PLUS or data[at] == MINUS):
        at += 1
    whole = at
    while at < end and is_digit(data[at]):
        at += 1
    whole_end = at
    fraction = at
    if at < end and (data[at] == POINT or data[at] == decimal):
        at += 1
        fraction = at
        while at < end and is_digit(data[at]):
            at += 1
    fraction_end = at
    if at != end or (whole_end - whole) + (fraction_end - fraction) == 0:  # a text: as it is
        for place in range(start, end):
            out[used] = data[place]
            used += 1
        return used
    while whole < whole_end and data[whole] == ZERO:
        whole += 1
    while fraction_end > fraction and data[fraction_end - 1] == ZERO:
        fraction_end -= 1
    if negative and (whole < whole_end or fraction < fraction_end):
        out[used] = MINUS
        used += 1
    if whole == whole_end:
        out[used] = ZERO
        used += 1
    for place in range(whole, whole_end):
        out[used] = data[place]
        used += 1
    if fraction < fraction_end:
        out[used] = POINT
        used += 1
        for place in range(fraction, fraction_end):
            out[used] = data[place]
            used += 1
    return used


@njit(cache=True, nogil=True)
def write_names(data: Bytes, offsets: Ints, decimal: int, out: Bytes, ends: Ints) -> None:
    """Write each cell in the one form that names are compared in.

    Surrounding white space goes; what then writes a number in digits is that number, without a
    plus, leading zeros, or trailing zeros of a fraction; anything else is a text, as it is.
    """
    used = 0
    ends[0] = 0
    for row in range(len(offsets) - 1):
        used = _write_name(data, offsets[row], offsets[row + 1], decimal, out, used)
        ends[row + 1] = used
