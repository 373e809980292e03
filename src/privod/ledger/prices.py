"""The price of a question: what it costs, and which budgets pay (docs/proofs/ledger.md)."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from privod.data import Domain, Numeric
from privod.errors import InvalidParameter, NoPromise, NotFound
from privod.ledger.budget_state import BudgetState
from privod.ledger.chain import Due, Entry
from privod.ledger.database import Connection
from privod.ledger.values import PricedCharge
from privod.privacy import (
    AddRemove,
    Adjacency,
    Cost,
    CrowdAdjacency,
    Guarantee,
    InAlikeCrowd,
    InCrowd,
    Loss,
    Replace,
    Statement,
    Zcdp,
)
from privod.query.catalog import known_kind, query_from_json
from privod.query.html import paragraphs
from privod.query.query import Query

ELSEWHERE = "elsewhere"
"""Stands in the place of a question's name where an owner charges what was revealed elsewhere."""

LARGEST_DISTANCE = 2**53  # of records alike, so that sums of weights fit 64 bits

GRID = 10**40 * math.lcm(*range(1, 41))
"""Losses are counted in parts of this: exact for 40 decimals and for fractions up to 1/40.

Anything else is rounded up by less than 10**-55. Without a common denominator, questions with
awkward epsilons would make the sum's digits grow without end.
"""


BEGUN = (
    "It was charged before and is not answered yet: asking goes on with that at no price, unless it"
    " fails first."
)


@dataclass(frozen=True)
class Price:
    """What a question would cost; nothing was looked at and nothing was charged.

    `charges` is empty when the question is already answered: the stored release costs nothing.
    `not_protected` says what those lose by this very answer whom its guarantee leaves out,
    `about_seconds` how long one core takes to answer at worst, by what was declared about the data,
    `usual_seconds` how long on records as usual, and `most_records` is how many records there may
    be at most, as declared. `records` is about how many there are, if that was asked. `begun` says
    that it was charged and is not answered yet: asking goes on, and pays only if that fails.
    """

    charges: tuple[PricedCharge, ...]
    affordable: bool
    already_answered: bool
    not_protected: str = ""
    about_seconds: float | None = None
    usual_seconds: float | None = None
    most_records: int | None = None
    records: int | None = None
    begun: bool = False

    def _repr_html_(self) -> str:
        if self.already_answered:
            return paragraphs("Free: it was answered before.")
        lines = [
            f"{charge.adjacency.name}: {charge.loss}, "
            + ("more than is left." if charge.left is None else f"which would leave {charge.left}.")
            + fitting(charge.questions_left)
            for charge in self.charges
        ]
        if self.begun:
            lines.append(BEGUN)
        if self.not_protected:
            lines.append(f"Not protected: {self.not_protected}")
        return paragraphs("Price" if self.affordable else "Over budget", *lines)


def fitting(questions: int | None) -> str:
    """How many questions of a kind fit, as a sentence; "" if none does or there is no end."""
    if not questions:
        return ""
    return f" {questions} such question{'s' if questions > 1 else ''} can be paid in all."


def price_of(
    due: Sequence[Due], not_protected: str = "", limits: Mapping[int, BudgetState] | None = None
) -> Price:
    """The price of a question that is not answered yet."""
    charges = []
    for state, cost in due:
        allowed = [state, *([limits[state.number]] if limits and state.number in limits else [])]
        after = [one.after(cost) for one in allowed]
        left = [None if one is None else one.left for one in after]
        least = None if None in left else min((one for one in left if one is not None), key=_size)
        more = [one.questions_left(cost) for one in allowed]
        charges.append(
            PricedCharge(
                state.adjacency,
                cost.loss,
                least,
                None if state.zcdp is None else cost.zcdp.rho,
                None if None in more else min(count for count in more if count is not None),
            )
        )
    affordable = all(charge.left is not None for charge in charges)
    return Price(tuple(charges), affordable, already_answered=False, not_protected=not_protected)


def _size(loss: Loss) -> tuple[Fraction, Fraction]:
    return loss.epsilon, loss.delta


def statements_of(query: dict[str, Any], domain: Domain) -> tuple[Statement, ...]:
    """All that is proved of a question, or of what got out elsewhere; its own promise first."""
    if query.get("name") == ELSEWHERE:
        return (Statement.of(Guarantee.from_json(query["guarantee"])),)
    return query_from_json(query).statements(domain)


