"""One side of a table of counts: a column cut into cells by its public domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.data import Column, Numeric, Ordinal


@dataclass(frozen=True)
class Axis:
    """One side of a histogram: a column cut into cells by its public domain."""

    column: str
    names: tuple[str, ...]
    edges: tuple[float, ...] = ()
    """The borders of a numeric column's intervals; empty for categories."""

    @classmethod
    def of(cls, column: Column, bins: int) -> Axis:
        """Cut a column into its categories, or into equal intervals."""
        if not isinstance(column, Numeric) or isinstance(column, Ordinal):
            return cls(column.name, tuple(map(column.shown, range(len(column.values)))))
        column.check_range()
        edges = np.linspace(column.low, column.high, bins + 1).tolist()
        shown = map(column.shown, edges)
        names = tuple(f"{low} to {high}" for low, high in pairwise(shown))
        return cls(column.name, names, tuple(edges))


def table_of_counts(
    axes: Sequence[Axis], called: str, counts: NDArray[np.int64]
) -> dict[str, list[Any]]:
    """A row for each cell of the axes: its names, and its count."""
    cells = list(product(*(axis.names for axis in axes)))
    found: dict[str, list[Any]] = {
        axis.column: [cell[place] for cell in cells] for place, axis in enumerate(axes)
    }
    return {**found, called: counts.ravel().tolist()}
