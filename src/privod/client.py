"""Ask a curator that runs elsewhere: the same words as the local one, over the network.

>>> import privod
>>> curator = privod.connect("https://curator.example", token)  # doctest: +SKIP
>>> curator.ask(privod.Histogram(columns="age", epsilon=0.5), of="patients")  # doctest: +SKIP
"""

from __future__ import annotations

import ipaddress
import json
import secrets
import tempfile
import time
import weakref
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

from privod import errors
from privod.curator import (
    Answer,
    BudgetState,
    Charge,
    DataSet,
    Entry,
    Price,
    PricedCharge,
    Registered,
    Total,
    Verification,
)
from privod.data import Domain
from privod.data.csv_file import CsvDialect
from privod.data.intake import IntakeReport
from privod.data.sources import read_with_report, write_parquet
from privod.errors import (
    AnswerFailed,
    InvalidParameter,
    LimitReached,
    NotAllowed,
    PrivodError,
    Unavailable,
)
from privod.privacy import Adjacency, Loss, adjacency_from_json
from privod.progress import report
from privod.queries.catalog import query_from_json, release_from_json
from privod.queries.query import Query, Release

try:
    import httpx
except ImportError:
    raise Unavailable(
        "Talking to a server needs httpx, which is not installed. Install privod[client]."
    ) from None

__all__ = ["Client", "connect"]

PATIENCE = 60.0  # seconds for one request; a long answer is a job that is asked about again
TRIES = 3  # of a request that never reached the server, or whose response never reached us
WAIT = 10.0  # seconds that the server may hold an answer back before it makes it a job
FIRST_PAUSE, PAUSE_RATIO, LONGEST_PAUSE = 0.2, 1.25, 5.0  # between looks at a job, in seconds
SPECIAL = {"unknown-token": NotAllowed, "too-large": LimitReached, "too-slow": LimitReached}


def connect(url: str, token: str, *, authority: str | Path | None = None) -> Client:
    """Connect to a curator behind an address.

    Parameters
    ----------
    url : str
        Such as https://curator.example; plain http only to this very machine.
    token : str
        What its owner handed out.
    authority : path, optional
        A PEM file with the certificate authority to trust, if it is not a public one.
    """
    return Client(url, token, authority=authority)


