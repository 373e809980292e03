"""How columns go together: their noisy correlations as a matrix of shades."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privod.pictures.canvas import MOST_ROWS, blank, called
from privod.query.query import Release
from privod.questions.mean_covariance.release import NoisyMoments

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_WRITTEN = 12  # columns whose correlations are also written as numbers


def draw(release: Release[NoisyMoments]) -> Figure:
    """Correlations of the released covariance: blue together, orange against each other."""
    value = release.value
    names = [called(column.name) for column in value.frame.columns][:MOST_ROWS]
    covariance = value.covariance[: len(names), : len(names)]
    deviations = np.sqrt(np.diag(covariance))
    together = covariance / np.outer(deviations, deviations)
    title = f"How {len(value.frame.columns)} columns go together"
    size = 2.5 + 0.35 * len(names)
    figure, axes = blank(title, width=max(size + 1.5, 5.0), height=size)
    axes.imshow(together, cmap="PuOr", vmin=-1, vmax=1, aspect="auto")
    if len(names) <= MOST_WRITTEN:
        for row, values in enumerate(together):
            for column, number in enumerate(values):
                axes.text(column, row, f"{number:.1f}", fontsize=7, ha="center", va="center")
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    axes.grid(False)
    return figure
