"""What does a question cost, and which budgets pay?

A main budget (add-remove, replace) pays for every question that states a loss under its adjacency;
one that states none is refused while that budget is open. A question whose guarantee holds under a
narrower adjacency only is paid by an allowance beside an add-remove main, and by nothing else. So
an allowance never refuses what a main budget can pay. Why that is sound: docs/proofs/ledger.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from privod.data import Domain, Numeric
from privod.errors import InvalidParameter, NoPromise, NotFound
from privod.ledger.chain import BudgetState, Entry
from privod.ledger.kept_counts import state_of
from privod.privacy import (
    AddRemove,
    Adjacency,
    AdmittedContexts,
    Guarantee,
    InCrowd,
    Loss,
    Replace,
    SameContexts,
)
from privod.queries.catalog import query_from_json
from privod.queries.html import paragraphs

__all__ = [
    "ELSEWHERE",
    "Cost",
    "Price",
    "PricedCharge",
    "charges_due",
    "check_meaning",
    "check_unit",
    "costs_of",
    "gives_up",
    "guarantees_of",
    "is_narrow",
    "loss_towards",
    "price_of",
    "shares_charge",
    "spent_before",
    "spent_before_allowances",
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
    `not_protected` says what those lose by this very answer whom its guarantee leaves out.
    """

    charges: tuple[PricedCharge, ...]
    affordable: bool
    already_answered: bool
    not_protected: str = ""

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
            "not_protected": self.not_protected,
        }


def price_of(costs: Sequence[Cost], not_protected: str = "") -> Price:
    """The price of a question that is not answered yet."""
    charges = []
    for state, loss in costs:
        after = state.spent + loss
        left = replace(state, spent=after).left if after <= state.budget else None
        charges.append(PricedCharge(state.adjacency, loss, left))
    affordable = all(charge.left is not None for charge in charges)
    return Price(tuple(charges), affordable, already_answered=False, not_protected=not_protected)


def guarantees_of(query: dict[str, Any]) -> tuple[Guarantee, ...]:
    """All guarantees of a question as the ledger writes it, or of what was revealed elsewhere."""
    if query.get("name") == ELSEWHERE:
        return (Guarantee.from_json(query["guarantee"]),)
    question = query_from_json(query)
    return (question.guarantee(), *question.also())


def shares_charge(entry: Entry, paid: set[tuple[str, str]]) -> bool:
    """Whether a question looks at noise that an earlier one paid for; notes what this one pays."""
    if entry.query is None or entry.query.get("name") == ELSEWHERE:
        return False
    state = state_of(entry.query)
    if state is None:
        return False
    known = (entry.dataset, state) in paid
    paid.add((entry.dataset, state))
    return known


def loss_towards(state: Adjacency, guarantee: Guarantee, max_rows_per_person: int) -> Loss | None:
    """What a promise costs a budget; None if it says nothing under the budget's adjacency."""
    if state.steps_of(guarantee.adjacency) is None:
        return None
    loss = guarantee.under(state).for_groups(max_rows_per_person).loss
    return Loss(_rounded_up(loss.epsilon), _rounded_up(loss.delta))


def _rounded_up(number: Fraction) -> Fraction:
    return Fraction(math.ceil(number * GRID), GRID)


def least_loss(adjacency: Adjacency, guarantees: Sequence[Guarantee], cap: int) -> Loss | None:
    """The least loss that is proved under an adjacency; None if none is."""
    found = [loss_towards(adjacency, guarantee, cap) for guarantee in guarantees]
    return min(
        (loss for loss in found if loss is not None),
        key=lambda loss: (loss.epsilon, loss.delta),
        default=None,
    )


def is_narrow(guarantees: Sequence[Guarantee]) -> bool:
    """Whether no guarantee says anything under add-remove or replace."""
    return all(
        main.steps_of(guarantee.adjacency) is None
        for main in (AddRemove(), Replace())
        for guarantee in guarantees
    )


def charges_due(
    guarantees: Sequence[Guarantee], budgets: Sequence[BudgetState], cap: int
) -> tuple[list[Cost], list[BudgetState]]:
    """Which of the open budgets pay and how much, and under which main ones there is no bound."""
    narrow = is_narrow(guarantees)
    due: list[Cost] = []
    unbounded: list[BudgetState] = []
    for state in budgets:
        if state.role == "allowance":
            continue
        loss = least_loss(state.adjacency, guarantees, cap)
        if loss is not None:
            due.append((state, loss))
        elif state.role == "main" and not narrow:
            unbounded.append(state)
    if narrow:
        due += _from_allowances(guarantees, budgets, cap)
    return sorted(due, key=lambda cost: cost[0].number), unbounded


def _from_allowances(
    guarantees: Sequence[Guarantee], budgets: Sequence[BudgetState], cap: int
) -> list[Cost]:
    """The one allowance that pays: of the question's own adjacency, else the first within it."""
    found = [
        (state, loss)
        for state in budgets
        if state.role == "allowance"
        for loss in [least_loss(state.adjacency, guarantees, cap)]
        if loss is not None
    ]
    asked = guarantees[0].adjacency
    return sorted(found, key=lambda cost: (cost[0].adjacency != asked, cost[0].number))[:1]