class Client:
    """A curator that runs elsewhere; see `connect`."""

    def __init__(self, url: str, token: str, *, authority: str | Path | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            way_out = "Write https://curator.example."
            raise InvalidParameter("url", "must be an http or https address", url, way_out)
        if parts.scheme == "http" and not _is_loopback(parts.hostname):
            way_out = "Use https, so that the token does not travel in the clear."
            raise InvalidParameter("url", "must be https unless it is this machine", url, way_out)
        if not token or not token.isascii() or not token.isprintable():
            raise InvalidParameter("token", "must be a token", "***", "Ask the owner for one.")
        self._http = httpx.Client(
            base_url=f"{url.rstrip('/')}/api/v1",
            headers={"authorization": f"Bearer {token}", "accept": "application/json"},
            timeout=PATIENCE,
            verify=_trusting(authority),
        )
        self.close = weakref.finalize(self, self._http.close)
        """Close the connection; happens by itself when the client is forgotten."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({str(self._http.base_url)!r})"

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
        }
        if continues is not None:
            fields["continues"] = continues
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            write_parquet(table, path)
            with path.open("rb") as file:
                sent = self._http.build_request(
                    "POST", "/datasets", data=fields, files={"file": ("rows.parquet", file)}
                )
                data = self._once(sent)
        told = data.pop("report")
        return Registered(_dataset(data), IntakeReport.from_json(told))

    def report(self, of: str) -> IntakeReport:
        """What became of the records of a data set, for the owner alone."""
        return IntakeReport.from_json(self._get(_path(of, "report")))

    def datasets(self) -> tuple[DataSet, ...]:
        """Every data set that the token is for."""
        return tuple(_dataset(data) for data in self._get("/datasets"))

    def dataset(self, name: str) -> DataSet:
        """The data set of this name."""
        return _dataset(self._get(_path(name)))

    def open_budget(
        self, of: str, adjacency: Adjacency, budget: Loss, *, confirmed: bool = False
    ) -> BudgetState:
        """Allow questions up to a budget; see `Curator.open_budget`."""
        form = {"adjacency": adjacency.to_json(), **budget.to_json(), "confirmed": confirmed}
        return _budget(self._post(_path(of, "budgets"), form))

    # ---- asking --------------------------------------------------------------------------------

    def price(self, query: Query[Any], of: str) -> Price:
        """Say what a question would cost, without looking and without charging."""
        data = self._post(_path(of, "price"), {"query": query.to_json()})
        charges = tuple(_priced(charge) for charge in data["charges"])
        return Price(charges, data["affordable"], data["already_answered"])

    def ask(self, query: Query[Any], of: str, *, request_id: str | None = None) -> Answer:
        """Answer a question, at the price that `price` says.

        A request that is lost on the way is sent again under the same id, so it is paid once.
        """
        form = {
            "query": query.to_json(),
            "request_id": request_id or secrets.token_urlsafe(16),
            "wait": WAIT,
        }
        data = self._post(_path(of, "ask"), form)
        return _answer(data if "release" in data else self._finished(data["job"]))

    def _finished(self, job: str) -> dict[str, Any]:
        pause = FIRST_PAUSE
        while True:
            data = self._get(f"/jobs/{quote(job, safe='')}")
            report("answering", data["tenths"], 10)
            if data["answer"] is not None:
                answer: dict[str, Any] = data["answer"]
                return answer
            time.sleep(pause)
            pause = min(pause * PAUSE_RATIO, LONGEST_PAUSE)

    # ---- reading the ledger ----------------------------------------------------------------------

    def budget(self, of: str) -> tuple[BudgetState, ...]:
        """The budgets that count for a data set, and what is left in each."""
        return tuple(_budget(data) for data in self._get(_path(of, "budget")))

    def history(self, of: str | None = None) -> tuple[Entry, ...]:
        """The entries of the ledger, about one data set and its versions or about all."""
        names = [dataset.name for dataset in self.datasets()] if of is None else [of]
        entries = {
            data["number"]: _entry(data)
            for name in names
            for data in self._get(_path(name, "history"))
        }
        return tuple(entries[number] for number in sorted(entries))

    def releases(self, of: str) -> tuple[Release[Any], ...]:
        """Every stored answer about a data set, oldest first."""
        known = self._get(_path(of, "answers"))
        return tuple(
            release_from_json(self._get(_path(of, "answers", item["key"]))["release"])
            for item in reversed(known)
        )

    def release(self, of: str, query: Query[Any]) -> Release[Any]:
        """The stored answer to a question."""
        for item in self._get(_path(of, "answers")):
            if query_from_json(item["query"]) == query:
                data = self._get(_path(of, "answers", item["key"]))
                return release_from_json(data["release"])
        raise errors.NotFound(f"This question about {of!r} has no stored answer. Ask it.")

    def head(self) -> str:
        """How long the ledger is and what it ends in, once all of it is verified."""
        return self.verify().head

    def verify(self, expected_head: str | None = None) -> Verification:
        """Have the whole ledger recomputed; raises `LedgerDamaged` if it does not hold."""
        data = self._post("/verify", {"expected_head": expected_head})
        return Verification(**{**data, "without_rows": tuple(data["without_rows"])})

    # ---- the wire ------------------------------------------------------------------------------

    def _get(self, path: str) -> Any:
        return self._sent("GET", path)

    def _post(self, path: str, form: dict[str, Any]) -> Any:
        return self._sent("POST", path, form)

    def _sent(self, method: str, path: str, form: dict[str, Any] | None = None) -> Any:
        """Send, and again if the connection broke; every request here may be sent twice."""
        for attempt in range(1, TRIES + 1):
            try:
                return self._once(self._http.build_request(method, path, json=form))
            except Unavailable:
                if attempt == TRIES:
                    raise
                time.sleep(0.2 * attempt)
        raise AssertionError("unreachable")

    def _once(self, request: httpx.Request) -> Any:
        try:
            response = self._http.send(request)
            data = response.json()
        except (httpx.HTTPError, ValueError):
            raise Unavailable(
                f"The server at {self._http.base_url.host!r} cannot be reached or is not a curator."
                " Check the address and whether it is running."
            ) from None
        if response.is_success:
            return data
        raise _problem(data)


def _trusting(authority: str | Path | None) -> Any:
    if authority is None:
        return True
    import ssl

    try:
        return ssl.create_default_context(cafile=str(authority))
    except OSError:
        way_out = "Name the PEM file of your certificate authority."
        raise InvalidParameter(
            "authority", "must be a readable PEM file", str(authority), way_out
        ) from None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _path(dataset: str, *parts: str) -> str:
    name = quote(dataset.replace("%", "%25").replace("/", "%2F"), safe="")  # as the server reads it
    return "/".join(["/datasets", name, *(quote(part, safe="") for part in parts)])


def _problem(data: Any) -> PrivodError:
    """The error that the curator raised over there."""
    error = data.get("error") if isinstance(data, dict) else None
    if not isinstance(error, dict):
        return Unavailable("The server answered in a way that no curator does. Check the address.")
    kind, message = str(error.get("kind")), str(error.get("message"))
    if kind == "invalid-parameter" and error.get("parameter") is not None:
        value = error.get("value")
        return InvalidParameter(error["parameter"], error["rule"], value, error["way_out"])
    name = "".join(word.capitalize() for word in kind.split("-"))
    known = SPECIAL.get(kind) or getattr(errors, name, AnswerFailed)
    if isinstance(known, type) and issubclass(known, PrivodError):
        return known(message) if known is not InvalidParameter else AnswerFailed(message)
    return AnswerFailed(message)


def _loss(data: dict[str, str]) -> Loss:
    return Loss(Fraction(data["epsilon"]), Fraction(data["delta"]))


def _dataset(data: dict[str, Any]) -> DataSet:
    return DataSet(**{**data, "domain": Domain.from_json(data["domain"])})


def _budget(data: dict[str, Any]) -> BudgetState:
    state = BudgetState(
        data["number"],
        data["dataset"],
        adjacency_from_json(data["adjacency"]),
        _loss(data["budget"]),
        _loss(data["spent"]),
    )
    # What the curator found from the single charges, which are not sent.
    vars(state)["tightest"] = Total(_loss(data["tightest"]), data["tightest_by"])
    return state


def _priced(data: dict[str, Any]) -> PricedCharge:
    left = None if data["left"] is None else _loss(data["left"])
    return PricedCharge(adjacency_from_json(data["adjacency"]), _loss(data["loss"]), left)


def _answer(data: dict[str, Any]) -> Answer:
    charges = tuple(
        Charge(charge["entry"], adjacency_from_json(charge["adjacency"]), _loss(charge["loss"]))
        for charge in data["charges"]
    )
    return Answer(release_from_json(data["release"]), charges, data["stored"])


def _entry(data: dict[str, Any]) -> Entry:
    adjacency, loss = data["adjacency"], data["loss"]
    read_back = {
        "adjacency": None if adjacency is None else adjacency_from_json(adjacency),
        "loss": None if loss is None else _loss(loss),
        "request": None,  # other people's request ids are nobody's business
    }
    return Entry(**{**data, **read_back})
