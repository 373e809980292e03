"""The count with its error bar, beside the noise that the alternatives would have had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privod.pictures.canvas import ACCENT, INK, MUTED, blank
from privod.query.query import Release
from privod.questions.outlier_count.query import CountedOutliers, OutlierCount

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(release: Release[CountedOutliers]) -> Figure:
    """The released count, and the least standard deviation of every noise at this price."""
    query, value = release.query, release.value
    assert isinstance(query, OutlierCount)  # noqa: S101 - what a release of such a count answers
    figure, axes = blank("Outliers, and the noise of each way to count them")
    axes.barh(["the answer"], [value.count], color=ACCENT, height=0.5)
    known = (value.n_columns, value.n_records, value.n_groups)
    deviations = query.least_deviations(*known)
    chosen, margin = value.noise, query.margin(value)
    axes.errorbar([value.count], ["the answer"], xerr=[margin], color=INK, capsize=4, fmt="o")
    axes.barh(
        [f"noise: {name}" + (" (taken)" if name == chosen else "") for name in deviations],
        list(deviations.values()),
        color=[INK if name == chosen else MUTED for name in deviations],
        height=0.5,
    )
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlabel("records (answer: 95 % margin; noise: least deviation)")
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    return figure
