"""The number of copies of one record, with an error bar if it is noisy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privod.pictures.canvas import ACCENT, INK, WARM, blank
from privod.query.query import Release
from privod.questions.lookahead_count.query import CopyCount, LookaheadCount

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw"]


def draw(release: Release[CopyCount]) -> Figure:
    """The count, and the line from which on counts are noisy."""
    query, value = release.query, release.value
    assert isinstance(query, LookaheadCount)  # noqa: S101 - what a release of such a count answers
    figure, axes = blank("Copies of one record")
    axes.barh(["copies"], [value.count], color=ACCENT, height=0.5)
    if value.noisy:
        margin = query.noise.quantile(0.95)
        axes.errorbar([value.count], ["copies"], xerr=[margin], color=INK, capsize=4, fmt="o")
        axes.set_xlabel("records (bar: 95 % of the noise)")
    else:
        axes.set_xlabel("records (told exactly)")
    if query.noisy_from:
        label = "from here on counts are noisy"
        axes.axvline(query.noisy_from, color=WARM, linestyle="--", label=label)
        axes.legend()
    axes.set_ylim(-1, 1)
    return figure
