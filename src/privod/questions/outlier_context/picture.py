"""The groups told for each person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privod.outliers.contexts.contexts import Context
from privod.outliers.contexts.intervals import Interval
from privod.pictures.canvas import ACCENT, INK, MUTED, WARM, blank, called
from privod.query.query import Release
from privod.questions.outlier_context.query import OutlierContext, PersonGroups

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 24
MOST_LETTERS = 60
MOST_VALUE_LETTERS = 28


def draw(release: Release[tuple[PersonGroups, ...]]) -> Figure:
    """A single group value by value; of several, a line each, with a bar for its noisy size."""
    query, value = release.query, release.value
    assert isinstance(query, OutlierContext)  # noqa: S101 - what a release of groups answers
    if len(value) == 1 and len(value[0].groups) == 1 and not value[0].sizes:
        return _one_group(query, value[0].groups[0])
    rows = _rows(query, value)
    shown = rows[:MOST_ROWS]
    figure, axes = blank(
        f"Groups in which the persons stand out by {called(query.column)}",
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
        axes.set_xlabel(f"records, each within ± {margin} (95 % confidence)", fontsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(False)
    if len(rows) > MOST_ROWS:
        axes.set_title(f"the first {MOST_ROWS} of {len(rows)} lines", fontsize=8, loc="right")
    return figure


def _one_group(query: OutlierContext, group: Context) -> Figure:
    """The values of each attribute: chosen ones filled, the person's own ringed."""
    longest = max(len(values) for _, values in group.attributes)
    figure, axes = blank(
        f"A group in which the person stands out, by {called(query.column)}",
        width=max(5.0, 2.2 * len(group.attributes)),
        height=1.6 + 0.36 * longest,
    )
    own = dict(zip(query.group_columns, query.persons[0], strict=False))
    for place, (name, values) in enumerate(group.attributes):
        for row, category in enumerate(values):
            chosen = category in group.chosen[name]
            text = category.in_words() if isinstance(category, Interval) else str(category)
            mine = own[name]
            ringed = mine in category if isinstance(category, Interval) else mine == category
            box = {
                "boxstyle": "round,pad=0.35",
                "facecolor": ACCENT if chosen else "white",
                "edgecolor": WARM if ringed else MUTED,
                "linewidth": 2.5 if ringed else 1.0,
            }
            color = "white" if chosen else INK
            short = _short(text, MOST_VALUE_LETTERS)
            axes.text(
                place, row, short, ha="center", va="center", fontsize=8, color=color, bbox=box
            )
    axes.set_xlim(-0.6, len(group.attributes) - 0.4)
    axes.set_ylim(longest - 0.3, -0.7)
    axes.set_xticks(range(len(group.attributes)), [called(name) for name, _ in group.attributes])
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=-4)
    axes.set_yticks([])
    axes.set_xlabel("filled: in the group; ringed: own value", fontsize=8)
    axes.spines[:].set_visible(False)
    axes.grid(False)
    return figure


def _rows(
    query: OutlierContext, value: tuple[PersonGroups, ...]
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


def _short(text: str, most: int = MOST_LETTERS) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
