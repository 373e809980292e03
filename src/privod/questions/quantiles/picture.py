"""Quantiles as a curve of shares over values, with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privod.pictures.canvas import ACCENT, blank, called
from privod.query.query import Release
from privod.questions.quantiles.query import NoisyQuantiles, Quantiles

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(release: Release[NoisyQuantiles]) -> Figure:
    """A line for each column; bars are 95 % intervals."""
    query, value = release.query, release.value
    assert isinstance(query, Quantiles)  # noqa: S101 - what a release of quantiles answers
    figure, axes = blank(f"Quantiles of {', '.join(called(one.name) for one in value.columns)}")
    shares = [float(share) for share in query.quantiles]
    for place, column in enumerate(value.columns):
        at = value.values[place]
        ends = zip(at, value.lows[place], value.highs[place], strict=True)
        sides = [(max(x - low, 0.0), max(high - x, 0.0)) for x, low, high in ends]
        color = ACCENT if place == 0 else None
        axes.errorbar(at, shares, xerr=list(zip(*sides, strict=True)), marker="o", capsize=3,
                      color=color, label=called(column.name))  # fmt: skip
    ticks = [float(tick) for tick in axes.get_xticks()]
    first = value.columns[0]
    if type(first).__name__ != "Numeric":
        axes.set_xticks(ticks, [first.shown(tick) for tick in ticks], rotation=30, ha="right")
    axes.set_ylabel("share of the records below")
    axes.set_xlabel("value (bars: 95 % intervals)")
    if len(value.columns) > 1:
        axes.legend()
    return figure
