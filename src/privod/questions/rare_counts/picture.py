"""The rare cells as bars, told exactly; of a few records asked about, all counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privod.pictures.canvas import ACCENT, INK, WARM, blank, called
from privod.query.query import Release
from privod.questions.rare_counts.query import RareCounts, ValueCounts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_BARS = 40


def draw(release: Release[ValueCounts]) -> Figure:
    """A bar for each rare combination, rarest on top; or one for each record asked about."""
    query, value = release.query, release.value
    assert isinstance(query, RareCounts)  # noqa: S101 - what such a release answers
    columns = " and ".join(map(called, query.columns))
    if value.records:
        return _of_records(query, value, columns)
    rare = value.rare()
    shown = rare[:MOST_BARS][::-1]
    more = f", the rarest {MOST_BARS} of {len(rare)}" if len(rare) > MOST_BARS else ""
    figure, axes = blank(f"Rare combinations of {columns}{more}")
    axes.barh(range(len(shown)), [count for _, count in shown], color=ACCENT)
    axes.set_yticks(range(len(shown)), [", ".join(names) for names, _ in shown], fontsize=8)
    axes.set_xlabel(f"records (told exactly below {query.noisy_from})")
    if not shown:
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", va="center")
    axes.grid(False, axis="y")
    return figure


def _of_records(query: RareCounts, value: ValueCounts, columns: str) -> Figure:
    """The counts, error bars where they are noisy, and the line from which on they are."""
    shown = len(value.records[:MOST_BARS])
    more = f", the first {shown} of {len(value.records)}" if len(value.records) > shown else ""
    figure, axes = blank(f"Records with these values of {columns}{more}")
    counts, noisy = value.counts[:shown], value.noisy[:shown]
    axes.barh(range(shown), counts, color=ACCENT, height=0.5)
    if noisy.any():
        margin = query.noise.quantile(0.95)
        places = noisy.nonzero()[0]
        axes.errorbar(counts[noisy], places, xerr=margin, color=INK, capsize=4, fmt="o")
    axes.set_xlabel("records (error bar: 95 % of the noise; without one, exact)")
    names = [", ".join(map(str, record)) for record in value.records[:shown]]
    axes.set_yticks(range(shown), names, fontsize=8)
    if query.noisy_from:
        label = "from here on counts are noisy"
        axes.axvline(query.noisy_from, color=WARM, linestyle="--", label=label)
        axes.legend()
    axes.set_ylim(-1, shown)
    return figure
