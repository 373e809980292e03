"""The ledger: append-only, hash-chained, charged before the data is touched, never refunded.

Everything here happens inside a transaction that the caller opened; whatever it raises undoes all
of it. Why this keeps the promise: docs/proofs/ledger.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from operator import itemgetter
from typing import Any

from privod.errors import BudgetExceeded, InvalidParameter
from privod.ledger.budget_state import BudgetState
from privod.ledger.database import Connection
from privod.ledger.values import Charge
from privod.privacy import Adjacency, Cost, Loss, Zcdp, adjacency_from_json, decimal_text
from privod.query.query import canonical_json
from privod.texts import check_texts, is_plain_json

FIELDS = (
    "number",
    "time",
    "kind",
    "dataset",
    "budget",
    "adjacency",
    "epsilon",
    "delta",
    "query",
    "asked_by",
    "ask",
    "request",
    "digest",
    "details",
    "token",
    "previous",
)
"""What an entry's hash always covers."""

LATER_FIELDS: tuple[str, ...] = ()
"""Columns that a later version adds; the hash covers them where they are not empty."""

COLUMNS = ", ".join((*FIELDS, "hash", *LATER_FIELDS))
PAGE = 10_000  # entries read at once

Due = tuple[BudgetState, Cost]
"""A budget that pays for a question, and what it is charged."""


@dataclass(frozen=True)
class Entry:
    """One line of the ledger.

    `kind` is "register" (a data set), "open" (a budget; `loss` is its limit), "carry" (what earlier
    questions already cost under a budget opened later), "charge" (a question, once per budget it is
    charged to), "release" (its answer, by digest, under the time of its charge) or "restored" (it
    lost entries, and its owner accepted that).
    Of a budget: "close", "raise" (`loss` is the new limit), "admit" (a person may be asked about),
    "exact" (how many counts may be told exactly), "limit" (of one token within it). Of a data set:
    "retire". "request", "approve" and "decline" are an analyst's wish and what became of it;
    "token" and "revoke" say who may come in. `details` holds what these say beyond the columns,
    `token` the id of the token that acted.
    """

    number: int
    time: str
    kind: str
    dataset: str
    budget: int | None
    adjacency: Adjacency | None
    loss: Loss | None
    query: dict[str, Any] | None
    asked_by: str
    ask: int | None
    request: str | None
    digest: str | None
    previous: str
    hash: str
    details: dict[str, Any] | None = None
    token: str | None = None

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Entry:
        """Read an entry as the database holds it."""
        values = dict(zip((*FIELDS, "hash", *LATER_FIELDS), row, strict=True))
        details = values.pop("details")
        epsilon, delta = values.pop("epsilon"), values.pop("delta")
        adjacency, query = values.pop("adjacency"), values.pop("query")
        return cls(
            **values,
            adjacency=None if adjacency is None else adjacency_of(adjacency),
            loss=None if epsilon is None else loss_of(epsilon, delta),
            query=None if query is None else json.loads(query),
            details=None if details is None else json.loads(details),
        )

    @property
    def cost(self) -> Cost | None:
        """What a charge counts, in both currencies where its budget needs both."""
        if self.loss is None:
            return None
        written = (self.details or {}).get("zcdp")
        zcdp = Zcdp.of_loss(self.loss) if written is None else Zcdp.from_json(written)
        return Cost(self.loss, zcdp)

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        adjacency = None if self.adjacency is None else self.adjacency.to_json()
        loss = None if self.loss is None else self.loss.to_json()
        return {**vars(self), "adjacency": adjacency, "loss": loss}


def now() -> str:
    """The time, UTC, as the ledger writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def digest(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def entry_hash(values: Sequence[Any], later: Sequence[Any] = ()) -> str:
    """The hash of an entry's fields, the hash of the entry before included."""
    fields = dict(zip(FIELDS, values, strict=True))
    named = zip(LATER_FIELDS, later, strict=False)
    fields |= {name: value for name, value in named if value is not None}
    return digest(canonical_json(fields))


def read_head(connection: Connection) -> tuple[int, str]:
    """How long the chain is, and the hash that it ends in."""
    length, digest = connection.execute("SELECT length, hash FROM head")[0]
    return int(length), str(digest)


