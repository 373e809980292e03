"""The labels of new records, and how an error becomes rarer the clearer the case is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privod.pictures.canvas import ACCENT, MUTED, labels_beside
from privod.query.query import Release
from privod.questions.novelty_labels.query import NoveltyLabels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FARTHEST = 30  # margins of the curve of errors


def draw(release: Release[tuple[bool, ...]]) -> Figure:
    """Left the labels; right the chance of a wrong one, by its margin."""
    query = release.query
    assert isinstance(query, NoveltyLabels)  # noqa: S101 - what a release of labels answers
    figure, other = labels_beside("Would they be anomalous?", query.records, release.value)
    margins = range(-FARTHEST, FARTHEST)
    other.plot(list(margins), [query.error(margin) for margin in margins], color=ACCENT)
    other.axvline(-0.5, color=MUTED, linestyle=":")
    other.set_ylim(0, 0.52)
    other.set_xlabel("margin (anomalous: right of the line)")
    other.set_ylabel("chance that its label is wrong")
    return figure
