"""Which radius should one ask about? Read off a grid that was released already, for nothing more.

A released grid says about where the records lie. Places drawn from it stand for them, so how many
of these stand apart at a radius tells about how many records do. All of it is post-processing of a
release: it costs nothing, and it is as good as the grid is fine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privod.errors import InvalidParameter
from privod.outliers.crowds.distance import CrowdIndex
from privod.questions.grid_knn.release import NoisyGrid

CANDIDATE_RADII = tuple(float(f"{0.005 * 200 ** (place / 24):.3g}") for place in range(25))
"""Radii in shares of the ranges, those of outlier-radius: 25 from 0.005 to 1 in equal ratios."""


@dataclass(frozen=True)
class Advice:
    """A radius, and the curve that it was read off.

    Parameters
    ----------
    radius
        The radius at which the share comes nearest to the wanted one, in shares of the ranges.
    curve
        For each candidate radius, about which share of the records stands apart.
    columns
        The columns of the grid, which distances are taken over.
    hidden_share
        About which share of the records the grid cannot place.
    """

    radius: float
    curve: tuple[tuple[float, float], ...]
    columns: tuple[str, ...]
    hidden_share: float

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "radius": self.radius,
            "curve": [list(point) for point in self.curve],
            "columns": list(self.columns),
            "hidden_share": self.hidden_share,
        }


def advise_radius(
    grid: NoisyGrid, share: float, max_crowd: int, radii: Sequence[float] = CANDIDATE_RADII
) -> Advice:
    """The radius at which about this share has at most `max_crowd` records near, themselves too."""
    if not 0 < share < 1:
        raise InvalidParameter("share", "must lie between 0 and 1", share, "Try 0.01.")
    if max_crowd < 1:
        raise InvalidParameter("max_crowd", "must be at least 1", max_crowd, "Try 5.")
    places = grid.places
    widths = np.array([column.high - column.low for column in grid.grid.columns])
    index = CrowdIndex(places.points / widths)
    each = max(1.0, grid.total / max(1, index.size))  # records that a place stands for
    most = 1 + int((max_crowd - 1) / each)
    curve = tuple(
        (float(radius), float((index.crowds(radius, cap=most + 1) <= most).mean()))
        for radius in radii
    )
    nearest = min(curve, key=lambda point: abs(point[1] - share))
    return Advice(
        nearest[0], curve, tuple(column.name for column in grid.columns), places.hidden_share
    )
