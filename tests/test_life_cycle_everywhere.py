"""The life of budgets in the shell, over the JSON interface and in the console."""

from __future__ import annotations

# slow: left out by `make quick`
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.client import Client, connect
from privod.curator import Curator
from privod.errors import (
    BudgetExceeded,
    InvalidParameter,
    LedgerDamaged,
    LimitReached,
    NeedsConfirmation,
    NotAllowed,
    NotFound,
    Unavailable,
)
from privod.ledger.acts import (
    AdmitPerson,
    AllowExactCounts,
    Approve,
    CloseBudget,
    FileRequest,
    LimitToken,
    RaiseBudget,
    Retire,
)
from privod.ledger.chain import token_id
from privod.ledger.witness import kept_for
from privod.ledger.witness_elsewhere import WitnessElsewhere
from privod.privacy import AddRemove, AdmittedContexts, InCrowd, Loss, SameContexts
from privod.questions.histogram.query import Histogram
from privod.questions.outlier_context.query import OutlierContext
from privod.server.authentication import create_token, token_hash
from tests.running_server import DOMAIN, ROWS, Running, running

CROWD = InCrowd(0.0, ("age",), 5)
PERSON = OutlierContext(
    group_columns=("sex",), persons=(("female", 99.0),), column="age", epsilon="0.1"
)


def histogram(bins: int, epsilon: str = "0.1", **others: Any) -> Histogram:
    return Histogram(columns=("age",), bins=bins, epsilon=epsilon, **others)


# ---- the shell, with a directory and with an address ---------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("life")) as server:
        yield server


