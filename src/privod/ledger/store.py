"""What is kept beside the chain: the public record of each data set, and every release."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from privod.data import Domain
from privod.errors import InvalidParameter, LedgerDamaged, NotFound
from privod.ledger.chain import adjacency_of, append, digest, loss_of
from privod.ledger.database import Connection
from privod.ledger.witness import Head
from privod.privacy.guarantee import ROWS, Guarantee
from privod.query.catalog import query_from_json
from privod.query.query import Query, Release, canonical_json
from privod.texts import LONGEST_NAME, did_you_mean


@dataclass(frozen=True)
class DataSet:
    """A registered data set; everything here is public.

    It `continues` another one about the same people, whose budgets it shares; `root` is the first
    of these, which holds them. `retired`: its rows had been deleted for good when
    this was read.
    """

    name: str
    domain: Domain
    registered: str
    continues: str | None
    root: str
    retired: bool = False


def short_text(value: object, name: str) -> str:
    """Read a short printable text that names something."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME or not value.isprintable():
        rule = f"must be a printable text of 1 to {LONGEST_NAME} characters"
        raise InvalidParameter(name, rule, value, "Try 'patients-2026'.")
    return value


def enter_dataset(connection: Connection, dataset: DataSet, folder: str, seal: str) -> None:
    """Enter a registration in the ledger and beside it."""
    domain = canonical_json(dataset.domain.to_json())
    public = registration_digest(domain, dataset.continues, dataset.root, dataset.registered, seal)
    number = append(connection, kind="register", dataset=dataset.name, digest=public)
    connection.execute(
        "INSERT INTO datasets (name, entry, root, continues, domain, registered, folder, seal)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        dataset.name,
        number,
        dataset.root,
        dataset.continues,
        domain,
        dataset.registered,
        folder,
        seal,
    )


def registration_digest(
    domain: str, continues: str | None, root: str, registered: str, seal: str
) -> str:
    """What the chain holds of a registration."""
    return digest(canonical_json([domain, continues, root, registered, seal]))


def read_datasets(connection: Connection) -> list[DataSet]:
    """Every registered data set, in the order of registration."""
    rows = connection.execute(
        "SELECT name, domain, registered, continues, root, retired FROM datasets ORDER BY entry"
    )
    return [_dataset(row) for row in rows]


def versions_of(connection: Connection, root: str) -> dict[str, Domain]:
    """The versions of a data set, with what is public about each."""
    datasets = read_datasets(connection)
    return {dataset.name: dataset.domain for dataset in datasets if dataset.root == root}


def find_dataset(connection: Connection, name: str) -> DataSet:
    """The data set of this name."""
    rows = connection.execute(
        "SELECT name, domain, registered, continues, root, retired FROM datasets WHERE name = ?",
        name,
    )
    if not rows:
        known = [one for (one,) in connection.execute("SELECT name FROM datasets")]
        near = did_you_mean(name, known)
        raise NotFound(f"There is no data set {name!r}.{near} List them (`datasets`).")
    return _dataset(rows[0])


def _dataset(row: tuple[Any, ...]) -> DataSet:
    name, domain, registered, continues, root, retired = row
    return DataSet(name, _domain(domain), registered, continues, root, retired is not None)


@lru_cache(maxsize=64)
def _domain(text: str) -> Domain:
    return Domain.from_json(json.loads(text))


def where_rows_are(connection: Connection, dataset: str) -> tuple[str, str]:
    """The folder and the seal of a data set's rows."""
    rows = connection.execute("SELECT folder, seal FROM datasets WHERE name = ?", dataset)
    folder, seal = rows[0]
    return folder, seal


def rows_in_use(connection: Connection, dataset: str) -> tuple[str, str]:
    """The same of rows that may be asked: those of a retired data set are deleted."""
    rows = connection.execute("SELECT folder, seal, retired FROM datasets WHERE name = ?", dataset)
    folder, seal, retired = rows[0]
    if retired is not None:
        raise NotFound(f"{dataset!r} was retired: its rows are deleted. Stored answers stay free.")
    return folder, seal


def question_key(dataset: str, query: str) -> str:
    """One key for one question about one data set."""
    return digest(canonical_json({"dataset": dataset, "query": query}))


def enter_release(
    connection: Connection, dataset: str, query: str, release: str, ask: int, asked_by: str
) -> None:
    """Enter an answer; there is never a second one to the same question about the same data.

    It carries the time of its charge: how long it took may depend on the rows.
    """
    number = append(
        connection,
        time=connection.execute("SELECT time FROM entries WHERE number = ?", ask)[0][0],
        kind="release",
        dataset=dataset,
        query=query,
        asked_by=asked_by,
        ask=ask,
        digest=digest(release),
    )
    connection.execute(
        "INSERT INTO releases (entry, question, dataset, release) VALUES (?, ?, ?, ?)",
        number,
        question_key(dataset, query),
        dataset,
        release,
    )


@dataclass(frozen=True)
class ReleaseText:
    """A release as it is stored; it is read only where its value is wanted."""

    text: str
    release: Release[Any] | None = field(default=None, repr=False)
    """The same, where this process made it."""

    def read(self, asked: Query[Any] | None = None) -> Release[Any]:
        """The release; whoever `asked` for it knows the question that it answers.

        What it promised was held against its question before it was entered, and none is seeded.
        """
        if self.release is not None:
            return self.release
        data = json.loads(self.text)
        query, promise = asked or query_from_json(data["query"]), data["guarantee"]
        if canonical_json(data["query"]) != query.canonical:
            raise LedgerDamaged("A stored release answers another question than it was found by.")
        loss, adjacency = promise["loss"], canonical_json(promise["adjacency"])
        lost = loss_of(loss["epsilon"], loss["delta"])
        guarantee = Guarantee(lost, adjacency_of(adjacency), promise.get(ROWS, 1))
        return Release(query, query.value_from_json(data["value"]), guarantee, seeded=False)


class Stored(NamedTuple):
    """A stored answer, the entry that holds it, and where the ledger ended when it was found."""

    release: ReleaseText
    entry: int
    head: Head


def find_release(connection: Connection, question: str) -> Stored | None:
    """The stored answer to a question, as the ledger says it was."""
    rows = connection.execute(
        "SELECT r.entry, r.release, e.digest, h.length, h.hash FROM head h, releases r"
        " LEFT JOIN entries e ON e.number = r.entry WHERE r.question = ?",
        question,
    )
    if not rows:
        return None
    entry, text, entered, length, last = rows[0]
    if digest(text) != entered:
        raise LedgerDamaged(f"The stored release of entry {entry} is not the one that was entered.")
    return Stored(ReleaseText(text), entry, Head(length, last))


def has_release(connection: Connection, question: str) -> bool:
    """Whether a question has a stored answer."""
    return bool(connection.execute("SELECT 1 FROM releases WHERE question = ?", question))


def find_releases(connection: Connection, dataset: str) -> list[Stored]:
    """Every stored answer about a data set, in the order they were given."""
    keys = connection.execute(
        "SELECT question FROM releases WHERE dataset = ? ORDER BY entry", dataset
    )
    return list(filter(None, (find_release(connection, key) for (key,) in keys)))
