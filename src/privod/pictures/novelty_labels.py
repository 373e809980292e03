"""The labels of new records, and how an error becomes rarer the clearer the case is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privod.pictures.canvas import ACCENT, MUTED, WARM, blank
from privod.queries.novelty_labels import NoveltyLabels
from privod.queries.query import Release

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw"]

MOST_LABELS = 30
MOST_CROWDS = 200  # of the curve of errors


def draw(release: Release[tuple[bool, ...]]) -> Figure:
    """Left the labels; right the chance of a wrong one, by how many records are near."""
    query = release.query
    assert isinstance(query, NoveltyLabels)  # noqa: S101 - what a release of labels answers
    shown = release.value[:MOST_LABELS]
    height = max(3.0, 1.4 + 0.28 * len(shown))
    figure, axes = blank("Would they be anomalous?", width=10.0, height=height)
    axes.set_subplotspec(figure.add_gridspec(1, 2)[0])
    names = [", ".join(str(entry) for entry in row[:4]) for row in query.records[:MOST_LABELS]]
    axes.barh(range(len(shown)), [1] * len(shown), color=[WARM if one else MUTED for one in shown])
    for place, label in enumerate(shown):
        axes.text(0.02, place, "yes" if label else "no", va="center", color="white")
    axes.set_yticks(range(len(shown)), names, fontsize=8)
    axes.set_xticks([])
    axes.invert_yaxis()
    axes.grid(False)
    other = figure.add_subplot(1, 2, 2)
    others = range(min(2 * query.max_crowd + 2, MOST_CROWDS))
    other.plot(list(others), [query.error(one) for one in others], color=ACCENT)
    other.axvline(query.max_crowd - 0.5, color=MUTED, linestyle=":")
    other.set_yscale("log")
    other.set_xlabel("other records near it; left of the line it is anomalous", fontsize=8)
    other.set_ylabel("chance that its label is wrong", fontsize=8)
    other.spines[["top", "right"]].set_visible(False)
    return figure
