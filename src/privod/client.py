"""Ask a curator that runs elsewhere: the same words as the local one, over the network.

>>> import privod
>>> curator = privod.connect("https://curator.example", token)  # doctest: +SKIP
>>> curator.ask(privod.Histogram(columns="age", epsilon=0.5), of="patients")  # doctest: +SKIP
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar

from privod import wire
from privod.curator import (
    Accounting,
    Answer,
    BudgetState,
    Curator,
    DataSet,
    Entry,
    Price,
    Protection,
    Registered,
    Request,
    Verification,
    adapted,
)
from privod.data import Domain
from privod.data.csv_file import CsvDialect
from privod.data.intake import IntakeReport
from privod.data.sources import read_with_report, write_parquet
from privod.engines.size import UNLESS_DECLARED
from privod.errors import InvalidParameter
from privod.ledger.acts import Act, OpenBudget
from privod.privacy import Adjacency, Loss, SameContexts
from privod.query.catalog import release_from_json
from privod.query.query import Query, Release
from privod.wire.acts import read_done, sent
from privod.wire.connection import (
    AWAY_SECONDS,
    REPORT_PATIENCE,
    Connection,
    as_noun,
    as_nouns,
    path_of,
)
from privod.wire.reading import read, read_answer, read_entry, read_registered

__all__ = ["Client", "connect"]

Done = TypeVar("Done")


def connect(
    url: str, token: str, *, authority: str | Path | None = None, away_seconds: float = AWAY_SECONDS
) -> Client:
    """Connect to a curator behind an address; plain http only to this very machine.

    The token is what its owner handed out. `authority` is a PEM file with the certificate authority
    to trust, if it is not a public one. `ask` waits `away_seconds` for a server that was there, and
    went away, to be back.
    """
    return Client(Connection(url, token, authority=authority, away_seconds=away_seconds))


class Client:
    """A curator that runs elsewhere; see `connect`."""

    def __init__(self, server: Connection) -> None:
        self._server = server

    def close(self) -> None:
        """Close the connection; happens by itself when the client is forgotten."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._server.url!r})"

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
        most_records: int = UNLESS_DECLARED,
    ) -> Registered:
        """Send rows to the curator, for good; see `Curator.register`.

        They are put inside their domain on this machine: nothing else of the source leaves it.
        """
        table, intake = read_with_report(source, domain, dialect)
        intake.refuse_loss(confirmed)
        fields = {
            "name": name,
            "domain": json.dumps(domain.to_json()),
            "intake": json.dumps(intake.to_json()),
            "most_records": str(most_records),
        }
        if continues is not None:
            fields["continues"] = continues
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            write_parquet(table, path)
            sent = self._server.send_file("/datasets", fields, path)
            return read_registered(as_noun(wire.Registered, sent))

    def report(self, of: str) -> IntakeReport:
        """What became of the records of a data set, for the owner alone."""
        return IntakeReport.from_json(self._server.get(path_of(of, "report")))

    def datasets(self) -> tuple[DataSet, ...]:
        """Every data set that the token is for."""
        found = as_nouns(wire.DataSet, self._server.get("/datasets"))
        return tuple(read(DataSet, dataset) for dataset in found)

    def dataset(self, name: str) -> DataSet:
        """The data set of this name."""
        return read(DataSet, as_noun(wire.DataSet, self._server.get(path_of(name))))

    def open_budget(
        self,
        of: str,
        adjacency: Adjacency,
        budget: Loss,
        *,
        accounting: Accounting = "sums",
        confirmed: bool = False,
    ) -> BudgetState:
        """Allow questions up to a budget; see `Curator.open_budget`."""
        return self.do(OpenBudget(of, adjacency, budget, accounting), confirmed=confirmed)

    def do(self, act: Act[Done], *, confirmed: bool = False) -> Done:
        """Have an act done; see `Curator.do`."""
        if act.path is None:
            way_out = "Name the directory of the curator (--at, PRIVOD_AT)."
            raise InvalidParameter("act", "must be done at the machine itself", act.name, way_out)
        path = path_of(act.of, *act.path.format(**act.told()).split("/"))
        return read_done(act, self._server.act(path, sent(act, confirmed)))

    def admitted(self, of: str) -> tuple[SameContexts, ...]:
        """The persons about whom contexts may be asked, which is public."""
        return tuple(as_nouns(SameContexts, self._server.get(path_of(of, "admitted"))))

    def who_is_protected(
        self, of: str, adjacency: Adjacency | None = None, *, sample: int = 100
    ) -> tuple[Protection, ...]:
        """Whom narrow promises protect, for the owner alone; see `Curator.who_is_protected`."""
        asked = wire.WhoIsProtected(None if adjacency is None else adjacency.to_json(), sample)
        path = path_of(of, "protected")
        found = self._server.act(path, asked, patience=REPORT_PATIENCE)["protected"]
        return tuple(Protection.from_json(one) for one in found)

    def requests(self, of: str) -> tuple[Request, ...]:
        """What analysts asked for about a data set, and what became of it."""
        return tuple(as_nouns(Request, self._server.get(path_of(of, "requests"))))

    # ---- asking --------------------------------------------------------------------------------

    def adapted(self, query: Query[Any], of: str) -> Query[Any]:
        """The question as it is asked of a data set: noise "auto" becomes what it takes there."""
        return query if query.within("zcdp") is query else adapted(query, self.budget(of))

    def price(self, query: Query[Any], of: str) -> Price:
        """Say what a question would cost, without looking and without charging."""
        data = self._server.post(path_of(of, "price"), wire.AskPrice(query.to_json()))
        return read(Price, as_noun(wire.Price, data))

    def ask(self, query: Query[Any], of: str, *, request_id: str | None = None) -> Answer:
        """Answer a question, at the price that `price` says."""
        return read_answer(self._server.ask(query.to_json(), of, request_id))

    def jobs(self) -> tuple[wire.JobListed, ...]:
        """What this token asked in the last weeks, newest first, and where each stands."""
        return tuple(as_nouns(wire.JobListed, self._server.get("/jobs")))

    # ---- reading the ledger ----------------------------------------------------------------------

    def budget(self, of: str) -> tuple[BudgetState, ...]:
        """The budgets that count for a data set, and what is left in each."""
        found = as_nouns(wire.Budget, self._server.get(path_of(of, "budget")))
        return tuple(read(BudgetState, budget) for budget in found)

    def history(self, of: str | None = None) -> tuple[Entry, ...]:
        """The entries of the ledger, about one data set and its versions or about all."""
        names = [dataset.name for dataset in self.datasets()] if of is None else [of]
        entries = {
            entry.number: read_entry(entry)
            for name in names
            for entry in as_nouns(wire.Entry, self._server.get(path_of(name, "history")))
        }
        return tuple(entries[number] for number in sorted(entries))

    def releases(self, of: str) -> tuple[Release[Any], ...]:
        """Every stored answer about a data set, oldest first."""
        listed = as_nouns(wire.AnswerListed, self._server.get(path_of(of, "answers")))
        return tuple(self._release(of, item.key) for item in reversed(listed))

    def release(self, of: str, query: Query[Any]) -> Release[Any]:
        """The stored answer to a question."""
        return self._release(of, wire.answer_key(self.adapted(query, of)))

    def _release(self, of: str, key: str) -> Release[Any]:
        found = as_noun(wire.Answer, self._server.get(path_of(of, "answers", key)))
        return release_from_json(found.release)

    def visitor(self) -> wire.Visitor:
        """Whose token this is: its role, the data set it is for, its name."""
        return as_noun(wire.Visitor, self._server.get("/me"))

    def head(self) -> str:
        """How long the ledger is and what it ends in, once all of it is verified."""
        return self.verify().head

    def verify(self, expected_head: str | None = None) -> Verification:
        """Have the whole ledger recomputed; raises `LedgerDamaged` if it does not hold."""
        data = self._server.post("/verify", wire.Verify(expected_head))
        return as_noun(Verification, data)


AnyCurator: TypeAlias = "Curator | Client"
"""A curator, wherever it runs: both are asked in the same words."""
