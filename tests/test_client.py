"""A curator elsewhere answers in the same words as a local one."""

from __future__ import annotations

# slow: left out by `make quick`
import json
import re
import shlex
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

import privod
from privod.cli import app
from privod.client import Client, connect
from privod.data import Domain, Numeric
from privod.data.examples import HOSPITAL, hospital
from privod.errors import (
    AlreadyExists,
    BudgetExceeded,
    InvalidParameter,
    LedgerDamaged,
    LimitReached,
    NeedsConfirmation,
    NoPromise,
    NotAllowed,
    NotFound,
    Unavailable,
)
from privod.privacy import AddRemove, InCrowd, Loss, Replace
from privod.progress import listening
from privod.query.catalog import query_from_json
from privod.questions.histogram.query import Histogram
from privod.questions.interactive_grid.query import InteractiveGrid
from privod.server.limits import Limits, Rate
from tests.odd import odd
from tests.running_server import GENEROUS, Running, running

__all__ = ["odd"]  # a fixture

QUESTION = Histogram(columns=("age",), epsilon="0.5")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("client")) as server:
        yield server


@pytest.fixture(scope="module")
def analyst(server: Running) -> Iterator[Client]:
    with connect(server.url, server.token("analyst")) as client:
        yield client


@pytest.fixture(scope="module")
def owner(server: Running) -> Iterator[Client]:
    with connect(server.url, server.token("owner")) as client:
        yield client


def test_price_ask_and_budget_are_those_of_the_local_curator(
    server: Running, analyst: Client
) -> None:
    local = server.curator
    assert analyst.price(QUESTION, "patients") == local.price(QUESTION, "patients")
    answer = analyst.ask(QUESTION, of="patients")
    assert not answer.stored
    assert answer.charges[0].loss == Loss("0.5")
    again = analyst.ask(QUESTION, of="patients")
    assert again.stored
    assert again.release == answer.release == local.release("patients", QUESTION)
    assert analyst.price(QUESTION, "patients") == local.price(QUESTION, "patients")
    here, there = local.budget("patients"), analyst.budget("patients")
    assert [(state.adjacency, state.budget, state.spent, state.left) for state in there] == [
        (state.adjacency, state.budget, state.spent, state.left) for state in here
    ]


def test_everything_that_is_read_is_what_the_local_curator_reads(
    server: Running, analyst: Client, owner: Client
) -> None:
    analyst.ask(QUESTION, of="patients")
    local = server.curator
    assert analyst.datasets() == local.datasets()
    assert analyst.dataset("patients") == local.dataset("patients")
    assert analyst.releases("patients") == local.releases("patients")
    assert analyst.release("patients", QUESTION) == local.release("patients", QUESTION)
    assert owner.verify() == local.verify()
    assert owner.verify(local.head()).head == owner.head() == local.head()
    with pytest.raises(LedgerDamaged):
        owner.verify("1:" + "0" * 64)
    with pytest.raises(InvalidParameter):
        owner.verify("nonsense")
    here, there = local.history("patients"), analyst.history("patients")
    assert [entry.hash for entry in there] == [entry.hash for entry in here]
    assert [entry.loss for entry in there] == [entry.loss for entry in here]
    assert analyst.history() == there


def test_a_grid_that_is_asked_bit_by_bit_is_charged_once_from_afar(
    server: Running, analyst: Client
) -> None:
    first = InteractiveGrid(columns=("age",), cells_per_axis=12, epsilon="0.1", records=((44.0,),))
    assert analyst.ask(first, of="patients").charges[0].loss == Loss("0.1")
    second = InteractiveGrid(columns=("age",), cells_per_axis=12, epsilon="0.1", records=((52.0,),))
    assert analyst.price(second, "patients").charges[0].loss == Loss(0)
    answer = analyst.ask(second, of="patients")
    assert [charge.loss for charge in answer.charges] == [Loss(0)]
    assert answer.release == server.curator.release("patients", second)


