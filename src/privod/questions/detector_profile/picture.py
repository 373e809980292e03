"""A profile: every column's cells side by side, the rarest highest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privod.data import Categorical
from privod.pictures.canvas import ACCENT, INK, blank, called, shortened, summed
from privod.query.query import Release
from privod.questions.detector_profile.release import NoisyProfile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_COLUMNS = 30
MOST_BARS = 60  # of one column; neighboring cells are drawn as one where there are more
MOST_NAMED = 6  # categories of a column whose names are written
TALL = 0.35  # a bar that a name fits into


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
        if isinstance(column, Categorical):
            names = column.values if len(column.values) <= MOST_NAMED else ()
            for at, name, height in zip(places, names, heights, strict=False):
                inside = height > TALL
                low_end = base + (0.06 if inside else height + 0.06)
                color = "white" if inside else INK
                axes.text(
                    at, low_end, shortened(str(name), 14), fontsize=7, ha="center", color=color
                )
        else:
            low, high = (layout.number(place, end) for end in next(ranges))
            axes.text(-0.01, base, f"{low:.3g}", fontsize=8, ha="right")
            axes.text(1.01, base, f"{high:.3g}", fontsize=8)
    axes.set_yticks(
        np.arange(len(columns)) + 0.45, [called(column.name) for column in columns[::-1]]
    )
    axes.set_xticks([])
    axes.set_xlim(-0.1, 1.1)
    axes.set_xlabel("a bar is the share of the column's fullest cell")
    axes.grid(False)
    return figure
