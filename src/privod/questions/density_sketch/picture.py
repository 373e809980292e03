"""A sketch: how full the bins of its tables are, fullest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privod.pictures.canvas import ACCENT, MUTED, blank
from privod.query.query import Release
from privod.questions.density_sketch.release import NoisySketch

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(release: Release[NoisySketch]) -> Figure:
    """The noisy counts of each table in descending order, one line a table."""
    value = release.value
    n_tables = len(value.counts)
    figure, axes = blank(f"How full the bins of {n_tables} tables are")
    for counts in value.counts:
        axes.plot(np.sort(counts)[::-1], color=ACCENT, alpha=0.4, linewidth=1)
    margin = value.noise.quantile(0.95)
    axes.axhspan(-margin, margin, color=MUTED, alpha=0.3, linewidth=0)
    axes.set_xlabel("bins of a table, fullest first; gray: what noise alone reaches")
    axes.set_ylabel("noisy records")
    return figure
