"""The radius's hardest pair: one record that brings many others over the line at one radius."""

from __future__ import annotations

from privod.audit import WorstCase, to_the_middle
from privod.questions.outlier_radius.query import OutlierRadius

MAX_CROWD = 4
SMALL, LARGE = 0.1, 1.0


def worst_cases(kind: type[OutlierRadius] = OutlierRadius) -> tuple[WorstCase, ...]:
    """At the large radius all stand apart until one record comes to 0, at the small one always.

    So the large radius leaves far too many at first and then next to none: the gap to a share of a
    tenth jumps, and the edits to close it must fall by one only, while those of the small radius
    rise by one. Two records far away make the gaps just large enough for both.
    """
    sides = (-1.0, 1.0) * MAX_CROWD + (60.0, 80.0)
    return tuple(
        WorstCase(
            kind(
                share="0.1",
                max_crowd=MAX_CROWD,
                epsilon=1,
                smallest=SMALL,
                largest=LARGE,
                n_radii=2,
                scale="own",
                adjacency=adjacency,
            ),
            left,
            right,
        )
        for adjacency, (left, right) in to_the_middle(*sides, apart=-50.0).items()
    )