def append(connection: Connection, **fields: Any) -> int:
    """Add an entry to the chain and return its number; `ask` or `budget` 0 means itself."""
    length, previous = read_head(connection)
    number = length + 1
    name, token = who_acts()
    values: dict[str, Any] = {"number": number, "time": now(), "previous": previous}
    values |= {"asked_by": name, "token": token} | fields
    for itself in ("ask", "budget"):
        if values.get(itself) == 0:
            values[itself] = number
    row = [values.get(field) for field in FIELDS]
    later = [values.get(field) for field in LATER_FIELDS]
    digest = entry_hash(row, later)
    _check_readable((*row, digest, *later))
    marks = ", ".join("?" * (len(row) + 1 + len(later)))
    connection.execute(f"INSERT INTO entries ({COLUMNS}) VALUES ({marks})", *row, digest, *later)  # noqa: S608 - names from above
    connection.execute("UPDATE head SET length = ?, hash = ?", number, digest)
    return number


def _check_readable(row: tuple[Any, ...]) -> None:
    """Refuse an entry that could not be read back: it would stop whoever reads the ledger."""
    try:
        entry = Entry.from_row(row)
    except (ValueError, TypeError, KeyError):  # InvalidParameter is a ValueError
        entry = None
    if entry is None:
        rule = "must be one that can be read back"
        raise InvalidParameter("the entry", rule, "another", "Check the names in it.")
    if not all(is_plain_json(text) for text in row if isinstance(text, str)):
        check_texts(entry.to_json(), "the entry")


def read_rows(connection: Connection, after: int = -(2**31)) -> Iterator[tuple[Any, ...]]:
    """Every entry as the database holds it, in order, from the one after a number on."""
    select = f"SELECT {COLUMNS} FROM entries WHERE number > ? ORDER BY number LIMIT {PAGE}"  # noqa: S608 - names from above
    page = [(after,)] * PAGE
    while len(page) == PAGE:
        page = connection.execute(select, page[-1][0])
        yield from page


def read_entries(connection: Connection, datasets: Iterable[str] | None = None) -> list[Entry]:
    """The entries about these data sets, or all of them, in order."""
    if datasets is None:
        return [Entry.from_row(row) for row in read_rows(connection)]
    select = f"SELECT {COLUMNS} FROM entries WHERE dataset = ?"  # noqa: S608 - names from above
    rows = [row for dataset in datasets for row in connection.execute(select, dataset)]
    return [Entry.from_row(row) for row in sorted(rows, key=itemgetter(0))]


def budgets_of(connection: Connection, root: str) -> tuple[BudgetState, ...]:
    """The budgets of a data set and its versions, closed ones too, in the order of opening."""
    budgets = connection.execute(
        "SELECT number, adjacency, role, closed, budget_epsilon, budget_delta,"
        " spent_epsilon, spent_delta, conversion_delta, spent_rho, adding"
        " FROM budgets WHERE root = ? ORDER BY number",
        root,
    )
    return tuple(
        BudgetState(
            number,
            root,
            adjacency_of(adjacency),
            loss_of(sums[0], sums[1]),
            loss_of(sums[2], sums[3]),
            role=role,
            closed=closed,
            conversion_delta=None if sums[4] is None else Fraction(sums[4]),
            spent_rho=Fraction(sums[5]),
            adding=bool(sums[6]),
        )
        for number, adjacency, role, closed, *sums in budgets
    )


def count_charges(connection: Connection, budget: int) -> int:
    """How many charges a budget has paid; some questions share another's charge."""
    ((count,),) = connection.execute(
        "SELECT COUNT(*) FROM entries WHERE budget = ? AND kind IN ('charge', 'carry')"
        " AND (epsilon <> '0' OR delta <> '0')",
        budget,
    )
    return int(count)


