"""A profile: every column's cells side by side, the rarest highest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privod.data import Categorical
from privod.pictures.canvas import ACCENT, blank, called, summed
from privod.query.query import Release
from privod.questions.private_detector.release import NoisyProfile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "draw_explained"]

MOST_COLUMNS = 30
MOST_RECORDS = 12
MOST_BARS = 60  # of one column; neighboring cells are drawn as one where there are more


def draw(release: Release[NoisyProfile]) -> Figure:
    """One row of bars a column; a bar's height is its share of the column's fullest cell."""
    value = release.value
    layout = value.layout
    columns = layout.columns[:MOST_COLUMNS]
    title = f"What is ordinary in {len(layout.columns)} columns"
    figure, axes = blank(title, height=1.2 + 0.4 * len(columns))
    ranges = iter(layout.ranges)
    for place, column in enumerate(columns):
        cells = value.counts[layout.starts[place] : layout.starts[place + 1] - 1]
        counts = summed(cells, min(len(cells), MOST_BARS))
        heights = 0.9 * np.maximum(counts, 0) / max(1, int(counts.max(initial=0)))
        base = len(columns) - 1 - place
        places = (np.arange(len(counts)) + 0.5) / len(counts)
        width = 0.95 / len(counts)
        axes.bar(places, heights, width=width, bottom=base, color=ACCENT)
        if not isinstance(column, Categorical):
            low, high = next(ranges)
            axes.text(0, base + 0.9, f"{low:.3g}", fontsize=7, va="top")
            axes.text(1, base + 0.9, f"{high:.3g}", fontsize=7, va="top", ha="right")
    axes.set_yticks(
        np.arange(len(columns)) + 0.45, [called(column.name) for column in columns[::-1]]
    )
    axes.set_xticks([])
    axes.set_xlabel("each column's cells")
    axes.grid(False)
    return figure


def draw_explained(
    value: NoisyProfile,
    records: np.typing.NDArray[np.float64],
    rows: np.typing.NDArray[np.int64],
) -> Figure:
    """What the columns add to the scores of the most outlying of these records, each a row."""
    explained = value.explain(records)
    totals = explained.shares.sum(axis=1)
    order = np.argsort(-totals, kind="stable")[:MOST_RECORDS]
    figure, axes = blank("Which columns made these scores", height=1.2 + 0.4 * len(order))
    for height, place in enumerate(order[::-1]):
        shares = np.maximum(explained.shares[place], 0)
        left = 0.0
        for rank, column in enumerate(np.argsort(-shares, kind="stable")[:5]):
            axes.barh(height, shares[column], left=left, color=ACCENT, alpha=1 - 0.18 * rank)
            if shares[column] > 0.12 * max(totals[place], 1e-9):
                middle = left + shares[column] / 2
                name = explained.columns[column]
                axes.text(middle, height, name, fontsize=7, ha="center", va="center")
            left += shares[column]
    axes.set_yticks(range(len(order)), [f"row {row}" for row in rows[order[::-1]]])
    axes.set_xlabel("score, by column")
    return figure