@pytest.fixture(params=["directory", "address"])
def at(
    request: pytest.FixtureRequest,
    server: Running,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[str, str]:
    """Where a curator is, and the name of a fresh data set there."""
    name = f"people-{request.param}-{abs(hash(request.node.name))}"
    if request.param == "address":
        server.curator.register(name, ROWS, DOMAIN)
        monkeypatch.setenv("PRIVOD_TOKEN", server.token("owner"))
        where = server.url
    else:
        where = str(tmp_path / "curator")
        with Curator.open(where) as curator:
            curator.register(name, ROWS, DOMAIN)
    monkeypatch.setenv("PRIVOD_AT", where)
    return where, name


def run(*arguments: str, fails_with: type[Exception] | None = None) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--json"])
    if fails_with is not None:
        assert isinstance(result.exception, fails_with), result.output
        return str(result.exception)
    assert result.exception is None, result.output
    return json.loads(result.stdout)


def test_budgets_live_and_end_in_the_shell(at: tuple[str, str]) -> None:
    _, name = at
    opening = ("open", name, "--epsilon", "1", "--delta", "1e-6", "--accounting", "zcdp")
    assert "up to an added probability" in run(*opening, fails_with=NeedsConfirmation)
    opened = run(*opening, "--yes")
    assert (opened["accounting"], opened["conversion_delta"]) == ("zcdp", "9/10000000")
    more = ("raise", name, "--epsilon", "2", "--delta", "1e-6", "--reason", "the board agreed")
    assert "becomes epsilon 2" in run(*more, fails_with=NeedsConfirmation)
    assert run(*more, "--yes")["budget"] == {"epsilon": "2", "delta": "1/1000000"}
    run(*more, "--yes", fails_with=InvalidParameter)
    run("open", name, "--epsilon", "1", "--adjacency", json.dumps(CROWD.to_json()), "--yes")
    closing = ("close", name, "--reason", "enough")
    assert "in-crowd" in run(*closing, fails_with=NeedsConfirmation)
    assert [state["adjacency"]["name"] for state in run(*closing, "--yes")] == [
        "add-remove",
        "in-crowd",
    ]
    assert all(state["closed"] for state in run("budget", name))
    run("retire", name, "--reason", "the study ended", fails_with=NeedsConfirmation)
    assert run("retire", name, "--reason", "the study ended", "--yes") == {"retired": True}
    assert [one["retired"] for one in run("datasets") if one["name"] == name] == [True]
    run("verify")


def test_persons_are_admitted_in_the_shell(at: tuple[str, str]) -> None:
    _, name = at
    run("open", name, "--epsilon", "1")
    run("open", name, "--epsilon", "1", "--adjacency", "admitted-contexts", "--yes")
    person = json.dumps(PERSON.guarantee().adjacency.to_json())
    run("admit", name, '{"name": "add-remove"}', "--reason", "no", fails_with=InvalidParameter)
    run("admit", name, person, "--reason", "my patient", fails_with=NeedsConfirmation)
    assert run("admitted", name) == []
    assert run("admit", name, person, "--reason", "my patient", "--yes")["entry"] > 0
    assert run("admitted", name) == [json.loads(person)]


def test_an_owner_decides_about_requests_in_the_shell(tmp_path: Path) -> None:
    os.environ["PRIVOD_AT"] = str(tmp_path / "curator")
    try:
        with Curator.open(tmp_path / "curator") as curator:
            curator.register("people", ROWS, DOMAIN)
            curator.open_budget("people", AddRemove(), Loss(1))
        first = run("request", "people", "--epsilon", "3", "--reason", "one is too little")
        second = run("request", "people", "--epsilon", "9", "--reason", "or nine")
        assert first["decision"] == "open"
        assert run("approve", "people", str(first["number"]), "--reason", "fine", "--yes")
        run("decline", "people", str(second["number"]), "--reason", "three is enough")
        assert [one["decision"] for one in run("requests", "people")] == ["approved", "declined"]
        assert run("budget", "people")[0]["budget"]["epsilon"] == "3"
        assert run("clean-up") == {"deleted": 0}
    finally:
        del os.environ["PRIVOD_AT"]


def test_a_copy_is_verified_without_being_changed_and_a_restored_ledger_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, second = tmp_path / "curator", tmp_path / "elsewhere"
    monkeypatch.setenv("PRIVOD_AT", str(here))
    monkeypatch.setenv("PRIVOD_WITNESS", str(second))
    with Curator.open(here, witness=second) as curator:
        curator.register("people", ROWS, DOMAIN)
        curator.open_budget("people", AddRemove(), Loss(1))
        curator.ask(histogram(3), "people")
    before = {path: path.stat().st_mtime_ns for path in here.rglob("*")}
    head = run("verify", "--read-only")["head"]
    assert {path: path.stat().st_mtime_ns for path in here.rglob("*")} == before
    (here / "witness").unlink()
    run("verify", fails_with=LedgerDamaged)
    run("accept-restored", "--reason", "the witness was lost", fails_with=NeedsConfirmation)
    run("accept-restored", "--reason", "the witness was lost", "--yes")
    monkeypatch.delenv("PRIVOD_WITNESS")
    assert int(run("verify", "--head", head)["head"].split(":")[0]) == int(head.split(":")[0]) + 1


# ---- tokens -----------------------------------------------------------------------------------


@pytest.fixture
def analyst(server: Running) -> Iterator[tuple[Client, str]]:
    """An analyst's client, and the id of the token."""
    token = server.token("analyst")
    with connect(server.url, token) as client:
        yield client, token_id(token_hash(token))


@pytest.fixture
def owner(server: Running) -> Iterator[Client]:
    with connect(server.url, server.token("owner")) as client:
        yield client


def test_a_token_is_told_its_own_limit_before_it_asks(
    server: Running, owner: Client, analyst: tuple[Client, str]
) -> None:
    client, shown = analyst
    server.curator.register("limited", ROWS, DOMAIN)
    owner.open_budget("limited", AddRemove(), Loss(1))
    owner.do(LimitToken("limited", AddRemove(), shown, Loss("0.25")))
    with pytest.raises(NotFound, match="no such token"):
        owner.do(LimitToken("limited", AddRemove(), "0" * 16, Loss(1)))
    (priced,) = client.price(histogram(3), "limited").charges
    assert (priced.left, priced.questions_left) == (Loss("0.15"), 2)
    answer = client.ask(histogram(3), "limited")
    assert answer.head == server.curator.head()
    ((mine,), (owners,)) = client.budget("limited"), owner.budget("limited")
    assert (mine.left, mine.left_to_you) == (Loss("0.9"), Loss("0.15"))
    assert (owners.left, owners.left_to_you) == (Loss("0.9"), None)
    assert "Left to you: epsilon 0.15." in mine._repr_html_()
    client.ask(histogram(4), "limited")
    assert not client.price(histogram(5), "limited").affordable
    before = server.curator.head()
    with pytest.raises(BudgetExceeded, match=r"may spend.* Left to it is epsilon 0\.05\."):
        client.ask(histogram(5), "limited")
    limited = server.curator.dataset("limited")
    with pytest.raises(BudgetExceeded, match="This token may spend"):
        server.curator.asking.check_budget(histogram(5), limited, None, shown)
    assert server.curator.head() == before
    assert server.curator.price(histogram(5), "limited").affordable  # of others


def test_an_analyst_sees_what_is_left_to_her_beside_what_is_left(
    server: Running, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = server.token("analyst")
    server.curator.register("hers", ROWS, DOMAIN)
    owner.open_budget("hers", AddRemove(), Loss(1))
    owner.do(LimitToken("hers", AddRemove(), token_id(token_hash(token)), Loss("0.25")))
    with server.browser(token) as browser:
        for page in ("/", "/data/hers", "/data/hers/ask/histogram"):
            assert "Left to you: epsilon 0.25" in browser.get(page).text
        fields = {"columns": "age", "epsilon": "0.125"}
        assert "Left to you" in browser.post("/data/hers/price/histogram", **fields).text
    monkeypatch.setenv("PRIVOD_TOKEN", token)
    asked = ["budget", "hers", "--at", server.url]
    told = CliRunner().invoke(app, asked, env={"COLUMNS": "200"}).stdout
    assert "left to you" in told
    assert "epsilon 0.25" in told
    monkeypatch.setenv("PRIVOD_TOKEN", server.token("owner"))
    assert "left to you" not in CliRunner().invoke(app, asked, env={"COLUMNS": "200"}).stdout


def test_an_answer_from_the_store_carries_a_head_too(
    server: Running, analyst: tuple[Client, str]
) -> None:
    client, _ = analyst
    first, again = (client.ask(histogram(7), "patients") for _ in range(2))
    assert again.stored
    server.curator.verify(first.head)
    server.curator.verify(again.head)


def test_entries_name_the_token_that_acted(server: Running, analyst: tuple[Client, str]) -> None:
    client, shown = analyst
    token = server.token("owner")
    server.curator.register("named", ROWS, DOMAIN)
    with connect(server.url, token) as owner:
        owner.open_budget("named", AddRemove(), Loss(1))
        made = client.do(FileRequest("named", AddRemove(), Loss(2), "more"))
        with pytest.raises(NotAllowed):
            client.do(Approve("named", made.number, reason="why not"))
        with pytest.raises(NotFound, match="no request"):
            owner.do(Approve("patients", made.number, reason="another data set"))
        with pytest.raises(NeedsConfirmation, match=r"guesses right at most 88\.1 %"):
            owner.do(Approve("named", made.number, reason="fine"))
        approved = owner.do(Approve("named", made.number, reason="fine"), confirmed=True)
        assert approved.decision == "approved"
    by = {entry.kind: entry.token for entry in server.curator.history("named")}
    mine = token_id(token_hash(token))
    assert by == {
        "register": None,
        "open": mine,
        "request": shown,
        "raise": mine,
        "approve": mine,
    }
    assert client.requests("named") == server.curator.requests("named")


def test_a_token_that_expired_opens_nothing(server: Running) -> None:
    with server.api(server.token("owner")) as api:
        sent = {"role": "analyst", "name": "Ada", "expires": "2020-01-01"}
        assert api.post("/tokens", json=sent).status_code == 422
        made = api.post("/tokens", json={**sent, "expires": "2999-01-01"})
        listed = api.get("/tokens").json()[-1]
    assert made.status_code == 200
    assert listed["expires"].startswith("2999-01-01")
    assert connect(server.url, made.json()["token"]).datasets()


def test_the_shell_makes_tokens_that_expire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVOD_AT", str(tmp_path))
    run("token", "add", "analyst", "--name", "Ada", "--expires", "2999-01-31")
    (listed,) = run("token", "list")
    assert listed["expires"].startswith("2999-01-31")


def test_a_server_is_the_witness_of_a_ledger_elsewhere(
    server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{server.url}/api/v1/witnesses/hospital"
    monkeypatch.setenv("PRIVOD_WITNESS_TOKEN", server.token("auditor"))
    here, old = tmp_path / "curator", tmp_path / "old"
    with Curator.open(here, witness=url) as curator:
        curator.register("people", ROWS, DOMAIN)
        curator.open_budget("people", AddRemove(), Loss(1))
    shutil.copytree(here, old)
    with Curator.open(here, witness=url) as curator:
        answer = curator.ask(histogram(3), "people")
        assert str(kept_for(server.curator.directory, "hospital").read()) == answer.head
        curator.verify()
    shutil.rmtree(here)
    shutil.copytree(old, here)  # the ledger and the witness beside it, both rolled back
    Curator.open(here).close()
    with pytest.raises(LedgerDamaged, match="witnesses/hospital"):
        Curator.open(here, witness=url)
    with (
        Curator.open(here, witness=url, restoring=True) as behind,
        pytest.raises(Unavailable, match="Its keeper must remove it"),
    ):
        behind.accept_restored("an old copy")


def test_a_witness_elsewhere_that_does_not_work_lets_nothing_leave(
    server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{server.url}/api/v1/witnesses/clinic"
    for wrong in ("ftp://x/y", "http://auditor.example/api/v1/witnesses/x"):
        with pytest.raises(InvalidParameter, match="https address"):
            WitnessElsewhere(wrong, "t")
    monkeypatch.setenv("PRIVOD_WITNESS_TOKEN", server.token("analyst"))
    with pytest.raises(Unavailable, match="it answers 403"):
        Curator.open(tmp_path / "curator", witness=url)
    monkeypatch.setenv("PRIVOD_WITNESS_TOKEN", server.token("owner"))
    with Curator.open(tmp_path / "curator", witness=url) as curator:
        curator.register("people", ROWS, DOMAIN)
        curator.open_budget("people", AddRemove(), Loss(1))
        monkeypatch.setattr(curator.witnesses.files[1], "_token", "gone")
        with pytest.raises(Unavailable, match="Nothing leaves without it"):
            curator.ask(histogram(3), "people")
        assert curator.budget("people")[0].spent == Loss(0)
    with server.api(server.token("owner")) as api:
        assert api.post("/witnesses/clinic", json={"head": "x"}).status_code == 422
        assert api.get("/witnesses/UPPER").status_code == 422


# ---- the client and the console ------------------------------------------------------------------


def test_the_client_does_all_of_it(server: Running, owner: Client) -> None:
    server.curator.register("far", ROWS, DOMAIN)
    owner.open_budget("far", AddRemove(), Loss(1))
    assert owner.do(
        RaiseBudget("far", AddRemove(), Loss(2), "more"), confirmed=True
    ).budget == Loss(2)
    owner.open_budget("far", AdmittedContexts(), Loss(1), confirmed=True)
    person = PERSON.guarantee().adjacency
    assert isinstance(person, SameContexts)
    with pytest.raises(NeedsConfirmation):
        owner.do(AdmitPerson("far", person, "my patient"))
    owner.do(AdmitPerson("far", person, "my patient"), confirmed=True)
    assert owner.admitted("far") == (person,)
    closed = owner.do(CloseBudget("far", AddRemove(), "enough"), confirmed=True)
    assert [state.left for state in closed] == [Loss(0), Loss(0)]
    owner.do(Retire("far", "the study ended"), confirmed=True)


def test_exact_counts_are_allowed_and_protection_is_told_over_the_network(
    server: Running, owner: Client, analyst: tuple[Client, str]
) -> None:
    crowd = InCrowd(5.0, ("age",), 3)
    server.curator.register("crowds", ROWS, DOMAIN)
    owner.open_budget("crowds", AddRemove(), Loss(1))
    assert owner.who_is_protected("crowds") == ()
    assert owner.who_is_protected("crowds", crowd) == server.curator.who_is_protected(
        "crowds", crowd
    )
    owner.open_budget("crowds", crowd, Loss(1), confirmed=True)
    with pytest.raises(NeedsConfirmation, match="counts of records that are not protected"):
        owner.do(AllowExactCounts("crowds", crowd, 4, "a study of rare ages"))
    left = owner.do(AllowExactCounts("crowds", crowd, 4, "a study"), confirmed=True)
    assert left == 4
    with pytest.raises(InvalidParameter, match="sample must lie between 1 and 1000"):
        owner.who_is_protected("crowds", sample=10**6)
    client, _ = analyst
    with pytest.raises(NotAllowed):
        client.who_is_protected("crowds")
    with pytest.raises(NotAllowed):
        client.do(AllowExactCounts("crowds", crowd, 9, "more"), confirmed=True)


def test_exact_counts_and_protection_in_the_shell(at: tuple[str, str]) -> None:
    _, name = at
    crowd = json.dumps(CROWD.to_json())
    run("open", name, "--epsilon", "1")
    run("open", name, "--epsilon", "1", "--adjacency", crowd, "--yes")
    (found,) = run("protected", name)["protected"]
    assert found["records"] == found["examined"]
    asked = ("allow-exact", name, "--counts", "3", "--adjacency", crowd, "--reason", "rare ages")
    run(*asked, fails_with=NeedsConfirmation)
    assert run(*asked, "--yes") == {"left": 3}


def test_a_server_makes_one_report_of_who_is_protected_at_a_time(
    server: Running, owner: Client
) -> None:
    crowd = InCrowd(5.0, ("age",), 3)
    server.curator.register("reported", ROWS, DOMAIN)
    server.curator.open_budget("reported", AddRemove(), Loss(1))
    written = json.dumps(crowd.to_json())
    form = {"epsilon": "1", "adjacency": "other", "other": written}
    with server.browser(server.token("owner")) as browser:
        with server.site.reports._one:  # as if one were being made
            with pytest.raises(LimitReached, match="one at a time"):
                owner.who_is_protected("patients", crowd)
            page = browser.get("/data/patients/protected", params={"adjacency": written})
            assert page.status_code == 429
            assert "one at a time" in page.text
            opening = browser.post("/data/reported/budgets/new", **form)
            assert "one at a time" in opening.text
            assert "records are protected" not in opening.text
        held = list(server.curator._tables._held)
        told = owner.who_is_protected("reported", crowd)
        assert list(server.curator._tables._held) == held, "rows are looked at in another process"
        assert told == server.curator.who_is_protected("reported", crowd)
        opening = browser.post("/data/reported/budgets/new", **form)
        assert "records are protected" in opening.text
    assert len(server.curator.budget("reported")) == 1, "only the main one"


def test_the_console_allows_exact_counts_and_tells_who_is_protected(server: Running) -> None:
    crowd = InCrowd(5.0, ("age",), 3)
    server.curator.register("shown", ROWS, DOMAIN)
    server.curator.open_budget("shown", AddRemove(), Loss(1))
    server.curator.open_budget("shown", crowd, Loss(1), confirmed=True)
    number = next(
        state.number for state in server.curator.budget("shown") if state.adjacency == crowd
    )
    with server.browser(server.token("owner")) as browser:
        assert "Allow exact counts" in browser.get("/data/shown/manage").text
        page = browser.get("/data/shown/protected").text
        assert "NOT PRIVATE, for the owner alone" in page
        assert "records are protected" in page
        wrong = browser.get("/data/shown/protected", params={"adjacency": "all"})
        assert wrong.status_code == 422
        assert "Adjacency must be" in wrong.text
        form = {"budget": str(number), "counts": "2", "reason": "rare ages"}
        asked = browser.post("/data/shown/manage/allow-exact", **form)
        assert "What this means." in asked.text
        many = browser.post("/data/shown/manage/allow-exact", **{**form, "counts": "many"})
        assert "Counts must be a whole number" in many.text
        done = browser.post("/data/shown/manage/allow-exact", **form, confirmed="yes")
        assert done.status_code == 303
    assert "rare ages" in str(server.curator.history("shown")[-1])


def test_auto_noise_is_decided_where_the_budget_is(
    server: Running, owner: Client, analyst: tuple[Client, str]
) -> None:
    client, _ = analyst
    server.curator.register("squares", ROWS, DOMAIN)
    owner.open_budget("squares", AddRemove(), Loss(1, "1e-6"), accounting="zcdp", confirmed=True)
    asked = histogram(3, noise="auto", delta="1e-9")
    answer = client.ask(asked, "squares")
    assert answer.release.query == histogram(3, noise="gaussian", delta="1e-9")
    assert client.release("squares", asked) == answer.release
    assert client.ask(asked, "squares").stored
    assert client.price(asked, "squares").already_answered


def test_an_owner_manages_in_the_console_and_confirms_what_is_given_up(server: Running) -> None:
    server.curator.register("seen", ROWS, DOMAIN)
    server.curator.open_budget("seen", AddRemove(), Loss(1))
    analyst = create_token(server.curator, "analyst", "seen", "Ada")
    with server.browser(analyst) as browser:
        assert "None yet" in browser.get("/data/seen/requests").text
        wrong = browser.post("/data/seen/requests", adjacency="no", epsilon="1", reason="x")
        assert (wrong.status_code, "Adjacency must be" in wrong.text) == (422, True)
        wanted = json.dumps(CROWD.to_json())
        browser.post("/data/seen/requests", adjacency=wanted, epsilon="1", reason="for copies")
    (request,) = server.curator.requests("seen")
    assert request.asked_by == "Ada"
    number = server.curator.budget("seen")[0].number
    with server.browser(server.token("owner")) as browser:
        assert "for copies" in browser.get("/data/seen/manage").text
        decision = {"number": request.number, "reason": "fine"}
        warned = browser.post("/data/seen/manage/approve", **decision)
        assert "What this means." in warned.text
        assert len(server.curator.budget("seen")) == 1
        browser.post("/data/seen/manage/approve", **decision, confirmed="yes")
        assert len(server.curator.budget("seen")) == 2
        more = {"budget": number, "epsilon": "3", "delta": "0", "reason": "more"}
        assert "guesses right at most" in browser.post("/data/seen/manage/raise", **more).text
        raised = browser.post("/data/seen/manage/raise", **more, confirmed="yes")
        assert raised.status_code == 303
        again = browser.post("/data/seen/manage/raise", **more)
        assert (again.status_code, "must allow more" in again.text) == (422, True)
        shown = token_id(token_hash(analyst))
        limit = {"budget": number, "token": shown, "epsilon": "1"}
        assert browser.post("/data/seen/manage/limit", **limit).status_code == 303
        gone = {"budget": number, "reason": "enough"}
        assert "This closes, for good" in browser.post("/data/seen/manage/close", **gone).text
        browser.post("/data/seen/manage/close", **gone, confirmed="yes")
        ended = browser.post("/data/seen/manage/retire", reason="over", confirmed="yes")
        assert ended.status_code == 303
        assert "closed" in browser.get("/data/seen").text
        assert "Its rows are deleted; stored answers stay free" in browser.get("/data/seen").text
        assert '<span class="tag off">retired</span>' in browser.get("/").text
    kinds = [entry.kind for entry in server.curator.history("seen")]
    assert kinds[-6:] == ["approve", "raise", "limit", "close", "close", "retire"]
    server.curator.verify()