@pytest.mark.parametrize("name", ["from afar", "a/b", "50% ü", "%2F"])
def test_an_owner_registers_and_opens_budgets_from_afar(
    server: Running, owner: Client, analyst: Client, name: str
) -> None:
    domain = Domain((Numeric("x", 0, 1),))
    made = owner.register(name, {"x": [0.1, 0.2], "secret": ["a", "b"]}, domain)
    assert made.dataset == server.curator.dataset(name)
    assert made.report == server.curator.report(name) == owner.report(name)
    with pytest.raises(NotAllowed):
        analyst.report(name)
    with pytest.raises(NeedsConfirmation, match="number of records becomes public"):
        owner.open_budget(name, Replace(), Loss(1))
    state = owner.open_budget(name, Replace(), Loss(1), confirmed=True)
    assert state == server.curator.budget(name)[0]
    with pytest.raises(NoPromise, match="beside a replace budget"):
        owner.open_budget(name, InCrowd(0.5, ("x",), 3), Loss(1, "1e-6"), confirmed=True)
    with pytest.raises(AlreadyExists):
        owner.register(name, {"x": [0.1]}, domain)
    answer = analyst.ask(Histogram(columns=("x",), epsilon="0.5"), of=name)
    assert answer.release.query.name == "histogram"


def test_errors_come_back_as_the_exceptions_they_were(analyst: Client) -> None:
    with pytest.raises(BudgetExceeded):
        analyst.ask(Histogram(columns=("age",), epsilon=5000), of="patients")
    with pytest.raises(NotFound):
        analyst.budget("nothing")
    with pytest.raises(NotFound):
        analyst.release("patients", Histogram(columns=("age",), epsilon="0.123"))
    with pytest.raises(InvalidParameter) as wrong:
        analyst.ask(Histogram(columns=("height",), epsilon=1), of="patients")
    assert wrong.value.parameter == "columns"
    assert "columns must be declared, got 'height'" in str(wrong.value)
    with pytest.raises(NotAllowed, match="owner"):
        analyst.open_budget("patients", AddRemove(), Loss(1))


def test_an_unknown_token_is_told(server: Running) -> None:
    with connect(server.url, "privod_analyst_wrong") as client, pytest.raises(NotAllowed):
        client.datasets()


def test_too_many_requests_are_told(tmp_path: Path) -> None:
    limits = Limits(requests=Rate(0.001, 1), strangers=GENEROUS.strangers)
    with (
        running(tmp_path, limits) as server,
        connect(server.url, server.token("analyst")) as client,
    ):
        client.datasets()
        with pytest.raises(LimitReached):
            client.datasets()


@pytest.mark.usefixtures("odd")
def test_a_long_answer_is_waited_for_and_its_progress_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privod.wire.connection.WAIT", 0.0)
    heard: list[tuple[str, int, int | None]] = []

    def hear(*told: Any) -> None:
        heard.append(told)
        if told[1] == 4:
            (tmp_path / "gate.open").touch()

    query = {"name": "odd", "epsilon": "0.03", "deed": "wait", "gate": str(tmp_path / "gate")}
    with (
        running(tmp_path / "curator") as server,
        connect(server.url, server.token("analyst")) as client,
        listening(hear),
    ):
        answer = client.ask(query_from_json(query), of="patients")
    assert not answer.stored
    assert ("answering", 4, 10) in heard
    assert heard[-1] == ("answering", 10, 10)


@pytest.mark.parametrize(
    ("url", "token"),
    [
        ("ftp://127.0.0.1", "token"),
        ("127.0.0.1:8000", "token"),
        ("http://curator.example", "token"),
        ("http://10.0.0.1:80", "token"),
        ("https://", "token"),
        ("http://127.0.0.1", ""),
        ("http://127.0.0.1", "two\nlines"),
        ("http://127.0.0.1", "schlüssel"),
    ],
)
def test_a_token_is_sent_only_where_nobody_listens_in(url: str, token: str) -> None:
    with pytest.raises(InvalidParameter) as wrong:
        connect(url, token)
    assert wrong.value.parameter in ("url", "token")
    assert "schlüssel" not in str(wrong.value)


