"""How a question is answered: price, charge, look, store, answer, always in that order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from privod.curator import work
from privod.curator.publication import (
    NOT_STORED,
    GivenUp,
    Interrupted,
    Look,
    Published,
    found,
    publish,
    written,
)
from privod.curator.questions import Question, adapted, not_of_the_catalog
from privod.curator.results import NO_ANSWER
from privod.curator.rows import KeptRows, RowStore, Tables
from privod.curator.witnessed_ledger import WitnessedLedger
from privod.curator.work import PendingAnswer, State
from privod.engines.size import IN_MEMORY, SizeClass
from privod.errors import (
    AnswerFailed,
    InvalidData,
    InvalidParameter,
    NoPromise,
    NotFound,
    PrivodError,
    Unavailable,
)
from privod.ledger import chain as ledger
from privod.ledger import store
from privod.ledger.chain import Asked
from privod.ledger.database import Connection
from privod.ledger.prices import Price, price_of
from privod.ledger.store import DataSet, ReleaseText, Stored, short_text
from privod.query.query import Query
from privod.query.size import size_question, size_told

LEFT = "The charge of an earlier request stands, and its answer is begun again once they are there."


@dataclass(frozen=True)
class Asker:
    """Who asks, as the ledger shall say; a name for the request; the id of the token that asks."""

    name: str
    request_id: str | None
    token: str | None


class Asking:
    """Answers questions about the rows that a curator holds."""

    def __init__(self, witnessed: WitnessedLedger, rows: RowStore, tables: Tables) -> None:
        self._witnessed = witnessed
        self._database = witnessed.database
        self._rows = rows
        self._tables = tables
        self._failed: set[tuple[str, bytes]] = set()
        """Questions and keys that failed for good, and could not be erased yet."""

    def question(self, query: Query[Any], dataset: DataSet) -> Question:
        """The question as it is asked of a data set: noise "auto" becomes what it takes there."""
        if not isinstance(query, Query):
            raise not_of_the_catalog(query)
        if query.within("zcdp") is not query:
            with self._database.reading() as connection:
                query = adapted(query, ledger.budgets_of(connection, dataset.root))
        return Question(query, dataset, store.question_key(dataset.name, query.canonical))

    def price(self, query: Query[Any], dataset: DataSet, token: str | None) -> Price:
        """Say what a question would cost at most; what was charged and left costs nothing more."""
        question = self._checked(query, dataset)
        unprotected = question.query.not_protected()
        with self._database.reading() as connection:
            if store.has_release(connection, question.key):
                return Price((), affordable=True, already_answered=True)
            folder, seal = store.rows_in_use(connection, dataset.name)
            left = work.is_charged(connection, question.key)
            if not left:
                self._check_size(question, folder, seal)
            size = self._tables.size(dataset.name, folder, seal) or SizeClass(IN_MEMORY)
            most = size.most_records
            known = self._told_size(connection, dataset)
            about: dict[str, Any] = {
                "about_seconds": question.query.work(dataset.domain, most) / 1e9,
                "usual_seconds": question.query.usual_work(dataset.domain, known or most) / 1e9,
                "most_records": most,
                "records": known,
            }
            try:
                due = question.charges_due(connection)
                found = price_of(due, unprotected, ledger.limits_of(connection, due, token))
            except (NoPromise, NotFound, InvalidParameter):
                if not left:
                    raise
                found = Price((), True, already_answered=False, not_protected=unprotected)
        if left and not found.affordable:
            found = replace(found, charges=(), affordable=True)
        return replace(found, **about, begun=left)

    def _told_size(self, connection: Connection, dataset: DataSet) -> int | None:
        """About how many records there are, where a noisy count of them was bought."""
        asked = size_question(dataset.domain)
        if asked is None:
            return None
        key = store.question_key(dataset.name, asked.canonical)
        stored = store.find_release(connection, key)
        return None if stored is None else size_told(stored.release.read(asked), dataset.domain)

    def check_budget(
        self, query: Query[Any], dataset: DataSet, request_id: str | None, token: str | None
    ) -> None:
        """Raise at once if asking would cost more than is left, unless it was paid already."""
        question = self._checked(query, dataset)
        with self._database.reading() as connection:
            paid = question.paid_before(connection, request_id)
            if not paid and not work.is_charged(connection, question.key):
                self._check_size(question, *store.where_rows_are(connection, dataset.name))
                due = question.charges_due(connection)
                rows = question.rows_per_person
                ledger.check_left(connection, dataset.name, due, token, rows)

    def state(self, query: Query[Any], dataset: DataSet, request_id: str | None = None) -> State:
        """How far the answer to a question has come; charged by anybody, if no id is given."""
        question = self._checked(query, dataset)
        with self._database.lookup() as connection:
            return question.state(connection, request_id)

    def ask(
        self,
        query: Query[Any],
        dataset: DataSet,
        asker: Asker,
        wait_for_release_time: Callable[[], None] = lambda: None,
        look: Look | None = None,
        go_on: Callable[[], None] = lambda: None,
    ) -> Published:
        """Answer a question, at the price that `price` says.

        `look` looks at the rows once the charge is on disk, by default in this process; it gets a
        key for its noise, from which a later one can answer alike. Then, before anything of it is
        stored or shown, a server waits for a release time: no moment in the ledger tells exactly
        how long that took. `go_on` is called when nobody else answers the same question any more,
        before it is charged or begun again: what it raises ends the asking, and nothing was charged
        or begun by it.
        """
        short_text(asker.name, "asked_by")
        if asker.request_id is not None:
            short_text(asker.request_id, "request_id")
        question = self.question(query, dataset)
        with self._database.lookup() as connection:
            paid = question.paid_before(connection, asker.request_id)
            stored = store.find_release(connection, question.key)
        if stored is None:
            answer = self._answer(question, asker, paid, wait_for_release_time, look, go_on)
            if isinstance(answer, Published):
                return answer
            stored = answer
        self._witnessed.ensure_durable(stored)
        return Published(question.query, stored.release, (), True, str(stored.head))

    def _answer(
        self,
        question: Question,
        asker: Asker,
        paid: bool,
        wait_for_release_time: Callable[[], None],
        look: Look | None,
        go_on: Callable[[], None],
    ) -> Published | Stored:
        """Charge a question, look at the rows and store the answer; or find it stored meanwhile."""
        question.check()
        with self._database.reading() as connection:
            left = work.is_charged(connection, question.key)
            folder, seal = store.rows_in_use(connection, question.dataset.name)
        if left or not paid:
            self._check_rows(question, folder, seal, left=left)
        # Whoever asks the same at the same time waits here, and then finds the release stored.
        with self._database.alone(question.key):
            go_on()
            begun = self._begin(question, asker, again=look is not None)  # where it may be lost
            if isinstance(begun, Stored):
                return begun
            if begun is None:
                raise AnswerFailed(NO_ANSWER)
            # From here on the charge is on disk and stands.
            with self._failing_for_good(question, begun, asker):
                try:
                    rows = self._rows.kept(folder, seal, question.dataset.domain)
                    looked_up = found(question, rows, look or self._look, begun.key)
                finally:
                    wait_for_release_time()
                answer = publish(self._witnessed, question, looked_up, begun, asker.name)
            if begun.request == asker.request_id:
                return answer
            return replace(answer, charges=(), stored=True)  # somebody else paid for it

    def _checked(self, query: Query[Any], dataset: DataSet) -> Question:
        question = self.question(query, dataset)
        question.check()
        return question

    def _check_rows(self, question: Question, folder: str, seal: str, *, left: bool) -> None:
        """Refuse, before anything is charged, what could not be answered here."""
        of, charged = question.dataset.name, LEFT if left else "Nothing was charged."
        if not self._rows.can_be_read(folder):
            raise Unavailable(
                f"The rows of {of!r} are not in {str(self._witnessed.directory)!r}. {charged}"
                " Restore them from a backup, or open the directory that holds them."
            )
        if not left:
            self._check_size(question, folder, seal)
        try:
            self._rows.check(folder, seal, engine=not left)
        except InvalidData:
            raise Unavailable(
                f"The rows of {of!r} are not where they were registered, or were changed. {charged}"
                " Their owner restores them, or registers those there are now as a version"
                " (--continues)."
            ) from None

    def _check_size(self, question: Question, folder: str, seal: str) -> None:
        """Refuse what cannot be held at once, by what was declared and never by the rows."""
        size = self._tables.size(question.dataset.name, folder, seal)
        if size is not None:
            size.refuse_larger(question.query.held_per_record(question.dataset.domain))

    def _begin(
        self, question: Question, asker: Asker, *, again: bool
    ) -> PendingAnswer | Stored | None:
        """Charge a question in one transaction, or go on with one that was left.

        Or the release that somebody else paid for meanwhile; None if this request has failed. What
        is charged now can be begun `again` if whoever looks at the rows is lost.
        """
        of = question.dataset.name
        with self._database.writing() as connection:
            self._erase_failed(connection)
            stored = store.find_release(connection, question.key)
            if stored is not None:
                return stored
            begun = work.begin_again(connection, question.key)
            if begun is None and question.paid_before(connection, asker.request_id):
                return None  # and no error, which would undo that a key is erased
            store.rows_in_use(connection, of)  # it may have been retired while this waited
            self._witnessed.check_may_charge(connection)
            if begun is not None:
                return begun
            due = question.charges_due(connection)
            asked = Asked(
                *(of, question.query.canonical, asker.name, asker.request_id, asker.token),
                question.rows_per_person,
            )
            charges = ledger.charge(connection, asked, due)
            if not again:
                return PendingAnswer(charges, asker.request_id)
            return work.begin(connection, question.key, charges, asker.request_id)

    @contextmanager
    def _failing_for_good(
        self, question: Question, begun: PendingAnswer, asker: Asker
    ) -> Iterator[None]:
        """Never begin again what failed by itself, nor what was given up by all who paid for it."""
        try:
            yield
        except GivenUp:
            with suppress(PrivodError), self._database.writing() as connection:
                of, own = question.dataset.name, begun.request == asker.request_id
                asked = question.query.canonical
                jobs = work.waiting_for(connection, of, asked, begun.request)
                if jobs <= own and begun.key is not None:  # but for the one that gave it up
                    work.erase(connection, question.key, begun.key)
            raise
        except AnswerFailed:
            if begun.key is not None:
                self._failed.add((question.key, begun.key))
                self._check_erased(question)
            raise

    def _check_erased(self, question: Question) -> None:
        """Let no failure be told while it may be begun again, or beside an answer.

        Another server process has stored one if this one had lost its lock.
        """
        try:
            self.erase_failed()
            with self._database.lookup() as connection:
                stored = store.has_release(connection, question.key)
        except PrivodError as problem:
            raise Interrupted(NOT_STORED) from problem
        if stored:
            raise Interrupted(NOT_STORED)

    def erase_failed(self) -> None:
        """Erase the keys of answers that failed for good while the database was away."""
        if self._failed:
            with self._database.writing() as connection:
                done = self._erase_failed(connection)
            self._failed -= done

    def _erase_failed(self, connection: Connection) -> set[tuple[str, bytes]]:
        failed = set(self._failed)
        for question, key in failed:
            work.erase(connection, question, key)
        return failed

    def _look(self, question: Question, rows: KeptRows, key: bytes | None) -> ReleaseText:
        query = question.query
        release = query.answer(self._tables.of(rows), rows.noise(key, query))
        return written(query, question.rows_per_person, release)
