"""Labels with the chance that they are wrong, and the owner's map of who gets how much privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privod.data import Table
from privod.outliers.crowds.anomalies import record_privacy
from privod.outliers.crowds.lookup import lookup_for
from privod.pictures.canvas import MUTED, WARM, blank, called
from privod.query.query import Release
from privod.questions.anomaly_labels.query import AnomalyLabels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "draw_for_owner", "draw_privacy_map", "privacy_of_records"]

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
    x, y = points[order, 0], points[order, min(1, points.shape[1] - 1)]
    kept = np.exp(-losses[order])
    dots: Any = axes.scatter(x, y, c=kept, s=4, cmap="viridis", vmin=0, vmax=1)
    figure.colorbar(dots, ax=axes, label="exp(-eps_i): 1 is full privacy, 0 is none")
    return figure


def draw_for_owner(release: Release[tuple[bool, ...]], table: Table) -> Figure:
    """What a label about each record would reveal of it. Not private: keep it."""
    query = release.query
    assert isinstance(query, AnomalyLabels)  # noqa: S101 - what a release of labels answers
    points, losses = privacy_of_records(query, table)
    figure = draw_privacy_map(points, losses, "FOR THE OWNER ONLY, NOT PRIVATE: who gets how much")
    columns = sorted(query.columns)
    figure.axes[0].set_xlabel(called(columns[0]))
    figure.axes[0].set_ylabel(called(columns[min(1, len(columns) - 1)]))
    return figure


def privacy_of_records(
    query: AnomalyLabels, table: Table
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Every record's values and its eps_i, the loss of a label about itself; not private."""
    columns = tuple(sorted(query.columns))
    points = table.numbers(columns)
    epsilon = float(query.epsilon)
    known: dict[tuple[int, int], float] = {}
    losses = np.empty(len(points))
    for place, state in enumerate(
        lookup_for(table, columns, query.radius).crowds_and_copies(points)
    ):
        if state not in known:
            known[state] = record_privacy(epsilon, *state, query.edits, query.max_crowd)
        losses[place] = known[state]
    return points, losses