def shares_charge(entry: Entry, paid: set[tuple[str, str]]) -> bool:
    """Whether a question looks at noise that an earlier one paid for; notes what this one pays."""
    state = None if entry.query is None else _state_of(entry.query)
    if state is None:
        return False
    known = (entry.dataset, state) in paid
    paid.add((entry.dataset, state))
    return known


def is_paid_for(connection: Connection, dataset: str, query: Query[Any]) -> bool:
    """Whether an earlier question about the data set paid for the noise that this one looks at."""
    if query.state is None:
        return False
    rows = connection.execute(
        "SELECT query FROM entries WHERE dataset = ? AND kind = 'charge' AND query LIKE ?",
        dataset,
        f'%"name":"{query.name}"%',
    )
    return any(_state_of(json.loads(text)) == query.state for (text,) in rows)


def _state_of(query: dict[str, Any]) -> str | None:
    """The state that a question, as the ledger writes it, shares with others; None if none."""
    kind = known_kind(query)
    if kind is None or kind.state is Query.state:
        return None
    return query_from_json(query).state


@lru_cache(maxsize=1024)  # an ask looks twice, and whoever verifies looks at equal questions again
def cost_towards(state: Adjacency, statement: Statement, max_rows_per_person: int) -> Cost | None:
    """What a question costs a budget; None if it says nothing under the budget's adjacency."""
    cost = statement.towards(state, max_rows_per_person)
    if cost is None:
        return None
    loss = Loss(_rounded_up(cost.loss.epsilon), _rounded_up(cost.loss.delta))
    return Cost(loss, Zcdp(_rounded_up(cost.zcdp.rho), _rounded_up(cost.zcdp.delta)))


def _rounded_up(number: Fraction) -> Fraction:
    return Fraction(math.ceil(number * GRID), GRID)


def least_cost(
    adjacency: Adjacency, statements: Sequence[Statement], cap: int, by_rho: bool = False
) -> Cost | None:
    """The least cost that is proved under an adjacency; None if none is."""
    found = [cost_towards(adjacency, statement, cap) for statement in statements]

    def order(cost: Cost) -> tuple[Fraction, ...]:
        plain = (cost.loss.epsilon, cost.loss.delta)
        return (cost.zcdp.rho, *plain) if by_rho else plain

    return min((cost for cost in found if cost is not None), key=order, default=None)


def is_narrow(statements: Sequence[Statement]) -> bool:
    """Whether nothing is proved under add-remove or replace."""
    return all(
        main.steps_of(statement.adjacency) is None
        for main in (AddRemove(), Replace())
        for statement in statements
    )


def divided_charges(
    statements: Sequence[Statement], budgets: Sequence[BudgetState], cap: int
) -> tuple[list[Due], list[BudgetState]]:
    """Which of the open budgets pay and how much, and under which main ones there is no bound."""
    narrow = is_narrow(statements)
    due: list[Due] = []
    unbounded: list[BudgetState] = []
    for state in budgets:
        if state.role == "allowance":
            continue
        cost = least_cost(state.adjacency, statements, cap, by_rho=state.accounting == "zcdp")
        if cost is not None:
            due.append((state, cost))
        elif not narrow or state.adjacency == Replace():
            unbounded.append(state)
    if narrow:
        due += _from_allowances(statements, budgets, cap)
    return sorted(due, key=lambda one: one[0].number), unbounded


def _from_allowances(
    statements: Sequence[Statement], budgets: Sequence[BudgetState], cap: int
) -> list[Due]:
    """The one allowance that pays: of the question's own adjacency, else the first within it."""
    found = [
        (state, cost)
        for state in budgets
        if state.role == "allowance"
        for cost in [least_cost(state.adjacency, statements, cap)]
        if cost is not None
    ]
    asked = statements[0].adjacency
    return sorted(found, key=lambda one: (one[0].adjacency != asked, one[0].number))[:1]


