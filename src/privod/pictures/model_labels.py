"""The labels by a model, and how an error becomes rarer with the margin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privod.pictures.canvas import ACCENT, MUTED, WARM, blank
from privod.queries.model_labels import ModelLabels
from privod.queries.query import Release

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw"]

MOST_LABELS = 30
FARTHEST = 30  # margins of the curve of errors


def draw(release: Release[tuple[bool, ...]]) -> Figure:
    """Left the labels; right the chance of a wrong one, by its margin."""
    query = release.query
    assert isinstance(query, ModelLabels)  # noqa: S101 - what a release of labels answers
    shown = release.value[:MOST_LABELS]
    height = max(3.0, 1.4 + 0.28 * len(shown))
    figure, axes = blank(f"Anomalous by {query.model}?", width=10.0, height=height)
    axes.set_subplotspec(figure.add_gridspec(1, 2)[0])
    names = [", ".join(f"{one:.4g}" for one in row[:4]) for row in query.records[:MOST_LABELS]]
    axes.barh(range(len(shown)), [1] * len(shown), color=[WARM if one else MUTED for one in shown])
    for place, label in enumerate(shown):
        axes.text(0.02, place, "yes" if label else "no", va="center", color="white")
    axes.set_yticks(range(len(shown)), names, fontsize=8)
    axes.set_xticks([])
    axes.invert_yaxis()
    axes.grid(False)
    other = figure.add_subplot(1, 2, 2)
    margins = range(-FARTHEST, FARTHEST)
    other.plot(list(margins), [query.error(margin) for margin in margins], color=ACCENT)
    other.axvline(-0.5, color=MUTED, linestyle=":")
    other.set_yscale("log")
    other.set_xlabel("margin; right of the line a record is anomalous", fontsize=8)
    other.set_ylabel("chance that its label is wrong", fontsize=8)
    other.spines[["top", "right"]].set_visible(False)
    return figure
