"""Records that were scored: upon a map of two columns, by what made their scores, or as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privod.arrays import Floats, Ints
from privod.data import Numeric
from privod.pictures.canvas import ACCENT, INK, MUTED, WARM, blank, called
from privod.query.scorer import Explanation, Scorer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


FINE = 120  # places per axis at which the score is drawn
MOST_RECORDS = 12


def draw_scored(scorer: Scorer[Any], records: Floats, rows: Ints, share: float) -> Figure:
    """Which columns made the scores, where that is known; else a map, or how they are spread."""
    explained = scorer.explain(records)
    if explained is not None:
        return draw_explained(explained, rows)
    if len(scorer.columns) == 2 and all(isinstance(one, Numeric) for one in scorer.columns):
        return draw_map(scorer, share, records=records)
    return draw_scores(scorer.scores(records), scorer.threshold(share))


def draw_map(
    scorer: Scorer[Any], share: float, counts: Ints | None = None, records: Floats | None = None
) -> Figure:
    """Two columns: the counts or the scores, the line beyond which a share lies, and records."""
    x, y = scorer.columns
    assert isinstance(x, Numeric)  # noqa: S101 - what a map is drawn of
    assert isinstance(y, Numeric)  # noqa: S101
    figure, axes = blank(f"Scores over {called(x.name)}, {called(y.name)}", 6.4, 5.0)
    sides = [np.linspace(one.low, one.high, FINE) for one in (x, y)]
    places = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    scores = scorer.scores(places).reshape(FINE, FINE)
    shown, label = (scores, "score") if counts is None else (counts.T, "records (noisy)")
    extent = (x.low, x.high, y.low, y.high)
    image = axes.imshow(shown, origin="lower", extent=extent, aspect="auto", cmap="Blues")
    axes.grid(False)
    axes.set_xlabel(called(x.name))
    axes.set_ylabel(called(y.name))
    figure.colorbar(image, ax=axes, label=label)
    limit = scorer.threshold(share)
    if limit is not None:
        _contour(
            axes,
            sides,
            scores,
            limit,
            f"about {100 * share:.2f} % of records lie outside".replace(".00 %", " %"),
        )
    if records is not None:
        found = scorer.scores(records)
        far = np.full(len(found), False) if limit is None else found > limit
        plain, beyond = records[~far], records[far]
        axes.scatter(plain[:, 0], plain[:, 1], s=14, color="white", edgecolor=INK, label="ordinary")
        axes.scatter(beyond[:, 0], beyond[:, 1], s=26, color=WARM, edgecolor=INK, label="outlying")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3)
    return figure


def draw_scores(scores: Floats, limit: float | None) -> Figure:
    """How the scores of new records are spread, and which lie beyond the limit if there is one."""
    figure, axes = blank("Scores of new records")
    edges = np.histogram_bin_edges(scores, bins=40).tolist()
    axes.set_xlabel("score (higher is more outlying)")
    axes.set_ylabel("records")
    if limit is None:
        axes.hist(scores, bins=edges, color=ACCENT)
        return figure
    axes.hist(scores[scores <= limit], bins=edges, color=ACCENT, label="ordinary")
    axes.hist(scores[scores > limit], bins=edges, color=WARM, label="outlying")
    axes.axvline(limit, color=INK, linestyle="--")
    axes.legend()
    return figure


def draw_explained(explained: Explanation, rows: Ints) -> Figure:
    """What the columns add to the scores of the most outlying of these records, each a row."""
    totals = explained.shares.sum(axis=1)
    order = np.argsort(-totals, kind="stable")[:MOST_RECORDS]
    figure, axes = blank("Which columns made these scores", height=1.2 + 0.4 * len(order))
    for height, place in enumerate(order[::-1]):
        shares = np.maximum(explained.shares[place], 0)
        left = 0.0
        for rank, column in enumerate(np.argsort(-shares, kind="stable")[:5]):
            axes.barh(height, shares[column], left=left, color=ACCENT, alpha=1 - 0.18 * rank)
            if shares[column] > 0.12 * max(totals[place], 1e-9):
                middle = left + shares[column] / 2
                name = explained.columns[column]
                axes.text(middle, height, name, fontsize=7, ha="center", va="center")
            left += shares[column]
    axes.set_yticks(range(len(order)), [f"row {row}" for row in rows[order[::-1]]])
    axes.set_xlabel("score, by column")
    return figure


def _contour(axes: Axes, sides: list[Floats], scores: Floats, limit: float, label: str) -> None:
    if scores.min() < limit < scores.max():
        axes.contour(*sides, scores, levels=[limit], colors=[WARM], linestyles="--")
        axes.plot([], [], color=WARM, linestyle="--", label=label)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3)
    else:
        axes.text(0.02, 0.02, "no line: all score alike", transform=axes.transAxes, color=MUTED)
