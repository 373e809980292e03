"""The chosen group value by value; and, for the owner alone, who is in it and how good it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privod.data import Table
from privod.outliers.contexts import detectors
from privod.outliers.contexts.contexts import Context, ContextSpace, population
from privod.outliers.contexts.matching import look_from
from privod.pictures.canvas import ACCENT, INK, MUTED, WARM, blank, called
from privod.query.query import Release
from privod.questions.outlier_context.query import OutlierContext

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw", "draw_for_owner"]

MOST_LETTERS = 28
MOST_CONTEXTS = 2**24  # that the owner's picture enumerates


def draw(release: Release[Context | None]) -> Figure:
    """The values of each attribute: chosen ones filled, the person's own ringed."""
    query, value = release.query, release.value
    assert isinstance(query, OutlierContext)  # noqa: S101 - what a release of a context answers
    if value is None:
        figure, axes = blank(f"Stands out by {called(query.column)} in no group", height=1.5)
        axes.set_axis_off()
        return figure
    longest = max(len(values) for _, values in value.attributes)
    width = max(5.0, 2.2 * len(value.attributes))
    figure, axes = blank(
        f"A group in which the person stands out, by {called(query.column)}",
        width=width,
        height=1.6 + 0.36 * longest,
    )
    own = dict(query.record)
    for place, (name, values) in enumerate(value.attributes):
        for row, category in enumerate(values):
            chosen = category in value.chosen[name]
            text = str(category)
            text = text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"
            box = {
                "boxstyle": "round,pad=0.35",
                "facecolor": ACCENT if chosen else "white",
                "edgecolor": WARM if category == own[name] else MUTED,
                "linewidth": 2.5 if category == own[name] else 1.0,
            }
            color = "white" if chosen else INK
            axes.text(place, row, text, ha="center", va="center", fontsize=8, color=color, bbox=box)
    axes.set_xlim(-0.6, len(value.attributes) - 0.4)
    axes.set_ylim(longest - 0.3, -0.7)
    axes.set_xticks(range(len(value.attributes)), [called(name) for name, _ in value.attributes])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_yticks([])
    axes.set_xlabel("filled: in the group; ringed: the person's own value", fontsize=8)
    axes.spines[:].set_visible(False)
    axes.grid(False)
    return figure


def draw_for_owner(release: Release[Context | None], table: Table) -> Figure:
    """Who is in the chosen group, and its utility among all that match. Not private: keep it."""
    query, value = release.query, release.value
    assert isinstance(query, OutlierContext)  # noqa: S101 - what a release of a context answers
    figure, axes = blank("FOR THE OWNER ONLY, NOT PRIVATE: who is in the group", width=10.0)
    axes.set_subplotspec(figure.add_gridspec(1, 2)[0])
    everyone = np.ones(len(table), bool) if value is None else population(value, table)
    axes.hist(table.numbers((query.column,))[everyone, 0], bins=60, color=ACCENT)
    axes.axvline(query.value, color=WARM, linewidth=2, label="the person")
    axes.set_xlabel(called(query.column))
    axes.set_ylabel("records in the group")
    axes.legend()
    other = figure.add_subplot(1, 2, 2)
    other.set_title("the group among all that match", loc="left", fontsize=11)
    other.spines[["top", "right"]].set_visible(False)
    _utilities(other, query, value, table)
    return figure


def _utilities(axes: Axes, query: OutlierContext, value: Context | None, table: Table) -> None:
    space = ContextSpace.around(table.domain, dict(query.record))
    if space.n_contexts > MOST_CONTEXTS:
        axes.text(0.5, 0.5, "too many groups to draw", ha="center", transform=axes.transAxes)
        return
    detector = detectors.detector(query.detector)
    view = look_from(table, space, query.column, query.value, detector)
    utilities = view.scan()
    matching = utilities[utilities >= 0]
    if len(matching):
        axes.hist(matching, bins=60, color=MUTED)
        axes.axvline(int(matching.max()), color=INK, linestyle=":", label="the largest")
    if value is not None:
        size = int(view.judge([space.choices(value)]).sizes[0])
        axes.axvline(size, color=WARM, linewidth=2, label="the chosen one")
    axes.set_xlabel("records in a group")
    axes.set_ylabel("groups in which the person stands out")
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
