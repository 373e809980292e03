"""Noisy counts that several questions look at: drawn once, charged once, kept for good.

A batch of counts is entered in the chain by its digest, in the transaction that enters the answer
it was drawn for. So a count that was ever told is on disk, and whoever needs it later, in whatever
process, finds it there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from privod.errors import InvalidParameter, LedgerDamaged, NoPromise
from privod.ledger.chain import append, digest
from privod.ledger.database import Connection
from privod.query.catalog import QUERIES, query_from_json
from privod.query.query import canonical_json
from privod.questions.interactive_grid.kept import KeptQuery

__all__ = [
    "check_room",
    "check_whole",
    "enter_kept",
    "first_charge",
    "read_kept",
    "state_key",
    "state_of",
]


def state_of(query: Mapping[str, Any]) -> str | None:
    """The state that a question, as the ledger writes it, shares with others; None if none."""
    kind = QUERIES.get(str(query.get("name")))
    if kind is None or not issubclass(kind, KeptQuery):
        return None
    asked = query_from_json(dict(query))
    return asked.state if isinstance(asked, KeptQuery) else None


def state_key(dataset: str, state: str) -> str:
    """One key for one state of one data set."""
    return digest(canonical_json({"dataset": dataset, "state": state}))


def first_charge(connection: Connection, dataset: str, query: KeptQuery[Any]) -> int | None:
    """The entry that paid for the state of a question; None if nobody did yet."""
    rows = connection.execute(
        "SELECT number, query FROM entries WHERE dataset = ? AND kind = 'charge' AND query LIKE ?"
        " ORDER BY number",
        dataset,
        f'%"name":"{query.name}"%',
    )
    for number, text in rows:
        asked = json.loads(text)
        if asked.get("name") == query.name and state_of(asked) == query.state:
            return int(number)
    return None


def read_kept(connection: Connection, dataset: str, query: KeptQuery[Any]) -> dict[str, int]:
    """Every count of the state that was drawn so far, as the ledger says it was."""
    rows = connection.execute(
        "SELECT k.entry, k.counts, e.digest FROM kept_counts k"
        " LEFT JOIN entries e ON e.number = k.entry WHERE k.state = ? ORDER BY k.entry",
        state_key(dataset, query.state),
    )
    kept: dict[str, int] = {}
    for entry, text, entered in rows:
        if digest(text) != entered:
            raise LedgerDamaged(f"The counts kept by entry {entry} are not those entered.")
        kept |= json.loads(text)
    return kept


def check_room(
    connection: Connection, dataset: str, query: KeptQuery[Any], needed: Sequence[str]
) -> None:
    """Refuse a question that needs more counts than may be drawn, by public numbers alone."""
    kept = read_kept(connection, dataset, query)
    missing = sum(name not in kept for name in needed)
    if len(kept) + missing <= query.most_kept:
        return
    rule = f"must allow the {len(kept)} counts that are drawn and {missing} more"
    way_out = "Ask about records near those asked about before, or open another grid."
    raise InvalidParameter("max_cells", rule, query.most_kept, way_out)


def check_whole(connection: Connection, first: int) -> None:
    """Refuse to draw for a state that an accepted restore may have taken counts from."""
    rows = connection.execute(
        "SELECT number FROM entries WHERE kind = 'restored' AND number > ?", first
    )
    if rows:
        raise NoPromise(
            "The ledger was restored after this grid was opened, so counts that were told may be"
            " lost, and would get new noise. Open another grid, with another epsilon or max_cells."
        )


def enter_kept(
    connection: Connection, dataset: str, query: KeptQuery[Any], fresh: Mapping[str, int], ask: int
) -> None:
    """Enter counts that were drawn for an answer; they carry the time of its charge."""
    if not fresh:
        return
    text = canonical_json(dict(fresh))
    number = append(
        connection,
        time=connection.execute("SELECT time FROM entries WHERE number = ?", ask)[0][0],
        kind="keep",
        dataset=dataset,
        ask=ask,
        digest=digest(text),
    )
    connection.execute(
        "INSERT INTO kept_counts (entry, state, counts) VALUES (?, ?, ?)",
        number,
        state_key(dataset, query.state),
        text,
    )
