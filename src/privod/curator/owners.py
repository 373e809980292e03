"""What an owner may do: take in a data set, open a budget, charge what was revealed elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from privod.data import Domain
from privod.errors import (
    AlreadyExists,
    InvalidParameter,
    NeedsConfirmation,
    NoPromise,
    NotFound,
)
from privod.ledger import chain as ledger
from privod.ledger import store
from privod.ledger.acting import who_acts
from privod.ledger.budget_state import Accounting, BudgetState, accounting_named
from privod.ledger.chain import Charge, Due
from privod.ledger.coexistence import check_beside, check_not_ended
from privod.ledger.database import Connection
from privod.ledger.persons import check_unit
from privod.ledger.prices import (
    ELSEWHERE,
    begun_with,
    check_meaning,
    costs_before,
    dues_of,
    gives_up,
)
from privod.ledger.store import short_text
from privod.privacy import (
    AddRemove,
    Adjacency,
    Guarantee,
    Loss,
    Replace,
    Statement,
    ZcdpBudget,
)
from privod.query.query import canonical_json

__all__ = [
    "charge_ahead",
    "charge_elsewhere",
    "check_possible",
    "check_registration",
    "dues_elsewhere",
    "open_budget",
]


def check_registration(
    connection: Connection, name: str, domain: Domain, continues: str | None
) -> str:
    """Refuse what may not be registered; return the name of the data set's first version."""
    known = {dataset.name: dataset for dataset in store.read_datasets(connection)}
    if name in known:
        raise AlreadyExists(
            f"There is a data set {name!r} already, and data sets never change."
            " Choose a new name, and say that it `continues` the earlier one."
        )
    if continues is None:
        return name
    if continues not in known:
        raise NotFound(f"There is no data set {continues!r} to continue.")
    root = known[continues].root
    _check_same_unit(domain, known[root].domain, root)
    for state in ledger.budgets_of(connection, root):
        if state.closed is None:
            check_unit(state.adjacency, {name: domain})
            check_meaning(state.adjacency, domain)
    return root


def _check_same_unit(domain: Domain, first: Domain, root: str) -> None:
    """Refuse a version whose unit of privacy is not that of the budgets it would share.

    How many rows a person may have is free to change: each question pays for the cap of the version
    that it is about. Where a person turns into a row, or a row into a person, no price helps.
    """
    if domain.person != first.person:
        unit = "left out" if first.person is None else repr(first.person)
        rule = f"must be {unit}, as in {root!r}, whose budgets it shares"
        way_out = "What a budget protects, a row or a person, never changes: declare the same."
        raise InvalidParameter("person", rule, domain.person, way_out)


def check_possible(adjacency: Adjacency, versions: Mapping[str, Domain]) -> None:
    """Refuse a budget that could not be opened, whatever an owner confirms."""
    check_unit(adjacency, versions)
    for domain in versions.values():
        check_meaning(adjacency, domain)


def open_budget(
    connection: Connection,
    of: str,
    adjacency: Adjacency,
    budget: Loss,
    confirmed: bool,
    accounting: Accounting = "sums",
) -> BudgetState:
    """Open a main budget, or an allowance beside an add-remove main."""
    if budget.epsilon <= 0 or budget.delta >= 1:
        rule = "must have an epsilon above 0 and a delta below 1"
        raise InvalidParameter("budget", rule, str(budget), "Try Loss('1').")
    root = store.find_dataset(connection, of).root
    versions = store.versions_of(connection, root)
    check_possible(adjacency, versions)
    budgets = ledger.budgets_of(connection, root)
    if any(state.adjacency == adjacency for state in budgets):
        raise AlreadyExists(
            f"{of!r} has a budget under {adjacency.name} already, as versions of a data set share"
            " theirs. Raise it if it is open; one that is closed is closed for good."
        )
    role = "main" if adjacency in (AddRemove(), Replace()) else "allowance"
    check_not_ended(of, budgets)
    check_beside(of, adjacency, budgets)
    conversion = _conversion_delta(role, budget, accounting)
    sentences = gives_up(adjacency, budgets)
    if conversion is not None:
        sentences = f"{GIVES_UP_PURE} {sentences}".strip()
    if sentences and not confirmed:
        raise NeedsConfirmation(f"{sentences} Confirm it to open the budget.")
    state = BudgetState(0, root, adjacency, budget, Loss(0), role=role, conversion_delta=conversion)
    if role == "allowance":  # the total is that of main and allowances: none carries another
        return ledger.enter_budget(connection, of, state)
    entries = ledger.read_entries(connection, versions)
    costs = costs_before(entries, versions, adjacency, conversion is not None)
    if costs is None:
        raise NoPromise(
            f"Questions were asked about {of!r} that have no bound under {adjacency.name}, so no"
            f" budget under it can be opened any more."
        )
    state, could = begun_with(state, costs)
    if not could:
        rule = f"must cover the {state.spent} that earlier questions cost under {adjacency.name}"
        raise InvalidParameter("budget", rule, str(budget), "Allow more.")
    return ledger.enter_budget(connection, of, state)


GIVES_UP_PURE = (
    "Counted by zcdp, the budget holds but for a probability of its delta, even if every single"
    " answer holds without one."
)


def _conversion_delta(role: str, budget: Loss, accounting: Accounting) -> Fraction | None:
    """The part of delta that rho is converted with; None for plain sums."""
    if accounting_named(accounting) == "sums":
        return None
    if role != "main":
        way_out = "Leave the accounting out: an allowance counts by sums."
        raise InvalidParameter("accounting", "must be sums for an allowance", accounting, way_out)
    return ZcdpBudget.of(budget.epsilon, budget.delta).conversion_delta


def dues_elsewhere(connection: Connection, of: str, guarantee: Guarantee) -> list[Due]:
    """Which budgets pay for a loss that no question of this ledger made, and how much each."""
    dataset = store.find_dataset(connection, of)
    budgets = ledger.budgets_of(connection, dataset.root)
    statements = (Statement.of(guarantee),)
    return dues_of(statements, budgets, dataset.domain, ELSEWHERE, of, revealed=True)


def charge_ahead(
    connection: Connection, of: str, guarantee: Guarantee, reason: str
) -> tuple[Charge, ...]:
    """Charge a loss that is about to be made outside this ledger, if all of it can be paid."""
    dataset = store.find_dataset(connection, of)
    budgets = ledger.budgets_of(connection, dataset.root)
    told = short_text(reason, "reason")
    dues = dues_of((Statement.of(guarantee),), budgets, dataset.domain, told, of)
    name, token = who_acts()
    rows, lost = dataset.domain.max_rows_per_person, _elsewhere(guarantee, told)
    return ledger.charge(connection, of, dues, lost, name, None, token, rows)


def _elsewhere(guarantee: Guarantee, reason: str) -> str:
    return canonical_json({"name": ELSEWHERE, "guarantee": guarantee.to_json(), "reason": reason})


def charge_elsewhere(
    connection: Connection, of: str, guarantee: Guarantee, reason: str
) -> tuple[Charge, ...]:
    """Charge a loss that no question of this ledger made, in full, also if less than that is left.

    What was revealed was revealed: to refuse the entry would leave what is left to be spent on top.
    """
    text = _elsewhere(guarantee, short_text(reason, "reason"))
    dues = dues_elsewhere(connection, of, guarantee)
    name, token = who_acts()
    return ledger.enter_charges(connection, of, dues, text, name, None, token)
