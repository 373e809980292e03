"""What does a column of cells say: numbers, declared values, persons? Each cell for itself.

Whatever a column is made of (numbers, texts, decimals, objects of Python), a cell is read by one
rule, in which no other cell takes part. What is refused is a type of column, never a cell:
the one exception are floats too large to be persons, which refuse the data whole.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privod.arrays import Ints
from privod.data.columns import SECONDS, Categorical, Date, Numeric, Ordinal
from privod.data.kernels.cells import write_names, write_numbers
from privod.data.kernels.dates import IN_UTC, NO_DATE, read_dates
from privod.errors import InvalidData

Declared = Numeric | Categorical | str  # a column, or the name of the persons'
Marks = tuple[int, int]  # the bytes before a fraction and between groups of digits, -1 for none
PLAIN: Marks = (ord("."), -1)
MISSING, UNDECLARED = -1, -2  # codes of cells that hold nothing, or nothing that was declared
TRUTHS = {b"false": 0, b"no": 0, b"f": 0, b"n": 0, b"0": 0}
TRUTHS |= {b"true": 1, b"yes": 1, b"t": 1, b"y": 1, b"1": 1}
MICROSECONDS = {"s": (10**6, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}
FARTHEST = 253_402_300_800 * 10**6  # the end of the year 9999


# ---- from anything to Arrow ---------------------------------------------------------------------


def as_arrow(values: Any, declared: Declared, marks: Marks = PLAIN) -> pa.Array:
    """A column of any kind as Arrow's; what is declared decides how objects of Python are read.

    Arrow and NumPy would make one type of a list of objects for the sake of a single one: floats of
    long integers beside a gap, texts of numbers beside a text. So objects are read one by one, and
    texts among them by the same marks as a column of texts.
    """
    name = declared if isinstance(declared, str) else declared.name
    if isinstance(values, pa.ChunkedArray):
        large = pa.large_binary() if _is_text(values.type) else values.type  # whatever its length
        return values.cast(large).combine_chunks()
    if isinstance(values, pa.Array):
        return values
    kind = getattr(values, "dtype", None)
    if hasattr(values, "to_arrow") and not isinstance(kind, np.dtype):  # of polars
        if str(kind) == "Object":  # Arrow would be given addresses
            return _from_objects(values.to_list(), declared, marks)
        try:
            return as_arrow(values.to_arrow(), declared, marks)
        except pa.ArrowException:  # of a type that Arrow has not: 128 bits
            raise InvalidData(_wrong_type(name, declared, kind)) from None
    if not isinstance(kind, np.dtype):
        if hasattr(kind, "na_value"):  # of pandas
            try:
                return pa.array(values, from_pandas=True)
            except (pa.ArrowException, OverflowError, TypeError, ValueError):
                pass  # its values are objects of several kinds
        if hasattr(values, "tolist"):
            values = values.tolist()
        return _from_objects(list(values), declared, marks)
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidData(f"The column {name!r} must hold one value for each row.")
    if array.dtype.kind in "biuf":
        return pa.array(array if array.dtype.itemsize <= 8 else array.astype(np.float64))
    if array.dtype.kind in "OUST":
        return _from_objects(array.tolist(), declared, marks)
    if array.dtype.kind == "M" and isinstance(declared, Date):
        with suppress(pa.ArrowException):
            return pa.array(array)
        return pa.array(array.astype("datetime64[s]"))  # of hours or months
    raise InvalidData(_wrong_type(name, declared, array.dtype))


def _from_objects(values: list[Any], declared: Declared, marks: Marks) -> pa.Array:
    """Each object for itself."""
    if isinstance(declared, Date):
        written = [str(one).encode() if isinstance(one, date) else _text(one) for one in values]
        numbers = dates_from_texts(pa.array(written, pa.large_binary()), declared)
        for place, value in enumerate(values):
            if not isinstance(value, str | bytes | bool | date):
                numbers[place] = _float(value)
        return pa.array(numbers)
    if isinstance(declared, Ordinal):
        declared = declared.categories
    if isinstance(declared, Numeric):
        if all(type(value) in (bool, int, float) for value in values):
            with suppress(OverflowError):
                return pa.array(np.array(values, np.float64))
        return _mixed_numbers(values, marks)
    if isinstance(declared, Categorical) and isinstance(declared.values[0], str):
        return pa.array([_text(value) for value in values], pa.large_binary())
    if isinstance(declared, str):
        floats = [value for value in values if isinstance(value, float | np.floating)]
        _refuse_large(floats, declared)
    return pa.array([_written(value, marks) for value in values], pa.large_binary())


def _mixed_numbers(values: list[Any], marks: Marks) -> pa.Array:
    """Numbers as they are, texts read as numbers, anything else missing."""
    texts = pa.array([_text(value) for value in values], pa.large_binary())
    numbers = numbers_from_texts(texts, marks)
    for place, value in enumerate(values):
        if not isinstance(value, str | bytes):
            numbers[place] = _float(value)
    return pa.array(numbers)


def _float(value: Any) -> float:
    if not isinstance(value, int | float | Decimal | np.number | np.bool_):
        return np.nan
    try:
        return float(value)
    except OverflowError:  # an integer beyond all floats, which lies beyond every range too
        return np.inf if value > 0 else -np.inf
    except (TypeError, ValueError):  # complex, or a signaling NaN
        return np.nan


def _text(value: Any) -> bytes | None:
    if isinstance(value, bytes):
        return value
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else None


def _written(value: Any, marks: Marks = PLAIN) -> bytes | None:
    """A name or a number in bytes, as texts beside it write them; None for what is neither."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | bytes):
        return _text(value)
    if isinstance(value, int):  # truth values are 0 and 1
        return _digits(int(value))
    if isinstance(value, float):
        if not np.isfinite(value):
            return None
        return _digits(int(value)) if value.is_integer() else _marked(str(value), marks)
    if isinstance(value, Decimal):
        return _marked(format(value, "f"), marks) if value.is_finite() else None
    return None