def enter_budget(connection: Connection, dataset: str, state: BudgetState) -> BudgetState:
    """Open a budget that starts with what earlier questions already cost under its adjacency."""
    text = canonical_json(state.adjacency.to_json())
    fields = {"dataset": dataset, "budget": 0, "adjacency": text}
    details = canonical_json({"role": state.role} | accounting_details(state))
    number = append(connection, kind="open", **fields, **state.budget.to_json(), details=details)
    conversion = None if state.conversion_delta is None else str(state.conversion_delta)
    connection.execute(
        "INSERT INTO budgets (number, root, adjacency, budget_epsilon, budget_delta,"
        " role, conversion_delta) VALUES (?, ?, ?, ?, ?, ?, ?)",
        number,
        state.dataset,
        text,
        *state.budget.to_json().values(),
        state.role,
        conversion,
    )
    state = replace(state, number=number)
    if state.spent != Loss(0):
        fields["budget"] = number
        append(connection, kind="carry", **fields, **state.spent.to_json(), details=carried(state))
        _spend(connection, state)
    return state


def accounting_details(state: BudgetState) -> dict[str, str]:
    """What the entry that opens or raises a budget says of how it counts."""
    if state.conversion_delta is None:
        return {}
    return {"accounting": state.accounting, "conversion_delta": str(state.conversion_delta)}


def carried(state: BudgetState) -> str | None:
    """What a budget that opens late begins with, beyond its losses."""
    if state.conversion_delta is None:
        return None
    return canonical_json({"rho": str(state.spent_rho), "adding": state.adding})


@dataclass(frozen=True)
class Asked:
    """A question about a data set, as the ledger writes it, and who asks it."""

    dataset: str
    query: str
    asked_by: str
    request: str | None = None
    token: str | None = None
    rows_per_person: int = 1


def charge(connection: Connection, asked: Asked, due: Sequence[Due]) -> tuple[Charge, ...]:
    """Charge a question to all of these budgets, or, if one would be overspent, to none."""
    check_left(connection, asked.dataset, due, asked.token, asked.rows_per_person)
    return enter_charges(connection, asked, due)


def enter_charges(connection: Connection, asked: Asked, due: Sequence[Due]) -> tuple[Charge, ...]:
    """Charge all of these budgets, whatever is left there."""
    charges: list[Charge] = []
    for state, cost in due:
        concentrated = state.conversion_delta is not None
        details = canonical_json({"zcdp": cost.zcdp.to_json()}) if concentrated else None
        number = append(
            connection,
            kind="charge",
            dataset=asked.dataset,
            budget=state.number,
            adjacency=canonical_json(state.adjacency.to_json()),
            query=asked.query,
            asked_by=asked.asked_by,
            ask=charges[0].entry if charges else 0,
            request=None if charges else asked.request,
            token=asked.token,
            details=details,
            **cost.loss.to_json(),
        )
        _spend(connection, state.after(cost) or state.overrun(cost))
        rho = cost.zcdp.rho if concentrated else None
        charges.append(Charge(number, state.adjacency, cost.loss, rho))
    return tuple(charges)


def charges_of(connection: Connection, ask: int) -> tuple[Charge, ...]:
    """What a question was charged, as it was entered under the number of its first charge."""
    rows = connection.execute(
        "SELECT number, adjacency, epsilon, delta, details FROM entries"
        " WHERE number >= ? AND ask = ? AND kind = 'charge' ORDER BY number",
        *(ask, ask),
    )
    charges = []
    for number, adjacency, epsilon, delta, details in rows:
        rho = None if details is None else Zcdp.from_json(json.loads(details)["zcdp"]).rho
        charges.append(Charge(number, adjacency_of(adjacency), loss_of(epsilon, delta), rho))
    return tuple(charges)


def check_left(
    connection: Connection,
    dataset: str,
    due: Sequence[Due],
    token: str | None,
    rows_per_person: int,
) -> None:
    """Refuse a question that would overspend a budget, or what its owner allows a token of one."""
    limits = limits_of(connection, due, token)
    for state, cost in due:
        name, allowed = state.adjacency.name, limits.get(state.number)
        if state.after(cost) is None:
            brought, times = f"{state.spent + cost.loss}", _times(state, rows_per_person)
            less = "Ask for less" if state.left.epsilon else "Stored answers stay free"
            allows = f"{state.budget}"
            if state.zcdp is not None:
                brought += f" and rho {float(state.spent_rho + cost.zcdp.rho):.6g}"
                part = decimal_text(state.zcdp.approximate_delta)
                allows += f", or rho {float(state.zcdp.rho):.6g}, with delta {part} for its"
                allows += " questions"
            raise BudgetExceeded(
                f"The {name} budget of {dataset!r} allows {allows}; this question would bring it"
                f" to {brought}. Left is {state.left}.{times} {less}."
            )
        if allowed is not None and allowed.after(cost) is None:
            times = _times(state, rows_per_person)
            raise BudgetExceeded(
                f"This token may spend {allowed.budget} of the {name} budget; this question would"
                f" bring it to {allowed.spent + cost.loss}. Left to it is {allowed.left}.{times}"
                " Ask for less, or ask the owner for more."
            )


