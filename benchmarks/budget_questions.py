"""How many questions fit into a budget, and how noisy is an answer, by accounting and noise?

Run `python benchmarks/budget_questions.py`, half a minute, or with `--quick`. Questions are paid
one after another by the budget itself, and those at epsilon 0.01 also by a curator with a ledger on
disk, until it refuses (with `--quick` those at 0.05). Noise is the standard deviation of one count
of a histogram of each of several columns, under AddRemove.
"""

from __future__ import annotations

import argparse
import tempfile
from fractions import Fraction

import numpy as np

from privod.curator import Curator
from privod.data import Domain, Numeric
from privod.errors import BudgetExceeded
from privod.mechanisms import DiscreteGaussian, DiscreteLaplace
from privod.privacy import NOTHING_SPENT, AddRemove, Cost, Loss, Zcdp, ZcdpBudget
from privod.questions.histogram.query import Histogram

EPSILON, DELTA = 1, "1e-6"


def paid(budget: ZcdpBudget, cost: Cost) -> int:
    """Ask the same price until it is refused."""
    spent, count = NOTHING_SPENT, 0
    while (after := budget.after(spent, cost)) is not None:
        spent, count = after, count + 1
    return count


def answered(price: str) -> int:
    """Ask a curator, whose budget is counted by zcdp, until it refuses."""
    names = [f"x{place}" for place in range(20)]
    domain = Domain(tuple(Numeric(name, 0, 1) for name in names))
    with tempfile.TemporaryDirectory() as directory, Curator.open(directory) as curator:
        curator.register("people", dict.fromkeys(names, np.linspace(0, 1, 100)), domain)
        limit = Loss(EPSILON, DELTA)
        curator.open_budget("people", AddRemove(), limit, accounting="zcdp", confirmed=True)
        for count in range(10_000):
            bins, column = divmod(count, len(names))
            query = Histogram(columns=(names[column],), bins=bins + 1, epsilon=price)
            try:
                curator.ask(query, "people")
            except BudgetExceeded:
                curator.verify()
                return count
    raise AssertionError("nothing was ever refused")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer questions to the curator")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    given = parser.parse_args()
    price_asked = "0.3" if given.smoke else "0.05" if given.quick else "0.01"
    budget = ZcdpBudget.of(EPSILON, DELTA)
    whole = ZcdpBudget.of(EPSILON, DELTA, conversion_share=1)
    figures: dict[str, float] = {"rho_of_1_1e-6": float(whole.rho)}
    for price in ("0.01", "0.05", "0.1", "0.3"):
        cost = Cost.of_loss(Loss(price))
        figures[f"questions_at_{price}_by_sums"] = float(Fraction(EPSILON) // Fraction(price))
        figures[f"questions_at_{price}_zcdp"] = paid(budget, cost)
        figures[f"questions_at_{price}_zcdp_all_of_delta"] = paid(whole, cost)
    figures[f"questions_at_{price_asked}_answered_by_a_curator"] = answered(price_asked)
    choice = Cost(Loss("0.01"), Zcdp.of_bounded_range(Fraction(1, 100)))
    figures["choices_at_0.01_zcdp"] = paid(budget, choice)
    for columns in (1, 8, 30, 100):
        laplace = DiscreteLaplace.for_loss(EPSILON, columns)
        gaussian = DiscreteGaussian.for_loss(EPSILON, DELTA, columns)
        figures[f"noise_{columns}_columns_laplace"] = laplace.deviation
        figures[f"noise_{columns}_columns_gaussian"] = gaussian.deviation
        figures[f"noise_{columns}_columns_ratio"] = laplace.deviation / gaussian.deviation
        inside = DiscreteGaussian.for_rho(Fraction(1, 20_000), columns)  # as epsilon 0.01
        small = DiscreteLaplace.for_loss(Fraction(1, 100), columns)
        ratio = small.deviation / inside.deviation
        figures[f"noise_{columns}_columns_ratio_in_a_zcdp_budget"] = ratio
    for name, value in figures.items():
        print(f"figure {name} {value:.5g}")


if __name__ == "__main__":
    main()
