"""Bought ranges, one bar a column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privod.data import Numeric
from privod.pictures.canvas import ACCENT, INK, MOST_ROWS, blank, called
from privod.query.query import Release

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(release: Release[tuple[Numeric, ...]]) -> Figure:
    """Each column's range as a bar with its ends written out; columns have their own units."""
    columns = release.value[:MOST_ROWS]
    figure, axes = blank("Where most records lie", height=1.2 + 0.45 * len(columns))
    places = np.arange(len(columns))[::-1]
    largest = [max(abs(column.low), abs(column.high)) for column in columns]
    lefts = [column.low / size for column, size in zip(columns, largest, strict=True)]
    rights = [column.high / size for column, size in zip(columns, largest, strict=True)]
    widths = np.subtract(rights, lefts)
    axes.barh(places, widths, left=lefts, height=0.5, color=ACCENT)
    for place, column, left, right in zip(places, columns, lefts, rights, strict=True):
        axes.text(left - 0.02, place, f"{column.low:.4g}", ha="right", va="center", fontsize=8)
        axes.text(right + 0.02, place, f"{column.high:.4g}", ha="left", va="center", fontsize=8)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(places, [called(column.name) for column in columns])
    axes.set_xticks([])
    axes.set_xlim(min(0, *lefts) - 0.25, max(0, *rights) + 0.25)
    axes.set_xlabel("each column in its own unit, zero in common")
    axes.grid(False)
    return figure
