"""The ledger: append-only, hash-chained, charged before the data is touched, never refunded.

Everything here happens inside a transaction that the caller opened; whatever it raises undoes all
of it. Why this keeps the promise: docs/proofs/ledger.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from operator import itemgetter
from typing import Any

from privod.errors import BudgetExceeded, InvalidParameter, Unavailable
from privod.ledger.accounting import Total, tightest
from privod.ledger.database import Connection
from privod.privacy import Adjacency, Loss, adjacency_from_json
from privod.queries.html import paragraphs
from privod.queries.query import canonical_json
from privod.texts import check_texts

__all__ = [
    "FIELDS",
    "LATER_FIELDS",
    "BudgetState",
    "Charge",
    "Entry",
    "append",
    "budgets_of",
    "charge",
    "check_left",
    "check_token",
    "enter_budget",
    "enter_charges",
    "entry_hash",
    "losses_of",
    "now",
    "read_entries",
    "read_head",
    "read_rows",
    "spent_by",
]

FIELDS = (
    "number",
    "time",
    "kind",
    "dataset",
    "book",
    "adjacency",
    "epsilon",
    "delta",
    "query",
    "asked_by",
    "ask",
    "request",
    "digest",
    "previous",
)
"""What an entry's hash always covers."""

LATER_FIELDS = ("details", "token")
"""Columns of a later version; the hash covers them where they are not empty."""

COLUMNS = ", ".join((*FIELDS, "hash", *LATER_FIELDS))
PAGE = 10_000  # entries read at once


@dataclass(frozen=True)
class Entry:
    """One line of the ledger.

    `kind` is "register" (a data set), "open" (a budget; `loss` is its limit), "carry" (what earlier
    questions already cost under a budget opened later), "charge" (a question, once per budget it is
    charged to), "release" (its answer, by digest, under the time of its charge), "keep" (noisy
    counts that were drawn for it and that others share, by digest), "moved" (the ledger moved to
    another database), "restored" (it lost entries, and its owner accepted that) or
    "rules" (entries before it were priced by an earlier version). Of a budget: "close", "raise"
    (`loss` is the new limit), "convert" (a narrow one becomes an allowance), "admit" (a person may
    be asked about), "limit" (of one token within it). Of a data set: "retire". "request", "approve"
    and "decline" are an analyst's wish and what became of it; "token" and "revoke" say who may come
    in. `details` holds what these say beyond the columns, `token` the id of the token that acted.
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
        budget = values.pop("book")  # the column's name of the first version
        adjacency, query = values.pop("adjacency"), values.pop("query")
        return cls(
            **values,
            budget=budget,
            adjacency=None if adjacency is None else adjacency_from_json(json.loads(adjacency)),
            loss=None if epsilon is None else Loss(Fraction(epsilon), Fraction(delta)),
            query=None if query is None else json.loads(query),
            details=None if details is None else json.loads(details),
        )

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        adjacency = None if self.adjacency is None else self.adjacency.to_json()
        loss = None if self.loss is None else self.loss.to_json()
        return {**vars(self), "adjacency": adjacency, "loss": loss}


@dataclass(frozen=True)
class Charge:
    """What a question cost one budget, and under which number that is entered."""

    entry: int
    adjacency: Adjacency
    loss: Loss

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        adjacency, loss = self.adjacency.to_json(), self.loss.to_json()
        return {"entry": self.entry, "adjacency": adjacency, "loss": loss}


@dataclass(frozen=True)
class BudgetState:
    """A budget: its adjacency, its limit and what of it is spent.

    Parameters
    ----------
    number : int
        The entry that opened it.
    dataset : str
        The data set it was opened for; versions that continue this one share it.
    adjacency : Adjacency
        Under which it counts.
    budget, spent : Loss
        The limit, and the sum of all charges. Questions never bring it past the limit; what was
        revealed elsewhere may, and then nothing more can be asked.
    losses : tuple of (Loss, int)
        The charges, equal ones counted.
    role : str
        "main"; "allowance" (pays only for questions that no main budget can count, beside an
        add-remove main); or "narrow" (of the first version: pays for wide questions too).
    closed, converted : int or None
        The entry that closed it, or made a narrow one an allowance.
    """

    number: int
    dataset: str
    adjacency: Adjacency
    budget: Loss
    spent: Loss
    losses: tuple[tuple[Loss, int], ...] = ()
    role: str = "main"
    closed: int | None = None
    converted: int | None = None

    def _repr_html_(self) -> str:
        return paragraphs(
            f"Budget of {self.dataset} under {self.adjacency.name}: {self.left} left",
            f"Spent: {self.spent} of {self.budget}.",
            f"{self.adjacency.protected}.",
        )

    @property
    def left(self) -> Loss:
        """What may still be charged, exactly; nothing if closed or overspent in either part."""
        if self.closed is not None or not self.spent <= self.budget:
            return Loss(0)
        epsilon = self.budget.epsilon - self.spent.epsilon
        return Loss(epsilon, self.budget.delta - self.spent.delta)

    @cached_property
    def tightest(self) -> Total:
        """The smallest total that is known to hold, for show; `spent` is what is enforced."""
        return tightest(self.losses, self.spent, self.budget.delta)

    def to_json(self) -> dict[str, Any]:
        """Everything but the tightest total, as plain values."""
        return {
            "number": self.number,
            "dataset": self.dataset,
            "adjacency": self.adjacency.to_json(),
            "budget": self.budget.to_json(),
            "spent": self.spent.to_json(),
            "left": self.left.to_json(),
            "role": self.role,
            "closed": self.closed is not None,
        }


def now() -> str:
    """The time, UTC, as the ledger writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def entry_hash(values: Sequence[Any], later: Sequence[Any] = ()) -> str:
    """The hash of an entry's fields, the hash of the entry before included."""
    fields = dict(zip(FIELDS, values, strict=True))
    named = zip(LATER_FIELDS, later, strict=False)
    fields |= {name: value for name, value in named if value is not None}
    return hashlib.sha256(canonical_json(fields).encode()).hexdigest()


