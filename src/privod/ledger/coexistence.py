"""Which budgets may stand beside each other and of which data, and which must end together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from privod.data import Domain
from privod.errors import InvalidParameter, NoPromise
from privod.ledger.budget_state import BudgetState
from privod.privacy import AddRemove, Adjacency, Replace, SameContexts, Statement


def check_not_ended(of: str, budgets: Sequence[BudgetState]) -> None:
    """Refuse every budget once a main one was closed: what it promised covers what comes later."""
    ended = [state for state in budgets if state.role == "main" and state.closed is not None]
    if ended:
        raise NoPromise(
            f"The {ended[0].adjacency.name} budget of {of!r} was closed for good, so no other can"
            " be opened: its answers would come on top of what the closed budget promised."
        )


def check_beside(of: str, adjacency: Adjacency, budgets: Sequence[BudgetState]) -> None:
    """Refuse budgets that cannot stand beside each other."""
    opened = [state for state in budgets if state.closed is None]
    mains = {state.adjacency for state in opened if state.role == "main"}
    narrow = [state for state in opened if state.role != "main"]
    if adjacency == AddRemove():
        return
    if adjacency == Replace():
        if narrow:
            raise NoPromise(
                f"A replace budget cannot be opened beside {narrow[0].adjacency.name}: such pairs"
                " of data sets differ in size, so nothing bounds what they lose there."
            )
        return
    if isinstance(adjacency, SameContexts):
        raise NoPromise(
            "One allowance counts the questions about all persons. Open it under admitted-contexts"
            " and admit this person."
        )
    if Replace() in mains:
        raise NoPromise(
            f"An allowance for {adjacency.name} cannot be opened beside a replace budget: pairs of"
            f" data sets that differ in size have no bound there. So none can be opened for {of!r}"
            " any more."
        )
    if AddRemove() not in mains:
        raise NoPromise(
            f"An allowance for {adjacency.name} stands beside an add-remove budget, and {of!r} has"
            " none that is open. Open one first."
        )


def ends_with(state: BudgetState, others: Sequence[BudgetState]) -> list[BudgetState]:
    """Which others must close with a budget, so that what it promised stands."""
    return [] if state.role == "allowance" else list(others)  # those stand beside each other


def is_beyond_add_remove(statements: Sequence[Statement]) -> bool:
    """Whether nothing is proved under add-remove: another budget must pay, if one can be opened."""
    return all(AddRemove().steps_of(statement.adjacency) is None for statement in statements)


def check_unit(adjacency: Adjacency, versions: Mapping[str, Domain]) -> None:
    """Refuse a promise that does not stretch to the persons of a version with several rows each."""
    if adjacency.stretches_to_persons:
        return
    for name, domain in versions.items():
        if domain.max_rows_per_person > 1:
            rule = f"of {name!r} must be 1 for budgets and questions under {adjacency.name}"
            way_out = (
                f"A promise under {adjacency.name} does not stretch to a person with several"
                " records, and all versions of a data set share its budgets. A cap that is"
                " registered never changes: ask what is promised under add-remove, or register a"
                " data set with a cap of 1 that continues none. What both tell about a person"
                " adds up."
            )
            given = domain.max_rows_per_person
            raise InvalidParameter("max_rows_per_person", rule, given, way_out)
