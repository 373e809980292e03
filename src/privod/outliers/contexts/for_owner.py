"""What the rows say about a record's contexts, for the owner's own eyes: exact, and NOT private."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privod.data.table import Table
from privod.errors import InvalidParameter
from privod.outliers.contexts.contexts import ContextSpace
from privod.outliers.contexts.detectors import BuiltIn, Detector, refuse_too_wide
from privod.outliers.contexts.matching import look_from
from privod.progress import track

MOST_CONTEXTS = 2**26
MOST_CONTEXTS_PLUGGED_IN = 2**16


def contexts_moved(
    table: Table,
    space: ContextSpace,
    column: str,
    value: float,
    detector: Detector,
    groups: Sequence[NDArray[np.int64]],
) -> NDArray[np.bool_]:
    """Whether the record's matching contexts change when each of these groups of rows is gone.

    NOT private: for the owner alone.
    """
    (declared,) = table.domain.numeric((column,))
    refuse_too_wide(declared)
    most = MOST_CONTEXTS if isinstance(detector, BuiltIn) else MOST_CONTEXTS_PLUGGED_IN
    if space.n_contexts > most:
        rule = f"must have at most {most} contexts to enumerate"
        way_out = "Use fewer attributes, or ask OutlierContext with sampler='bfs'."
        raise InvalidParameter("record", rule, space.n_contexts, way_out)
    view = look_from(table, space, column, value, detector)
    before = view.scan() >= 0
    moved = [
        not np.array_equal(before, view.without(group).scan() >= 0)
        for group in track(groups, "removing records")
    ]
    return np.array(moved, dtype=bool)


def rows_alike(table: Table, space: ContextSpace) -> NDArray[np.bool_]:
    """Which rows have the attributes of the record. NOT private: for the owner alone."""
    return np.asarray((space.codes(table) == 0).all(axis=1))