def read_head(connection: Connection) -> tuple[int, str]:
    """How long the chain is, and the hash that it ends in."""
    length, digest = connection.execute("SELECT length, hash FROM head")[0]
    return int(length), str(digest)


def append(connection: Connection, **fields: Any) -> int:
    """Add an entry to the chain and return its number; `ask` or `book` 0 means itself."""
    length, previous, moved_to = connection.execute("SELECT length, hash, moved_to FROM head")[0]
    if moved_to is not None:
        raise Unavailable(
            f"This ledger moved to {moved_to} and takes no more entries here. Open it there."
        )
    number = int(length) + 1
    values = {"number": number, "time": now(), "previous": previous, "asked_by": "owner"} | fields
    for itself in ("ask", "book"):
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
        entry = Entry.from_row(row).to_json()
    except (ValueError, TypeError, KeyError):  # InvalidParameter is a ValueError
        entry = None
    if entry is None:
        rule = "must be one that can be read back"
        raise InvalidParameter("the entry", rule, "another", "Check the names in it.")
    check_texts(entry, "the entry")


def read_rows(connection: Connection) -> Iterator[tuple[Any, ...]]:
    """Every entry as the database holds it, in order."""
    select = f"SELECT {COLUMNS} FROM entries WHERE number > ? ORDER BY number LIMIT {PAGE}"  # noqa: S608 - names from above
    page = connection.execute(select, -(2**31))
    while page:
        yield from page
        page = connection.execute(select, page[-1][0])


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
        "SELECT number, adjacency, role, closed, converted, budget_epsilon, budget_delta,"
        " spent_epsilon, spent_delta FROM books WHERE root = ? ORDER BY number",
        root,
    )
    return tuple(
        BudgetState(
            number,
            root,
            adjacency_from_json(json.loads(adjacency)),
            Loss(Fraction(sums[0]), Fraction(sums[1])),
            Loss(Fraction(sums[2]), Fraction(sums[3])),
            role=role,
            closed=closed,
            converted=converted,
        )
        for number, adjacency, role, closed, converted, *sums in budgets
    )


def losses_of(connection: Connection, budget: int) -> tuple[tuple[Loss, int], ...]:
    """What was charged to a budget, equal charges counted."""
    tallies = connection.execute(
        "SELECT epsilon, delta, COUNT(*) FROM entries WHERE book = ?"
        " AND kind IN ('charge', 'carry')"
        " GROUP BY epsilon, delta ORDER BY epsilon, delta",
        budget,
    )
    losses = [(Loss(Fraction(e), Fraction(d)), int(times)) for e, d, times in tallies]
    return tuple(pair for pair in losses if pair[0] != Loss(0))  # some share another's charge


