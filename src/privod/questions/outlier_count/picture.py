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
    figure, axes = blank(f"Outliers: {value.count:,} ± {query.margin(value):,} (95 % confidence)")
    known = (value.n_columns, value.n_records, value.n_groups)
    deviations = query.least_deviations(*known)
    names = [f"noise: {name}" + (" (taken)" if name == value.noise else "") for name in deviations]
    colors = [ACCENT, *(INK if name == value.noise else MUTED for name in deviations)]
    axes.barh(["outliers", *names], [value.count, *deviations.values()], height=0.5, color=colors)
    axes.errorbar(
        [value.count], ["outliers"], xerr=[query.margin(value)], color=INK, capsize=4, fmt="o"
    )
    axes.axvline(0, color=MUTED)
    axes.set_xlim(right=1.2 * max(1, abs(value.count) + query.margin(value)))
    axes.set_xlabel("records (of each noise its least standard deviation)")
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    return figure
