"""What date do the bytes of a cell write? Each cell by its own bytes alone."""

from __future__ import annotations

import numpy as np

from privod.arrays import Bytes, Ints
from privod.compiling import njit
from privod.data.kernels.cells import ZERO, is_digit, trimmed

NO_DATE, ON_THE_WALL, IN_UTC = 0, 1, 2
SECOND = 1_000_000  # microseconds
DIGITS_OF_YEAR, DIGITS_OF_FRACTION = 4, 6
DAYS_BEFORE = np.array([0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365])


@njit(cache=True, nogil=True)
def _digits(data: Bytes, at: int, end: int, most: int) -> tuple[int, int]:
    """The whole number written here, and where it ends."""
    number, stop = 0, at
    while stop < end and stop - at < most and is_digit(data[stop]):
        number = 10 * number + (data[stop] - ZERO)
        stop += 1
    return number, stop


@njit(cache=True, nogil=True)
def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01, -2^62 for a day that does not exist."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if year < 1 or not 1 <= month <= 12:
        return -(1 << 62)
    longest = DAYS_BEFORE[month] - DAYS_BEFORE[month - 1] + (leap and month == 2)
    if not 1 <= day <= longest:
        return -(1 << 62)
    before = year - 1
    passed = 365 * before + before // 4 - before // 100 + before // 400
    return int(passed + DAYS_BEFORE[month - 1] + (leap and month > 2) + day - 1 - 719162)


@njit(cache=True, nogil=True)
def _time(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Microseconds of HH:MM[:SS[.ffffff]] written here, and where it ends; -1 if it is none."""
    hour, stop = _digits(data, at, end, 2)
    if stop - at != 2 or hour > 23 or stop == end or data[stop] != ord(":"):
        return -1, at
    at = stop + 1
    minute, stop = _digits(data, at, end, 2)
    if stop - at != 2 or minute > 59:
        return -1, at
    micros = (hour * 60 + minute) * 60 * SECOND
    if stop == end or data[stop] != ord(":"):
        return micros, stop
    at = stop + 1
    second, stop = _digits(data, at, end, 2)
    if stop - at != 2 or second > 59:
        return -1, at
    micros += second * SECOND
    if stop == end or data[stop] != ord("."):
        return micros, stop
    at = stop + 1
    fraction, stop = _digits(data, at, end, DIGITS_OF_FRACTION)
    if stop == at:
        return -1, at
    micros += fraction * 10 ** (DIGITS_OF_FRACTION - (stop - at))
    while stop < end and is_digit(data[stop]):  # finer than a microsecond
        stop += 1
    return micros, stop


@njit(cache=True, nogil=True)
def _offset(data: Bytes, at: int, end: int) -> int:
    """Microseconds east of UTC that Z, +HH, +HHMM or +HH:MM says; -2^62 if it is none of them."""
    none = -(1 << 62)
    if data[at] == ord("Z") or data[at] == ord("z"):
        return 0 if at + 1 == end else none
    sign = 1 if data[at] == ord("+") else -1
    if data[at] != ord("+") and data[at] != ord("-"):
        return none
    hours, stop = _digits(data, at + 1, end, 2)
    if stop - at != 3 or hours > 23:
        return none
    minutes = 0
    if stop < end:
        if data[stop] == ord(":"):
            stop += 1
        begin = stop
        minutes, stop = _digits(data, begin, end, 2)
        if stop - begin != 2 or minutes > 59:
            return none
    return sign * (hours * 60 + minutes) * 60 * SECOND if stop == end else none


@njit(cache=True, nogil=True)
def _read(data: Bytes, start: int, end: int, day_first: bool) -> tuple[int, int]:
    at, end = trimmed(data, start, end)
    first, stop = _digits(data, at, end, DIGITS_OF_YEAR)
    year_first = stop - at == DIGITS_OF_YEAR
    if stop in (at, end) or not (year_first or (day_first and stop - at <= 2)):
        return 0, NO_DATE
    mark = data[stop]
    if mark != ord("-") and (year_first or (mark != ord(".") and mark != ord("/"))):
        return 0, NO_DATE
    at = stop + 1
    month, stop = _digits(data, at, end, 2)
    exact = stop - at == 2 if year_first else stop > at
    if not exact or stop == end or data[stop] != mark:
        return 0, NO_DATE
    at = stop + 1
    last, stop = _digits(data, at, end, 2 if year_first else DIGITS_OF_YEAR)
    if stop - at != (2 if year_first else DIGITS_OF_YEAR):
        return 0, NO_DATE
    days = _days(first, month, last) if year_first else _days(last, month, first)
    if days < -(1 << 61):
        return 0, NO_DATE
    micros = days * 86400 * SECOND
    if stop == end:
        return micros, ON_THE_WALL
    if data[stop] != ord("T") and data[stop] != ord("t") and data[stop] != ord(" "):
        return 0, NO_DATE
    of_day, stop = _time(data, stop + 1, end)
    if of_day < 0:
        return 0, NO_DATE
    if stop == end:
        return micros + of_day, ON_THE_WALL
    east = _offset(data, stop, end)
    return (0, NO_DATE) if east < -(1 << 61) else (micros + of_day - east, IN_UTC)


@njit(cache=True, nogil=True)
def read_dates(data: Bytes, offsets: Ints, day_first: bool, micros: Ints, kinds: Bytes) -> None:
    """Microseconds since 1970 of each cell: on the wall, or in UTC where the cell says so."""
    for row in range(len(offsets) - 1):
        micros[row], kinds[row] = _read(data, offsets[row], offsets[row + 1], day_first)
