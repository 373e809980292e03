"""One picture per question; the same in a notebook, a report and the console."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from privod.data import Table
from privod.errors import NotFound
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

__all__ = [
    "FOR_OWNERS",
    "PICTURES",
    "draw",
    "draw_book",
    "draw_for_owner",
    "draw_run",
    "png",
    "svg",
]

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

FOR_OWNERS: dict[str, Callable[[Release[Any], Table], Figure]] = {
    "anomaly-labels-1": anomaly.draw_for_owner,
    "outlier-context-1": outlier_context.draw_for_owner,
    "outlier-subspaces-1": subspaces.draw_for_owner,
}
"""The name of a query to what draws it beside the rows, which is not private."""


def draw(release: Release[Any]) -> Figure:
    """Draw a release."""
    return PICTURES[release.query.name](release)


def draw_for_owner(release: Release[Any], table: Table) -> Figure:
    """Draw a release beside the rows it was made from; for whoever may see the rows, only."""
    if release.query.name not in FOR_OWNERS:
        known = ", ".join(FOR_OWNERS)
        raise NotFound(f"There is no owner's picture of {release.query.name}. There are {known}.")
    return FOR_OWNERS[release.query.name](release, table)
