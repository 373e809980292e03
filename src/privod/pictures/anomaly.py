"""Labels with the chance that they are wrong, and the owner's map of who gets how much privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privod.pictures.canvas import MUTED, WARM, blank
from privod.queries.anomaly import AnomalyLabels
from privod.queries.query import Release

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "draw_privacy_map"]

MOST_LABELS = 40


def draw(release: Release[tuple[bool, ...]]) -> Figure:
    """A bar for each label: yes or no, and how sure at least."""
    query = release.query
    assert isinstance(query, AnomalyLabels)  # noqa: S101 - what a release of labels answers
    shown = release.value[:MOST_LABELS]
    names = [", ".join(f"{value:g}" for value in row[:3]) for row in query.records[:MOST_LABELS]]
    figure, axes = blank("In the data and anomalous?")
    sure = 1 - query.largest_error
    colors = [WARM if label else MUTED for label in shown]
    axes.barh(range(len(shown)), [sure] * len(shown), color=colors)
    for place, label in enumerate(shown):
        axes.text(0.02, place, "yes" if label else "no", va="center", color="white")
    axes.set_yticks(range(len(shown)), names, fontsize=8)
    axes.set_xlim(0, 1)
    axes.set_xlabel("a label is right at least with this probability")
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    return figure


def draw_privacy_map(
    points: NDArray[np.float64], losses: NDArray[np.float64], title: str
) -> Figure:
    """Who gets how much privacy: for the owner's eyes, as it shows the rows [Asif, Figs. 1, 2]."""
    figure, axes = blank(title)
    order = np.argsort(losses)
    dots: Any = axes.scatter(
        points[order, 0], points[order, 1], c=np.exp(-losses[order]), s=4, cmap="viridis"
    )
    figure.colorbar(dots, ax=axes, label="exp(-eps_i): 1 is full privacy, 0 is none")
    axes.set_aspect("equal")
    return figure
