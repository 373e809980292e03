"""How many edits would change whether a record is present and anomalous? [Asif 2020]

A record is anomalous when it is present and at most `max_crowd` records, itself included, lie
within the radius. Its `crowd` counts the records within the radius of its values, whether it is
present or not; `copies` counts the records equal to it. Nothing here is private by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from privod.outliers.crowds.distance import as_points, crowds

Counts = tuple[int, ...]
"""A small data set: how many copies of each of finitely many values it holds."""


def is_anomalous(crowd: int, copies: int, max_crowd: int) -> bool:
    """Present, and in a small crowd."""
    return copies >= 1 and crowd <= max_crowd


def edits_to_flip(crowd: int, copies: int, max_crowd: int) -> int:
    """The fewest records to add or remove until the answer changes [Asif 2020, eq. 4]."""
    if copies == 0:
        return 1 if crowd < max_crowd else 2 + crowd - max_crowd
    if crowd <= max_crowd:
        return min(copies, max_crowd + 1 - crowd)
    return crowd - max_crowd


def sensitive_edits_to_flip(crowd: int, copies: int, max_crowd: int, edit_margin: int) -> int:
    """At most the fewest edits of protected records until the answer changes [Asif, eq. 5]."""
    if crowd >= protected_crowd(max_crowd, edit_margin):
        return edits_to_flip(crowd, copies, max_crowd)
    return max_crowd + 1 - crowd + min(0, copies - edit_margin)


def protected_crowd(max_crowd: int, edit_margin: int) -> int:
    """From this crowd on, a record is normal within `edit_margin` edits [Asif 2020, Lemma 1]."""
    return max_crowd + 1 - edit_margin


def least_edit_margin(crowd: int, max_crowd: int) -> int:
    """How sensitive a record is: the smallest edit margin (from 1) that protects it."""
    return max(1, protected_crowd(max_crowd, crowd))


def is_regular(
    values: NDArray[np.float64], radius: float, max_crowd: int, edit_margin: int
) -> bool:
    """Whether all data sets with a protected record are connected [Asif 2020, Definition 8].

    They are exactly when every possible value can be reached from every other in steps of at most
    the radius, or when everybody is protected (a crowd of 1).
    """
    if protected_crowd(max_crowd, edit_margin) <= 1:
        return True
    points = as_points(values)
    reached = np.zeros(len(points), dtype=bool)
    frontier = np.arange(min(1, len(points)))
    reached[frontier] = True
    while frontier.size:
        near = crowds(points[frontier], radius, at=points, cap=1) > 0
        frontier = np.flatnonzero(near & ~reached)
        reached[frontier] = True
    return bool(reached.all())


def record_privacy(
    epsilon: float, crowd: int, copies: int, edits: Callable[[int, int], int], max_crowd: int
) -> float:
    """ln of the worst odds when a copy of the record comes or goes, for the label of itself.

    `edits` maps (crowd, copies) to a bound of the edits to flip. The paper's eps_i.
    """
    states = [(crowd, copies), (crowd + 1, copies + 1)]
    if copies:
        states.insert(0, (crowd - 1, copies - 1))
    chances = [_chance_of_yes(epsilon, *state, edits(*state), max_crowd) for state in states]
    worst = 0.0
    for (yes, no), (later_yes, later_no) in pairwise(chances):
        worst = max(worst, abs(yes - later_yes), abs(no - later_no))
    return worst


def _chance_of_yes(
    epsilon: float, crowd: int, copies: int, edits: int, max_crowd: int
) -> tuple[float, float]:
    """The logarithms of the probabilities of yes and of no."""
    wrong = -epsilon * edits - math.log1p(math.exp(-epsilon))
    right = math.log1p(-math.exp(wrong))
    return (right, wrong) if is_anomalous(crowd, copies, max_crowd) else (wrong, right)


def edits_by_search(
    start: Counts,
    answer: Callable[[Counts], bool],
    protected: Callable[[int, Counts], bool],
    farthest: int,
) -> int | None:
    """The fewest edits that change the answer, for any model of anomalies, by trying all.

    An edit adds or removes one copy of a value that is protected before or after it. None means
    that no chain of up to `farthest` edits changes the answer.
    """
    before, seen, frontier = answer(start), {start}, [start]
    for distance in range(1, farthest + 1):
        following: list[Counts] = []
        for data in frontier:
            for other in _edited(data, protected):
                if other not in seen:
                    if answer(other) != before:
                        return distance
                    seen.add(other)
                    following.append(other)
        frontier = following
    return None


def _edited(data: Counts, protected: Callable[[int, Counts], bool]) -> Iterator[Counts]:
    for value in range(len(data)):
        for change in (1, -1):
            if data[value] + change >= 0:
                other = (*data[:value], data[value] + change, *data[value + 1 :])
                if protected(value, data) or protected(value, other):
                    yield other
