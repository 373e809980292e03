"""A budget over time: what was spent by which question, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from privod.pictures.canvas import ACCENT, WARM, blank
from privod.privacy import Loss, decimal_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_budget(title: str, budget: Loss, charges: Sequence[tuple[str, Loss]]) -> Figure:
    """Steps of spent epsilon, one per charge, oldest first, under the line of the budget."""
    spent = [0.0]
    total = Loss(0)
    for _, loss in charges:
        total = total + loss
        spent.append(float(total.epsilon))
    spent.append(spent[-1])  # what stands now, seen as a level and not as an edge
    figure, axes = blank(title)
    axes.step(range(len(spent)), spent, where="post", color=ACCENT, linewidth=2, label="spent")
    axes.fill_between(range(len(spent)), spent, step="post", color=ACCENT, alpha=0.15)
    limit = float(budget.epsilon)
    axes.axhline(limit, color=WARM, linestyle="--", label=f"budget {decimal_text(budget.epsilon)}")
    axes.set_ylim(0, limit * 1.1)
    axes.set_xlim(0, max(len(spent) - 1, 1))
    names = ["", *(name for name, _ in charges)]  # under the step that each charge makes
    if len(names) <= 30:
        axes.set_xticks(range(len(names)), names, rotation=45, ha="right", fontsize=8)
    axes.set_xlabel("charges")
    axes.set_ylabel("epsilon")
    figure.legend(loc="outside lower center", ncols=2)  # within the axes it may hide the steps
    return figure