def charges_due(
    statements: Sequence[Statement],
    budgets: Sequence[BudgetState],
    domain: Domain,
    name: str,
    of: str,
    revealed: bool = False,
) -> list[Due]:
    """Which of a data set's budgets pay for a question of this name, and how much each.

    What was `revealed` elsewhere is charged also where a budget has no bound for it.
    """
    opened = [state for state in budgets if state.closed is None]
    if not opened:
        if budgets:
            raise NotFound(f"{of!r} answers nothing: its budgets are closed.")
        raise NotFound(
            f"No budget is open for {of!r}, so it answers nothing. Its owner opens one"
            f" (`privod open {shlex.quote(of)} --epsilon LIMIT`). Prices on made-up rows need none"
            " (`privod rehearse`)."
        )
    due, unbounded = divided_charges(statements, opened, domain.max_rows_per_person)
    asked = statements[0].adjacency.name
    if unbounded and not revealed:
        names = ", ".join(sorted({state.adjacency.name for state in unbounded}))
        raise NoPromise(
            f"{name} as it is asked states a loss under {asked} and none under {names}, whose"
            f" budget of {of!r} is open: it could reveal more there than any budget counts."
            f" Ask it under {names}."
        )
    if not due:
        names = ", ".join(sorted({state.adjacency.name for state in opened}))
        raise NoPromise(
            f"No open budget of {of!r} pays for this: as asked, the guarantee of {name} is under"
            f" {asked} (open: {names}). Change the question, or request an allowance for {asked}"
            " from the owner."
        )
    return due


def costs_before(
    entries: Iterable[Entry], domains: Mapping[str, Domain], adjacency: Adjacency, by_rho: bool
) -> list[Cost] | None:
    """What the questions asked so far cost under a main adjacency; None if one has no bound."""
    costs = []
    paid: set[tuple[str, str]] = set()
    for entry in entries:
        if entry.kind == "charge" and entry.ask == entry.number and entry.query is not None:
            if shares_charge(entry, paid):
                continue
            domain = domains[entry.dataset]
            statements = statements_of(entry.query, domain)
            cost = least_cost(adjacency, statements, domain.max_rows_per_person, by_rho)
            if cost is not None:
                costs.append(cost)
            elif adjacency != AddRemove() or not is_narrow(statements):
                return None  # allowances count beside add-remove, and beside nothing else
    return costs


def begun_with(state: BudgetState, costs: Iterable[Cost]) -> tuple[BudgetState, bool]:
    """A new budget after these questions, in this order, and whether it could pay them all."""
    could = True
    for cost in costs:
        paid = state.after(cost)
        could = could and paid is not None
        state = paid or state.overrun(cost)
    return state, could


def check_meaning(adjacency: Adjacency, domain: Domain) -> None:
    """Refuse an adjacency over columns that the data set does not have, or past all its ranges."""
    if not isinstance(adjacency, CrowdAdjacency):
        return
    domain.known(adjacency.columns)
    columns = [domain[name] for name in adjacency.columns]
    numeric = [column for column in columns if isinstance(column, Numeric)]
    if isinstance(adjacency, InAlikeCrowd):
        _check_likeness(adjacency, {column.name for column in numeric})
        return
    if not isinstance(adjacency, InCrowd):
        domain.numeric(adjacency.columns)
        return
    if len(numeric) < len(columns):
        if adjacency.radius > 0:  # categories are equal or not, and nothing lies between
            rule = "must be 0 over columns of categories"
            raise InvalidParameter("radius", rule, adjacency.radius, "Name numeric columns only.")
        return
    widest = math.hypot(*(column.high - column.low for column in numeric))
    if adjacency.radius >= widest:
        rule = f"must be below {widest:g}, past which every record is near every other"
        raise InvalidParameter("radius", rule, adjacency.radius, "Try a tenth of the range.")


def _check_likeness(adjacency: InAlikeCrowd, numeric: set[str]) -> None:
    """Refuse tolerances of categories, and a distance within which all records are alike."""
    tolerant = [name for name, _ in adjacency.tolerances if name not in numeric]
    if tolerant:
        raise InvalidParameter("tolerances", "must name numeric columns", tolerant, "Leave it out.")
    weights = dict(adjacency.weights)
    most = sum(weights.get(name, 1) for name in adjacency.columns)
    if most > LARGEST_DISTANCE:
        rule = f"must sum up to at most {LARGEST_DISTANCE}"
        raise InvalidParameter("weights", rule, most, "Divide all of them, and max_distance.")
    if adjacency.max_distance >= most:
        rule = f"must be below {most}, at which every record is alike every other"
        raise InvalidParameter("max_distance", rule, adjacency.max_distance, "Try 0.")


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
