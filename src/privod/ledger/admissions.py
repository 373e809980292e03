"""About whom may be asked in which contexts they stand out: the list that an owner publishes.

The list is made without looking at the rows, and whether a person is among them is never checked: a
table with and one without that person have the same contexts, so a check would tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from privod.errors import NoPromise
from privod.ledger.chain import Due, Entry, read_entries
from privod.ledger.database import Connection
from privod.privacy import Adjacency, AdmittedContexts, SameContexts

__all__ = ["admitted", "admitted_by", "check_admitted"]


def admitted_by(entries: Sequence[Entry]) -> list[SameContexts]:
    """Whom these entries admitted, in order."""
    found = [entry.adjacency for entry in entries if entry.kind == "admit"]
    return [adjacency for adjacency in found if isinstance(adjacency, SameContexts)]


def admitted(connection: Connection, root: str) -> list[SameContexts]:
    """The persons about whom may be asked, each with a detector and a column."""
    names = connection.execute("SELECT name FROM datasets WHERE root = ?", root)
    return admitted_by(read_entries(connection, [str(name) for (name,) in names]))


def check_admitted(
    connection: Connection, root: str, asked: Adjacency, dues: Sequence[Due]
) -> None:
    """Refuse a question about a person whom the owner did not admit."""
    if not isinstance(asked, SameContexts):
        return
    by_list = [state for state, _ in dues if isinstance(state.adjacency, AdmittedContexts)]
    if by_list and asked not in admitted(connection, root):
        raise NoPromise(
            "Questions about contexts may be asked only about persons whom the owner admitted, with"
            " this detector and column. Request that this person is admitted."
        )
