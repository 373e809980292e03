"""A noisy grid: its counts, where new records would stand out, and scored records upon it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privod.pictures.canvas import ACCENT, INK, MUTED, WARM, blank, called, plain_ticks
from privod.query.query import Release
from privod.questions.grid_knn.release import NoisyGrid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Curve", "draw", "draw_curves", "draw_quality", "draw_score_histogram", "draw_scored"]

FLAGGED = 0.1  # the share of records beyond the dashed line of a picture
FINE = 120  # places per axis at which the score is drawn
MOST_BARS = 40


def draw(release: Release[NoisyGrid]) -> Figure:
    """The counts in two dimensions with the line beyond which records stand out, or as bars."""
    value = release.value
    if value.grid.n_axes == 2:
        return draw_scored(value)
    figure, axes = blank(f"Noisy counts over {_names(value)}")
    order = np.argsort(-value.counts, kind="stable")[:MOST_BARS]
    fullest = value.grid.cells_at(order) if value.cells is None else value.cells[order]
    places = np.arange(len(order))
    axes.bar(places, value.counts[order], color=ACCENT)
    names = [_range_name(value, cell) for cell in fullest]
    axes.set_xticks(places, names, rotation=60, ha="right", fontsize=7)
    axes.set_ylabel("records (noisy)")
    axes.set_xlabel(f"the fullest cells of {len(value.counts)} kept")
    return figure


def draw_scored(
    value: NoisyGrid,
    points: ArrayLike | None = None,
    n_neighbors: int = 5,
    target_fraction: float = FLAGGED,
) -> Figure:
    """A two-dimensional grid, the line beyond which a share of its records lie, and new records."""
    figure, axes = blank(f"Noisy counts over {_names(value)}", 6.4, 5.0)
    x, y = value.grid.columns
    extent = (x.low, x.high, y.low, y.high)
    image = axes.imshow(
        _square(value).T, origin="lower", extent=extent, aspect="auto", cmap="Blues"
    )
    axes.grid(False)
    axes.set_xlabel(called(x.name))
    axes.set_ylabel(called(y.name))
    axes.figure.colorbar(image, ax=axes, label="records (noisy)")
    limit = float(value.threshold(target_fraction, n_neighbors).graded[0])
    _contour(axes, value, n_neighbors, limit, f"about {target_fraction:.2g} of all lie beyond")
    if points is not None:
        asked = np.asarray(points, dtype=np.float64)
        outside = value.grid.overshoot(asked)
        flagged = value.scores(asked, n_neighbors).graded + outside > limit
        plain, far = asked[~flagged], asked[flagged]
        axes.scatter(plain[:, 0], plain[:, 1], s=14, color="white", edgecolor=INK, label="ordinary")
        axes.scatter(far[:, 0], far[:, 1], s=26, color=WARM, edgecolor=INK, label="stands out")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3)
    return figure


def draw_score_histogram(scores: NDArray[np.float64], limit: float | None) -> Figure:
    """How the scores of new records are spread, and which lie beyond the limit if there is one."""
    figure, axes = blank("Scores of new records")
    edges = np.histogram_bin_edges(scores, bins=40).tolist()
    axes.set_xlabel("score (higher is more outlying)")
    axes.set_ylabel("records")
    if limit is None:
        axes.hist(scores, bins=edges, color=ACCENT)
        return figure
    axes.hist(scores[scores <= limit], bins=edges, color=ACCENT, label="ordinary")
    axes.hist(scores[scores > limit], bins=edges, color=WARM, label="stands out")
    axes.axvline(limit, color=INK, linestyle="--")
    axes.legend()
    return figure


Curve = tuple[Sequence[float], Sequence[float], Sequence[float]]


def draw_quality(title: str, curves: Mapping[str, Curve]) -> Figure:
    """AUROC against epsilon: for each method the epsilons, means and deviations."""
    return draw_curves(title, curves, "AUROC")


def draw_curves(title: str, curves: Mapping[str, Curve], measure: str) -> Figure:
    """Any measure against epsilon: for each curve the epsilons, means and deviations.

    What never deviates got no noise: a dashed line, each with dashes of its own length, so that
    of two that agree both are seen.
    """
    figure, axes = blank(title)
    for place, (name, (epsilons, means, deviations)) in enumerate(curves.items()):
        if not any(deviations):
            axes.plot(epsilons, means, dashes=(2 + 2 * place, 2 + place), label=name)
            continue
        low, high = np.subtract(means, deviations), np.add(means, deviations)
        (line,) = axes.plot(epsilons, means, marker="o", markersize=3, label=name)
        axes.fill_between(epsilons, low, high, color=line.get_color(), alpha=0.12)
    axes.set_xscale("log")
    plain_ticks(axes)
    axes.set_xlabel("epsilon")
    axes.set_ylabel(f"{measure} (band: one deviation)")
    axes.legend(fontsize=8)
    return figure


def _square(value: NoisyGrid) -> NDArray[np.int64]:
    side = value.grid.cells_per_axis
    if value.cells is None:
        return value.counts.reshape(side, side)
    square = np.zeros((side, side), dtype=np.int64)
    square[value.cells[:, 0], value.cells[:, 1]] = value.counts
    return square


def _contour(axes: Axes, value: NoisyGrid, n_neighbors: int, limit: float, label: str) -> None:
    x, y = (np.linspace(column.low, column.high, FINE) for column in value.grid.columns)
    places = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    scores = value.scores(places, n_neighbors).graded.reshape(FINE, FINE)
    if scores.min() < limit < scores.max():
        axes.contour(x, y, scores, levels=[limit], colors=[WARM], linestyles="--")
        axes.plot([], [], color=WARM, linestyle="--", label=label)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3)
    else:
        axes.text(
            0.02, 0.02, "no line: all places score alike", transform=axes.transAxes, color=MUTED
        )


def _names(value: NoisyGrid) -> str:
    shown = ", ".join(map(called, value.columns[:4]))
    return shown if value.grid.n_axes <= 4 else f"{shown} and {value.grid.n_axes - 4} more"


def _range_name(value: NoisyGrid, cell: NDArray[np.int32]) -> str:
    center = value.grid.centers_of(cell[None])[0]
    return ", ".join(f"{number:.3g}" for number in center[:3]) + (", ..." if len(cell) > 3 else "")
