"""What becomes of budgets and data sets: close, raise, admit, limit, request, retire.

Each step is an entry of the ledger with its reason. Nothing here looks at rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from privod.curator.owners import check_possible, open_budget
from privod.errors import (
    AlreadyExists,
    InvalidParameter,
    NeedsConfirmation,
    NoPromise,
    NotFound,
)
from privod.ledger import chain as ledger
from privod.ledger import store
from privod.ledger.acting import token_id, who_acts
from privod.ledger.admissions import admitted, exact_counts_of
from privod.ledger.budget_state import BudgetState
from privod.ledger.chain import Entry
from privod.ledger.coexistence import ends_with
from privod.ledger.database import Connection
from privod.ledger.store import short_text
from privod.outliers.contexts.detectors import LocalOutlierFactor, PluggedIn, detector
from privod.privacy import Adjacency, AdmittedContexts, Loss, SameContexts, ZcdpBudget
from privod.query.checks import LARGEST_COUNT, whole_number
from privod.query.query import canonical_json

__all__ = [
    "Request",
    "admit_person",
    "allow_exact_counts",
    "close_budget",
    "decide",
    "file_request",
    "limit_token",
    "raise_budget",
    "read_requests",
    "retire",
]


@dataclass(frozen=True)
class Request:
    """What an analyst asked the owner for, and what became of it.

    `decision` is "open", "approved" or "declined"; `loss` is None where a person is to be admitted.
    """

    number: int
    dataset: str
    adjacency: Adjacency
    loss: Loss | None
    reason: str
    asked_by: str
    decision: str

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        loss = None if self.loss is None else self.loss.to_json()
        return {**vars(self), "adjacency": self.adjacency.to_json(), "loss": loss}


def _open_budget_of(connection: Connection, of: str, adjacency: Adjacency) -> BudgetState:
    root = store.find_dataset(connection, of).root
    for state in ledger.budgets_of(connection, root):
        if state.adjacency == adjacency:
            if state.closed is not None:
                raise NotFound(f"The {adjacency.name} budget of {of!r} is closed, for good.")
            return state
    raise NotFound(f"{of!r} has no budget under {adjacency.name}. See its budgets.")


def close_budget(
    connection: Connection, of: str, adjacency: Adjacency, reason: str, confirmed: bool
) -> tuple[BudgetState, ...]:
    """Let a budget pay for nothing more, for good; returns all that were closed."""
    text = short_text(reason, "reason")
    state = _open_budget_of(connection, of, adjacency)
    budgets = ledger.budgets_of(connection, state.dataset)
    others = [one for one in budgets if one.closed is None and one.number != state.number]
    closing = [state, *ends_with(state, others)]
    if not confirmed:
        names = ", ".join(one.adjacency.name for one in closing)
        versions = [
            repr(name) for name in store.versions_of(connection, state.dataset) if name != of
        ]
        shared = f", also for {', '.join(versions)}, which shares them" if versions else ""
        raise NeedsConfirmation(
            f"This closes, for good{shared}: {names}. What these budgets promised could not stand"
            " if one of them went on. Stored answers stay free. Confirm it to close."
        )
    for one in closing:
        number = ledger.append(
            connection,
            kind="close",
            dataset=of,
            budget=one.number,
            adjacency=canonical_json(one.adjacency.to_json()),
            details=canonical_json({"reason": text}),
        )
        connection.execute("UPDATE budgets SET closed = ? WHERE number = ?", number, one.number)
    return tuple(closing)


def raise_budget(
    connection: Connection, of: str, adjacency: Adjacency, budget: Loss, reason: str
) -> BudgetState:
    """Allow more than before; all that was charged so far still counts."""
    text = short_text(reason, "reason")
    state = _open_budget_of(connection, of, adjacency)
    if not state.budget <= budget or budget == state.budget or budget.delta >= 1:
        rule = f"must allow more than {state.budget}, with a delta below 1"
        raise InvalidParameter("budget", rule, str(budget), "Allow more, or close the budget.")
    raised = replace(state, budget=budget)
    if state.conversion_delta is not None:  # the new limit is split as the old one, and converted
        share = state.conversion_delta / state.budget.delta
        ZcdpBudget.of(budget.epsilon, budget.delta, share)  # refuses what cannot be converted
        raised = replace(raised, conversion_delta=budget.delta * share)
    ledger.append(
        connection,
        kind="raise",
        dataset=of,
        budget=state.number,
        adjacency=canonical_json(adjacency.to_json()),
        epsilon=str(budget.epsilon),
        delta=str(budget.delta),
        details=canonical_json(
            {"reason": text, "replaces": state.budget.to_json()} | ledger.accounting_details(raised)
        ),
    )
    conversion = None if raised.conversion_delta is None else str(raised.conversion_delta)
    connection.execute(
        "UPDATE budgets SET budget_epsilon = ?, budget_delta = ?, conversion_delta = ?"
        " WHERE number = ?",
        str(budget.epsilon),
        str(budget.delta),
        conversion,
        state.number,
    )
    return _open_budget_of(connection, of, adjacency)


def admit_person(
    connection: Connection,
    of: str,
    person: SameContexts,
    reason: str,
    confirmed: bool,
    isolating: bool = False,
) -> int:
    """Put a person on the list of those about whom contexts may be asked; returns the entry.

    Whether the person is among the rows is not looked at, here or ever.
    """
    text = short_text(reason, "reason")
    state = _open_budget_of(connection, of, AdmittedContexts())
    if person in admitted(connection, state.dataset):
        raise AlreadyExists("This person is admitted already, with this detector and column.")
    if _isolates(person.detector) and not isolating:
        raise NoPromise(
            f"{person.detector} lets single records decide whether a person stands out, so an"
            " answer can tell whether one is in the data. Take at least"
            f" {FEWEST_NEIGHBORS} neighbors, or insist."
        )
    if not confirmed:
        raise NeedsConfirmation(
            "Admitting this person narrows who is protected: a record whose presence changes in"
            f" which contexts this person stands out by {person.column} is protected no longer, and"
            " an answer may tell exactly whether it is in the data. Make the list without looking"
            " at the rows. Confirm it to admit."
        )
    return ledger.append(
        connection,
        kind="admit",
        dataset=of,
        budget=state.number,
        adjacency=canonical_json(person.to_json()),
        details=canonical_json({"reason": text}),
    )


def allow_exact_counts(
    connection: Connection, of: str, adjacency: Adjacency, counts: int, reason: str, confirmed: bool
) -> int:
    """Allow so many counts in all to be told exactly within an allowance; returns how many more.

    A later permission replaces an earlier one; what was told before still counts.
    """
    text = short_text(reason, "reason")
    whole_number(counts, "counts", at_least=0, at_most=LARGEST_COUNT)
    state = _open_budget_of(connection, of, adjacency)
    if state.role == "main":
        rule = "must be that of an allowance"
        way_out = "What a main budget pays for has noise in every count."
        raise InvalidParameter("adjacency", rule, adjacency.name, way_out)
    if counts and not confirmed:
        raise NeedsConfirmation(
            f"Up to {counts} counts of records that are not protected may be told exactly then,"
            " whatever epsilon is: each tells whether a person with such values is in the data."
            " Confirm it to allow them."
        )
    ledger.append(
        connection,
        kind="exact",
        dataset=of,
        budget=state.number,
        adjacency=canonical_json(adjacency.to_json()),
        details=canonical_json({"reason": text, "counts": counts}),
    )
    return max(0, exact_counts_of(connection, state.dataset).left(state.number))


FEWEST_NEIGHBORS = 10  # with fewer, one record near a person decides whether that person stands out


def _isolates(text: str) -> bool:
    """Whether a detector lets single records decide, or nobody knows whether it does."""
    known = detector(text)
    if isinstance(known, PluggedIn):
        return True
    return isinstance(known, LocalOutlierFactor) and known.n_neighbors < FEWEST_NEIGHBORS


def limit_token(
    connection: Connection, of: str, adjacency: Adjacency, token: str, limit: Loss
) -> None:
    """Set how much of a budget the questions of one token may cost; the budget still rules."""
    state = _open_budget_of(connection, of, adjacency)
    if state.zcdp is not None and limit.delta:  # it is split as the budget is, and converted
        share = state.zcdp.conversion_delta / state.budget.delta
        ZcdpBudget.of(limit.epsilon, limit.delta, share)
    ids = [token_id(str(row[0])) for row in connection.execute("SELECT hash FROM tokens")]
    if token not in ids:
        raise NotFound("There is no such token. See the list of tokens.")
    ledger.append(
        connection,
        kind="limit",
        dataset=of,
        budget=state.number,
        adjacency=canonical_json(adjacency.to_json()),
        details=canonical_json({"token": token, "limit": limit.to_json()}),
    )
    connection.execute(
        "DELETE FROM token_limits WHERE budget = ? AND token = ?", state.number, token
    )
    connection.execute(
        "INSERT INTO token_limits (budget, token, epsilon, delta) VALUES (?, ?, ?, ?)",
        state.number,
        token,
        str(limit.epsilon),
        str(limit.delta),
    )


def file_request(
    connection: Connection,
    of: str,
    adjacency: Adjacency,
    loss: Loss | None,
    reason: str,
) -> Request:
    """Enter what an analyst needs: a budget or allowance up to a loss, or a person admitted."""
    text = short_text(reason, "reason")
    root = store.find_dataset(connection, of).root
    check_possible(adjacency, store.versions_of(connection, root))
    if (loss is None) != isinstance(adjacency, SameContexts):
        rule = "must be given for a budget, and left out for a person"
        raise InvalidParameter("loss", rule, str(loss), "Ask for a person or for a budget.")
    amounts = {} if loss is None else {"epsilon": str(loss.epsilon), "delta": str(loss.delta)}
    number = ledger.append(
        connection,
        kind="request",
        dataset=of,
        adjacency=canonical_json(adjacency.to_json()),
        details=canonical_json({"reason": text}),
        **amounts,
    )
    return Request(number, of, adjacency, loss, text, who_acts()[0], "open")


def read_requests(entries: Sequence[Entry]) -> tuple[Request, ...]:
    """Every request among these entries, with what became of it."""
    decided = {
        entry.ask: "approved" if entry.kind == "approve" else "declined"
        for entry in entries
        if entry.kind in ("approve", "decline")
    }
    return tuple(
        Request(
            entry.number,
            entry.dataset,
            entry.adjacency,
            entry.loss,
            str((entry.details or {}).get("reason", "")),
            entry.asked_by,
            decided.get(entry.number, "open"),
        )
        for entry in entries
        if entry.kind == "request" and entry.adjacency is not None
    )


def decide(
    connection: Connection, of: str, number: int, approve: bool, reason: str, confirmed: bool
) -> Request:
    """Approve a request about a data set, which does what it asks for, or decline it."""
    text = short_text(reason, "reason")
    store.find_dataset(connection, of)
    entries = ledger.read_entries(connection, [of])
    found = [request for request in read_requests(entries) if request.number == number]
    if not found:
        raise NotFound(f"There is no request {number} about {of!r}. See the list of requests.")
    (request,) = found
    if request.decision != "open":
        raise AlreadyExists(f"Request {number} was {request.decision} already.")
    if approve:
        _fulfill(connection, request, text, confirmed)
    ledger.append(
        connection,
        kind="approve" if approve else "decline",
        dataset=request.dataset,
        ask=number,
        details=canonical_json({"reason": text}),
    )
    decision = "approved" if approve else "declined"
    return replace(request, decision=decision)


def _fulfill(connection: Connection, request: Request, reason: str, confirmed: bool) -> None:
    of, adjacency, loss = request.dataset, request.adjacency, request.loss
    if isinstance(adjacency, SameContexts):
        admit_person(connection, of, adjacency, reason, confirmed)
        return
    assert loss is not None  # noqa: S101 - file_request sees to it
    root = store.find_dataset(connection, of).root
    if any(state.adjacency == adjacency for state in ledger.budgets_of(connection, root)):
        raise_budget(connection, of, adjacency, loss, reason)
    else:
        open_budget(connection, of, adjacency, loss, confirmed)


def retire(connection: Connection, of: str, reason: str, confirmed: bool) -> str:
    """Take a data set out of use for good; returns the folder whose rows are to be deleted."""
    text = short_text(reason, "reason")
    store.find_dataset(connection, of)
    folder, retired = connection.execute("SELECT folder, retired FROM datasets WHERE name = ?", of)[
        0
    ]
    if retired is not None:
        raise AlreadyExists(f"{of!r} was retired already.")
    if not confirmed:
        raise NeedsConfirmation(
            f"The rows of {of!r} are deleted for good. Its ledger and its releases are kept, and"
            " stored answers stay free. Confirm it to retire the data set."
        )
    number = ledger.append(
        connection, kind="retire", dataset=of, details=canonical_json({"reason": text})
    )
    connection.execute("UPDATE datasets SET retired = ? WHERE name = ?", number, of)
    return str(folder)
