"""Labels with the chance that they are wrong, and the owner's map of who gets how much privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privod.arrays import Floats
from privod.data import Table
from privod.outliers.crowds.anomalies import record_privacy
from privod.outliers.crowds.lookup import lookup_for
from privod.pictures.canvas import ACCENT, MUTED, blank, called, labels_beside
from privod.query.near import Distance, near_of
from privod.query.query import Release
from privod.questions.anomaly_labels.query import AnomalyLabels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MOST_CROWDS = 200  # of the curves of errors


def draw(release: Release[tuple[bool, ...]]) -> Figure:
    """Left the labels; right the chance of a wrong one, for records that are there and not."""
    query = release.query
    assert isinstance(query, AnomalyLabels)  # noqa: S101 - what a release of labels answers
    figure, other = labels_beside("In the data and anomalous?", query.records, release.value)
    crowds = range(1, min(2 * query.max_crowd + 2, MOST_CROWDS))
    for copies, color, words in ((1, ACCENT, "in the data once"), (0, MUTED, "not in the data")):
        errors = [query.error(crowd, copies) for crowd in crowds]
        other.plot(list(crowds), errors, color=color, label=words)
    other.axvline(query.max_crowd + 0.5, color=MUTED, linestyle=":")
    other.set_yscale("log")
    other.set_xlabel("records in its crowd (dotted: max_crowd)")
    other.set_ylabel("chance that its label is wrong")
    other.legend()
    return figure


def draw_privacy_map(points: Floats, losses: Floats, title: str) -> Figure:
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
    if not isinstance(near_of(query.near), Distance):
        figure, axes = blank("FOR THE OWNER ONLY: drawn for crowds by distance alone", height=1.5)
        axes.set_axis_off()
        return figure
    points, losses = privacy_of_records(query, table)
    figure = draw_privacy_map(points, losses, "FOR THE OWNER ONLY, NOT PRIVATE: who gets how much")
    columns = sorted(query.columns)
    figure.axes[0].set_xlabel(called(columns[0]))
    figure.axes[0].set_ylabel(called(columns[min(1, len(columns) - 1)]))
    return figure


def privacy_of_records(query: AnomalyLabels, table: Table) -> tuple[Floats, Floats]:
    """Every record's values and its eps_i, the loss of a label about itself; not private."""
    near = near_of(query.near)
    assert isinstance(near, Distance)  # noqa: S101 - records are drawn as points
    columns = tuple(sorted(query.columns))
    points = table.numbers(columns)
    epsilon = float(query.epsilon)
    known: dict[tuple[int, int], float] = {}
    losses = np.empty(len(points))
    lookup = lookup_for(table, columns, near.radius)
    for place, state in enumerate(lookup.crowds_and_copies(points)):
        if state not in known:
            known[state] = record_privacy(epsilon, *state, query.edits, query.max_crowd)
        losses[place] = known[state]
    return points, losses
