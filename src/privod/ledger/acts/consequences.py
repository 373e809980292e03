"""What a budget means for one person: how often a guess about that person can be right.

Somebody who thinks 50:50 that a person is in the data, and sees all answers that a budget pays for,
guesses right with a probability of at most (e^epsilon + delta) / (1 + e^epsilon)
[Kairouz 2015, Theorem 2.1, with equal errors].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from privod.data import Domain
from privod.ledger.budget_state import BudgetState
from privod.privacy import AddRemove, Adjacency, Loss, Replace
from privod.privacy.certified import exp_above

PARTS = 1000  # a share is told in tenths of a percent
SURE = 40  # from this epsilon on e^epsilon passes every float's precision: a guess may be sure


def guessed_right(loss: Loss) -> Fraction:
    """How often a 50:50 guess can be right at most, in tenths of a percent, rounded up."""
    if loss.epsilon > SURE:
        return Fraction(1)
    power = exp_above(loss.epsilon)
    share = (power + loss.delta) / (1 + power)  # grows with the power while delta is at most 1
    return min(Fraction(1), Fraction(math.ceil(share * PARTS), PARTS))


def meaning(
    loss: Loss, adjacency: Adjacency, domain: Domain, budgets: Sequence[BudgetState]
) -> str:
    """What all answers of a budget, and of those beside it, let somebody guess, in words."""
    main = adjacency in (AddRemove(), Replace())
    others = [one for one in budgets if one.closed is None and one.adjacency != adjacency]
    allowances = [one for one in others if one.role == "allowance"]
    if not main:  # those whom it protects lose this beside the add-remove budget
        allowances = [one for one in others if one.adjacency != Replace()]
    total = sum((one.budget for one in allowances), loss)
    unit = "person" if domain.person is not None else "row"
    what = f"that a {unit} is in the data"
    if adjacency == Replace():
        what = f"which of two values a {unit} has"
    share = f"{float(guessed_right(total) * 100):.1f}".removesuffix(".0")
    whose = "this budget" if not allowances else "this budget and of those open beside it"
    told = (
        f"With all answers of {whose}, somebody who thinks 50:50 {what} guesses right at most"
        f" {share} % of the time."
    )
    narrow = [*(one.adjacency for one in allowances), adjacency]
    left_out = dict.fromkeys(one.gives_up for one in narrow if one not in (AddRemove(), Replace()))
    if not left_out:
        return told
    return f"{told} This holds for those whom every allowance protects. {' '.join(left_out)}"
