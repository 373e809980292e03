"""The one door: price, charge, look, store, answer; in that order, always."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from privod.curator import ledger, store
from privod.curator.database import Connection, Database, open_database
from privod.curator.ledger import BookState, Charge, Entry, Head
from privod.curator.rows import RowStore
from privod.curator.schema import bring_up_to_date
from privod.curator.store import DataSet, short_text
from privod.curator.tokens import TokenStore
from privod.curator.verification import Verification, verify
from privod.data import Domain, Table
from privod.data.sources import read
from privod.errors import (
    AlreadyExists,
    AnswerFailed,
    InvalidParameter,
    NeedsConfirmation,
    NoPromise,
    NotFound,
    SeededRelease,
    Unavailable,
)
from privod.mechanisms import secure
from privod.privacy import AddRemove, Adjacency, Guarantee, Loss
from privod.queries.catalog import query_from_json
from privod.queries.query import Query, Release, canonical_json

__all__ = ["Answer", "Curator", "Price", "PricedCharge"]

NO_ANSWER = (
    "The question was charged and no answer came. The charge stands, whatever the reason;"
    " asking again is a new question with a new charge."
)
TABLES_KEPT = 2  # tables held in memory between questions


@dataclass(frozen=True)
class PricedCharge:
    """What a question would cost one book, and what would be left there; None if too much."""

    adjacency: Adjacency
    loss: Loss
    left: Loss | None


@dataclass(frozen=True)
class Price:
    """What a question would cost; nothing was looked at and nothing was charged.

    `charges` is empty when the question is already answered: the stored release costs nothing.
    """

    charges: tuple[PricedCharge, ...]
    affordable: bool
    already_answered: bool


@dataclass(frozen=True)
class Answer:
    """A release and what it cost.

    `stored` says that the release was there already and nothing was charged this time.
    """

    release: Release[Any]
    charges: tuple[Charge, ...]
    stored: bool


class Curator:
    """Holds private data, answers questions about it and keeps count.

    Guarantee
    ---------
    Every answer was charged, durably and before the rows were looked at, to every open book under
    whose adjacency its promise holds, and no book's charges ever add up to more than its budget,
    however many threads, processes and hosts ask, and wherever any of them is killed.
    """

    def __init__(self, directory: Path, database: Database) -> None:
        self.tokens = TokenStore(database)
        self.directory = directory
        self.database = database
        self._rows = RowStore(directory / "rows")
        self._tables: OrderedDict[str, Table] = OrderedDict()
        self._tables_mutex = threading.Lock()
        bring_up_to_date(database)

    @classmethod
    def open(cls, location: str | Path, *, database: str | None = None) -> Self:
        """Open the curator that lives in a directory, or start one there.

        Parameters
        ----------
        location : path
            The directory that holds the rows and, unless `database` is given, the book.
        database : str, optional
            A postgresql:// URL of the database that holds the book.
        """
        directory = Path(location)
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as problem:
            raise Unavailable(
                f"The directory {str(directory)!r} cannot be used ({problem.strerror})."
                " Name a directory that you may write to."
            ) from None
        return cls(directory, open_database(directory, database))

    def close(self) -> None:
        """Close the connections to the database."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---- data sets and books -------------------------------------------------------------------

    def register(
        self, name: str, source: Any, domain: Domain, *, continues: str | None = None
    ) -> DataSet:
        """Take in rows for good.

        Parameters
        ----------
        name : str
            A new name; what it names never changes.
        source : path, frame or mapping
            Where the rows are: anything that `privod.data.sources.read` takes.
        domain : Domain
            What is public about them.
        continues : str, optional
            An earlier version about the same people; its books count for this one too.
        """
        short_text(name, "name")
        with self.database.reading() as connection:
            self._check_registration(connection, name, domain, continues)
        folder, seal = self._rows.keep(read(source, domain))
        try:
            with self.database.writing() as connection:
                root = self._check_registration(connection, name, domain, continues)
                dataset = DataSet(name, domain, ledger.now(), continues, root)
                store.enter_dataset(connection, dataset, folder, seal)
        except BaseException:
            self._rows.forget(folder)
            raise
        return dataset

    def _check_registration(
        self, connection: Connection, name: str, domain: Domain, continues: str | None
    ) -> str:
        known = {dataset.name: dataset for dataset in store.read_datasets(connection)}
        if name in known:
            raise AlreadyExists(
                f"There is a data set {name!r} already, and data sets never change."
                " Choose a new name, and say that it continues the earlier one."
            )
        if continues is None:
            return name
        if continues not in known:
            raise NotFound(f"There is no data set {continues!r} to continue.")
        root = known[continues].root
        for book in ledger.books_of(connection, root):
            _check_unit(book.adjacency, domain)
        return root

    def datasets(self) -> tuple[DataSet, ...]:
        """Every data set, in the order of registration."""
        with self.database.reading() as connection:
            return tuple(store.read_datasets(connection))

    def dataset(self, name: str) -> DataSet:
        """The data set of this name."""
        with self.database.reading() as connection:
            return store.find_dataset(connection, name)

    def open_book(
        self, of: str, adjacency: Adjacency, budget: Loss, *, confirmed: bool = False
    ) -> BookState:
        """Allow questions about a data set, and all versions of it, up to a budget, for good.

        What was asked before under a wider adjacency counts from the start. Where opening the book
        gives up a part of the promise, the owner must confirm it.
        """
        if budget.epsilon <= 0 or budget.delta >= 1:
            rule = "must have an epsilon above 0 and a delta below 1"
            raise InvalidParameter("budget", rule, str(budget), "Try Loss('1').")
        with self.database.writing() as connection:
            dataset = store.find_dataset(connection, of)
            versions = _versions(connection, dataset.root)
            for version in versions.values():
                _check_unit(adjacency, version.domain)
            books = ledger.books_of(connection, dataset.root)
            if any(book.adjacency == adjacency for book in books):
                raise AlreadyExists(
                    f"{of!r} has a book under {adjacency.name} already, and budgets never change."
                )
            gives_up = _gives_up(adjacency, books)
            if gives_up and not confirmed:
                raise NeedsConfirmation(f"{gives_up} Confirm it to open the book.")
            carry = self._spent_before(connection, versions, adjacency)
            if not carry <= budget:
                way_out = f"Earlier questions cost {carry} under it already."
                rule = "must cover what is spent already"
                raise InvalidParameter("budget", rule, str(budget), way_out)
            number = ledger.enter_book(connection, of, dataset.root, adjacency, budget, carry)
        return BookState(number, dataset.root, adjacency, budget, carry)

    def _spent_before(
        self, connection: Connection, versions: dict[str, DataSet], adjacency: Adjacency
    ) -> Loss:
        """What the questions asked so far cost under an adjacency whose book opens now."""
        spent = Loss(Fraction(0))
        for entry in ledger.read_entries(connection, versions):
            if entry.kind == "charge" and entry.ask == entry.number and entry.query is not None:
                guarantee = query_from_json(entry.query).guarantee()
                cap = versions[entry.dataset].domain.max_rows_per_person
                spent += ledger.loss_towards(adjacency, guarantee, cap) or Loss(Fraction(0))
        return spent

    # ---- asking --------------------------------------------------------------------------------

    def price(self, query: Query[Any], of: str) -> Price:
        """Say what a question would cost, without looking and without charging."""
        with self.database.reading() as connection:
            _, costs, stored = self._look_up(connection, query, of)
        if stored is not None:
            return Price((), affordable=True, already_answered=True)
        charges = []
        for book, loss in costs:
            after = book.spent + loss
            left = replace(book, spent=after).left if after <= book.budget else None
            charges.append(PricedCharge(book.adjacency, loss, left))
        affordable = all(charge.left is not None for charge in charges)
        return Price(tuple(charges), affordable, already_answered=False)

    def ask(
        self,
        query: Query[Any],
        of: str,
        *,
        request_id: str | None = None,
        asked_by: str = "owner",
    ) -> Answer:
        """Answer a question, at the price that `price` says.

        Parameters
        ----------
        query : Query
            What is asked.
        of : str
            The data set's name.
        request_id : str, optional
            A name for this request, unique to it. Asking again under it never pays twice.
        asked_by : str
            Who asks, as the book shall say.
        """
        short_text(asked_by, "asked_by")
        if request_id is not None:
            short_text(request_id, "request_id")
        with self.database.reading() as connection:
            dataset, costs, stored = self._look_up(connection, query, of)
            paid = _paid_before(connection, request_id, query, of)
            folder, seal = store.where_rows_are(connection, of)
        if stored is not None:
            return Answer(stored, (), stored=True)
        if not paid and not self._rows.has(folder):
            raise Unavailable(
                f"The rows of {of!r} are not in {str(self.directory)!r}. Nothing was charged."
                " Restore them from a backup, or open the directory that holds them."
            )
        text = canonical_json(query.to_json())
        # Whoever asks the same at the same time waits here, and then finds the release stored.
        with self.database.alone(store.question_key(of, text)):
            with self.database.writing() as connection:
                dataset, costs, stored = self._look_up(connection, query, of)
                paid = _paid_before(connection, request_id, query, of)
                if stored is not None:
                    return Answer(stored, (), stored=True)
                if paid:
                    raise AnswerFailed(NO_ANSWER)
                charges = ledger.charge(connection, of, costs, text, asked_by, request_id)
            # From here on the charge is on disk and stands.
            release = self._answer(query, dataset, folder, seal)
            return self._publish(release, of, text, charges, asked_by)

    def _look_up(
        self, connection: Connection, query: Query[Any], of: str
    ) -> tuple[DataSet, Sequence[tuple[BookState, Loss]], Release[Any] | None]:
        """Check everything public; what it would cost, and the answer if there is one already."""
        if not isinstance(query, Query):
            way_out = "Build one from the catalog, such as Histogram(columns='age', epsilon=0.1)."
            raise InvalidParameter("query", "must be a question", type(query).__name__, way_out)
        dataset = store.find_dataset(connection, of)
        query.check(dataset.domain)
        guarantee = query.guarantee()
        if not isinstance(guarantee, Guarantee):
            raise NoPromise(
                f"{query.name} is asked between parties; a curator has no book for its promise."
            )
        key = store.question_key(of, canonical_json(query.to_json()))
        stored = store.find_release(connection, key)
        if stored is not None:
            return dataset, (), stored
        books = ledger.books_of(connection, dataset.root)
        if not books:
            raise NotFound(f"No book is open for {of!r}, so it answers nothing. Open a book first.")
        cap = dataset.domain.max_rows_per_person
        losses = [(book, ledger.loss_towards(book.adjacency, guarantee, cap)) for book in books]
        costs = [(book, loss) for book, loss in losses if loss is not None]
        if not costs:
            names = ", ".join(sorted({book.adjacency.name for book in books}))
            raise NoPromise(
                f"{query.name} promises under {guarantee.adjacency.name} here, and no open book of"
                f" {of!r} lies within it (open: {names}). Ask it under one of these, or open a book"
                f" under {guarantee.adjacency.name} with the same parameters."
            )
        return dataset, costs, None

    def _answer(self, query: Query[Any], dataset: DataSet, folder: str, seal: str) -> Release[Any]:
        failed = False
        try:
            release = query.answer(self._table(dataset, folder, seal), secure())
        except Exception:
            failed = True  # raised below, so that nothing that may quote a row hangs on it
        if failed or release.query != query or release.guarantee != query.guarantee():
            raise AnswerFailed(NO_ANSWER)
        return release

    def _table(self, dataset: DataSet, folder: str, seal: str) -> Table:
        with self._tables_mutex:
            table = self._tables.get(dataset.name)
            if table is None:
                table = self._rows.load(folder, seal, dataset.domain)
                self._tables[dataset.name] = table
                if len(self._tables) > TABLES_KEPT:
                    self._tables.popitem(last=False)
            self._tables.move_to_end(dataset.name)
        return table

    def _publish(
        self, release: Release[Any], of: str, text: str, charges: tuple[Charge, ...], asked_by: str
    ) -> Answer:
        """Store the release; only what is stored is ever shown."""
        failed = False
        try:
            with self.database.writing() as connection:
                stored = store.find_release(connection, store.question_key(of, text))
                if stored is not None:  # two charged after a lock was lost: the first one counts
                    return Answer(stored, charges, stored=False)
                store.enter_release(connection, of, text, release, charges[0].entry, asked_by)
        except SeededRelease:
            raise
        except Unavailable as problem:
            raise AnswerFailed(NO_ANSWER) from problem
        except Exception:
            failed = True
        if failed:
            raise AnswerFailed(NO_ANSWER)
        return Answer(release, charges, stored=False)

    # ---- reading the book ----------------------------------------------------------------------

    def budget(self, of: str) -> tuple[BookState, ...]:
        """The books that count for a data set, and what is left in each."""
        with self.database.reading() as connection:
            root = store.find_dataset(connection, of).root
            return tuple(
                replace(book, losses=ledger.losses_of(connection, book.number))
                for book in ledger.books_of(connection, root)
            )

    def history(self, of: str | None = None) -> tuple[Entry, ...]:
        """The entries of the book, about one data set and its versions or about all."""
        with self.database.reading() as connection:
            if of is None:
                return tuple(ledger.read_entries(connection))
            root = store.find_dataset(connection, of).root
            return tuple(ledger.read_entries(connection, _versions(connection, root)))

    def release(self, of: str, query: Query[Any]) -> Release[Any]:
        """The stored answer to a question."""
        key = store.question_key(of, canonical_json(query.to_json()))
        with self.database.reading() as connection:
            store.find_dataset(connection, of)
            release = store.find_release(connection, key)
        if release is None:
            raise NotFound(f"This question about {of!r} has no stored answer. Ask it.")
        return release

    def releases(self, of: str) -> tuple[Release[Any], ...]:
        """Every stored answer about a data set."""
        with self.database.reading() as connection:
            store.find_dataset(connection, of)
            return tuple(store.read_releases(connection, of))

    def head(self) -> Head:
        """How long the book is and what it ends in: note it elsewhere, to compare later."""
        with self.database.reading() as connection:
            return ledger.read_head(connection)

    def verify(self, expected_head: str | Head | None = None) -> Verification:
        """Recompute the whole book; raise `BookDamaged` naming the first entry that is wrong.

        Parameters
        ----------
        expected_head : str or Head, optional
            A head noted earlier and elsewhere; the book must still contain it. Without one, a book
            that was rewritten from its first entry on looks as good as new.
        """
        return verify(self.database, self._rows, expected_head)


