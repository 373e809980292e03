"""Open, raise and close a budget; take a data set out of use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar, get_args

from privod.data import Domain
from privod.errors import AlreadyExists, InvalidParameter, NoPromise, NotFound
from privod.ledger import chain as ledger
from privod.ledger import store
from privod.ledger.acts.act import Act, Told, names_of
from privod.ledger.acts.consequences import meaning
from privod.ledger.budget_state import Accounting, BudgetState
from privod.ledger.coexistence import check_beside, check_not_ended, check_unit, ends_with
from privod.ledger.database import Connection
from privod.ledger.prices import begun_with, check_meaning, costs_before, gives_up
from privod.privacy import AddRemove, Adjacency, CrowdAdjacency, Loss, Replace, ZcdpBudget, positive

Reason = Annotated[str, Told("Why; stands in the ledger.")]
Under = Annotated[Adjacency, Told("", usual="add-remove")]

GIVES_UP_PURE = (
    "Counted by zcdp, the budget holds up to an added probability of its delta, even if every"
    " single answer holds without one."
)


@dataclass(frozen=True)
class OpenBudget(Act[BudgetState]):
    """Open a budget: allow answers about a data set, and all versions of it, up to a loss."""

    name: ClassVar[str] = "open"
    path: ClassVar[str] = "budgets"
    title: ClassVar[str] = "Open a budget"
    adjacency: Under
    budget: Loss
    accounting: Annotated[
        Accounting, Told("sums; or zcdp, for many small questions, with a delta.")
    ] = "sums"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.accounting not in get_args(Accounting):
            way_out = "Take 'sums', or 'zcdp' for many small questions and a delta above 0."
            rule = "must be sums or zcdp"
            raise InvalidParameter("accounting", rule, self.accounting, way_out)
        positive(self.budget.epsilon, "epsilon")

    @property
    def _role(self) -> str:
        return "main" if self.adjacency in (AddRemove(), Replace()) else "allowance"

    def brings(self, connection: Connection) -> tuple[Adjacency, ...]:  # noqa: ARG002
        return (self.adjacency,) if isinstance(self.adjacency, CrowdAdjacency) else ()

    def _confirmed_first(self, domain: Domain, budgets: Sequence[BudgetState]) -> str:
        """What it gives up and what that means; "" if it gives up nothing."""
        lost = gives_up(self.adjacency, budgets)
        if self.accounting == "zcdp":
            lost = f"{GIVES_UP_PURE} {lost}".strip()
        if not lost:
            return ""
        told = meaning(self.budget, self.adjacency, domain, budgets)
        told = told.replace(self.adjacency.gives_up, "").strip()  # said already
        return f"{lost} {told} Confirm it to open the budget."

    def gives_up(self, connection: Connection) -> str:
        domain, budgets, _ = self._checked(connection)
        return self._confirmed_first(domain, budgets)

    def means(self, curator: Any) -> str:
        domain, budgets = curator.dataset(self.of).domain, curator.budget(self.of)
        if self._confirmed_first(domain, budgets):
            return ""
        return meaning(self.budget, self.adjacency, domain, budgets)

    def _checked(
        self, connection: Connection
    ) -> tuple[Domain, Sequence[BudgetState], Fraction | None]:
        """Refuse what cannot be opened, whatever is confirmed; last, what rho is converted with."""
        of, adjacency, budget = self.of, self.adjacency, self.budget
        if budget.epsilon <= 0 or budget.delta >= 1:
            rule = "must have an epsilon above 0 and a delta below 1"
            raise InvalidParameter("budget", rule, str(budget), "Try epsilon 1, delta 0.")
        dataset = store.find_dataset(connection, of)
        check_possible(adjacency, store.versions_of(connection, dataset.root))
        budgets = ledger.budgets_of(connection, dataset.root)
        if any(state.adjacency == adjacency for state in budgets):
            raise AlreadyExists(
                f"{of!r} has a budget under {adjacency.name} already, as versions of a data set"
                " share theirs. Raise it if it is open; one that is closed is closed for good."
            )
        check_not_ended(of, budgets)
        check_beside(of, adjacency, budgets)
        if self.accounting == "sums":
            return dataset.domain, budgets, None
        if self._role != "main":
            rule, way_out = "must be sums for an allowance", "Leave the accounting out."
            raise InvalidParameter("accounting", rule, self.accounting, way_out)
        conversion = ZcdpBudget.of(budget.epsilon, budget.delta).conversion_delta
        return dataset.domain, budgets, conversion

    def apply(self, connection: Connection) -> BudgetState:
        _, _, conversion = self._checked(connection)
        root = store.find_dataset(connection, self.of).root
        versions = store.versions_of(connection, root)
        state = BudgetState(
            *(0, root, self.adjacency, self.budget, Loss(0)),
            role=self._role,
            conversion_delta=conversion,
        )
        if self._role == "main":  # of allowances none carries what others were charged
            entries = ledger.read_entries(connection, versions)
            costs = costs_before(entries, versions, self.adjacency, conversion is not None)
            if costs is None:
                raise NoPromise(
                    f"Questions were asked about {self.of!r} that have no bound under"
                    f" {self.adjacency.name}, so no budget under it can be opened any more."
                )
            state, could = begun_with(state, costs)
            if not could:
                under = self.adjacency.name
                rule = f"must cover the {state.spent} that earlier questions cost under {under}"
                raise InvalidParameter("budget", rule, str(self.budget), "Allow more.")
        return ledger.enter_budget(connection, self.of, state)

    def said(self, done: BudgetState) -> str:
        under = done.adjacency.name
        return f"Opened a budget of {done.budget} on {self.of!r} under {under}{done.counted}."


@dataclass(frozen=True)
class RaiseBudget(Act[BudgetState]):
    """Raise the limit of a budget. Earlier charges still count against it.

    A delta of 0 leaves the delta as it is.
    """

    name: ClassVar[str] = "raise"
    path: ClassVar[str] = "budgets/raise"
    title: ClassVar[str] = "Raise a budget"
    adjacency: Under
    budget: Loss
    reason: Reason

    def gives_up(self, connection: Connection) -> str:
        state, raised = self._checked(connection)
        dataset = store.find_dataset(connection, self.of)
        budgets = ledger.budgets_of(connection, dataset.root)
        told = meaning(raised.budget, self.adjacency, dataset.domain, budgets)
        return (
            f"The promise of {state.budget} at most becomes {raised.budget} at most."
            f" {told} Confirm it to raise the budget."
        )

    def _checked(self, connection: Connection) -> tuple[BudgetState, BudgetState]:
        """The budget as it is, and raised; refuses what cannot be raised."""
        state = open_budget_of(connection, self.of, self.adjacency)
        budget = Loss(self.budget.epsilon, self.budget.delta or state.budget.delta)
        if not state.budget <= budget or budget == state.budget or budget.delta >= 1:
            rule = f"must allow more than {state.budget}, with a delta below 1"
            raise InvalidParameter("budget", rule, str(budget), "Allow more, or close the budget.")
        raised = replace(state, budget=budget)
        if state.conversion_delta is not None:  # the new limit is split as the old one
            share = state.conversion_delta / state.budget.delta
            ZcdpBudget.of(budget.epsilon, budget.delta, share)  # refuses what cannot be converted
            raised = replace(raised, conversion_delta=budget.delta * share)
        return state, raised

    def apply(self, connection: Connection) -> BudgetState:
        state, raised = self._checked(connection)
        budget = raised.budget
        details = {"reason": self.reason, "replaces": state.budget.to_json()}
        details |= ledger.accounting_details(raised)
        self.enter(connection, "raise", details, state.number, self.adjacency, budget)
        conversion = None if raised.conversion_delta is None else str(raised.conversion_delta)
        connection.execute(
            "UPDATE budgets SET budget_epsilon = ?, budget_delta = ?, conversion_delta = ?"
            " WHERE number = ?",
            *budget.to_json().values(),
            conversion,
            state.number,
        )
        return open_budget_of(connection, self.of, self.adjacency)

    def said(self, done: BudgetState) -> str:
        under = done.adjacency.name
        return f"The {under} budget of {self.of!r} allows {done.budget}{done.counted}."


@dataclass(frozen=True)
class CloseBudget(Act[tuple[BudgetState, ...]]):
    """Close a budget for good, and every other whose answers would break its guarantee."""

    name: ClassVar[str] = "close"
    path: ClassVar[str] = "budgets/close"
    title: ClassVar[str] = "Close a budget"
    adjacency: Under
    reason: Reason

    def _closing(self, connection: Connection) -> tuple[BudgetState, ...]:
        state = open_budget_of(connection, self.of, self.adjacency)
        budgets = ledger.budgets_of(connection, state.dataset)
        others = [one for one in budgets if one.closed is None and one.number != state.number]
        return (state, *ends_with(state, others))

    def gives_up(self, connection: Connection) -> str:
        closing = self._closing(connection)
        versions = store.versions_of(connection, closing[0].dataset)
        others = ", ".join(repr(name) for name in versions if name != self.of)
        shared = f", also for {others}, which shares them" if others else ""
        return (
            f"This closes, for good{shared}: {names_of(closing)}. What these budgets promised could"
            " not stand if one of them went on. Stored answers stay free. Confirm it to close."
        )

    def apply(self, connection: Connection) -> tuple[BudgetState, ...]:
        closing = self._closing(connection)
        for one in closing:
            why = {"reason": self.reason}
            number = self.enter(connection, "close", why, one.number, one.adjacency)
            connection.execute("UPDATE budgets SET closed = ? WHERE number = ?", number, one.number)
        numbers = [one.number for one in closing]
        found = ledger.budgets_of(connection, closing[0].dataset)
        return tuple(one for one in found if one.number in numbers)

    def said(self, done: tuple[BudgetState, ...]) -> str:
        return f"Closed: {names_of(done)}."


def check_possible(adjacency: Adjacency, versions: Mapping[str, Domain]) -> None:
    """Refuse a budget that could not be opened, whatever an owner confirms."""
    check_unit(adjacency, versions)
    for domain in versions.values():
        check_meaning(adjacency, domain)


def open_budget_of(connection: Connection, of: str, adjacency: Adjacency) -> BudgetState:
    """The budget of a data set under an adjacency, if it is open."""
    root = store.find_dataset(connection, of).root
    for state in ledger.budgets_of(connection, root):
        if state.adjacency == adjacency:
            if state.closed is not None:
                raise NotFound(f"The {adjacency.name} budget of {of!r} is closed, for good.")
            return state
    raise NotFound(f"{of!r} has no budget under {adjacency.name}. List them (`privod budget`).")


@dataclass(frozen=True)
class Retire(Act[None]):
    """Delete the rows of a data set for good; its ledger and its releases are kept."""

    name: ClassVar[str] = "retire"
    path: ClassVar[str] = "retire"
    title: ClassVar[str] = "Retire this data set"
    result: ClassVar[str] = "retired"
    reason: Reason

    def _checked(self, connection: Connection) -> None:
        if store.find_dataset(connection, self.of).retired:
            raise AlreadyExists(f"{self.of!r} was retired already.")

    def gives_up(self, connection: Connection) -> str:
        self._checked(connection)
        return (
            f"The rows of {self.of!r} are deleted for good. Its ledger and its releases are kept,"
            " and stored answers stay free. Confirm it to retire the data set."
        )

    def apply(self, connection: Connection) -> None:
        self._checked(connection)
        number = self.enter(connection, "retire", {"reason": self.reason})
        connection.execute("UPDATE datasets SET retired = ? WHERE name = ?", number, self.of)

    def after(self, curator: Any, done: None) -> None:  # noqa: ARG002
        curator.forget_rows(self.of)

    def said(self, done: None) -> str:  # noqa: ARG002
        return f"{self.of!r} is retired. Stored answers stay free."
