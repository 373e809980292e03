"""The graded count with its margin, and what a record counts by how many are near it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privod.pictures.canvas import ACCENT, INK, MUTED, blank
from privod.query.query import Release
from privod.questions.graded_count.query import GradedCount, GradedOutliers

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(release: Release[GradedOutliers]) -> Figure:
    """A bar for the answer, and beside it the credit against the crowd."""
    query, value = release.query, release.value
    assert isinstance(query, GradedCount)  # noqa: S101 - what a release of such a count answers
    figure, axes = blank("Outliers, borderline records counted in part")
    axes.barh([0], [value.count], color=ACCENT, height=0.3)
    margin = query.margin(value.n_columns, value.n_groups)
    axes.errorbar([value.count], [0], xerr=[margin], color=INK, capsize=4, fmt="o")
    axes.set_yticks([])
    axes.set_ylim(-0.3, 1.2)
    axes.set_xlabel("graded count with its 95 % margin")
    axes.grid(False, axis="y")
    inset = axes.inset_axes((0.66, 0.62, 0.32, 0.3))
    last = query.max_crowd + query.n_grades
    inset.plot([0, query.max_crowd, last, last + query.max_crowd], [1, 1, 0, 0], color=MUTED)
    inset.set_xlabel("records within the radius", fontsize=7)
    inset.set_ylabel("counts as", fontsize=7)
    inset.tick_params(labelsize=7)
    return figure
