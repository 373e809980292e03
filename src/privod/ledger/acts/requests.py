"""Ask the owner for something; approve it, which does it, or decline it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from privod.errors import AlreadyExists, InvalidParameter, LimitReached, NotFound
from privod.ledger import chain as ledger
from privod.ledger import store
from privod.ledger.acts.act import Act, Told
from privod.ledger.acts.budgets import OpenBudget, RaiseBudget, Reason, Under
from privod.ledger.acts.permissions import AdmitPerson
from privod.ledger.chain import Entry, who_acts
from privod.ledger.database import Connection
from privod.ledger.values import Request
from privod.privacy import Adjacency, Loss, SameContexts

MOST_OPEN = 100  # requests about a data set: each is in the ledger for good
Number = Annotated[int, Told("As 'privod requests' shows it.", first=True)]


def act_for(request: Request, connection: Connection, reason: str) -> Act[Any]:
    """What approving a request does now: open a budget, raise the one that there is, or admit."""
    of, adjacency, loss = request.dataset, request.adjacency, request.loss
    if isinstance(adjacency, SameContexts):
        return AdmitPerson(of, adjacency, reason)
    assert loss is not None  # noqa: S101 - `FileRequest` sees to it
    known = ledger.budgets_of(connection, store.find_dataset(connection, of).root)
    if any(state.adjacency == adjacency for state in known):
        return RaiseBudget(of, adjacency, loss, reason)
    return OpenBudget(of, adjacency, loss)


def read_requests(entries: Sequence[Entry]) -> tuple[Request, ...]:
    """Every request among these entries, with what became of it."""
    decided = {one.ask: f"{one.kind}d" for one in entries if one.kind in ("approve", "decline")}
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


@dataclass(frozen=True)
class FileRequest(Act[Request]):
    """Ask the owner for a budget, an allowance or more of one, or to admit a person."""

    name: ClassVar[str] = "request"
    path: ClassVar[str] = "requests"
    role: ClassVar[Any] = "analyst"
    title: ClassVar[str] = "Ask for more"
    adjacency: Under
    loss: Loss | None
    reason: Reason

    def _made(self) -> Request:
        who, _ = who_acts()
        return Request(0, self.of, self.adjacency, self.loss, self.reason, who, "open")

    def brings(self, connection: Connection) -> tuple[Adjacency, ...]:
        if (self.loss is None) != isinstance(self.adjacency, SameContexts):
            return ()  # refused below, in words
        return act_for(self._made(), connection, self.reason).brings(connection)

    def apply(self, connection: Connection) -> Request:
        if (self.loss is None) != isinstance(self.adjacency, SameContexts):
            rule = "must be given for a budget, and left out for a person"
            way_out = "A request to admit a person has no epsilon."
            raise InvalidParameter("epsilon", rule, str(self.loss), way_out)
        made, before = self._made(), read_requests(ledger.read_entries(connection, [self.of]))
        if sum(one.decision == "open" for one in before) >= MOST_OPEN:
            raise LimitReached(f"{MOST_OPEN} requests are before the owner. Wait for a decision.")
        act_for(made, connection, self.reason).gives_up(connection)  # or refuses
        why = {"reason": self.reason}
        number = self.enter(connection, "request", why, None, self.adjacency, self.loss)
        return replace(made, number=number)

    def said(self, done: Request) -> str:
        return f"Request {done.number} is before the owner: {done.wish}"


@dataclass(frozen=True)
class Decision(Act[Request]):
    """What an owner decides about a request."""

    number: Number
    reason: Reason

    def _request(self, connection: Connection) -> Request:
        """The request, if it is still open."""
        store.find_dataset(connection, self.of)
        for request in read_requests(ledger.read_entries(connection, [self.of])):
            if request.number == self.number:
                if request.decision != "open":
                    raise AlreadyExists(f"Request {self.number} was {request.decision} already.")
                return request
        raise NotFound(f"There is no request {self.number} about {self.of!r}. List them.")

    def apply(self, connection: Connection) -> Request:
        request = self._request(connection)
        self.enter(connection, self.name, {"reason": self.reason}, ask=self.number)
        return replace(request, decision=f"{self.name}d")

    def said(self, done: Request) -> str:
        return f"Request {done.number} was {done.decision}."


@dataclass(frozen=True)
class Approve(Decision):
    """Approve a request, which does what it asks for."""

    name: ClassVar[str] = "approve"
    path: ClassVar[str] = "requests/{number}/approve"
    title: ClassVar[str] = "Approve it"

    def _act(self, connection: Connection) -> Act[Any]:
        return act_for(self._request(connection), connection, self.reason)

    def brings(self, connection: Connection) -> tuple[Adjacency, ...]:
        return self._act(connection).brings(connection)

    def gives_up(self, connection: Connection) -> str:
        return self._act(connection).gives_up(connection)

    def means(self, curator: Any) -> str:
        for request in curator.requests(self.of):
            if request.number == self.number and request.loss is not None:
                return OpenBudget(self.of, request.adjacency, request.loss).means(curator)
        return ""

    def apply(self, connection: Connection) -> Request:
        self._act(connection).apply(connection)
        return super().apply(connection)


@dataclass(frozen=True)
class Decline(Decision):
    """Decline a request."""

    name: ClassVar[str] = "decline"
    path: ClassVar[str] = "requests/{number}/decline"
    title: ClassVar[str] = "Decline it"