def test_an_authority_must_be_a_file() -> None:
    with pytest.raises(InvalidParameter):
        connect("https://curator.example", "token", authority="/nowhere.pem")


def test_no_server_is_told_after_some_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with connect("http://127.0.0.1:9", "token") as client, pytest.raises(Unavailable):
        client.datasets()


def test_the_token_does_not_show_in_the_client(server: Running) -> None:
    token = server.token("analyst")
    with connect(server.url, token) as client:
        assert token not in repr(client) + str(vars(client))


def test_the_package_offers_connect() -> None:
    assert privod.connect is connect


class Strange(BaseHTTPRequestHandler):
    """A server that is no curator, and then one that loses the first answer."""

    replies: ClassVar[list[tuple[int, bytes]]] = []
    seen: ClassVar[list[dict[str, Any]]] = []

    def do_GET(self) -> None:
        self._reply()

    def do_POST(self) -> None:
        self.seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self._reply()

    def _reply(self) -> None:
        status, body = self.replies.pop(0)
        if status == 0:
            self.connection.close()
            return
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def strange() -> Iterator[str]:
    Strange.seen.clear()
    http = HTTPServer(("127.0.0.1", 0), Strange)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}"
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"error": 1}', b"null"])
def test_a_server_that_is_no_curator_is_told(
    strange: str, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    Strange.replies[:] = [(502, body)] * 3
    with connect(strange, "token") as client, pytest.raises(Unavailable):
        client.datasets()


@pytest.mark.parametrize("kind", ["unheard-of", "PrivodError", "annotations", "invalid-parameter"])
def test_an_error_of_an_unknown_kind_is_still_an_error(strange: str, kind: str) -> None:
    Strange.replies[:] = [(400, json.dumps({"error": {"kind": kind, "message": "no"}}).encode())]
    with connect(strange, "token") as client, pytest.raises(privod.PrivodError, match="no"):
        client.datasets()


def test_a_lost_request_is_sent_again_under_the_same_id(
    strange: str, analyst: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    refused = json.dumps({"error": {"kind": "budget-exceeded", "message": "no"}}).encode()
    Strange.replies[:] = [(0, b""), (409, refused)]
    with connect(strange, "token") as client, pytest.raises(BudgetExceeded):
        client.ask(QUESTION, of="patients")
    first, second = Strange.seen
    assert first["request_id"] == second["request_id"]


def test_a_server_that_goes_away_is_waited_for_and_asked_again_under_the_same_id(
    strange: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    job = json.dumps({"job": "j", "state": "answering", "tenths": 1}).encode()
    stopped = json.dumps({"error": {"kind": "interrupted", "message": "stopped"}}).encode()
    stopping = json.dumps({"error": {"kind": "stopping", "message": "stopping"}}).encode()
    over = json.dumps({"error": {"kind": "budget-exceeded", "message": "no"}}).encode()
    gone = [(0, b"")] * 7 + [(502, b"<html>")] * 3
    Strange.replies[:] = [(202, job), *[(503, stopped)] * 3, *[(503, stopping)] * 3, *gone]
    Strange.replies.append((409, over))
    heard: list[tuple[str, int, int | None]] = []
    with (
        connect(strange, "token") as client,
        listening(lambda *told: heard.append(told)),
        pytest.raises(BudgetExceeded),
    ):
        client.ask(QUESTION, of="patients")
    assert not Strange.replies
    assert {asked["request_id"] for asked in Strange.seen} == {Strange.seen[0]["request_id"]}
    assert {(phase, total) for phase, _, total in heard} == {("waiting for the server", 300)}


def test_a_server_that_stays_away_is_told_with_the_id_under_which_nothing_is_paid_twice(
    strange: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    Strange.replies[:] = [(0, b"")] * 3
    with connect(strange, "token", away_seconds=0) as client, pytest.raises(Unavailable) as told:
        client.ask(QUESTION, of="patients")
    asked = Strange.seen[0]["request_id"]
    assert f"(in the shell --request-id {asked})" in str(told.value)


def test_what_never_was_there_is_not_waited_for(
    strange: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    Strange.replies[:] = [(502, b"<html>")] * 3
    for url in (strange, "http://127.0.0.1:9"):
        with connect(url, "token") as client, pytest.raises(Unavailable, match="Check the address"):
            client.ask(QUESTION, of="patients")
    assert not Strange.replies


def blocks(language: str) -> list[str]:
    """The pieces of the analysts' page in one language."""
    text = Path("docs/analysts.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.fixture
def sampled(server: Running, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a server with the sample data, and a token in the environment."""
    if "stays" not in [dataset.name for dataset in server.curator.datasets()]:
        server.curator.register("stays", hospital(2_000), HOSPITAL)
        server.curator.open_budget("stays", AddRemove(), Loss("10"))
    monkeypatch.setenv("PRIVOD_TOKEN", server.token("analyst"))
    monkeypatch.setenv("PRIVOD_AT", server.url)
    return server.url


def test_the_python_of_the_analysts_page_runs(
    sampled: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = blocks("python")
    names: dict[str, Any] = {}
    exec(code.replace("https://curator.example", sampled), names)  # noqa: S102 - our own page
    names["curator"].close()
    assert "records have" in capsys.readouterr().out


def test_the_shell_of_the_analysts_page_runs(
    sampled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = blocks("shell")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.csv").write_text("age,heart_rate\n64,80\n30,190\n")
    for line in "".join(pieces).splitlines():
        result = CliRunner().invoke(app, shlex.split(line)[1:])
        assert result.exception is None, line
        assert result.stdout


def test_an_analyst_lists_what_the_token_asked(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVOD_TOKEN", server.token("analyst"))
    runner, at = CliRunner(), ["--at", server.url]
    asked = ["patients", "histogram", "columns=age", "epsilon=0.77"]
    assert runner.invoke(app, ["ask", *asked, *at]).exception is None
    (listed,) = json.loads(runner.invoke(app, ["jobs", *at, "--json"]).stdout)
    assert (listed["dataset"], listed["state"], listed["message"]) == ("patients", "done", None)
    shown = runner.invoke(app, ["jobs", *at], env={"COLUMNS": "200"}).stdout
    assert "histogram columns=age epsilon=0.77" in shown
    assert "answered" in shown
    assert f" {listed['time'][:16].replace('T', ' ')} " in shown
    refused = runner.invoke(app, ["jobs", "--at", "directory"]).exception
    assert "must be the address of a server" in str(refused)


def test_the_price_in_the_shell_is_the_same_here_and_from_afar(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVOD_TOKEN", server.token("analyst"))
    asked = ["price", "patients", "histogram", "columns=age", "epsilon=0.78", "--json"]
    places = (server.url, str(server.curator.directory))
    there, here = (
        json.loads(CliRunner().invoke(app, [*asked, "--at", place]).stdout) for place in places
    )
    assert there == here
    assert here["about_seconds"] > 0


def test_an_owner_works_from_afar_in_the_shell_too(
    server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVOD_TOKEN", server.token("owner"))
    monkeypatch.setenv("PRIVOD_AT", server.url)
    (tmp_path / "rows.csv").write_text("age\n40\n")
    (tmp_path / "domain.json").write_text('{"columns": [{"name": "age", "low": 0, "high": 120}]}')
    for line in (
        f"register shell {tmp_path}/rows.csv --domain {tmp_path}/domain.json",
        "open shell --epsilon 1",
        "budget shell",
        "history shell",
        "history",
        "verify",
    ):
        result = CliRunner().invoke(app, shlex.split(line))
        assert result.exception is None, line
        assert result.stdout