def _marked(number: str, marks: Marks) -> bytes:
    return number.encode().replace(b".", bytes([marks[0]]))


def _digits(value: int) -> bytes:
    try:
        return str(value).encode()
    except ValueError:  # thousands of digits, which Python does not write out
        return hex(value).encode()


# ---- from Arrow to what is declared --------------------------------------------------------------


def numbers_of(column: pa.Array, declared: Numeric, marks: Marks = PLAIN) -> NDArray[np.float64]:
    """The column's numbers, NaN where a cell holds none; perhaps its own, which are read-only."""
    if isinstance(declared, Ordinal):
        places = codes_of(column, declared.categories, marks)
        return np.where(places < 0, np.nan, places)
    column = _plain(column)
    kind = column.type
    if isinstance(declared, Date) and kind != pa.float64():
        return dates_of(column, declared)
    if kind == pa.float64():
        numbers = np.asarray(column.to_numpy(zero_copy_only=False))
        return np.floor(numbers) if isinstance(declared, Date) else numbers
    if pa.types.is_decimal(kind):  # Arrow's own cast of decimals to floats is not correctly rounded
        return numbers_from_texts(column.cast(pa.string()), PLAIN)
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
    if any(is_kind(kind) for is_kind in kinds):
        return np.array(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    if _is_text(kind):
        return numbers_from_texts(column, marks)
    raise InvalidData(_wrong_type(declared.name, declared, kind))


def numbers_from_texts(column: pa.Array, marks: Marks) -> NDArray[np.float64]:
    """The numbers that texts write, NaN where one writes none.

    The rule is ours, since no two readers agree: a sign, digits with a decimal mark, an exponent of
    ten; or inf, infinity. Arrow then reads what is left, correctly rounded.
    """
    data, offsets = bytes_of(column)
    written = np.empty(max(len(data), 1), np.uint8)
    ends, is_one = np.empty(len(offsets), np.int64), np.empty(len(column), np.uint8)
    write_numbers(data, offsets, *marks, written, ends, is_one)
    valid = np.packbits(is_one, bitorder="little")
    buffers = [pa.py_buffer(part) for part in (valid, ends, written)]
    texts = pa.Array.from_buffers(pa.large_string(), len(column), buffers)
    return np.array(pc.cast(texts, pa.float64()).to_numpy(zero_copy_only=False))


def dates_of(column: pa.Array, declared: Date) -> NDArray[np.float64]:
    """Steps since the column's origin, NaN where a cell holds no date."""
    kind = column.type
    if _is_text(kind):
        return dates_from_texts(column, declared)
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    if any(is_one(kind) for is_one in numbers):
        return np.floor(numbers_of(column, Numeric(declared.name, declared.low, declared.high)))
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        raise InvalidData(_wrong_type(declared.name, declared, kind))
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_date(kind):
        column, unit = column.cast(pa.timestamp("s"), safe=False), "s"
    else:
        unit = kind.unit
    times, parts = MICROSECONDS[unit]
    count = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    micros = np.clip(count // parts, -FARTHEST // times, FARTHEST // times) * times
    aware = np.full(len(micros), getattr(kind, "tz", None) is not None)
    return np.where(valid, _steps(micros, aware, declared), np.nan)


def dates_from_texts(column: pa.Array, declared: Date) -> NDArray[np.float64]:
    """Steps since the column's origin that texts write, NaN where one writes no date."""
    data, offsets = bytes_of(column)
    micros, kinds = np.empty(len(column), np.int64), np.empty(len(column), np.uint8)
    read_dates(data, offsets, declared.day_first, micros, kinds)
    return np.where(kinds == NO_DATE, np.nan, _steps(micros, kinds == IN_UTC, declared))


def _steps(micros: Ints, aware: NDArray[np.bool_], declared: Date) -> NDArray[np.float64]:
    """Whole steps since the origin of moments on the wall; those in UTC are put there first."""
    if declared.zone != "UTC" and aware.any():
        moments = pa.array(np.where(aware, micros, 0), pa.timestamp("us", "UTC"))
        there = pc.local_timestamp(moments.cast(pa.timestamp("us", declared.zone)))
        micros = np.where(aware, there.cast(pa.int64()).to_numpy(zero_copy_only=False), micros)
    since = micros - 10**6 * declared.origin_seconds
    return (since // (10**6 * SECONDS[declared.step])).astype(np.float64)


def values_of(
    column: pa.Array, declared: Numeric | Categorical, marks: Marks = PLAIN
) -> NDArray[np.float64]:
    """A column in floats: its numbers, or the places of its categories; NaN where missing."""
    if isinstance(declared, Numeric):
        return numbers_of(column, declared, marks)
    places = codes_of(column, declared, marks)
    return np.where(places < 0, np.nan, places)


def codes_of(column: pa.Array, declared: Categorical, marks: Marks = PLAIN) -> Ints:
    """Positions in the list of values; `MISSING` or `UNDECLARED` where a cell holds none of them.

    Of an open category what was not declared lies in the last place.
    """
    if pa.types.is_dictionary(column.type) and len(column.dictionary) <= len(column):
        of_values = np.append(codes_of(column.dictionary, declared, marks), MISSING)
        indices = column.indices.cast(pa.int64()).fill_null(-1)  # -1 finds the last place
        found: Ints = of_values[indices.to_numpy()]
        return found
    column = _plain(column)
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), -1)
    if isinstance(declared.values[0], bool):
        return _truths(column, declared)
    if isinstance(declared.values[0], str):
        if _is_text(kind):
            column = column.cast(pa.large_binary())
            return _positions(column, declared, _text)
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        column = column.cast(pa.uint64() if kind == pa.uint64() else pa.int64())
        return _positions(column, declared, int)
    elif pa.types.is_floating(kind):
        floats = kind.to_pandas_dtype()
        if not all(abs(int(value)) < first_inexact(floats) for value in declared.declared):
            raise InvalidData(
                f"The column {declared.name!r} is declared to hold whole numbers that"
                f" {np.dtype(floats)}, the type of its data, does not tell apart. Give it as"
                " integers or texts."
            )
        plain = pc.add(column.cast(pa.float64()), 0.0)  # so that -0.0 is 0.0
        return _positions(plain, declared, float)
    elif _is_text(kind) or pa.types.is_decimal(kind):
        return _positions(_names(column, marks), declared, lambda value: str(value).encode())
    raise InvalidData(_wrong_type(declared.name, declared, kind))


def _truths(column: pa.Array, declared: Categorical) -> Ints:
    """Truth values: of Arrow, 0 and 1, or the words for them in any case."""
    kind = column.type
    if _is_text(kind):
        column = pc.ascii_lower(pc.ascii_trim_whitespace(_readable(column))).cast(pa.large_binary())
        known = dict(TRUTHS)
    elif pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        column, known = column.cast(pa.float64(), safe=False), {0.0: 0, 1.0: 1}  # type: ignore[dict-item]
    else:
        raise InvalidData(_wrong_type(declared.name, declared, kind))
    found = pc.index_in(column, value_set=pa.array(list(known), column.type))
    truths = np.array([*known.values(), -1])[pc.fill_null(found, -1).to_numpy(zero_copy_only=False)]
    places = np.array([*(declared.values.index(truth) for truth in (False, True)), MISSING])
    return _foreign(places[truths], column, declared)


def _readable(column: pa.Array) -> pa.Array:
    """Texts of which every byte that is no ASCII is a question mark."""
    data, offsets = bytes_of(column)
    plain = np.where(data < 128, data, ord("?")).astype(np.uint8)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(plain)]
    return pa.Array.from_buffers(pa.large_string(), len(column), buffers)


