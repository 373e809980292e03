"""The groups told for each person; and, for the owner alone, who is in each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privod.data import Table
from privod.outliers.contexts.contexts import population
from privod.pictures.canvas import ACCENT, INK, MUTED, WARM, blank
from privod.query.query import Release
from privod.questions.outlier_context.groups import OutlierGroups, PersonGroups

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "draw_for_owner"]

MOST_ROWS = 24
MOST_LETTERS = 60
MOST_GROUPS = 12  # that the owner's picture shows


def draw(release: Release[tuple[PersonGroups, ...]]) -> Figure:
    """One line per group, person below person; its noisy size is a bar where sizes were bought."""
    query = release.query
    assert isinstance(query, OutlierGroups)  # noqa: S101 - what a release of groups answers
    rows = _rows(query, release.value)
    shown = rows[:MOST_ROWS]
    figure, axes = blank(
        f"Groups in which the persons stand out by {query.column}",
        width=9.0,
        height=1.6 + 0.32 * len(shown),
    )
    widest = max((size for _, size, _ in shown if size is not None), default=0)
    for row, (text, size, heading) in enumerate(shown):
        if size is not None:
            axes.barh(row, max(size, 0), color=ACCENT, alpha=0.35, height=0.8)
            axes.text(max(size, 0), row, f" about {size}", va="center", fontsize=8, color=MUTED)
        color = WARM if heading else INK
        axes.text(0, row, f" {text}", va="center", fontsize=8, color=color)
    axes.set_ylim(len(shown) - 0.4, -0.8)
    axes.set_xlim(0, max(1.0, 1.15 * widest))
    axes.set_yticks([])
    if query.size_noise is None:
        axes.set_xticks([])
    else:
        margin = query.size_noise.quantile(0.95)
        axes.set_xlabel(f"records, each right to within {margin} with 95 % certainty", fontsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(False)
    if len(rows) > MOST_ROWS:
        axes.set_title(f"the first {MOST_ROWS} of {len(rows)} lines", fontsize=8, loc="right")
    return figure


def draw_for_owner(release: Release[tuple[PersonGroups, ...]], table: Table) -> Figure:
    """Who is in each group told, and where the person stands there. Not private: keep it."""
    query = release.query
    assert isinstance(query, OutlierGroups)  # noqa: S101 - what a release of groups answers
    told = [
        (person, group)
        for person, found in zip(query.persons, release.value, strict=True)
        for group in found.groups
    ]
    shown = told[:MOST_GROUPS]
    title = "FOR THE OWNER ONLY, NOT PRIVATE: who is in the groups"
    figure, axes = blank(title, width=9.0, height=1.4 + 1.7 * max(1, len(shown)))
    if not shown:
        axes.text(0.5, 0.5, "no group was told", ha="center", transform=axes.transAxes)
        return figure
    grid = figure.add_gridspec(len(shown), 1)
    numbers = table.numbers((query.column,))[:, 0]
    for row, (person, group) in enumerate(shown):
        if row == 0:
            axes.set_subplotspec(grid[0])
        else:
            axes = figure.add_subplot(grid[row], sharex=axes)
            axes.spines[["top", "right"]].set_visible(False)
        inside = population(group, table)
        axes.hist(numbers[inside], bins=60, color=ACCENT)
        axes.axvline(float(person[-1]), color=WARM, linewidth=2)
        words = f"{int(inside.sum())} records: {_short(group.in_words())}"
        axes.text(0.01, 0.92, words, va="top", fontsize=8, color=INK, transform=axes.transAxes)
    axes.set_xlabel(f"{query.column}; the line is the person", fontsize=8)
    return figure


def _rows(
    query: OutlierGroups, value: tuple[PersonGroups, ...]
) -> list[tuple[str, int | None, bool]]:
    """A heading for each person, then a line for each group: its text, its size, if a heading."""
    rows: list[tuple[str, int | None, bool]] = []
    for person, found in zip(query.persons, value, strict=True):
        rows.append((_short(", ".join(map(str, person))), None, True))
        sizes = found.sizes or (None,) * len(found.groups)
        rows += [
            (_short(group.in_words()), size, False)
            for group, size in zip(found.groups, sizes, strict=True)
        ]
        if not found.groups:
            rows.append(("stands out in no group looked at", None, False))
    return rows


def _short(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"
