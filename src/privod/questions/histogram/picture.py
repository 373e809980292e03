"""Noisy counts as bars with their error, or as a map of two columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privod.pictures.canvas import ACCENT, INK, blank, called, few_ticks
from privod.query.query import Release
from privod.questions.histogram.query import Histogram, NoisyCounts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BARS = 60


def draw(release: Release[NoisyCounts]) -> Figure:
    """Bars for one column, a colored map for two, the largest cells for more."""
    query = release.query
    assert isinstance(query, Histogram)  # noqa: S101 - what a release of noisy counts answers
    return draw_counts(release.value, query.count_noise.quantile(0.95))


def draw_counts(value: NoisyCounts, margin: int) -> Figure:
    """Draw counts, each of which is right to within the margin with 95 % certainty."""
    figure, axes = blank(f"Records by {' and '.join(called(axis.column) for axis in value.axes)}")
    if len(value.axes) == 2:
        _map(axes, value)
        axes.grid(False)
    else:
        _bars(axes, value, margin)
    return figure


def _bars(axes: Axes, value: NoisyCounts, margin: int) -> None:
    counts = value.counts.ravel()
    shown = np.arange(len(counts))
    if len(counts) > MOST_BARS:
        shown = np.sort(np.argsort(-counts, kind="stable")[:MOST_BARS])
    names = [_name(value, int(cell)) for cell in shown]
    axes.bar(np.arange(len(shown)), counts[shown], color=ACCENT, yerr=margin, ecolor=INK, capsize=2)
    axes.set_xticks(np.arange(len(shown)), names, rotation=45, ha="right", fontsize=8)
    axes.set_ylabel("records (bars: 95 % of the noise)")
    axes.grid(False, axis="x")


def _name(value: NoisyCounts, cell: int) -> str:
    places = np.unravel_index(cell, value.counts.shape)
    return ", ".join(axis.names[place] for axis, place in zip(value.axes, places, strict=True))


def _map(axes: Axes, value: NoisyCounts) -> None:
    rows, columns = value.axes
    image = axes.imshow(value.counts, cmap="Blues", aspect="auto")
    axes.set_yticks(*few_ticks(rows.names), fontsize=8)
    axes.set_xticks(*few_ticks(columns.names), rotation=45, ha="right", fontsize=8)
    axes.set_ylabel(called(rows.column))
    axes.set_xlabel(called(columns.column))
    if value.counts.size <= MOST_BARS:
        middle = (int(value.counts.max()) + int(value.counts.min())) / 2
        for place, count in np.ndenumerate(value.counts):
            color = "white" if count > middle else INK
            axes.text(place[1], place[0], str(count), ha="center", va="center", color=color)
    axes.figure.colorbar(image, ax=axes, label="records")
