"""The radius named among the candidates, and how likely one so many edits farther off is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from privod.pictures.canvas import ACCENT, INK, MUTED, blank
from privod.query.query import Release
from privod.questions.outlier_radius.query import ChosenRadius, OutlierRadius

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(release: Release[ChosenRadius]) -> Figure:
    """The candidates with the chosen one, and the chance against edits, from public parameters."""
    query, value = release.query, release.value
    assert isinstance(query, OutlierRadius)  # noqa: S101 - what a release of a radius answers
    figure, axes = blank("The radius at which the given share are outliers")
    axes.plot(query.radii, [0] * query.n_radii, "|", color=MUTED, markersize=14)
    axes.plot([value.radius], [0], "o", color=ACCENT, markersize=10)
    axes.annotate(
        f"{value.radius:g}",
        (value.radius, 0),
        xytext=(0, 12),
        color=INK,
        textcoords="offset points",
        ha="center",
    )
    axes.set_xscale("log")
    axes.set_yticks([])
    axes.set_ylim(-0.5, 1)
    axes.set_xlabel("radius")
    axes.grid(False, axis="y")
    inset = axes.inset_axes((0.68, 0.6, 0.3, 0.3))
    edits = range(query.edits_off + 1)
    inset.plot(edits, [math.exp(-edit / query.choice.scale) for edit in edits], color=INK)
    inset.set_xlabel("edits farther off than the best", fontsize=7)
    inset.set_ylabel("chance, at most", fontsize=7)
    inset.tick_params(labelsize=7)
    return figure
