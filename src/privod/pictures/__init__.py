"""One picture per question; the same in a notebook, a report and the console."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from privod.pictures import (
    anomaly,
    bounds,
    grid_knn,
    histogram,
    lookahead,
    marginals,
    outlier_context,
    outlier_count,
    subspaces,
)
from privod.pictures.book import draw_book
from privod.pictures.canvas import png, svg
from privod.pictures.joint_outliers import draw_run
from privod.queries.query import Release

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PICTURES", "draw", "draw_book", "draw_run", "png", "svg"]

PICTURES: dict[str, Callable[[Release[Any]], Figure]] = {
    "anomaly-labels-1": anomaly.draw,
    "grid-knn-1": grid_knn.draw,
    "histogram-1": histogram.draw,
    "lookahead-count-1": lookahead.draw,
    "marginals-1": marginals.draw,
    "private-bounds-1": bounds.draw,
    "outlier-context-1": outlier_context.draw,
    "outlier-count-1": outlier_count.draw,
    "outlier-subspaces-1": subspaces.draw,
}
"""The name of a query to what draws its release."""


def draw(release: Release[Any]) -> Figure:
    """Draw a release."""
    return PICTURES[release.query.name](release)
