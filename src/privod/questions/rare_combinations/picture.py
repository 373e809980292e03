"""The rare combinations as bars, told exactly; common ones are left to the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privod.pictures.canvas import ACCENT, blank, called
from privod.query.query import Release
from privod.questions.rare_combinations.query import CombinationCounts, RareCombinations

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw"]

MOST_BARS = 40


def draw(release: Release[CombinationCounts]) -> Figure:
    """A bar for each rare combination, rarest on top."""
    query, value = release.query, release.value
    assert isinstance(query, RareCombinations)  # noqa: S101 - what such a release answers
    rare = value.rare()
    shown = rare[:MOST_BARS][::-1]
    more = f", the rarest {MOST_BARS} of {len(rare)}" if len(rare) > MOST_BARS else ""
    figure, axes = blank(f"Rare combinations of {' and '.join(map(called, query.columns))}{more}")
    axes.barh(range(len(shown)), [count for _, count in shown], color=ACCENT)
    axes.set_yticks(range(len(shown)), [", ".join(names) for names, _ in shown], fontsize=8)
    axes.set_xlabel(f"records (told exactly below {query.noisy_from})")
    if not shown:
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", va="center")
    axes.grid(False, axis="y")
    return figure
