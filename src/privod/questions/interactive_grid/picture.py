"""The scored records, farthest out first, and how much of each score is less than a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privod.pictures.canvas import ACCENT, MUTED, blank
from privod.query.query import Release
from privod.questions.interactive_grid.query import GridScores, InteractiveGrid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_BARS = 30


def draw(release: Release[GridScores]) -> Figure:
    """A bar for each record: whole cells walked, and the part of the last one."""
    query, value = release.query, release.value
    assert isinstance(query, InteractiveGrid)  # noqa: S101 - what such a release answers
    order = np.argsort(-np.array(value.graded), kind="stable")[:MOST_BARS]
    height = 1.6 + 0.3 * len(order)
    figure, axes = blank("How far out the records lie", width=8.0, height=height)
    basic = np.array(value.basic)[order]
    part = np.array(value.graded)[order] - basic
    places = np.arange(len(order))
    axes.barh(places, basic, color=ACCENT, label="cells walked")
    axes.barh(places, part, left=basic, color=MUTED, label="part of the last one")
    names = [", ".join(f"{number:.4g}" for number in query.records[at][:4]) for at in order]
    axes.set_yticks(places, names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(f"in lengths of the ranges, to the {query.n_neighbors} nearest", fontsize=8)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    if len(value.graded) > MOST_BARS:
        told = f"the first {MOST_BARS} of {len(value.graded)}"
        axes.set_title(told, fontsize=8, loc="right")
    return figure
