"""The count with its margin of error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privod.pictures.canvas import ACCENT, INK, MUTED, blank
from privod.query.query import Release
from privod.questions.outlier_count.query import CountedOutliers, OutlierCount

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(release: Release[CountedOutliers]) -> Figure:
    """The released count with its margin."""
    query, value = release.query, release.value
    assert isinstance(query, OutlierCount)  # noqa: S101 - what a release of such a count answers
    margin = query.margin(value)
    figure, axes = blank(f"Outliers: {value.count:,} ± {margin:,} (95 % confidence)", height=2.0)
    axes.barh(["outliers"], [value.count], height=0.5, color=ACCENT)
    axes.errorbar([value.count], ["outliers"], xerr=[margin], color=INK, capsize=4, fmt="o")
    axes.axvline(0, color=MUTED)
    axes.set_xlim(right=1.2 * max(1, abs(value.count) + margin))
    axes.set_xlabel("records")
    axes.grid(False, axis="y")
    return figure
