"""Is the book what it says it is? Recompute every hash, price, sum, seal and digest.

The chain shows any entry that was changed, removed or inserted; the head shows a tail that was cut
off; the replay shows entries that were never allowed. What only somebody can show who noted a head
elsewhere: a book rewritten as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from privod.curator import ledger
from privod.curator.database import Connection, Database
from privod.curator.ledger import Entry, Head
from privod.curator.rows import RowStore
from privod.curator.store import digest, question_key, registration_digest
from privod.errors import BookDamaged, InvalidParameter, PrivodError
from privod.privacy import Adjacency, Loss
from privod.queries.catalog import QUERIES, query_from_json
from privod.queries.query import canonical_json

__all__ = ["Verification", "verify"]

NOTHING = Loss(Fraction(0))


@dataclass(frozen=True)
class Verification:
    """A book that holds: where it ends, and how much was looked at.

    `without_rows` names data sets whose rows are not in this directory, so were not looked at.
    """

    head: Head
    charges: int
    releases: int
    datasets: int
    without_rows: tuple[str, ...]


@dataclass
class _Book:
    root: str
    adjacency: Adjacency
    budget: Loss
    spent: Loss = NOTHING


@dataclass
class _Replay:
    """The book's state after the entries read so far."""

    datasets: dict[str, tuple[str, int]] = field(default_factory=dict)  # root, rows per person
    books: dict[int, _Book] = field(default_factory=dict)
    asks: dict[int, list[Entry]] = field(default_factory=dict)
    releases: dict[int, Entry] = field(default_factory=dict)


def verify(database: Database, rows: RowStore, expected: str | Head | None) -> Verification:
    """Recompute everything; raise `BookDamaged` naming the first entry that is wrong."""
    wanted = _read_head(expected)
    findings = database.check_file()
    if findings:
        raise BookDamaged(f"The database file is damaged: {findings}. Restore it from a backup.")
    with database.reading() as connection:
        entries = _check_chain(connection, wanted)
        replay = _Replay()
        registered = _check_datasets(connection, entries, rows, replay)
        for entry in entries:
            _replay(replay, entry)
        _check_sums(connection, replay)
        _check_asks(replay)
        _check_releases(connection, replay)
        head = ledger.read_head(connection)
    return Verification(
        head, len(replay.asks), len(replay.releases), len(replay.datasets), registered
    )


def _read_head(expected: str | Head | None) -> Head | None:
    if expected is None or isinstance(expected, Head):
        return expected
    length, _, digest_text = expected.partition(":")
    if not length.isdigit() or not digest_text:
        way_out = "Give it as `verify` printed it."
        raise InvalidParameter("expected_head", "must be like 17:5f2c...", expected, way_out)
    return Head(int(length), digest_text)


def _check_chain(connection: Connection, wanted: Head | None) -> list[Entry]:
    entries: list[Entry] = []
    previous = ""
    for row in ledger.read_rows(connection):
        expected = len(entries) + 1
        number, before, own = row[0], row[-2], row[-1]
        if isinstance(number, int) and number > expected:
            raise BookDamaged(f"Entry {expected} was removed.")
        if number != expected:
            raise BookDamaged(f"Entry {number!r} was inserted.")
        if _hash(row[:-1]) != own:
            raise BookDamaged(f"Entry {number} was changed.")
        if before != previous:
            raise BookDamaged(
                f"Entry {number} does not follow entry {number - 1}: one of the two was put there"
                " in place of another."
            )
        entries.append(Entry.from_row(row))
        previous = own
    head = ledger.read_head(connection)
    if head.length > len(entries):
        raise BookDamaged(f"Entry {len(entries) + 1} and what followed it were removed.")
    if head.length < len(entries):
        raise BookDamaged(f"Entry {head.length + 1} was inserted at the end.")
    if head.hash != previous:
        raise BookDamaged(f"Entry {head.length} is not the one that the book ended in.")
    if wanted is not None:
        _check_wanted(entries, wanted)
    return entries


def _hash(fields: Sequence[Any]) -> str | None:
    try:
        return ledger.entry_hash(fields)
    except (TypeError, ValueError):
        return None  # not even of a type that an entry can have


def _check_wanted(entries: list[Entry], wanted: Head) -> None:
    if wanted.length > len(entries):
        raise BookDamaged(
            f"The book ends with entry {len(entries)} and had {wanted.length} when its head was"
            " noted: it was cut off, or restored from an old backup."
        )
    if wanted.length and entries[wanted.length - 1].hash != wanted.hash:
        raise BookDamaged(
            f"Entry {wanted.length} is not the one that was noted: the book was rewritten."
        )