def _foreign(places: Ints, column: pa.Array, declared: Categorical) -> Ints:
    """Say of cells that hold no declared value whether they hold another one."""
    foreign = places < 0
    if pa.types.is_floating(column.type):
        foreign &= ~np.isnan(column.to_numpy(zero_copy_only=False))
    elif _is_text(column.type):
        foreign &= pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False) > 0
    else:
        foreign &= column.is_valid().to_numpy(zero_copy_only=False)
    places[foreign] = len(declared.values) - 1 if declared.other else UNDECLARED
    return places


def _positions(column: pa.Array, declared: Categorical, form: Callable[[Any], Any]) -> Ints:
    fitting = [
        place
        for place, value in enumerate(declared.declared)
        if column.type != pa.uint64() or int(value) >= 0
    ]
    values = pa.array([form(declared.values[place]) for place in fitting], column.type)
    found = pc.fill_null(pc.index_in(column, value_set=values), -1).to_numpy(zero_copy_only=False)
    places: Ints = np.array([*fitting, MISSING], dtype=np.int64)[found]  # -1 finds the last place
    return _foreign(places, column, declared)


def names_of(column: pa.Array, name: str, marks: Marks = PLAIN) -> pa.Array:
    """Persons in the one form in which they are compared; null where a row is nobody's."""
    column = _plain(column)
    kind = column.type
    if pa.types.is_floating(kind):
        numbers = column.to_numpy(zero_copy_only=False)
        _refuse_large(numbers, name)
        numbers = numbers.astype(np.float64)
        whole = np.isfinite(numbers) & (numbers == np.floor(numbers))
        if not np.all(whole | np.isnan(numbers)):
            written = [_written(one, marks) for one in numbers.tolist()]
            return _names(pa.array(written, pa.large_binary()), marks)
        integers = np.where(whole, numbers, 0).astype(np.int64)
        column = pa.array(integers, mask=~whole)
    allowed = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
    if not (_is_text(column.type) or any(is_one(column.type) for is_one in allowed)):
        raise InvalidData(_wrong_type(name, name, kind))
    return _names(column, marks)


