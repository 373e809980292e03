"""How small a total can be shown for many charges, beside their plain sum?

The sum of epsilons and deltas holds whatever is asked next, so it is what the ledger enforces. A
tighter total holds too if the losses (not the questions) were fixed beforehand: the worst pair of
distributions of every charge is composed [Kairouz 2015], rounded up, by dp-accounting, where that
is installed. It is for show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from privod.privacy import Loss
from privod.privacy.zcdp import epsilon_of_rho

USUAL_DELTA = Fraction(1, 10**9)  # shown at, when the budget has no delta of its own
MOST_DISTINCT = 32  # distinct losses that are still composed one by one, in about a second
MOST_EPSILON = 50  # a sum beyond this says little, tight or not, and takes long to compose
DIGITS = 6  # decimals shown, rounded up


@dataclass(frozen=True)
class Total:
    """A total that holds for all charges together, and how it was found.

    `method` is "addition"; "zero-concentrated composition", of a budget that is counted so; or
    "worst-case composition" (valid for losses fixed beforehand).
    """

    loss: Loss
    method: str


def tightest(
    losses: tuple[tuple[Loss, int], ...],
    spent: Loss,
    budget_delta: Fraction,
    rho: tuple[Fraction, Fraction] | None = None,
    adding: bool = True,
) -> Total:
    """The least epsilon of those that are known to hold, at the budget's delta.

    `rho` is what was spent of a budget that is counted by zcdp, with the delta that converts it.
    Once such a budget is no longer adding, the delta spent leaves out what rho paid for: then
    nothing but rho bounds the loss.
    """
    found = [Total(spent, "addition")] if rho is None or adding else []
    if rho is not None and (rho[0] > 0 or not adding):
        spent_rho, conversion = rho
        whole = Loss(epsilon_of_rho(spent_rho, conversion), conversion + spent.delta)
        found.append(Total(whole, "zero-concentrated composition"))
    composed = _worst_case(losses, spent, budget_delta or USUAL_DELTA) if adding else None
    if composed is not None:  # else a loss carried from before may lack its delta
        found.append(composed)
    return min(found, key=lambda total: total.loss.epsilon)


def _worst_case(losses: tuple[tuple[Loss, int], ...], spent: Loss, delta: Fraction) -> Total | None:
    if sum(times for _, times in losses) < 2 or spent.delta >= delta:
        return None
    if len(losses) > MOST_DISTINCT or spent.epsilon > MOST_EPSILON:
        return None
    epsilon = _composed(losses, delta)
    return None if epsilon is None else Total(Loss(epsilon, delta), "worst-case composition")


@lru_cache(maxsize=256)
def _composed(losses: tuple[tuple[Loss, int], ...], delta: Fraction) -> Fraction | None:
    try:
        from dp_accounting.pld import common
        from dp_accounting.pld import privacy_loss_distribution as pld
    except ImportError:
        return None
    total = None
    for loss, times in losses:
        # Rounded outward; not RandomizedResponseDpEvent(count), which dp-accounting 0.6 miscounts.
        epsilon = math.nextafter(float(loss.epsilon), math.inf)
        slack = math.nextafter(float(loss.delta), math.inf) if loss.delta else 0.0
        one = pld.from_privacy_parameters(common.DifferentialPrivacyParameters(epsilon, slack))
        many = one.self_compose(times) if times > 1 else one
        total = many if total is None else total.compose(many)
    assert total is not None  # noqa: S101 - tightest asks only about two charges or more
    found = total.get_epsilon_for_delta(math.nextafter(float(delta), 0.0))
    return Fraction(math.ceil(found * 10**DIGITS), 10**DIGITS) if math.isfinite(found) else None
