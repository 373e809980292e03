"""The groups told for each person, attribute by attribute: ranges as bars, categories as names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privod.pictures.canvas import ACCENT, INK, MUTED, WARM, blank
from privod.queries.outlier_context.groups import OutlierGroups, PersonGroups
from privod.queries.query import Release

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw"]

MOST_ROWS = 24
MOST_LETTERS = 60


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
