"""The column sets found, ranked, with their blurred counts where these were bought."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from privod.pictures.canvas import ACCENT, INK, MUTED, WARM, blank
from privod.queries.query import Release
from privod.queries.subspaces import FoundSubspaces, OutlierSubspaces

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "draw_chances"]


def draw(release: Release[FoundSubspaces]) -> Figure:
    """A bar for each set found: its count with the least error, or else its rank."""
    query, value = release.query, release.value
    assert isinstance(query, OutlierSubspaces)  # noqa: S101 - what a release of sets answers
    names = [f"{place + 1}. {' and '.join(some)}" for place, some in enumerate(value.subspaces)]
    figure, axes = blank("Column sets where records stand apart most often")
    if value.counts:
        errors = []
        for some in value.subspaces:
            counting = query.counting(some)
            noise = counting.chosen_noise(len(some))
            errors.append(counting.least_deviations(len(some))[noise])
        axes.barh(names, value.counts, color=ACCENT, xerr=errors, ecolor=INK, capsize=3)
        axes.set_xlabel("outlying records (bar: one standard deviation of the noise, at least)")
    else:
        axes.barh(names, np.arange(len(names), 0, -1), color=ACCENT)
        axes.set_xticks([])
        axes.set_xlabel("order in which the sets were chosen")
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    return figure


def draw_chances(
    names: list[str], chances: NDArray[np.float64], true_sets: set[str], title: str
) -> Figure:
    """How likely each set is among those chosen: for the owner's eyes, it depends on the rows."""
    figure, axes = blank(title)
    order = np.argsort(-chances, kind="stable")
    colors = [WARM if names[place] in true_sets else MUTED for place in order]
    axes.barh([names[place] for place in order], chances[order], color=colors)
    axes.set_xlim(0, 1)
    axes.set_xlabel("chance to be among the sets chosen")
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    return figure
