"""What number, and whose name, do the bytes of a cell write? Each cell by its own bytes alone."""

from __future__ import annotations

import numpy as np

from privod.arrays import Bytes, Ints
from privod.compiling import njit

ZERO, NINE, POINT, PLUS, MINUS, SPACE = 48, 57, 46, 43, 45, 32
GROUP = 3  # digits between two thousands marks
WIDE_SPACES = (0xE19A80, 0xE280A8, 0xE280A9, 0xE280AF, 0xE2819F, 0xE38080, 0xEFBBBF)
"""U+1680, 2028, 2029, 202F, 205F, 3000 and FEFF, beside U+2000 to 200B."""
INFINITY = np.frombuffer(b"infinity", np.uint8)


@njit(cache=True, nogil=True)
def _is_space(byte: int) -> bool:
    return byte == SPACE or 9 <= byte <= 13


@njit(cache=True, nogil=True)
def _may_be_space(byte: int) -> bool:
    return byte <= SPACE or byte >= 0x80


@njit(cache=True, nogil=True)
def is_digit(byte: int) -> bool:
    return ZERO <= byte <= NINE


@njit(cache=True, nogil=True)
def _wide_space(data: Bytes, at: int, end: int) -> int:
    """How many bytes a white space beyond ASCII takes here in UTF-8, 0 if there is none."""
    first = data[at]
    if first < 0xC2:
        return 0
    if first == 0xC2 and at + 1 < end and (data[at + 1] == 0xA0 or data[at + 1] == 0x85):
        return 2
    if at + 2 >= end:
        return 0
    code = np.int64(first) << 16 | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2])
    return 3 if 0xE28080 <= code <= 0xE2808B or code in WIDE_SPACES else 0


@njit(cache=True, nogil=True)
def trimmed(data: Bytes, start: int, end: int) -> tuple[int, int]:
    """Where a cell begins and ends without the white space around it, Unicode's as well."""
    while start < end and _may_be_space(data[start]):
        width = 1 if _is_space(data[start]) else _wide_space(data, start, end)
        if width == 0:
            break
        start += width
    while start < end and _may_be_space(data[end - 1]):
        width = 1 if _is_space(data[end - 1]) else 0
        for wide in range(2, min(3, end - start) + 1):
            if width == 0 and _wide_space(data, end - wide, end) == wide:
                width = wide
        if width == 0:
            break
        end -= width
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
def _whole_end(data: Bytes, at: int, end: int, thousands: int) -> int:
    """Where the digits before a fraction end; -1 if marks between them make no groups of three."""
    group, marks = 0, 0
    while True:
        while at < end and is_digit(data[at]):
            group += 1
            at += 1
        width = _thousands_mark(data, at, end, thousands) if thousands >= 0 else 0
        if width == 0:
            return -1 if marks > 0 and group != GROUP else at
        if group == 0 or group > GROUP or (marks > 0 and group != GROUP):
            return -1
        marks += 1
        group = 0
        at += width


@njit(cache=True, nogil=True)
def _copy_digits(data: Bytes, start: int, end: int, out: Bytes, used: int) -> int:
    for place in range(start, end):
        if is_digit(data[place]):
            out[used] = data[place]
            used += 1
    return used


@njit(cache=True, nogil=True)
def _write_number(
    data: Bytes, start: int, end: int, decimal: int, thousands: int, out: Bytes, used: int
) -> int:
    """Write the number of one cell as Arrow reads it; say where it ends, -1 if there is none."""
    at = start
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
    whole_end = _whole_end(data, at, end, thousands)
    if whole_end < 0:
        return -1
    whole = whole_end - at
    used = _copy_digits(data, at, whole_end, out, used)
    at = whole_end
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
        start, end = offsets[row], offsets[row + 1]
        if start < end and (_may_be_space(data[start]) or _may_be_space(data[end - 1])):
            start, end = trimmed(data, start, end)
        written = _write_number(data, start, end, decimal, thousands, out, used)
        is_one[row] = written >= 0
        used = max(used, written)
        ends[row + 1] = used


@njit(cache=True, nogil=True)
def _write_name(
    data: Bytes, start: int, end: int, decimal: int, thousands: int, out: Bytes, used: int
) -> int:
    at = start
    negative = at < end and data[at] == MINUS
    if at < end and (data[at] == PLUS or data[at] == MINUS):
        at += 1
    whole = at
    whole_end = at
    while whole_end < end and is_digit(data[whole_end]):
        whole_end += 1
    if thousands >= 0:  # or the call would cost more than the name
        whole_end = _whole_end(data, at, end, thousands)
    at = fraction = fraction_end = max(whole_end, at)
    if at < end and data[at] == decimal:
        at += 1
        fraction = at
        while at < end and is_digit(data[at]):
            at += 1
        fraction_end = at
    digits = (whole_end - whole) + (fraction_end - fraction)
    if whole_end < 0 or at != end or digits == 0:  # a text: as it is
        for place in range(start, end):
            out[used] = data[place]
            used += 1
        return used
    while whole < whole_end and (data[whole] == ZERO or not is_digit(data[whole])):
        whole += 1
    while fraction_end > fraction and data[fraction_end - 1] == ZERO:
        fraction_end -= 1
    if negative and (whole < whole_end or fraction < fraction_end):
        out[used] = MINUS
        used += 1
    if whole == whole_end:
        out[used] = ZERO
        used += 1
    used = _copy_digits(data, whole, whole_end, out, used)
    if fraction < fraction_end:
        out[used] = decimal  # so that 1.5 is another text where 1,5 is the number
        used += 1
        used = _copy_digits(data, fraction, fraction_end, out, used)
    return used


@njit(cache=True, nogil=True)
def write_names(
    data: Bytes, offsets: Ints, decimal: int, thousands: int, out: Bytes, ends: Ints
) -> None:
    """Write each cell in the one form that names are compared in.

    Surrounding white space goes; what then writes a number in digits is that number, without a
    plus, marks between thousands, leading zeros, or trailing zeros of a fraction; anything else is
    a text, as it is.
    """
    used = 0
    ends[0] = 0
    for row in range(len(offsets) - 1):
        start, end = offsets[row], offsets[row + 1]
        if start < end and (_may_be_space(data[start]) or _may_be_space(data[end - 1])):
            start, end = trimmed(data, start, end)
        used = _write_name(data, start, end, decimal, thousands, out, used)
        ends[row + 1] = used
