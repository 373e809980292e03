"""All contexts in which a record stands out, for the owner's own eyes: exact, and NOT private."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privod.data.table import Table
from privod.errors import InvalidParameter
from privod.outliers.contexts.contexts import Context, ContextSpace
from privod.outliers.contexts.detectors import BuiltIn, Detector, refuse_too_wide
from privod.outliers.contexts.matching import look_from
from privod.progress import track

MOST_CONTEXTS = 2**26
MOST_CONTEXTS_PLUGGED_IN = 2**16
WARNING = "NOT PRIVATE: this counts real records. It is for the owner of the data alone."


@dataclass(frozen=True)
class LocalContexts:
    """What the rows say about a record's contexts. Not private: never hand it on.

    `largest` are the matching contexts with the largest populations; `by_size` how many of them
    have a population from, and up to but not including, a size.
    """

    n_contexts: int
    n_matching: int
    largest: tuple[tuple[Context, int], ...]
    by_size: tuple[tuple[int, int, int], ...]
    present: bool

    def sentence(self) -> str:
        """The analysis in words, with its warning."""
        there = "" if self.present else " No row equals it; it was looked at as if one did."
        text = f"The record stands out in {self.n_matching} of {self.n_contexts} contexts."
        if self.largest:
            context, size = self.largest[0]
            text += f" The largest has {size} records: {context.in_words()}."
        return f"{WARNING} {text}{there}"


def matching_contexts(
    table: Table,
    record: Mapping[str, str | int | float],
    column: str,
    value: float,
    detector: Detector,
    n_largest: int = 5,
    cuts: Mapping[str, tuple[float, ...]] | None = None,
) -> LocalContexts:
    """Enumerate every context of the record. NOT private: an analysis for the owner alone.

    The record is given by its attributes, of which those with `cuts` are numeric: there contexts
    take in ranges of intervals. It may stand out by its value in the column.
    """
    space = ContextSpace.around(table.domain, record, cuts)
    _check_enumerable(table, space, column, detector)
    view = look_from(table, space, column, value, detector)
    sizes = view.scan()
    matching = np.flatnonzero(sizes >= 0)
    order = matching[np.lexsort((matching, -sizes[matching]))[:n_largest]]
    largest = tuple((space.context(space.numbered(int(at))), int(sizes[at])) for at in order)
    powers = np.bincount(np.frexp(sizes[matching])[1]) if len(matching) else np.zeros(0, np.int64)
    by_size = tuple(
        (1 << (power - 1), 1 << power, int(n)) for power, n in enumerate(powers.tolist()) if n
    )
    return LocalContexts(space.n_contexts, len(matching), largest, by_size, view.present)


def _check_enumerable(table: Table, space: ContextSpace, column: str, detector: Detector) -> None:
    """Refuse contexts that are too many to look at each."""
    (declared,) = table.domain.numeric((column,))
    refuse_too_wide(declared)
    most = MOST_CONTEXTS if isinstance(detector, BuiltIn) else MOST_CONTEXTS_PLUGGED_IN
    if space.n_contexts > most:
        rule = f"must have at most {most} contexts to enumerate"
        way_out = "Use fewer attributes, or ask OutlierContext with sampler='bfs'."
        raise InvalidParameter("record", rule, space.n_contexts, way_out)


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
    _check_enumerable(table, space, column, detector)

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
