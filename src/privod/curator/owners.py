"""What an owner may do: take in a data set, open a budget, charge what was revealed elsewhere."""

from __future__ import annotations

from privod.data import Domain
from privod.errors import AlreadyExists, InvalidParameter, NeedsConfirmation, NotFound
from privod.ledger import chain as ledger
from privod.ledger import store
from privod.ledger.chain import BudgetState, Charge
from privod.ledger.database import Connection
from privod.ledger.prices import ELSEWHERE, Cost, check_unit, costs_of, gives_up, spent_before
from privod.ledger.store import short_text
from privod.privacy import Adjacency, Guarantee, Loss
from privod.queries.query import canonical_json

__all__ = [
    "charge_elsewhere",
    "check_registration",
    "costs_elsewhere",
    "open_budget",
    "versions_of",
]


def versions_of(connection: Connection, root: str) -> dict[str, Domain]:
    """The versions of a data set, with what is public about each."""
    datasets = store.read_datasets(connection)
    return {dataset.name: dataset.domain for dataset in datasets if dataset.root == root}


def check_registration(
    connection: Connection, name: str, domain: Domain, continues: str | None
) -> str:
    """Refuse what may not be registered; return the name of the data set's first version."""
    known = {dataset.name: dataset for dataset in store.read_datasets(connection)}
    if name in known:
        raise AlreadyExists(
            f"There is a data set {name!r} already, and data sets never change."
            " Choose a new name, and say that it continues the earlier one."
        )
    if continues is None:
        return name
    if continues not in known:
        raise NotFound(f"There is no data set {continues!r} to continue.")
    root = known[continues].root
    _check_same_unit(domain, known[root].domain, root)
    for state in ledger.budgets_of(connection, root):
        check_unit(state.adjacency, domain)
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


def open_budget(
    connection: Connection, of: str, adjacency: Adjacency, budget: Loss, confirmed: bool
) -> BudgetState:
    """Open a budget that begins with what earlier questions cost under its adjacency."""
    if budget.epsilon <= 0 or budget.delta >= 1:
        rule = "must have an epsilon above 0 and a delta below 1"
        raise InvalidParameter("budget", rule, str(budget), "Try Loss('1').")
    root = store.find_dataset(connection, of).root
    versions = versions_of(connection, root)
    for domain in versions.values():
        check_unit(adjacency, domain)
    budgets = ledger.budgets_of(connection, root)
    if any(state.adjacency == adjacency for state in budgets):
        raise AlreadyExists(
            f"{of!r} has a budget under {adjacency.name} already, and budgets never change."
        )
    sentences = gives_up(adjacency, budgets)
    if sentences and not confirmed:
        raise NeedsConfirmation(f"{sentences} Confirm it to open the ledger.")
    carry = spent_before(ledger.read_entries(connection, versions), versions, adjacency)
    if not carry <= budget:
        rule = f"must cover the {carry} that earlier questions cost under {adjacency.name}"
        raise InvalidParameter("budget", rule, str(budget), "Allow more.")
    number = ledger.enter_budget(connection, of, root, adjacency, budget, carry)
    return BudgetState(number, root, adjacency, budget, carry)


def costs_elsewhere(connection: Connection, of: str, guarantee: Guarantee) -> list[Cost]:
    """Which budgets pay for a loss that no question of this ledger made, and how much each."""
    dataset = store.find_dataset(connection, of)
    budgets = ledger.budgets_of(connection, dataset.root)
    return costs_of(guarantee, budgets, dataset.domain, ELSEWHERE, of)


def charge_elsewhere(
    connection: Connection, of: str, guarantee: Guarantee, reason: str
) -> tuple[Charge, ...]:
    """Charge a loss that no question of this ledger made, in full, also if less than that is left.

    What was revealed was revealed: to refuse the entry would leave what is left to be spent on top.
    """
    text = canonical_json(
        {
            "name": ELSEWHERE,
            "guarantee": guarantee.to_json(),
            "reason": short_text(reason, "reason"),
        }
    )
    costs = costs_elsewhere(connection, of, guarantee)
    return ledger.enter_charges(connection, of, costs, text, "owner", None)
