"""The graded count's hardest pairs: one record that lowers the credit of as many as it can."""

from __future__ import annotations

from privod.audit import WorstCase, to_the_middle
from privod.questions.graded_count.query import GradedCount

MAX_CROWD = 2
GRADES = 3


def worst_cases(kind: type[GradedCount] = GradedCount) -> tuple[WorstCase, ...]:
    """On the line, k + L - 1 records at -1 and as many at 1, and one that comes to 0.

    It takes a part from every one of them and counts nothing itself; replaced, it counted in full
    where it stood apart.
    """
    sides = (-1.0, 1.0) * (MAX_CROWD + GRADES - 1)
    return tuple(
        WorstCase(
            kind(radius=1, max_crowd=MAX_CROWD, grades=GRADES, epsilon=1, adjacency=adjacency),
            left,
            right,
        )
        for adjacency, (left, right) in to_the_middle(*sides, apart=50.0).items()
    )