def _check_datasets(
    connection: Connection, entries: list[Entry], rows: RowStore, replay: _Replay
) -> tuple[str, ...]:
    """The records of data sets against their registrations, and rows against their seals."""
    entered = {entry.number: entry for entry in entries if entry.kind == "register"}
    absent = []
    for name, number, root, continues, domain, registered, folder, seal in connection.execute(
        "SELECT name, entry, root, continues, domain, registered, folder, seal FROM datasets"
        " ORDER BY entry"
    ):
        entry = entered.pop(number, None)
        public = registration_digest(domain, continues, root, registered, seal)
        if entry is None or entry.dataset != name or entry.digest != public:
            raise BookDamaged(f"The record of data set {name!r} is not the one of entry {number}.")
        if not rows.has(folder):
            absent.append(name)
        elif rows.seal(folder) != seal:
            raise BookDamaged(f"The rows of {name!r} are not those registered in entry {number}.")
        replay.datasets[name] = (root, _rows_per_person(domain))
    if entered:
        raise BookDamaged(f"The record of the data set of entry {min(entered)} was removed.")
    return tuple(absent)


def _rows_per_person(domain: str) -> int:
    return int(json.loads(domain).get("max_rows_per_person", 1))


def _replay(replay: _Replay, entry: Entry) -> None:
    """Do again what an entry did, and refuse what would have been refused."""
    wrong = BookDamaged(f"Entry {entry.number} says what the book would not have entered.")
    if entry.kind in ("register", "moved"):
        return
    if entry.dataset not in replay.datasets:
        raise wrong
    root, _ = replay.datasets[entry.dataset]
    if entry.kind == "open":
        if entry.loss is None or entry.adjacency is None or entry.book != entry.number:
            raise wrong
        replay.books[entry.number] = _Book(root, entry.adjacency, entry.loss)
    elif entry.kind in ("charge", "carry"):
        book = replay.books.get(entry.book or 0)
        if (
            book is None
            or entry.loss is None
            or (book.root, book.adjacency) != (root, entry.adjacency)
        ):
            raise wrong
        book.spent += entry.loss
        if not book.spent <= book.budget:
            raise BookDamaged(f"Entry {entry.number} overspends its book.")
        if entry.kind == "charge":
            replay.asks.setdefault(entry.ask or 0, []).append(entry)
    elif entry.kind == "release":
        asked = replay.asks.get(entry.ask or 0, [])
        if not asked or (asked[0].dataset, asked[0].query) != (entry.dataset, entry.query):
            raise BookDamaged(f"The release of entry {entry.number} was not charged.")
        replay.releases[entry.number] = entry
    else:
        raise wrong


def _check_asks(replay: _Replay) -> None:
    """Every question was charged what it costs, to every book it concerns."""
    for ask, entries in replay.asks.items():
        first = entries[0]
        if first.query is None or first.number != ask:
            raise BookDamaged(f"Entry {first.number} is a charge without its question.")
        if first.query.get("name") not in QUERIES:
            continue  # a question that another version of privod knows: its price is its own
        root, cap = replay.datasets[first.dataset]
        try:
            guarantee = query_from_json(first.query).guarantee()
            costs = {
                number: ledger.loss_towards(book.adjacency, guarantee, cap)
                for number, book in replay.books.items()
                if book.root == root and number < ask
            }
        except PrivodError:
            raise BookDamaged(f"Entry {ask} charges a question that cannot be asked.") from None
        due = {number: loss for number, loss in costs.items() if loss is not None}
        if due != {entry.book: entry.loss for entry in entries} or len(due) != len(entries):
            raise BookDamaged(f"The charges of entry {ask} are not what its question costs.")


def _check_sums(connection: Connection, replay: _Replay) -> None:
    """The running sums that are enforced against the sums of the entries."""
    kept = {
        row[0]: row[1:]
        for row in connection.execute(
            "SELECT number, root, adjacency, budget_epsilon, budget_delta, spent_epsilon,"
            " spent_delta FROM books"
        )
    }
    for number, book in replay.books.items():
        sums = (book.budget.epsilon, book.budget.delta, book.spent.epsilon, book.spent.delta)
        adjacency = canonical_json(book.adjacency.to_json())
        if kept.pop(number, None) != (book.root, adjacency, *(str(part) for part in sums)):
            raise BookDamaged(f"The running sum of the book of entry {number} is not its charges'.")
    if kept:
        raise BookDamaged(f"There is a book of entry {min(kept)}, which opened none.")


def _check_releases(connection: Connection, replay: _Replay) -> None:
    """Every stored release against its digest in the book."""
    entered = dict(replay.releases)
    for number, question, dataset, text in connection.execute(
        "SELECT entry, question, dataset, release FROM releases ORDER BY entry"
    ):
        entry = entered.pop(number, None)
        if entry is None:
            raise BookDamaged(f"A stored release claims entry {number}, which entered none.")
        key = question_key(entry.dataset, canonical_json(entry.query))
        if (dataset, question, digest(text)) != (entry.dataset, key, entry.digest):
            raise BookDamaged(f"The stored release of entry {number} was changed.")
    if entered:
        raise BookDamaged(f"The stored release of entry {min(entered)} was removed.")