def _names(column: pa.Array, marks: Marks) -> pa.Array:
    if pa.types.is_boolean(column.type) or pa.types.is_null(column.type):
        column = column.cast(pa.int8())
    if not _is_text(column.type):
        column = pc.replace_substring(column.cast(pa.string()), ".", chr(marks[0]))
    data, offsets = bytes_of(column)
    written = np.empty(len(data) + len(column), np.uint8)  # .5 becomes 0.5
    ends = np.empty(len(offsets), np.int64)
    write_names(data, offsets, *marks, written, ends)
    valid = np.packbits(np.diff(ends) > 0, bitorder="little")
    buffers = [pa.py_buffer(part) for part in (valid, ends, written)]
    return pa.Array.from_buffers(pa.large_binary(), len(column), buffers)


def texts_of(column: Any) -> list[str]:
    """The cells as they are written, for whoever's they are; nothing where one is missing."""
    return ["" if cell is None else _decoded(cell) for cell in column.to_pylist()]


def _decoded(cell: Any) -> str:
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)


def bytes_of(column: pa.Array) -> tuple[NDArray[np.uint8], Ints]:
    """The bytes of all cells, and where each begins and ends; a missing cell has none."""
    column = column.cast(pa.large_binary())
    if column.null_count:
        column = pc.fill_null(column, b"")
    _valid, offsets, data = column.buffers()
    first = np.frombuffer(offsets, np.int64, len(column) + 1, 8 * column.offset)
    nothing = np.empty(0, np.uint8)
    return (nothing if data is None else np.frombuffer(data, np.uint8)), first


def _plain(column: pa.Array) -> pa.Array:
    """Dictionaries (categories of pandas) and runs spelled out."""
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    if pa.types.is_run_end_encoded(column.type):
        return pc.run_end_decode(column)
    return column


def _is_text(kind: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_binary, pa.types.is_fixed_size_binary)
    large = (pa.types.is_large_string, pa.types.is_large_binary)
    views = (pa.types.is_string_view, pa.types.is_binary_view)
    return any(is_kind(kind) for is_kind in (*kinds, *large, *views))


# ---- what is refused, by type --------------------------------------------------------------------


def _wrong_type(name: str, declared: Declared, kind: object) -> str:
    if isinstance(declared, str):
        return (
            f"The person column {name!r} must hold whole numbers or texts and is of type {kind}."
            " Convert it."
        )
    if isinstance(declared, Date | Ordinal):
        what = {"date": "dates", "ordinal": "ordered categories"}[declared.type]
    elif isinstance(declared, Categorical):
        named = {str: "texts", bool: "truth values"}
        what = named.get(type(declared.values[0]), "numbers")
    else:
        what = "numbers"
    return (
        f"The column {name!r} is declared to hold {what} and is of type {kind}. Declare it"
        " otherwise, or convert it."
    )


def first_inexact(floats: Any) -> int:
    """From which whole number on floats of a type have gaps: 2^53 for float64."""
    return 1 << (int(np.finfo(floats).nmant) + 1)


def _refuse_large(floats: Any, column: str) -> None:
    by_type = [floats] if isinstance(floats, np.ndarray) else [np.asarray(one) for one in floats]
    for array in by_type:
        if np.any(np.abs(array) >= float(first_inexact(array.dtype))):
            raise InvalidData(
                f"The person column {column!r} holds floats too large to tell persons apart; a"
                " missing value may have made floats of integers. Give it as integers or texts."
            )
