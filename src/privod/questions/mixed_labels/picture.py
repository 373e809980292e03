"""Labels of records with categories, and how rare an error becomes by how many are alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privod.pictures.canvas import ACCENT, MUTED, labels_beside
from privod.query.query import Release
from privod.questions.mixed_labels.query import MixedLabels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw"]

MOST_CROWDS = 200  # of the curves of errors


def draw(release: Release[tuple[bool, ...]]) -> Figure:
    """Left the labels; right the chance of a wrong one, for records that are there and not."""
    query = release.query
    assert isinstance(query, MixedLabels)  # noqa: S101 - what a release of labels answers
    figure, other = labels_beside("In the data, with few alike?", query.records, release.value)
    crowds = range(1, min(2 * query.max_crowd + 2, MOST_CROWDS))
    for copies, color, words in ((1, ACCENT, "in the data once"), (0, MUTED, "not in the data")):
        errors = [query.error(crowd, copies) for crowd in crowds]
        other.plot(list(crowds), errors, color=color, label=words)
    other.axvline(query.max_crowd + 0.5, color=MUTED, linestyle=":")
    other.set_yscale("log")
    other.set_xlabel("records alike, itself included; right of the line it is normal", fontsize=8)
    other.set_ylabel("chance that its label is wrong", fontsize=8)
    other.legend(frameon=False, fontsize=8)
    other.spines[["top", "right"]].set_visible(False)
    return figure
