"""Noisy histograms of single columns, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privod.pictures.canvas import ACCENT, MOST_ROWS, blank, called, summed
from privod.query.query import Release
from privod.questions.marginals.query import NoisyMarginals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw"]

MOST_BARS = 60  # of one column; neighboring bins are drawn as one where there are more


def draw(release: Release[NoisyMarginals]) -> Figure:
    """One row of bars a column; a bar's height is its share of the column's fullest one."""
    value = release.value
    columns = value.columns[:MOST_ROWS]
    title = f"Noisy histograms of {len(value.columns)} columns"
    figure, axes = blank(title, height=1.2 + 0.4 * len(columns))
    bins = min(value.counts.shape[1], MOST_BARS)
    for place, column in enumerate(columns):
        counts = np.maximum(summed(value.counts[place], bins), 0)
        heights = 0.9 * counts / max(1, int(counts.max()))
        base = len(columns) - 1 - place
        axes.bar(np.arange(bins) + 0.5, heights, width=0.95, bottom=base, color=ACCENT)
        axes.text(0, base + 0.9, f"{column.low:.3g}", fontsize=7, va="top")
        axes.text(bins, base + 0.9, f"{column.high:.3g}", fontsize=7, va="top", ha="right")
    axes.set_yticks(
        np.arange(len(columns)) + 0.45, [called(column.name) for column in columns[::-1]]
    )
    axes.set_xticks([])
    axes.set_xlabel("each column's range")
    axes.grid(False)
    return figure