def _versions(connection: Connection, root: str) -> dict[str, DataSet]:
    datasets = store.read_datasets(connection)
    return {dataset.name: dataset for dataset in datasets if dataset.root == root}


def _paid_before(
    connection: Connection, request_id: str | None, query: Query[Any], of: str
) -> bool:
    """Whether this request was charged already; it may not have been another question's."""
    if request_id is None:
        return False
    rows = connection.execute("SELECT dataset, query FROM entries WHERE request = ?", request_id)
    if rows and rows[0] != (of, canonical_json(query.to_json())):
        way_out = "Use a new id for a new question."
        raise InvalidParameter("request_id", "was used for another question", request_id, way_out)
    return bool(rows)


def _check_unit(adjacency: Adjacency, domain: Domain) -> None:
    """Only AddRemove stretches to persons with several rows (Guarantee.for_groups)."""
    if domain.max_rows_per_person > 1 and adjacency != AddRemove():
        rule = f"must be 1 where a book is open under {adjacency.name}"
        way_out = "Cap the rows per person at 1, or open a book under add-remove only."
        raise InvalidParameter("max_rows_per_person", rule, domain.max_rows_per_person, way_out)


def _gives_up(adjacency: Adjacency, books: Sequence[BookState]) -> str:
    """What opening this book beside these gives up, in sentences."""
    sentences = [adjacency.gives_up] if adjacency.gives_up else []
    others = [book.adjacency for book in books if adjacency.steps_of(book.adjacency) is None]
    if others:
        names = ", ".join(sorted({other.name for other in others}))
        sentences.append(
            f"Questions under {names}, whose books are open, may reveal more than this book counts"
            " about the records that they do not protect."
        )
    return " ".join(sentences)
