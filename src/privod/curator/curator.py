"""`Curator`, the one way to data and ledger: a method for what people do daily."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar

from privod.curator.asking import Asker, Asking
from privod.curator.duplicates import same_rows
from privod.curator.protection import (
    SAMPLE,
    Protection,
    narrow_groups,
    try_report,
    who_is_protected,
)
from privod.curator.questions import Question
from privod.curator.registration import check_registration
from privod.curator.results import Answer, Registered
from privod.curator.rows import KeptRows, RowStore, Tables
from privod.curator.server_notes import ServerNotes
from privod.curator.tokens import TokenStore
from privod.curator.witnessed_ledger import WitnessedLedger
from privod.curator.work import JobRecords
from privod.data import Domain
from privod.data.csv_file import CsvDialect
from privod.data.intake import IntakeReport
from privod.engines.connecting import connected
from privod.engines.lakes import InPlace
from privod.engines.size import IN_MEMORY, UNLESS_DECLARED, SizeClass
from privod.engines.source import Engine
from privod.errors import AlreadyExists, InvalidParameter, NeedsConfirmation, NotFound, Unavailable
from privod.ledger import chain as ledger
from privod.ledger import store
from privod.ledger.acts import Act, OpenBudget, read_requests
from privod.ledger.admissions import admitted
from privod.ledger.budget_state import Accounting, BudgetState
from privod.ledger.chain import Entry
from privod.ledger.database import Connection, Database
from privod.ledger.engines import holds_ledger, open_database, witnesses_of
from privod.ledger.prices import Price
from privod.ledger.private_files import private_directory
from privod.ledger.schema import bring_up_to_date, check_version
from privod.ledger.store import DataSet, Stored, short_text
from privod.ledger.values import Request, Verification
from privod.ledger.verification import verify
from privod.ledger.witness import Witnesses
from privod.privacy import Adjacency, Loss, SameContexts
from privod.query.query import Query, Release

Done = TypeVar("Done")


class Curator:
    """Holds private data, answers questions about it and keeps count.

    Guarantee
    ---------
    Every answer was charged, durably and before the rows were looked at, to every open budget under
    whose adjacency its promise holds, and no question ever brings a budget past its limit,
    however many threads, processes and hosts ask, and wherever any of them is killed.
    """

    def __init__(
        self,
        directory: Path,
        database: Database,
        witnesses: Witnesses,
        *,
        restoring: bool = False,
        engine: Engine | None = None,
    ) -> None:
        self.store = TokenStore(database)
        self.job_records = JobRecords(database)
        self.server_notes = ServerNotes(database)
        self.witnesses = witnesses
        self.directory = directory
        self.database = database
        self._rows = RowStore(directory / "rows", engine)
        self._datasets: dict[str, DataSet] = {}
        self._tables = Tables(self._rows)
        if database.read_only:
            check_version(database)
        else:
            bring_up_to_date(database)
            self._rows.remove_unfinished()
        self.witnessed = WitnessedLedger(database, witnesses, directory, restoring=restoring)
        self.asking = Asking(self.witnessed, self._rows, self._tables)

    @classmethod
    def open(
        cls,
        location: str | Path,
        *,
        database: str | None = None,
        witness: str | Path | None = None,
        read_only: bool = False,
        restoring: bool = False,
        engine: str | None = None,
        create: bool = True,
    ) -> Self:
        """Open the curator that lives in a directory, or start one there.

        Parameters
        ----------
        location : path
            The directory that holds the rows and, unless `database` is given, the ledger.
        database : str, optional
            A postgresql:// URL of the database that holds the ledger.
        witness : path or URL, optional
            A file elsewhere, best on another machine's disk, that remembers how far the ledger had
            come, beside the one in the directory; or https://.../api/v1/witnesses/NAME of another
            curator's server, with a token of it in PRIVOD_WITNESS_TOKEN.
        read_only : bool
            Whether to change nothing at all: for a copy, or a directory that cannot be written.
        restoring : bool
            Whether to open a ledger that is behind its witness, or a backup. It can be read,
            charged by its owner and accepted (`accept_restored`); it answers nothing before.
        engine : str, optional
            Who adds up over rows that are not held in memory, such as "local:4": docs/engines.md.
        create : bool
            Whether to start one where there is none; else a directory without a ledger is refused.
        """
        directory = local_directory(location)
        if not create and database is None and not holds_ledger(directory):
            raise NotFound(
                f"There is no curator in {str(directory)!r}. Check the directory (--at, PRIVOD_AT),"
                " or begin the address of a server with http://. `privod register` starts one."
            )
        if read_only and database is None:
            witnesses = witnesses_of(directory, None, "", witness).as_they_are()
            kept = open_database(directory, None, read_only=True)
            bring_up_to_date(kept)  # of the copy in a temporary place
            kept.read_only = True
            return cls(directory, kept, witnesses, restoring=restoring)
        try:
            if not read_only:
                private_directory(directory)
        except OSError as problem:
            raise Unavailable(
                f"The directory {str(directory)!r} cannot be used ({problem.strerror})."
                " Name a directory that you may write to."
            ) from None
        kept = open_database(directory, database, read_only)
        kept.read_only = read_only
        witnesses = witnesses_of(directory, database, kept.where, witness)
        counting = None if engine is None or read_only else connected(engine)
        return cls(directory, kept, witnesses, restoring=restoring, engine=counting)

    def close(self) -> None:
        """Close the connections to the database, and let go of the cluster."""
        self.database.close()
        if self._rows.engine is not None:
            self._rows.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- backups ---------------------------------------------------------------------------------

    def accept_restored(self, reason: str) -> str:
        """Go on with a ledger that lost entries, for the reason given; returns its head.

        Charge what is missing first (`ChargeElsewhere`): what was asked then has been seen.
        """
        return self.witnessed.accept_restored(reason)

    # ---- data sets and budgets -------------------------------------------------------------------

    def register(
        self,
        name: str,
        source: Any,
        domain: Domain,
        *,
        continues: str | None = None,
        dialect: CsvDialect | None = None,
        confirmed: bool = False,
        intake: IntakeReport | None = None,
        most_records: int = UNLESS_DECLARED,
        keep: Callable[..., tuple[str, str, IntakeReport]] | None = None,
    ) -> Registered:
        """Take in rows for good, and tell the owner what became of them.

        Parameters
        ----------
        name : str
            A new name; what it names never changes.
        source : path, frame, mapping or InPlace
            Where the rows are: anything that `privod.data.sources.read` takes; or `InPlace`, whose
            rows are read where they lie and not copied.
        domain : Domain
            What is public about them.
        continues : str, optional
            A data set about the same people; its budgets count for this one too.
        dialect : CsvDialect, optional
            How a CSV file is written.
        confirmed : bool
            Register even if most of the records are lost on the way.
        intake : IntakeReport, optional
            What became of the records before they came here, where the owner's own machine put
            them inside their domain; kept in place of what there is to tell here.
        most_records : int
            The most records that are kept, which is public and fixed; a source with more is
            refused. What answers may take at worst follows from it, so declare no more than is
            needed. Up to ten million, rows are held in memory while questions are asked. Beyond,
            they are read from disk for each question, and questions that need all of them at once
            may not be asked.
        keep : callable, optional
            Who writes the rows, as `RowStore.keep` does; by default this process.
        """
        size = SizeClass(most_records)
        short_text(name, "name")
        if isinstance(source, InPlace):
            source = source.look_up(domain, self._rows.engine)
        with self.database.reading() as connection:
            check_registration(connection, name, domain, continues, self._rows, source)
        folder, seal, report = (keep or self._rows.keep)(
            source, domain, dialect, size, confirmed=confirmed, intake=intake
        )
        try:
            with self.database.writing() as connection:
                root = check_registration(connection, name, domain, continues, self._rows, source)
                dataset = DataSet(name, domain, ledger.now(), continues, root)
                store.enter_dataset(connection, dataset, folder, seal)
        except (AlreadyExists, NotFound, InvalidParameter):
            self._rows.forget(folder)  # only then is it sure that nothing was entered
            raise
        return Registered(dataset, report, self.same_rows_as(name))

    @property
    def rows_folder(self) -> Path:
        """Where the rows of all data sets are."""
        return self._rows.directory

    def same_rows_as(self, of: str) -> tuple[str, ...]:
        """Which data sets with other budgets hold the very same rows, for the owner alone."""
        root = self.dataset(of).root
        with self.database.reading() as connection:
            folder, _seal = store.where_rows_are(connection, of)
            rows = connection.execute(
                "SELECT name, folder FROM datasets WHERE root <> ? AND retired IS NULL", root
            )
        return same_rows(self._rows.directory, folder, {str(name): str(at) for name, at in rows})

    def report(self, of: str) -> IntakeReport:
        """What became of the records of a data set, for the owner alone: it tells about rows."""
        with self.database.reading() as connection:
            retired = store.find_dataset(connection, of).retired
            folder, seal = store.where_rows_are(connection, of)
        if retired:
            raise NotFound(f"{of!r} was retired: its rows are deleted, and its report with them.")
        report = self._rows.report(folder, seal)
        if report is None:
            raise NotFound(
                f"There is no report of {of!r} here: its rows are not in {str(self.directory)!r}."
            )
        return report

    def who_is_protected(
        self, of: str, adjacency: Adjacency | None = None, *, sample: int = SAMPLE
    ) -> tuple[Protection, ...]:
        """Whom narrow promises protect among the rows, for the owner alone: exact, not private.

        Told of each promise that is open, of `adjacency` if the owner thinks of one, and of all of
        them together. Where contexts are compared, `sample` records are taken out one by one.
        """
        rows, groups = self.narrow_promises(of, adjacency)
        table = self._tables.of(rows)
        return tuple(who_is_protected(table, group, sample=sample) for group in groups)

    def narrow_promises(
        self, of: str, adjacency: Adjacency | None = None
    ) -> tuple[KeptRows, list[list[Adjacency]]]:
        """Where the rows are, and each narrow promise; if there are several, all of them too."""
        with self.database.reading() as connection:
            dataset = store.find_dataset(connection, of)
            groups = narrow_groups(connection, dataset, adjacency)
            folder, seal = store.rows_in_use(connection, of)
        if not self._rows.has(folder):
            raise Unavailable(f"The rows of {of!r} are not in {str(self.directory)!r}.")
        return self._rows.kept(folder, seal, dataset.domain), groups

    def datasets(self) -> tuple[DataSet, ...]:
        """Every data set, in the order of registration."""
        with self.database.reading() as connection:
            return tuple(store.read_datasets(connection))

    def dataset(self, name: str) -> DataSet:
        """The data set of this name; `retired` as it was when this process first read of it."""
        if name not in self._datasets:  # nothing else of it ever changes, so it is read once
            with self.database.reading() as connection:
                self._datasets[name] = store.find_dataset(connection, name)
        return self._datasets[name]

    def open_budget(
        self,
        of: str,
        adjacency: Adjacency,
        budget: Loss,
        *,
        accounting: Accounting = "sums",
        confirmed: bool = False,
    ) -> BudgetState:
        """Allow questions about a data set, and all versions of it, up to a budget, for good.

        What was asked before counts from the start, where it says something under this adjacency.
        If opening the budget gives up a part of the promise, the owner must confirm it.

        Parameters
        ----------
        of : str
            The data set.
        adjacency : Adjacency
            Under which the budget counts.
        budget : Loss
            How much all answers together may lose.
        accounting : str
            "sums" adds up epsilons and deltas. "zcdp" also adds up squares, so that many small
            questions fit (482 at epsilon 0.01 in a budget of (1, 1e-6), not 100); it needs a delta.
        confirmed : bool
            Whether the owner confirmed what that gives up.
        """
        return self.do(OpenBudget(of, adjacency, budget, accounting), confirmed=confirmed)

    def do(self, act: Act[Done], *, confirmed: bool = False) -> Done:
        """Do what an act says, in one transaction: all of it, or nothing.

        Parameters
        ----------
        act : Act
            Such as `RaiseBudget("stays", AddRemove(), Loss(2), "a second study")`.
        confirmed : bool
            Whether what it gives up was confirmed; `NeedsConfirmation` says it where it was not.
        """
        with self.database.reading() as connection:
            brought = act.brings(connection)
            root = store.find_dataset(connection, act.of).root if brought else act.of
            domains = store.versions_of(connection, root) if brought else {}
        for domain in domains.values():
            try_report(domain, brought)
        with self.witnessed.writing(durably=act.reveals) as connection:
            if act.reveals:
                self.witnessed.check_may_charge(connection)
            if not confirmed and (lost := act.gives_up(connection)):
                raise NeedsConfirmation(lost)
            before, _ = ledger.read_head(connection)
            done = act.apply(connection)
            _read_back(connection, self.dataset(act.of).root, before)
        act.after(self, done)
        return done

    def forget_rows(self, of: str) -> None:
        """Delete the rows of a data set that was retired."""
        with self.database.reading() as connection:
            folder, _seal = store.where_rows_are(connection, of)
        self._datasets.pop(of, None)
        self._tables.forget(folder)
        self._rows.retire(folder)

    def admitted(self, of: str) -> tuple[SameContexts, ...]:
        """The persons about whom contexts may be asked, which is public."""
        with self.database.reading() as connection:
            return tuple(admitted(connection, store.find_dataset(connection, of).root))

    def requests(self, of: str) -> tuple[Request, ...]:
        """What analysts asked for about a data set and its versions, and what became of it."""
        return read_requests(self.history(of))

    def clean_up(self) -> int:
        """Delete rows that no data set in use names: left by an upload or a retirement cut short.

        Rows younger than an hour are kept, since their registration may be under way.
        """
        with self.database.reading() as connection:
            known = dict(connection.execute("SELECT folder, retired FROM datasets"))
        retired = [folder for folder, ended in known.items() if ended is not None]
        return sum(map(self._rows.retire, retired)) + self._rows.remove_left_behind(known)

    # ---- asking --------------------------------------------------------------------------------

    def adapted(self, query: Query[Any], of: str) -> Query[Any]:
        """The question as it is asked of a data set: noise "auto" becomes what it takes there."""
        return self.asking.question(query, self.dataset(of)).query

    def price(self, query: Query[Any], of: str, *, token: str | None = None) -> Price:
        """Say what a question would cost at most, without looking and without charging.

        What was charged and left is gone on with for nothing, and is affordable
        whatever is left; should it fail before, who asks is charged this price if it can be paid.
        With the id of a token, what that token may spend counts too.
        """
        return self.asking.price(query, self.dataset(of), token)

    def size_class(self, of: str) -> SizeClass:
        """The most records that a data set may have, as its owner declared: public."""
        with self.database.reading() as connection:
            store.find_dataset(connection, of)
            folder, seal = store.where_rows_are(connection, of)
        return self._tables.size(of, folder, seal) or SizeClass(IN_MEMORY)

    def ask(
        self,
        query: Query[Any],
        of: str,
        *,
        request_id: str | None = None,
        asked_by: str = "owner",
        token: str | None = None,
    ) -> Answer:
        """Answer a question, at the price that `price` says.

        An answer that was charged and that whoever looked left (`Interrupted`, or a server that was
        killed) is gone on with at no charge, from the key of its noise.

        Parameters
        ----------
        query : Query
            What is asked.
        of : str
            The data set's name.
        request_id : str, optional
            A name for this request, unique to it. Asking again under it never pays twice.
        asked_by : str
            Who asks, as the ledger shall say.
        token : str, optional
            The id of the token that asks; its limit within a budget counts.
        """
        asker = Asker(asked_by, request_id, token)
        found = self.asking.ask(query, self.dataset(of), asker)
        return Answer(found.release.read(found.query), found.charges, found.stored, found.head)

    # ---- reading the ledger ----------------------------------------------------------------------

    def budget(self, of: str, *, token: str | None = None) -> tuple[BudgetState, ...]:
        """The budgets that count for a data set, and what is left in each, also to a token."""
        with self.database.reading() as connection:
            root = store.find_dataset(connection, of).root
            return tuple(
                replace(
                    state,
                    n_charges=ledger.count_charges(connection, state.number),
                    left_to_you=ledger.left_to(connection, state, token),
                )
                for state in ledger.budgets_of(connection, root)
            )

    def history(self, of: str | None = None) -> tuple[Entry, ...]:
        """The entries of the ledger, about one data set and its versions or about all."""
        with self.database.reading() as connection:
            if of is None:
                return tuple(ledger.read_entries(connection))
            root = store.find_dataset(connection, of).root
            return tuple(ledger.read_entries(connection, store.versions_of(connection, root)))

    def release(self, of: str, query: Query[Any]) -> Release[Any]:
        """The stored answer to a question."""
        question, stored = self.stored_release(of, query)
        return stored.release.read(question.query)

    def stored_release(self, of: str, query: Query[Any]) -> tuple[Question, Stored]:
        """A stored answer, once it is durable, and what it answers; it is not read."""
        question = self.asking.question(query, self.dataset(of))
        with self.database.lookup() as connection:
            stored = store.find_release(connection, question.key)
        if stored is None:
            raise NotFound(f"This question about {of!r} has no stored answer. Ask it.")
        self.witnessed.ensure_durable(stored)
        return question, stored

    def releases(self, of: str) -> tuple[Release[Any], ...]:
        """Every stored answer about a data set."""
        self.dataset(of)
        with self.database.reading() as connection:
            found = store.find_releases(connection, of)
        if found:
            self.witnessed.ensure_durable(found[-1])  # who has seen the newest has seen all
        return tuple(stored.release.read() for stored in found)

    def head(self) -> str:
        """How long the ledger is and what it ends in: note it elsewhere, to compare later."""
        return str(self.witnessed.head())

    def check_ledger(self) -> None:
        """Raise unless the ledger can be read and contains what its witnesses saw: in a moment."""
        seen = self.witnesses.read()
        with self.database.reading() as connection:
            self.witnesses.check(connection, seen)

    def verify(self, expected_head: str | None = None) -> Verification:
        """Recompute the whole ledger; raise `LedgerDamaged` naming the first entry that is wrong.

        Parameters
        ----------
        expected_head : str, optional
            A head noted earlier and elsewhere; the ledger must still contain it. Without one, a
            ledger that was rewritten from its first entry on, and its witnesses with it, looks as
            good as new.
        """
        found = verify(self.database, self._rows, expected_head, self.witnesses)
        self.witnessed.check_there()
        return found


def local_directory(location: str | Path) -> Path:
    """Return a curator's directory; a server's address is none."""
    if str(location).startswith(("http://", "https://")):
        way_out = "Run this on the curator's machine and name its directory (--at, PRIVOD_AT)."
        raise InvalidParameter("location", "must be a directory", location, way_out)
    return Path(location)


def _read_back(connection: Connection, root: str, before: int) -> None:
    """Read what an act entered as everybody will; what nobody could read again is not entered."""
    try:
        read_requests([Entry.from_row(row) for row in ledger.read_rows(connection, before)])
        for state in ledger.budgets_of(connection, root):
            str(state.left)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        rule, way_out = "must be one that can be read again", "Check its numbers."
        raise InvalidParameter("act", rule, root, way_out) from None
