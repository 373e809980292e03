"""Curves of quality against epsilon, as the papers draw them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from privod.pictures.canvas import blank

__all__ = ["Curve", "draw_curves", "draw_quality"]

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
    axes.set_xlabel("epsilon")
    axes.set_ylabel(f"{measure} (band: one deviation)")
    axes.legend(fontsize=8)
    return figure