def enter_budget(
    connection: Connection,
    dataset: str,
    root: str,
    adjacency: Adjacency,
    budget: Loss,
    carry: Loss,
    role: str,
) -> int:
    """Open a budget that starts with what earlier questions already cost under its adjacency."""
    text = canonical_json(adjacency.to_json())
    fields = {"dataset": dataset, "book": 0, "adjacency": text}
    details = canonical_json({"role": role})
    number = append(connection, kind="open", **fields, **_columns(budget), details=details)
    connection.execute(
        "INSERT INTO books (number, root, adjacency, budget_epsilon, budget_delta,"
        " spent_epsilon, spent_delta, role) VALUES (?, ?, ?, ?, ?, '0', '0', ?)",
        number,
        root,
        text,
        *_columns(budget).values(),
        role,
    )
    if carry != Loss(Fraction(0)):
        fields["book"] = number
        append(connection, kind="carry", **fields, **_columns(carry))
        _spend(connection, number, carry)
    return number


def charge(
    connection: Connection,
    dataset: str,
    costs: Sequence[tuple[BudgetState, Loss]],
    query: str,
    asked_by: str,
    request: str | None,
    token: str | None = None,
) -> tuple[Charge, ...]:
    """Charge a question to all of these budgets, or, if one would be overspent, to none."""
    check_left(dataset, costs)
    check_token(connection, costs, token)
    return enter_charges(connection, dataset, costs, query, asked_by, request, token)


def enter_charges(
    connection: Connection,
    dataset: str,
    costs: Sequence[tuple[BudgetState, Loss]],
    query: str,
    asked_by: str,
    request: str | None,
    token: str | None = None,
) -> tuple[Charge, ...]:
    """Charge all of these budgets, whatever is left there."""
    charges: list[Charge] = []
    for state, loss in costs:
        number = append(
            connection,
            kind="charge",
            dataset=dataset,
            book=state.number,
            adjacency=canonical_json(state.adjacency.to_json()),
            query=query,
            asked_by=asked_by,
            ask=charges[0].entry if charges else 0,
            request=None if charges else request,
            token=token,
            **_columns(loss),
        )
        _spend(connection, state.number, state.spent + loss)
        charges.append(Charge(number, state.adjacency, loss))
    return tuple(charges)


def check_left(dataset: str, costs: Sequence[tuple[BudgetState, Loss]]) -> None:
    """Refuse a question that would overspend one of these budgets."""
    for state, loss in costs:
        if not state.spent + loss <= state.budget:
            raise BudgetExceeded(
                f"The {state.adjacency.name} budget of {dataset!r} allows {state.budget}; this"
                f" question would bring it to {state.spent + loss}. Left is {state.left}."
                " Ask for less."
            )


def check_token(
    connection: Connection, costs: Sequence[tuple[BudgetState, Loss]], token: str | None
) -> None:
    """Refuse a question that would bring a token past what its owner allows it of a budget."""
    if token is None:
        return
    for state, loss in costs:
        limits = connection.execute(
            "SELECT epsilon, delta FROM token_limits WHERE book = ? AND token = ?",
            state.number,
            token,
        )
        if not limits:
            continue
        limit = Loss(Fraction(limits[0][0]), Fraction(limits[0][1]))
        after = spent_by(connection, state.number, token) + loss
        if not after <= limit:
            raise BudgetExceeded(
                f"This token may spend {limit} of the {state.adjacency.name} budget; this question"
                f" would bring it to {after}. Ask for less, or ask the owner for more."
            )


def spent_by(connection: Connection, budget: int, token: str) -> Loss:
    """What the questions of one token cost a budget."""
    rows = connection.execute(
        "SELECT epsilon, delta FROM entries WHERE token = ? AND book = ? AND kind = 'charge'",
        token,
        budget,
    )
    return sum((Loss(Fraction(e), Fraction(d)) for e, d in rows), Loss(Fraction(0)))


def _spend(connection: Connection, state: int, spent: Loss) -> None:
    connection.execute(
        "UPDATE books SET spent_epsilon = ?, spent_delta = ? WHERE number = ?",
        *_columns(spent).values(),
        state,
    )


def _columns(loss: Loss) -> dict[str, str]:
    return {"epsilon": str(loss.epsilon), "delta": str(loss.delta)}
