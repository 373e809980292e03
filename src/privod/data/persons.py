"""Whose row is it? Persons are told apart exactly, or their column is refused.

If two persons were taken for one, the row of the second would come in where the first one's goes:
removing a person would move somebody else's rows, and no cap per person would hold. Floats do that
to large whole numbers, and a single missing value is enough to make a column of integers one of
floats. So values are looked at one by one, and floats count only where they are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.errors import InvalidData

__all__ = ["first_inexact", "numbered", "one_by_one", "plain_list"]

NAMING_KINDS = "biufOSUT"  # of NumPy types: truth values, numbers, objects, texts


def one_by_one(values: Any) -> NDArray[Any]:
    """The values as an array in which none changes for another's sake, as 1 does beside "x"."""
    if isinstance(getattr(values, "dtype", None), np.dtype):
        return np.asarray(values)
    for spell_out in ("to_pylist", "to_list"):  # of Arrow and polars, which make floats of gaps
        if hasattr(values, spell_out):
            values = getattr(values, spell_out)()
    return np.asarray(values, dtype=object)


def plain_list(array: NDArray[Any]) -> list[Any]:
    """The values as Python's own, also where objects of NumPy's stand among them."""
    values: list[Any] = array.tolist()
    if array.dtype.kind != "O":
        return values
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def first_inexact(floats: Any) -> int:
    """From which whole number on floats of a type have gaps: 2^53 for float64."""
    return 1 << (int(np.finfo(floats).nmant) + 1)


def numbered(values: Any, column: str) -> NDArray[np.int64]:
    """Number persons in the order they first appear; -1 for a row that is nobody's."""
    array = one_by_one(values)
    if array.ndim != 1 or array.dtype.kind not in NAMING_KINDS:
        raise InvalidData(
            f"The person column {column!r} must hold one whole number or text for each row."
        )
    if array.dtype.kind == "f":
        _refuse_inexact(np.abs(array), array.dtype, column)
    if array.dtype.kind == "O":
        for value in array.tolist():
            if isinstance(value, float | np.floating):
                _refuse_inexact(abs(value), type(value), column)
    listed = plain_list(array)
    numbers: dict[object, int] = {}
    try:
        found = (
            -1 if _missing(value) else numbers.setdefault(value, len(numbers)) for value in listed
        )
        return np.fromiter(found, dtype=np.int64, count=len(listed))
    except TypeError:
        raise InvalidData(
            f"The person column {column!r} must hold whole numbers or texts. Convert it."
        ) from None


def _refuse_inexact(size: Any, floats: Any, column: str) -> None:
    if np.any(size >= float(first_inexact(floats))):
        raise InvalidData(
            f"The person column {column!r} holds floats too large to tell persons apart; a missing"
            " value may have made floats of integers. Give it as integers or texts."
        )


def _missing(value: object) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)  # NaN and NaT
    except TypeError:
        return True  # the missing value of pandas, which compares to nothing
