"""A noisy grid: its counts, and where new records would stand out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from privod.pictures.canvas import ACCENT, blank, called
from privod.pictures.scored import draw_map
from privod.query.query import Release
from privod.questions.grid_knn.release import NoisyGrid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FLAGGED = 0.1  # the share of records beyond the dashed line of a picture
MOST_BARS = 40


def draw(release: Release[NoisyGrid]) -> Figure:
    """The counts in two dimensions with the line beyond which records stand out, or as bars."""
    value = release.value
    if value.grid.n_axes == 2:
        return draw_map(value.scorer(), FLAGGED, counts=_square(value))
    figure, axes = blank(f"Noisy counts over {_names(value)}")
    order = np.argsort(-value.counts, kind="stable")[:MOST_BARS]
    fullest = value.grid.cells_at(order) if value.cells is None else value.cells[order]
    places = np.arange(len(order))
    axes.bar(places, value.counts[order], color=ACCENT)
    names = [_range_name(value, cell) for cell in fullest]
    axes.set_xticks(places, names, rotation=60, ha="right", fontsize=7)
    axes.set_ylabel("records (noisy)")
    axes.set_xlabel(f"the fullest cells of {len(value.counts)} kept")
    return figure


def _square(value: NoisyGrid) -> NDArray[np.int64]:
    side = value.grid.cells_per_axis
    if value.cells is None:
        return value.counts.reshape(side, side)
    square = np.zeros((side, side), dtype=np.int64)
    square[value.cells[:, 0], value.cells[:, 1]] = value.counts
    return square


def _names(value: NoisyGrid) -> str:
    shown = ", ".join(called(column.name) for column in value.columns[:4])
    return shown if value.grid.n_axes <= 4 else f"{shown} and {value.grid.n_axes - 4} more"


def _range_name(value: NoisyGrid, cell: NDArray[np.int32]) -> str:
    center = value.grid.centers_of(cell[None])[0]
    return ", ".join(f"{number:.3g}" for number in center[:3]) + (", ..." if len(cell) > 3 else "")
