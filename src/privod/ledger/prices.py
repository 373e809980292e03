"""What does a question cost, and which budgets pay?

A loss under an adjacency holds, restated, under every narrower one, so each open budget within the
question's adjacency pays; a person with several rows is a group of as many records.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from privod.data import Domain
from privod.errors import InvalidParameter, NoPromise, NotFound
from privod.ledger.chain import BudgetState, Entry
from privod.privacy import AddRemove, Adjacency, Guarantee, Loss
from privod.queries.catalog import query_from_json
from privod.queries.html import paragraphs

__all__ = [
    "ELSEWHERE",
    "Cost",
    "Price",
    "PricedCharge",
    "check_unit",
    "costs_of",
    "gives_up",
    "guarantee_of",
    "loss_towards",
    "price_of",
    "spent_before",
]

ELSEWHERE = "elsewhere"
"""Stands in the place of a question's name where an owner charges what was revealed elsewhere."""

GRID = 10**40 * math.lcm(*range(1, 41))
"""Losses are counted in parts of this: exact for 40 decimals and for fractions up to 1/40.

Anything else is rounded up by less than 10**-55. Without a common denominator, questions with
awkward epsilons would make the sum's digits grow without end.
"""

Cost = tuple[BudgetState, Loss]


@dataclass(frozen=True)
class PricedCharge:
    """What a question would cost one budget, and what would be left there; None if too much."""

    adjacency: Adjacency
    loss: Loss
    left: Loss | None

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        left = None if self.left is None else self.left.to_json()
        return {"adjacency": self.adjacency.to_json(), "loss": self.loss.to_json(), "left": left}


@dataclass(frozen=True)
class Price:
    """What a question would cost; nothing was looked at and nothing was charged.

    `charges` is empty when the question is already answered: the stored release costs nothing.
    """

    charges: tuple[PricedCharge, ...]
    affordable: bool
    already_answered: bool

    def _repr_html_(self) -> str:
        if self.already_answered:
            return paragraphs("Free: it was answered before.")
        lines = [
            f"{charge.adjacency.name}: {charge.loss}, "
            + ("more than is left." if charge.left is None else f"which would leave {charge.left}.")
            for charge in self.charges
        ]
        return paragraphs("Price" if self.affordable else "Over budget", *lines)

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "charges": [charge.to_json() for charge in self.charges],
            "affordable": self.affordable,
            "already_answered": self.already_answered,
        }


def price_of(costs: Sequence[Cost]) -> Price:
    """The price of a question that is not answered yet."""
    charges = []
    for state, loss in costs:
        after = state.spent + loss
        left = replace(state, spent=after).left if after <= state.budget else None
        charges.append(PricedCharge(state.adjacency, loss, left))
    affordable = all(charge.left is not None for charge in charges)
    return Price(tuple(charges), affordable, already_answered=False)


def guarantee_of(query: dict[str, Any]) -> Guarantee:
    """The promise of a question as the ledger writes it, or of what was revealed elsewhere."""
    if query.get("name") == ELSEWHERE:
        return Guarantee.from_json(query["guarantee"])
    return query_from_json(query).guarantee()


def loss_towards(state: Adjacency, guarantee: Guarantee, max_rows_per_person: int) -> Loss | None:
    """What a promise costs a budget; None if it says nothing under the budget's adjacency."""
    if state.steps_of(guarantee.adjacency) is None:
        return None
    loss = guarantee.under(state).for_groups(max_rows_per_person).loss
    return Loss(_rounded_up(loss.epsilon), _rounded_up(loss.delta))


def _rounded_up(number: Fraction) -> Fraction:
    return Fraction(math.ceil(number * GRID), GRID)


def costs_of(
    guarantee: Guarantee, budgets: Sequence[BudgetState], domain: Domain, name: str, of: str
) -> list[Cost]:
    """Which of a data set's budgets pay for a question of this name, and how much each."""
    if not budgets:
        raise NotFound(f"No budget is open for {of!r}, so it answers nothing. Open a budget first.")
    cap = domain.max_rows_per_person
    losses = [(state, loss_towards(state.adjacency, guarantee, cap)) for state in budgets]
    costs = [(state, loss) for state, loss in losses if loss is not None]
    if not costs:
        names = ", ".join(sorted({state.adjacency.name for state in budgets}))
        asked = guarantee.adjacency.name
        raise NoPromise(
            f"{name} promises under {asked} as it is asked, and no open budget of {of!r} lies"
            f" within that (open: {names}). Ask it so that its promise fits one of these, or open"
            f" a budget under {asked} with the same parameters."
        )
    return costs


def spent_before(entries: Iterable[Entry], domains: Mapping[str, Domain], state: Adjacency) -> Loss:
    """What the questions asked so far cost under an adjacency whose budget opens after them."""
    spent = Loss(Fraction(0))
    for entry in entries:
        if entry.kind == "charge" and entry.ask == entry.number and entry.query is not None:
            cap = domains[entry.dataset].max_rows_per_person
            loss = loss_towards(state, guarantee_of(entry.query), cap)
            spent = spent if loss is None else spent + loss
    return spent


def check_unit(adjacency: Adjacency, domain: Domain) -> None:
    """Refuse persons with several rows under a budget whose promise does not stretch to them."""
    if domain.max_rows_per_person > 1 and adjacency != AddRemove():
        rule = f"must be 1 where a budget is open under {adjacency.name}"
        way_out = (
            f"A promise under {adjacency.name} does not stretch to a person with several records:"
            " cap the rows per person at 1, or open a budget under add-remove only."
        )
        raise InvalidParameter("max_rows_per_person", rule, domain.max_rows_per_person, way_out)


def gives_up(adjacency: Adjacency, budgets: Sequence[BudgetState]) -> str:
    """Whom a budget protects and what opening it beside these gives up; "" if nothing."""
    sentences = [adjacency.gives_up] if adjacency.gives_up else []
    others = {
        state.adjacency.name for state in budgets if adjacency.steps_of(state.adjacency) is None
    }
    if others:
        sentences.append(
            f"Questions under {', '.join(sorted(others))}, whose budgets are open, may reveal more"
            " than this ledger counts about the records that they do not protect."
        )
    if not sentences:
        return ""
    return " ".join([f"{adjacency.protected}.", *sentences])
