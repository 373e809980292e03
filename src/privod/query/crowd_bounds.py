"""Sensitivity of a count of outliers: on any data set (global) and near this one (local).

The worst case over all data sets is k K [Okada 2015, Theorem 4]; near a data set it is a cover of
the records at the line, which grows slowly as records change. Proofs in
docs/proofs/outlier_count.md.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privod.data import Table
from privod.data.folding import SomeRows
from privod.mechanisms.smooth import SmoothNoise
from privod.outliers.crowds.by_space import CreditsBySpace, boxes_around, credits_of, n_boxes
from privod.outliers.crowds.cover import Cover
from privod.outliers.crowds.distance import CrowdIndex
from privod.outliers.crowds.packing import packing_number
from privod.privacy import Adjacency, Replace
from privod.query.distances import Distances
from privod.threads import in_threads

LEAST_DELTA = Fraction(1, 10**60)  # smooth noise is calibrated in floats down to it
ALONE_BELOW = 20_000  # records below which a second thread costs more than it brings


class GroupedCover:
    """The most chosen points in one ball, where records of different groups never share one.

    `extent` is a public bound of the coordinates' absolute values; `cores` is as in `Cover`.
    """

    def __init__(
        self,
        numbers: NDArray[np.float64],
        radius: float,
        extent: float,
        groups: NDArray[np.int64] | None = None,
        *,
        cores: bool = False,
    ) -> None:
        self._cover = Cover(numbers, radius, extent, cores=cores)
        self._groups = groups

    def of(self, chosen: NDArray[np.bool_], enough: int) -> int:
        """At least the most chosen points in one ball, up to `enough`."""
        if self._groups is None:
            return self._cover.of(chosen, enough)
        held = np.bincount(self._groups[chosen])
        best = 0
        for group in np.argsort(-held, kind="stable"):
            if held[group] <= best:
                break
            best = max(best, self._cover.of(chosen & (self._groups == group), enough))
        return best


def count_sensitivity(
    max_crowd: int,
    dimensions: int,
    adjacency: Adjacency,
    size: int | None = None,
    n_groups: int = 1,
) -> int:
    """By how much one change can move the count, on any data set [Okada 2015, Theorem 4].

    A size may be given only where adjacent data sets have the same. In each of `n_groups`
    combinations of categories as many records can be within the radius as in one.
    """
    moved = max_crowd * packing_number(dimensions) * n_groups
    most = moved + 1 if adjacency == Replace() else moved
    return most if size is None else max(1, min(most, size))


def least_bound(t: int, adjacency: Adjacency) -> int:
    """The bound U_t of a data set where no record is near the line."""
    return t + 1 if adjacency == Replace() else max(1, t)


def count_outliers(
    points: NDArray[np.float64], radius: float, max_crowd: int, threads: int | None = None
) -> int:
    """How many points are outlying."""
    crowds = CrowdIndex(points, threads=threads).crowds(radius, cap=max_crowd + 1)
    return int((crowds <= max_crowd).sum())


def graded_credits(
    points: NDArray[np.float64], radius: float, max_crowd: int, grades: int
) -> NDArray[np.int64]:
    """What each point counts, in parts: all up to `max_crowd`, one less for each further point."""
    crowds = CrowdIndex(points).crowds(radius, cap=max_crowd + grades)
    return credits_of(crowds, max_crowd, grades)


def count_credits(
    table: Table, over: Distances, radius: float, max_crowd: int, grades: int = 1
) -> int:
    """What all records count together: each of up to `max_crowd` in full, of more by steps less."""
    if table.held_in_memory or table.most_records is None:
        return int(graded_credits(over.points(table), radius, max_crowd, grades).sum())
    columns = (over.numbers, over.codes, over.points_of)
    boxes = boxes_around(table.fold(SomeRows(*columns)), n_boxes(table.most_records, over.n_axes))
    return table.sweep(CreditsBySpace(*columns, radius, max_crowd, grades, boxes))


def count_with_bound(
    points: NDArray[np.float64],
    radius: float,
    max_crowd: int,
    noise: SmoothNoise,
    adjacency: Adjacency,
    cover: GroupedCover,
    sensitivity: int,
) -> tuple[int, int]:
    """The count and the rung of its smooth bound [Okada 2015, Theorem 6 and Algorithm 2].

    U_t = max(cover(P_t(k)), cover(P_t(k - 1))) + t for AddRemove (at least 1), + 1 more for
    Replace, where P_t(j) holds the records whose number of others within the radius is j +- t.
    """
    stairs = noise.staircase
    n = len(points)
    farthest = stairs.farthest(lambda t: min(sensitivity, n + t + 1))
    crowds = CrowdIndex(points).crowds(radius, cap=max_crowd + farthest + 2)
    bound = local_bound(crowds, cover, max_crowd, sensitivity, adjacency)
    return int((crowds <= max_crowd).sum()), stairs.smooth(bound, farthest)


def local_bound(
    crowds: NDArray[np.int64],
    cover: GroupedCover,
    max_crowd: int,
    sensitivity: int,
    adjacency: Adjacency,
) -> Callable[[int], int]:
    """U_t as a function of t: by how much a change can move the count after t others."""
    others = crowds - 1

    def bound(t: int) -> int:
        alone = t + 1 if adjacency == Replace() else t
        enough = sensitivity - alone  # more cannot raise the bound any further

        def covered(line: int) -> int:
            return cover.of(np.abs(others - line) <= t, enough)

        lines = (max_crowd, max_crowd - 1)
        threads = 1 if len(others) < ALONE_BELOW else None
        most = max(in_threads(lambda place: covered(lines[place]), len(lines), threads))
        return min(sensitivity, max(1, most + alone))

    return bound