def _times(state: BudgetState, rows_per_person: int) -> str:
    if rows_per_person == 1 or state.zcdp is not None:  # there rho is counted too, by squares
        return ""
    return (
        f" A person may have {rows_per_person} rows there, so a question costs {rows_per_person}"
        " times its epsilon."
    )


def limits_of(
    connection: Connection, due: Sequence[Due], token: str | None
) -> dict[int, BudgetState]:
    """What a token may spend of these budgets, by their numbers, where it has a limit."""
    if token is None:
        return {}
    found = {state.number: allowed_to(connection, state, token) for state, _ in due}
    return {number: allowed for number, allowed in found.items() if allowed is not None}


def left_to(connection: Connection, state: BudgetState, token: str | None) -> Loss | None:
    """What of a budget is left to a token; None if it has no limit there."""
    allowed = None if token is None else allowed_to(connection, state, token)
    if allowed is None:
        return None
    own, all_left = allowed.left, state.left
    return Loss(min(own.epsilon, all_left.epsilon), min(own.delta, all_left.delta))


def allowed_to(connection: Connection, state: BudgetState, token: str) -> BudgetState | None:
    """What a token may spend of a budget and has spent, counted alike; None if it has no limit."""
    limits = connection.execute(
        "SELECT epsilon, delta FROM token_limits WHERE budget = ? AND token = ?",
        state.number,
        token,
    )
    if not limits:
        return None
    limit = loss_of(*limits[0])
    conversion = None  # a limit without a delta is counted by sums
    if state.zcdp is not None and limit.delta:
        conversion = limit.delta * state.zcdp.conversion_delta / state.budget.delta
    allowed = replace(
        state,
        budget=limit,
        spent=Loss(0),
        n_charges=0,
        conversion_delta=conversion,
        spent_rho=Fraction(0),
        adding=True,
    )
    rows = connection.execute(
        "SELECT epsilon, delta, details FROM entries"
        " WHERE token = ? AND budget = ? AND kind = 'charge' ORDER BY number",
        token,
        state.number,
    )
    for epsilon, delta, details in rows:
        loss = loss_of(epsilon, delta)
        cost = Cost.of_loss(loss)
        if details is not None:
            cost = Cost(loss, Zcdp.from_json(json.loads(details)["zcdp"]))
        allowed = allowed.after(cost) or allowed.overrun(cost)
    return allowed


@lru_cache(maxsize=256)
def adjacency_of(text: str) -> Adjacency:
    """An adjacency as the database holds it; there are few, and every entry names one."""
    return adjacency_from_json(json.loads(text))


@lru_cache(maxsize=1024)
def loss_of(epsilon: str, delta: str) -> Loss:
    """A loss as the database holds it."""
    return Loss(Fraction(epsilon), Fraction(delta))


def _spend(connection: Connection, state: BudgetState) -> None:
    connection.execute(
        "UPDATE budgets SET spent_epsilon = ?, spent_delta = ?, spent_rho = ?, adding = ?"
        " WHERE number = ?",
        *state.spent.to_json().values(),
        str(state.spent_rho),
        int(state.adding),
        state.number,
    )


ID_LENGTH = 16

_WHO: ContextVar[tuple[str, str | None]] = ContextVar("who acts", default=("owner", None))


@contextmanager
def acting(name: str, token: str | None) -> Iterator[None]:
    """Let entries that name nobody themselves say this name and token id."""
    before = _WHO.set((name, token))
    try:
        yield
    finally:
        _WHO.reset(before)


def who_acts() -> tuple[str, str | None]:
    """The name, and the id of the token if there is one; the owner at the machine has none."""
    return _WHO.get()


def token_id(hashed: str) -> str:
    """The name of a token in lists, addresses and entries, by its hash; it opens nothing."""
    return hashed[:ID_LENGTH]
