"""Verify a ledger: recompute every hash, price, sum, seal and digest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Protocol

from privod.errors import LedgerDamaged, PrivodError
from privod.ledger import chain as ledger
from privod.ledger import store
from privod.ledger.admissions import ExactCounts, is_admitted
from privod.ledger.budget_state import BudgetState
from privod.ledger.chain import FIELDS, Entry, digest, token_id
from privod.ledger.database import Connection, Database
from privod.ledger.prices import (
    ELSEWHERE,
    begun_with,
    costs_before,
    divided_charges,
    shares_charge,
    statements_of,
)
from privod.ledger.replay import (
    Replay,
    as_of,
    begun_late,
    conversion_delta,
    cost_of,
    never_entered,
    replayed,
)
from privod.ledger.values import Verification
from privod.ledger.witness import Head, Witnesses
from privod.privacy import AdmittedContexts, Cost, Loss, SameContexts, Zcdp
from privod.progress import track
from privod.query.catalog import known_kind, release_from_json
from privod.query.query import canonical_json


class SealedRows(Protocol):
    """The rows that the ledger holds seals of."""

    def has(self, name: str) -> bool:
        """Whether the rows are here at all."""

    def seal(self, name: str) -> str:
        """Compute the seal of the rows as they are now."""


def verify(
    database: Database, rows: SealedRows, expected_head: str | None, witnesses: Witnesses
) -> Verification:
    """Recompute everything; raise `LedgerDamaged` naming the first entry that is wrong."""
    wanted = None if expected_head is None else Head.read(expected_head.strip(), "expected_head")
    findings = database.check_file()
    if findings:
        raise LedgerDamaged(f"The database file is damaged: {findings}. Restore it from a backup.")
    seen = witnesses.read()
    with database.reading() as connection:
        entries = _check_chain(connection)
        if wanted is not None:
            _check_noted(entries, wanted.number, wanted.hash)
        without_rows = _check_datasets(connection, entries, rows)
        replay = replayed(store.read_datasets(connection), entries)
        _check_prices(replay)
        _check_sums(connection, replay)
        _check_releases(connection, replay)
        _check_tokens(connection, entries)
        _check_limits(connection, entries)
        witnesses.check(connection, seen)
        length, last = ledger.read_head(connection)
        is_copy = bool(connection.execute("SELECT backup FROM head")[0][0])
    return Verification(
        head=f"{length}:{last}",
        entries=length,
        questions=len(replay.asks),
        releases=len(replay.releases),
        datasets=len(replay.datasets),
        without_rows=without_rows,
        is_copy=is_copy,
        restored=tuple(entry.number for entry in entries if entry.kind == "restored"),
    )


def _priced(entry: Entry) -> bool:
    """Whether this version can price what was asked."""
    query = entry.query or {}
    return query.get("name") == ELSEWHERE or known_kind(query) is not None


def _check_chain(connection: Connection) -> list[Entry]:
    entries: list[Entry] = []
    previous = ""
    for row in ledger.read_rows(connection):
        due = len(entries) + 1
        number, before, own = row[0], row[len(FIELDS) - 1], row[len(FIELDS)]
        if isinstance(number, int) and number > due:
            raise LedgerDamaged(f"Entry {due} was removed.")
        if number != due:
            raise LedgerDamaged(f"Entry {number!r} was inserted.")
        if _hash(row[: len(FIELDS)], row[len(FIELDS) + 1 :]) != own:
            raise LedgerDamaged(f"Entry {number} was changed.")
        if before != previous:
            raise LedgerDamaged(
                f"Entry {number} does not follow entry {number - 1}: one of the two was put there"
                " in place of another."
            )
        try:
            entry = Entry.from_row(row)
        except (PrivodError, ValueError, TypeError, AttributeError):
            raise never_entered(row[0]) from None
        if not isinstance(entry.query, dict | None):
            raise never_entered(row[0])
        entries.append(entry)
        previous = own
    length, last = ledger.read_head(connection)
    if length > len(entries):
        raise LedgerDamaged(f"Entry {len(entries) + 1} and what followed it were removed.")
    if length < len(entries):
        raise LedgerDamaged(f"Entry {length + 1} was inserted at the end.")
    if last != previous:
        raise LedgerDamaged(f"Entry {length} is not the one that the ledger ended in.")
    return entries


def _hash(fields: Sequence[Any], later: Sequence[Any]) -> str | None:
    try:
        return ledger.entry_hash(fields, later)
    except (TypeError, ValueError):
        return None  # not even of a type that an entry can have


def _check_noted(entries: list[Entry], length: int, last: str) -> None:
    if length > len(entries):
        raise LedgerDamaged(
            f"The ledger ends with entry {len(entries)} and had {length} when its head was noted:"
            " it was cut off, or restored from an old backup."
        )
    if length and entries[length - 1].hash != last:
        raise LedgerDamaged(f"Entry {length} is not the one noted: the ledger was rewritten.")


def _check_datasets(
    connection: Connection, entries: list[Entry], rows: SealedRows
) -> tuple[str, ...]:
    """The records of data sets against their registrations, and rows against their seals."""
    entered = {entry.number: entry for entry in entries if entry.kind == "register"}
    absent = []
    retired = {entry.dataset: entry.number for entry in entries if entry.kind == "retire"}
    public = "domain, continues, root, registered, seal"
    found = connection.execute(
        f"SELECT name, entry, folder, retired, {public} FROM datasets ORDER BY entry"  # noqa: S608 - names from above
    )
    for name, number, folder, ended, *told in found:
        entry, seal = entered.pop(number, None), told[-1]
        public = store.registration_digest(*told)
        if entry is None or (entry.dataset, entry.digest) != (name, public):
            raise LedgerDamaged(f"The record of {name!r} is not the one of entry {number}.")
        if ended != retired.get(name):
            raise LedgerDamaged(f"Whether {name!r} was retired is not what the entries say.")
        if ended is not None:
            continue  # its rows are deleted
        if not rows.has(folder):
            absent.append(name)
        elif _seal(rows, folder) != seal:
            raise LedgerDamaged(f"The rows of {name!r} are not those registered in entry {number}.")
    if entered:
        raise LedgerDamaged(f"The record of the data set of entry {min(entered)} was removed.")
    return tuple(absent)


def _seal(rows: SealedRows, folder: str) -> str | None:
    try:
        return rows.seal(folder)
    except OSError:
        return None  # what cannot be read is not what was registered


def _check_prices(replay: Replay) -> None:
    """Every question was charged what it costs, to every budget that was open and concerned."""
    paid_for: set[tuple[str, str]] = set()
    for ask, entries in track(replay.asks.items(), "checking charges"):
        first = entries[0]
        if first.number != ask or first.query is None:
            raise never_entered(first.number)
        if not _priced(first):
            continue  # a question that another version of privod knows, and can price
        dataset = replay.datasets[first.dataset]
        cap = dataset.domain.max_rows_per_person
        try:
            statements = statements_of(first.query, dataset.domain)
        except (PrivodError, KeyError, TypeError):
            raise never_entered(ask) from None
        budgets = [state for state in replay.budgets.values() if state.dataset == dataset.root]
        opened = [state for state in (as_of(state, ask) for state in budgets) if state is not None]
        due = {state.number: cost for state, cost in divided_charges(statements, opened, cap)[0]}
        if shares_charge(first, paid_for):
            due = dict.fromkeys(due, Cost(Loss(0), Zcdp(Fraction(0))))
        if not _same(due, {entry.budget: cost_of(entry) for entry in entries}, replay):
            raise LedgerDamaged(f"Entry {ask} does not charge what its question costs.")
        asked, admitted = statements[0].adjacency, replay.admitted.get(dataset.root, [])
        by_list = any(isinstance(replay.budgets[one].adjacency, AdmittedContexts) for one in due)
        then = [person for number, person in admitted if number < ask]
        if by_list and isinstance(asked, SameContexts) and not is_admitted(asked, then):
            raise LedgerDamaged(f"Entry {ask} asks about a person who had not been admitted.")
    _check_carried(replay)
    _check_exact_counts(replay)


def _check_exact_counts(replay: Replay) -> None:
    """No question told more counts exactly than were allowed when it was asked."""
    domains = {name: dataset.domain for name, dataset in replay.datasets.items()}
    found = ExactCounts()
    for entry in replay.seen:
        if not found.follow(entry, domains):
            raise LedgerDamaged(f"Entry {entry.number} tells counts exactly without permission.")


def _same(due: dict[int, Cost], paid: dict[int | None, Cost], replay: Replay) -> bool:
    """Whether each budget was charged what is due, in the currency that it counts."""
    if due.keys() != paid.keys():
        return False
    plain = {number for number in due if replay.budgets[number].zcdp is None}
    return all(
        due[number].loss == paid[number].loss
        and (number in plain or due[number].zcdp == paid[number].zcdp)
        for number in due
    )


def _check_carried(replay: Replay) -> None:
    """A budget opened late began with what earlier questions cost under it."""
    carried = {entry.budget: entry for entry in replay.seen if entry.kind == "carry"}
    for number, state in replay.budgets.items():
        if state.role == "allowance":
            continue  # counted beside the main budget, from its own first question on
        domains = {
            name: dataset.domain
            for name, dataset in replay.datasets.items()
            if dataset.root == state.dataset
        }
        earlier = [
            entry
            for entry in replay.seen[: number - 1]
            if entry.kind == "charge" and entry.dataset in domains and entry.query
        ]
        priced = [entry for entry in earlier if _priced(entry)]
        costs = costs_before(priced, domains, state.adjacency, state.zcdp is not None)
        if costs is None:
            raise never_entered(number)
        empty = replace(_opened(replay, number), spent=Loss(0), spent_rho=Fraction(0), adding=True)
        due, _ = begun_with(empty, costs)
        entry = carried.get(number)
        begun = empty if entry is None else begun_late(empty, entry) or empty
        # Another version of privod may have carried more, for questions that only it can price.
        other = len(priced) < len(earlier) and due.spent <= begun.spent
        if begun.concentrated != due.concentrated and not other:
            raise LedgerDamaged(f"The ledger of entry {number} does not begin with what was spent.")


def _opened(replay: Replay, number: int) -> BudgetState:
    """A budget as it was opened, before it was raised."""
    state, entry = replay.budgets[number], replay.seen[number - 1]
    assert entry.loss is not None  # noqa: S101 - a budget was opened by it
    return replace(state, budget=entry.loss, conversion_delta=conversion_delta(entry))


def _check_sums(connection: Connection, replay: Replay) -> None:
    """The running sums, by which charges are refused, against the sums of the entries."""
    kept = {
        row[0]: row[1:]
        for row in connection.execute(
            "SELECT number, root, adjacency, role, closed, adding, conversion_delta,"
            " budget_epsilon, budget_delta, spent_epsilon, spent_delta, spent_rho FROM budgets"
        )
    }
    for number, state in replay.budgets.items():
        limit, spent, conversion = state.budget, state.spent, state.conversion_delta
        sums = (limit.epsilon, limit.delta, spent.epsilon, spent.delta, state.spent_rho)
        adjacency = canonical_json(state.adjacency.to_json())
        due = (state.dataset, adjacency, state.role, state.closed)
        counted = (int(state.adding), None if conversion is None else str(conversion))
        if kept.pop(number, None) != (*due, *counted, *(str(part) for part in sums)):
            raise LedgerDamaged(f"The running sum of entry {number} is not its charges'.")
    if kept:
        raise LedgerDamaged(f"There is a budget of entry {min(kept)}, which opened none.")


def _check_releases(connection: Connection, replay: Replay) -> None:
    """Every stored release against its digest in the ledger, and its promise against its noise."""
    for key, entry in replay.releases.items():
        rows = connection.execute(
            "SELECT question, dataset, release FROM releases WHERE entry = ?", entry.number
        )
        if not rows:
            raise LedgerDamaged(f"The stored release of entry {entry.number} was removed.")
        question, dataset, text = rows[0]
        if (question, dataset, digest(text)) != (key, entry.dataset, entry.digest):
            raise LedgerDamaged(f"The stored release of entry {entry.number} was changed.")
        if _priced(entry):
            rows_per_person = replay.datasets[dataset].domain.max_rows_per_person
            try:
                made = release_from_json(json.loads(text))
            except (PrivodError, ValueError, KeyError, TypeError):
                raise never_entered(entry.number) from None
            if made.seeded or made.guarantee.rows_per_person != rows_per_person:
                raise never_entered(entry.number)
    stored = connection.execute("SELECT COUNT(*) FROM releases")[0][0]
    if stored != len(replay.releases):
        raise LedgerDamaged("A release is stored that no entry of the ledger knows.")


def _check_tokens(connection: Connection, entries: list[Entry]) -> None:
    """Who may come in is who was let in by an entry, and was not shut out by a later one."""
    entered: dict[str, tuple[Any, ...]] = {}
    revoked = set()
    for entry in entries:
        details = entry.details or {}
        if entry.kind == "token" and entry.token:
            public = details.get("role"), details.get("name"), details.get("expires")
            entered[entry.token] = (entry.dataset or None, *public)
        elif entry.kind == "revoke":
            revoked.add(entry.token)
    for hashed, role, dataset, name, ended, expires in connection.execute(
        "SELECT hash, role, dataset, name, revoked, expires FROM tokens"
    ):
        short = token_id(str(hashed))
        if entered.get(short) != (dataset, role, name, expires):
            raise LedgerDamaged(f"The token {short} is not as the ledger says it was made.")
        if (ended is not None) != (short in revoked):
            raise LedgerDamaged(f"Whether the token {short} was revoked is not what entries say.")


def _check_limits(connection: Connection, entries: list[Entry]) -> None:
    """The limits of tokens against the latest entries about them."""
    due = {}
    for entry in entries:
        if entry.kind == "limit" and entry.details is not None:
            limit = Loss.from_json(entry.details["limit"])
            due[entry.budget, entry.details["token"]] = (str(limit.epsilon), str(limit.delta))
    rows = connection.execute("SELECT budget, token, epsilon, delta FROM token_limits")
    if {(budget, token): (epsilon, delta) for budget, token, epsilon, delta in rows} != due:
        raise LedgerDamaged("The limits of tokens are not those that were entered.")
