"""A joint run: who sent what to whom, how much, and what each learned."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from math import cos, pi, sin
from typing import TYPE_CHECKING

from privod.pictures.canvas import ACCENT, INK, MUTED, WARM, blank

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from privod.joint.outliers import OutlierResult

RING = 1.0  # distance of the parties from the aggregator
LEARNED_WIDTH = 96


def draw_run(answers: Mapping[str, OutlierResult]) -> Figure:
    """Parties around their aggregator; arrows carry bytes, below them what each one learned.

    Give every answer of a rehearsal, or the one answer that a party has.
    """
    names = sorted(answers)
    first = answers[names[0]]
    lines = _learned(first)
    figure, axes = blank(
        f"Joint outliers among {first.n_records} records ({first.question.secrecy().protocol})",
        height=4.5 + 0.17 * len(lines),
    )
    axes.grid(False)
    axes.set_axis_off()
    _node(axes, 0.0, 0.0, "aggregator\nholds no rows", MUTED)
    angles = [pi / 2 + 2 * pi * place / max(3, len(names)) for place in range(len(names))]
    for name, angle in zip(names, angles, strict=True):
        x, y = 1.6 * RING * cos(angle), RING * sin(angle)
        answer = answers[name]
        _arrow(axes, (x, y), (0.0, 0.0), ACCENT, 0.06)
        _arrow(axes, (0.0, 0.0), (x, y), MUTED, 0.06)
        axes.text(
            0.52 * x,
            0.52 * y,
            f"hidden numbers, {size(answer.traffic.sent)}\nback {size(answer.traffic.received)}",
            ha="center",
            va="center",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85},
        )
        _node(axes, x, y, f"{name}\n{len(answer.rows)} outliers, alone {len(answer.alone)}", WARM)
    axes.set_xlim(-2.2, 2.2)
    lowest = min(0.0, *(RING * sin(angle) for angle in angles))
    axes.set_ylim(lowest - 0.3, RING + 0.3)
    axes.text(
        0.0,
        -0.02,
        "\n".join(lines),
        transform=axes.transAxes,
        va="top",
        fontsize=8,
        color=INK,
    )
    return figure


def size(n_bytes: int) -> str:
    """Bytes for people."""
    for unit, step in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n_bytes >= step:
            return f"{n_bytes / step:.1f} {unit}"
    return f"{n_bytes} B"


def _learned(answer: OutlierResult) -> list[str]:
    phases = ", ".join(
        f"{step.phase} {size(step.sent)}" for step in answer.traffic.phases() if step.sent > 999
    )
    lines = textwrap.wrap(f"{answer.party} sent: {phases or 'less than a kB'}.", LEARNED_WIDTH)
    for who, what in answer.question.secrecy().learns:
        lines += textwrap.wrap(f"{who} learned {what}.", LEARNED_WIDTH, subsequent_indent="    ")
    return lines


def _node(axes: Axes, x: float, y: float, text: str, color: str) -> None:
    box = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": color, "linewidth": 1.6}
    axes.text(x, y, text, ha="center", va="center", fontsize=9, bbox=box, zorder=3)


def _arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], color: str, bend: float
) -> None:
    look = {
        "arrowstyle": "-|>",
        "color": color,
        "shrinkA": 40,
        "shrinkB": 40,
        "connectionstyle": f"arc3,rad={bend}",
    }
    axes.annotate("", end, start, arrowprops=look)