def costs_of(
    guarantees: Sequence[Guarantee],
    budgets: Sequence[BudgetState],
    domain: Domain,
    name: str,
    of: str,
) -> list[Cost]:
    """Which of a data set's budgets pay for a question of this name, and how much each."""
    opened = [state for state in budgets if state.closed is None]
    if not opened:
        closed = " (its budgets are closed)" if budgets else ". Open a budget first"
        raise NotFound(f"No budget is open for {of!r}, so it answers nothing{closed}.")
    due, unbounded = charges_due(guarantees, opened, domain.max_rows_per_person)
    asked = guarantees[0].adjacency.name
    if unbounded and name != ELSEWHERE:
        names = ", ".join(sorted({state.adjacency.name for state in unbounded}))
        raise NoPromise(
            f"{name} as it is asked states a loss under {asked} and none under {names}, whose"
            f" budget of {of!r} is open: it could reveal more there than any budget counts."
            f" Ask it under {names}."
        )
    if not due:
        names = ", ".join(sorted({state.adjacency.name for state in opened}))
        raise NoPromise(
            f"{name} promises under {asked} as it is asked, and no open budget of {of!r} lies"
            f" within that (open: {names}). Ask it so that its promise fits one of these, or"
            f" request an allowance for {asked} from the owner."
        )
    return due


def spent_before(
    entries: Iterable[Entry], domains: Mapping[str, Domain], state: Adjacency
) -> Loss | None:
    """What the questions asked so far cost under a main adjacency; None if one has no bound."""
    spent = Loss(Fraction(0))
    paid: set[tuple[str, str]] = set()
    for entry in entries:
        if entry.kind == "charge" and entry.ask == entry.number and entry.query is not None:
            if shares_charge(entry, paid):
                continue
            guarantees = guarantees_of(entry.query)
            cap = domains[entry.dataset].max_rows_per_person
            loss = least_loss(state, guarantees, cap)
            if loss is not None:
                spent = spent + loss
            elif state != AddRemove() or not is_narrow(guarantees):
                return None  # allowances count beside add-remove, and beside nothing else
    return spent


def spent_before_allowances(
    entries: Iterable[Entry], domains: Mapping[str, Domain], state: Adjacency
) -> Loss:
    """The same by the rules of the first version, which passed over what has no bound."""
    spent = Loss(Fraction(0))
    for entry in entries:
        if entry.kind == "charge" and entry.ask == entry.number and entry.query is not None:
            cap = domains[entry.dataset].max_rows_per_person
            loss = loss_towards(state, guarantees_of(entry.query)[0], cap)
            spent = spent if loss is None else spent + loss
    return spent


def check_unit(adjacency: Adjacency, domain: Domain) -> None:
    """Refuse persons with several rows under a budget whose promise does not stretch to them."""
    stretches = isinstance(adjacency, AddRemove | AdmittedContexts | SameContexts)
    if domain.max_rows_per_person > 1 and not stretches:
        rule = f"must be 1 where a budget is open under {adjacency.name}"
        way_out = (
            f"A promise under {adjacency.name} does not stretch to a person with several records:"
            " cap the rows per person at 1, or open a budget under add-remove only."
        )
        raise InvalidParameter("max_rows_per_person", rule, domain.max_rows_per_person, way_out)


def check_meaning(adjacency: Adjacency, domain: Domain) -> None:
    """Refuse an adjacency over columns that the data set does not have, or past all its ranges."""
    if not isinstance(adjacency, InCrowd):
        return
    unknown = [name for name in adjacency.columns if name not in domain.names]
    if unknown:
        way_out = f"The columns are {', '.join(domain.names[:20])}."
        raise InvalidParameter("columns", "must be columns of the data set", unknown, way_out)
    columns = [domain[name] for name in adjacency.columns]
    numeric = [column for column in columns if isinstance(column, Numeric)]
    if len(numeric) < len(columns):
        if adjacency.radius > 0:  # categories are equal or not, and nothing lies between
            rule = "must be 0 over columns of categories"
            raise InvalidParameter("radius", rule, adjacency.radius, "Name numeric columns only.")
        return
    widest = math.hypot(*(column.high - column.low for column in numeric))
    if adjacency.radius >= widest:
        rule = f"must be below {widest:g}, past which every record is near every other"
        raise InvalidParameter("radius", rule, adjacency.radius, "Try a tenth of the range.")


def gives_up(adjacency: Adjacency, budgets: Sequence[BudgetState]) -> str:
    """Whom a budget protects and what opening it beside these gives up; "" if nothing."""
    if adjacency == AddRemove():
        return ""
    sentences = [f"{adjacency.protected}.", adjacency.gives_up]
    if adjacency != Replace() and adjacency.gives_up:
        sentences.append(
            "For those who are protected, the loss is that of the add-remove budget and of all"
            " allowances together; for everybody else there is no bound once such a question was"
            " asked."
        )
    others = [state for state in budgets if state.role == "allowance" and state.closed is None]
    if others:
        sentences.append("Only those are protected then whom every allowance protects.")
    return " ".join(sentence for sentence in sentences if sentence) if adjacency.gives_up else ""
