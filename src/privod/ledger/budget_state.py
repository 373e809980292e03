"""The state of a budget: its limit, what is spent, and whether one more question can be paid."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from privod.privacy import Adjacency, Cost, Loss, Spent, ZcdpBudget
from privod.query.html import paragraphs

Accounting = Literal["sums", "zcdp"]


@dataclass(frozen=True)
class BudgetState:
    """A budget: its adjacency, its limit and what of it is spent.

    `number` is the entry that opened it, `closed` the one that closed it. Versions that continue a
    data set share its budgets. Questions never bring what is spent past the limit; what was
    revealed elsewhere may, and then nothing more can be asked. An "allowance" pays only for
    questions that no main budget can count, beside an add-remove main.

    Counted by zcdp, `conversion_delta` is the part of the limit's delta that rho is converted with
    (None: by sums), and `adding` says that all questions so far were paid by the plain sum. The
    epsilon spent may pass the limit while the promise stands. `left_to_you` is what is left to the
    token that asks; None if the owner set no limit for it.
    """

    number: int
    dataset: str
    adjacency: Adjacency
    budget: Loss
    spent: Loss
    n_charges: int = 0
    role: str = "main"
    closed: int | None = None
    conversion_delta: Fraction | None = None
    spent_rho: Fraction = Fraction(0)
    adding: bool = True
    left_to_you: Loss | None = None

    def _repr_html_(self) -> str:
        return paragraphs(
            f"Budget of {self.dataset} under {self.adjacency.name}: {self.left} left",
            f"Spent: {self.spent} of {self.budget}{self.counted}.",
            "" if self.left_to_you is None else f"Left to you: {self.left_to_you}.",
            f"{self.adjacency.protected}.",
        )

    @property
    def accounting(self) -> Accounting:
        """How it counts."""
        return "sums" if self.conversion_delta is None else "zcdp"

    @property
    def zcdp(self) -> ZcdpBudget | None:
        """The limit in the concentrated currency; None if it counts by sums."""
        if self.conversion_delta is None:
            return None
        return ZcdpBudget(self.budget, self.conversion_delta)

    @property
    def concentrated(self) -> Spent:
        """What is spent, as the concentrated currency sees it."""
        return Spent(self.spent.epsilon, self.spent_rho, self.spent.delta, self.adding)

    @property
    def counted(self) -> str:
        """How it counts, as an end of a sentence; "" for plain sums."""
        if self.zcdp is None:
            return ""
        return f", counted by zcdp: rho {float(self.spent_rho):.6g} of {float(self.zcdp.rho):.6g}"

    @property
    def left(self) -> Loss:
        """What may still be charged; nothing if closed or overspent in either part.

        Counted by sums that is exact. Counted by zcdp it is the largest loss of one more question,
        rounded down; many small ones may cost more together.
        """
        if self.closed is not None:
            return Loss(0)
        if self.zcdp is not None:
            return self.zcdp.largest(self.concentrated)
        if not self.spent <= self.budget:
            return Loss(0)
        epsilon = self.budget.epsilon - self.spent.epsilon
        return Loss(epsilon, self.budget.delta - self.spent.delta)

    def after(self, cost: Cost) -> BudgetState | None:
        """The budget once a question is paid; None if it cannot be paid."""
        if self.zcdp is not None:
            paid = self.zcdp.after(self.concentrated, cost)
            return None if paid is None else self._with(paid)
        spent = self.spent + cost.loss
        return replace(self, spent=spent) if spent <= self.budget else None

    def overrun(self, cost: Cost) -> BudgetState:
        """The budget once a cost stands that could not be paid."""
        if self.zcdp is not None:
            return self._with(self.zcdp.overrun(self.concentrated, cost))
        return replace(self, spent=self.spent + cost.loss)

    def questions_left(self, cost: Cost) -> int | None:
        """How many more questions of this cost can be paid; None if there is no end."""
        if cost.loss == Loss(0):
            return None
        if self.closed is not None:
            return 0
        if self.zcdp is not None:
            return self.zcdp.questions_left(self.concentrated, cost)
        left = self.left
        pairs = ((left.epsilon, cost.loss.epsilon), (left.delta, cost.loss.delta))
        return min(int(room // price) for room, price in pairs if price > 0)

    def _with(self, spent: Spent) -> BudgetState:
        sums = Loss(spent.epsilon, spent.delta)
        return replace(self, spent=sums, spent_rho=spent.rho, adding=spent.adding)
