"""An answer, a price or a budget as a table, for pandas and polars."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from privod.errors import Unavailable

__all__ = ["as_frame"]


def as_frame(library: str, columns: dict[str, list[Any]]) -> Any:
    """The columns as a data frame of pandas or polars; neither is needed for anything else."""
    try:
        module = import_module(library)
    except ImportError:
        raise Unavailable(
            f"{library} is not installed here. Install it, or read `table()`."
        ) from None
    return module.DataFrame(columns)
