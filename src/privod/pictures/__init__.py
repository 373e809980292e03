"""One picture per question; the same in a notebook, a report and the console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from privod.pictures.budget import draw_budget
from privod.pictures.canvas import columns_called, png, shorten_texts, svg
from privod.query.query import Release
from privod.registry import load, question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "draw_budget", "png", "svg"]


def draw(release: Release[Any], titles: Mapping[str, str] | None = None) -> Figure:
    """Draw a release; columns are called by these titles, as a domain has them."""
    with columns_called(titles or {}):
        return shorten_texts(load(question(release.query.name).picture)(release))
