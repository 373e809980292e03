"""One picture per question; the same in a notebook, a report and the console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from privod.data import Table
from privod.errors import NotFound
from privod.pictures.budget import draw_budget
from privod.pictures.canvas import columns_called, png, shorten_texts, svg
from privod.query.query import Release
from privod.registry import load, question, questions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "draw_budget", "draw_for_owner", "png", "svg"]


def draw(release: Release[Any], titles: Mapping[str, str] | None = None) -> Figure:
    """Draw a release; columns are called by these titles, as a domain has them."""
    with columns_called(titles or {}):
        return shorten_texts(load(question(release.query.name).picture)(release))


def draw_for_owner(release: Release[Any], table: Table) -> Figure:
    """Draw a release beside the rows it was made from; for whoever may see the rows, only."""
    described = question(release.query.name)
    if not described.owner_picture:
        known = ", ".join(one.name for one in questions().values() if one.owner_picture)
        raise NotFound(f"There is no owner's picture of {described.name}. There are {known}.")
    with columns_called(table.domain.titles):
        return shorten_texts(load(described.owner_picture)(release, table))
