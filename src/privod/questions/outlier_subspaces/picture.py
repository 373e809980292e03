"""The column sets found, ranked, and how likely a worse set is at most to be found instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privod.pictures.canvas import ACCENT, INK, beside, blank, called
from privod.query.query import Release
from privod.questions.outlier_subspaces.query import (
    FoundSubspaces,
    OutlierSubspaces,
    columns_in_words,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_DRAWN = 30  # sets


def draw(release: Release[FoundSubspaces]) -> Figure:
    """A bar for each set found, and the largest chance that a worse one had."""
    query, value = release.query, release.value
    assert isinstance(query, OutlierSubspaces)  # noqa: S101 - what a release of sets answers
    figure, axes = blank("Column sets chosen for the most outliers", width=11.0)
    shown = value.subspaces[:MOST_DRAWN]
    names = [f"{place + 1}. {' and '.join(map(called, some))}" for place, some in enumerate(shown)]
    if value.counts:
        errors = value.margins[:MOST_DRAWN] or None
        counts = value.counts[:MOST_DRAWN]
        axes.barh(names, counts, color=ACCENT, xerr=errors, ecolor=INK, capsize=3)
        axes.set_xlabel("outlying records (bar: 95 % of the noise)")
    else:
        axes.barh(names, np.arange(len(names), 0, -1), color=ACCENT)
        axes.set_xticks([])
        axes.set_xlabel("in the order chosen; counts were not asked for")
    axes.set_ylim(max(len(names), 4) - 0.5, -0.5)
    axes.grid(False, axis="y")
    other = beside(figure, axes)
    other.set_title("How likely is a worse set, at most?")
    _largest_chances(other, query, value)
    return figure


def _largest_chances(axes: Axes, query: OutlierSubspaces, value: FoundSubspaces) -> None:
    """From public parameters alone: the true chances depend on the rows."""
    for size in sorted({len(some) for some in value.subspaces}):
        farthest = query.surely_missing(size, max(2, value.n_candidates))
        missing = np.unique(np.linspace(1, max(2, farthest), 200).astype(int))
        chances = [query.chance_at_most(int(some), size) for some in missing]
        axes.plot(missing, chances, label=f"sets of {columns_in_words(size)}")
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("how many fewer outliers than the best set left")
    axes.set_ylabel("chance of being chosen, at most")
    axes.legend()
