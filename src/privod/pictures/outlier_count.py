"""The count with its error bar, beside the noise that the alternatives would have had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privod.pictures.canvas import ACCENT, INK, MUTED, blank
from privod.queries.outlier_count import OutlierCount
from privod.queries.query import Release

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw"]

ALL_COLUMNS_GUESS = 1  # without named columns the picture shows the bars of a single column


def draw(release: Release[int]) -> Figure:
    """The released count, and the least standard deviation of every noise at this price."""
    query = release.query
    assert isinstance(query, OutlierCount)  # noqa: S101 - what a release of such a count answers
    dimensions = len(query.columns) or ALL_COLUMNS_GUESS
    deviations = query.least_deviations(dimensions)
    chosen = query.chosen_noise(dimensions)
    names = list(deviations)
    figure, axes = blank("Outlying records, and the noise of each way to count them")
    axes.barh(["the answer"], [release.value], color=ACCENT, height=0.5)
    axes.errorbar(
        [release.value], ["the answer"], xerr=[deviations[chosen]], color=INK, capsize=4, fmt="o"
    )
    axes.barh(
        [f"noise: {name}" + (" (taken)" if name == chosen else "") for name in names],
        [deviations[name] for name in names],
        color=[MUTED if name != chosen else INK for name in names],
        height=0.5,
    )
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlabel(
        "records; bars of noise show its standard deviation, at least (it depends on the data)"
    )
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    return figure
