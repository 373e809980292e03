"""Checks of a registration: its name, its domain, and whose budgets it shares."""

from __future__ import annotations

from privod.curator.rows import RowStore
from privod.data import Domain
from privod.engines.in_place import Place
from privod.errors import AlreadyExists, InvalidParameter, NotFound
from privod.ledger import chain as ledger
from privod.ledger import store
from privod.ledger.acts import check_possible
from privod.ledger.database import Connection


def check_registration(
    connection: Connection,
    name: str,
    domain: Domain,
    continues: str | None,
    rows: RowStore,
    source: object,
) -> str:
    """Refuse what may not be registered; return the name of the one whose budgets it has."""
    known = {dataset.name: dataset for dataset in store.read_datasets(connection)}
    if name in known:
        raise AlreadyExists(
            f"There is a data set {name!r} already, and data sets never change."
            " Choose a new name, and say that it `continues` the earlier one."
        )
    if continues is not None and continues not in known:
        raise NotFound(f"There is no data set {continues!r} to continue.")
    root = name if continues is None else known[continues].root
    if isinstance(source, Place):
        _check_second_ledger(connection, rows, source, root)
    if continues is None:
        return root
    first = known[root].domain.person
    if domain.person != first:  # where a person turns into a row, no price helps
        rule = f"must be {'left out' if first is None else repr(first)}, as in {root!r}, whose"
        way_out = "What a budget protects, a row or a person, never changes: declare the same."
        raise InvalidParameter("person", f"{rule} budgets it shares", domain.person, way_out)
    for state in ledger.budgets_of(connection, root):
        if state.closed is None:
            check_possible(state.adjacency, {name: domain})
    return root


def _check_second_ledger(connection: Connection, rows: RowStore, place: Place, root: str) -> None:
    """Refuse rows in place under two budgets; versions and parts of a table share one ledger."""
    used = connection.execute("SELECT name, folder, root FROM datasets")  # retired ones, too
    names = [name for name, at, of in used if of != root and rows.parts(at) & place.parts]
    if names:
        raise AlreadyExists(
            f"This table, or a part of it, is registered in place as {names[0]!r}, with budgets of"
            f" its own. Versions and parts share them: let it continue {names[0]!r} (--continues)."
        )
