"""The JSON interface: from a registration to an answer, and what goes wrong on the way."""

from __future__ import annotations

# slow: left out by `make quick`
import csv
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from privod.curator import Curator
from privod.data import Categorical, Domain
from privod.errors import AnswerFailed
from privod.privacy import AddRemove, Loss
from privod.query.catalog import QUERIES, release_from_json
from privod.query.frames import safe_cell
from privod.questions.histogram.query import Histogram
from privod.server.authentication import token_hash
from privod.server.http.middleware import HEADERS
from tests.patience import PATIENCE
from tests.postgres_cluster import find_server, running_server
from tests.running_server import CANARY, Running, running

DOMAIN = '{"columns": [{"name": "age", "low": 0, "high": 120}]}'
QUERY = {"name": "histogram", "columns": ["age"], "epsilon": "0.5"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("api")) as server:
        yield server


@pytest.fixture(scope="module")
def analyst(server: Running) -> Iterator[httpx.Client]:
    with server.api(server.token("analyst")) as api:
        yield api


@pytest.fixture(scope="module")
def owner(server: Running) -> Iterator[httpx.Client]:
    with server.api(server.token("owner")) as api:
        yield api


def question(epsilon: str, **others: Any) -> dict[str, Any]:
    return {**QUERY, "epsilon": epsilon, **others}


def test_from_registration_to_an_answer(owner: httpx.Client, server: Running) -> None:
    file = {"file": ("rows.csv", b"age,name\n40,Ada\n50,Bob\n")}
    made = owner.post("/datasets", data={"name": "new", "domain": DOMAIN}, files=file)
    assert made.status_code == 200
    assert made.json()["domain"]["columns"] == [{"name": "age", "low": 0.0, "high": 120.0}]
    budget = {"adjacency": {"name": "add-remove"}, "epsilon": "1", "delta": "0"}
    opened = owner.post("/datasets/new/budgets", json=budget).json()
    assert opened["left"] == {"epsilon": "1", "delta": "0"}
    given = {"role": "analyst", "name": "Ada", "dataset": "new"}
    with server.api(owner.post("/tokens", json=given).json()["token"]) as analyst:
        priced = analyst.post("/datasets/new/price", json={"query": QUERY}).json()
        assert priced["charges"][0]["left"] == {"epsilon": "1/2", "delta": "0"}
        answer = analyst.post("/datasets/new/ask", json={"query": QUERY, "wait": 60}).json()
        assert not answer["stored"]
        assert release_from_json(answer["release"]).query == Histogram(
            columns=("age",), epsilon="0.5"
        )
        assert answer["charges"][0]["loss"] == {"epsilon": "1/2", "delta": "0"}
        again = analyst.post("/datasets/new/ask", json={"query": QUERY, "wait": 60}).json()
        assert again["stored"]
        assert again["release"] == answer["release"]
        assert analyst.get("/datasets/new/budget").json()[0]["spent"]["epsilon"] == "1/2"
        kinds = [entry["kind"] for entry in analyst.get("/datasets/new/history").json()]
        assert kinds == ["register", "open", "token", "charge", "release"]
        (listed,) = analyst.get("/datasets/new/answers").json()
        assert listed["key"] == answer["key"]
        stored = analyst.get(f"/datasets/new/answers/{answer['key']}").json()
        assert stored["release"] == answer["release"]
    assert owner.post("/verify").json()["entries"] >= 4


def test_who_asked_stands_in_the_ledger(analyst: httpx.Client) -> None:
    analyst.post("/datasets/patients/ask", json={"query": question("0.01"), "wait": 60})
    entries = analyst.get("/datasets/patients/history").json()
    assert "test analyst" in {entry["asked_by"] for entry in entries}


def test_over_budget_is_refused_and_nothing_changes(analyst: httpx.Client) -> None:
    before = analyst.get("/datasets/patients/budget").json()
    refused = analyst.post("/datasets/patients/ask", json={"query": question("5000"), "wait": 60})
    assert refused.status_code == 409
    assert refused.json()["error"]["kind"] == "budget-exceeded"
    assert analyst.get("/datasets/patients/budget").json() == before


def test_a_retry_with_the_same_request_id_does_not_pay_twice(analyst: httpx.Client) -> None:
    form = {"query": question("0.02"), "request_id": "once", "wait": 60}
    first = analyst.post("/datasets/patients/ask", json=form).json()
    spent = analyst.get("/datasets/patients/budget").json()[0]["spent"]
    second = analyst.post("/datasets/patients/ask", json=form).json()
    assert second["release"] == first["release"]
    assert analyst.get("/datasets/patients/budget").json()[0]["spent"] == spent
    other = {"query": question("0.03"), "request_id": "once", "wait": 60}
    refused = analyst.post("/datasets/patients/ask", json=other)
    assert refused.json()["error"]["parameter"] == "request_id"


def test_two_analysts_may_use_the_same_request_id(server: Running) -> None:
    for epsilon in ("0.041", "0.042"):
        with server.api(server.token("analyst")) as api:
            form = {"query": question(epsilon), "request_id": "mine", "wait": 60}
            assert api.post("/datasets/patients/ask", json=form).status_code == 200


def test_opening_a_narrow_budget_says_what_it_gives_up_and_wants_a_yes(owner: httpx.Client) -> None:
    file = {"file": ("rows.csv", b"age\n40\n")}
    owner.post("/datasets", data={"name": "narrow", "domain": DOMAIN}, files=file)
    form = {"adjacency": {"name": "replace"}, "epsilon": "1"}
    needed = owner.post("/datasets/narrow/budgets", json=form)
    assert needed.status_code == 409
    assert needed.json()["error"]["kind"] == "needs-confirmation"
    assert "number of records becomes public" in needed.json()["error"]["message"]
    confirmed = owner.post("/datasets/narrow/budgets", json={**form, "confirmed": True})
    assert confirmed.status_code == 200


def test_an_unexpected_failure_tells_and_logs_no_message(
    analyst: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"the secret is {CANARY}")

    monkeypatch.setattr(Curator, "budget", broken)
    with caplog.at_level(logging.DEBUG):
        failed = analyst.get("/datasets/patients/budget")
    assert failed.status_code == 500
    assert failed.json()["error"]["message"] == "The server failed. Tell its operator when."
    assert "unexpected RuntimeError in broken" in caplog.text
    assert CANARY not in caplog.text + failed.text


@pytest.mark.parametrize(
    ("method", "path", "sent", "status", "kind"),
    [
        ("GET", "/datasets/nothing", None, 404, "not-found"),
        ("GET", "/datasets/patients/answers/nothing", None, 404, "not-found"),
        ("GET", "/nowhere", None, 404, "not-found"),
        ("DELETE", "/datasets", None, 405, "invalid-parameter"),
        ("POST", "/datasets/patients/ask", {}, 422, "invalid-parameter"),
        ("POST", "/datasets/patients/ask", {"query": {"name": "none-1"}}, 404, "not-found"),
        ("POST", "/datasets/patients/price", {"query": QUERY, "x": 1}, 422, "invalid-parameter"),
        (
            "POST",
            "/datasets/patients/price",
            {"query": {**QUERY, "epsilon": "-1"}},
            422,
            "invalid-parameter",
        ),
        (
            "POST",
            "/datasets/patients/price",
            {"query": {**QUERY, "columns": ["x" * 5000]}},
            422,
            "invalid-parameter",
        ),
    ],
)
def test_every_error_has_the_one_shape(
    analyst: httpx.Client, method: str, path: str, sent: Any, status: int, kind: str
) -> None:
    response = analyst.request(method, path, json=sent)
    assert response.status_code == status
    assert set(response.json()) == {"error"}
    error = response.json()["error"]
    assert error["kind"] == kind
    assert 0 < len(error["message"]) <= 2004
    if "parameter" in error:
        assert set(error) == {"kind", "message", "parameter", "rule", "value", "way_out"}


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"[" * 100_000, b"null", b'"x"', b"NaN"])
def test_an_unreadable_body_is_refused(analyst: httpx.Client, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    response = analyst.post("/datasets/patients/ask", content=body, headers=headers)
    assert response.status_code in (400, 422)
    assert set(response.json()) == {"error"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.pkl", b"\x80\x04."),
        ("rows.csv", b"\xff\xfe\x00" + CANARY.encode()),
        ("rows.parquet", CANARY.encode()),
        ("rows.csv", f"name\n{CANARY}\n".encode()),
        ("../../etc/passwd", b"age\n1\n"),
        ("", b"age\n1\n"),
    ],
)
def test_a_bad_file_is_refused_and_neither_quoted_nor_logged_nor_kept(
    owner: httpx.Client,
    server: Running,
    caplog: pytest.LogCaptureFixture,
    name: str,
    content: bytes,
) -> None:
    before = sorted(file for file in Path(server.curator.directory).rglob("*") if file.is_dir())
    with caplog.at_level(logging.DEBUG):
        form = {"name": "bad", "domain": DOMAIN}
        refused = owner.post("/datasets", data=form, files={"file": (name, content)})
    assert refused.status_code == 422
    assert CANARY not in refused.text + caplog.text
    assert str(server.curator.directory) not in refused.text
    after = sorted(file for file in Path(server.curator.directory).rglob("*") if file.is_dir())
    assert after == before


@pytest.mark.parametrize("name", ["..", ".", " "])
def test_a_name_that_no_address_can_hold_is_refused(owner: httpx.Client, name: str) -> None:
    file = {"file": ("rows.csv", b"age\n40\n")}
    form = {"name": name, "domain": DOMAIN}
    assert owner.post("/datasets", data=form, files=file).status_code == 422


@pytest.mark.parametrize("domain", ["", "{", "[]", "{}", '{"columns": [1]}', "[" * 10_000])
def test_a_domain_that_is_none_is_refused(owner: httpx.Client, domain: str) -> None:
    file = {"file": ("rows.csv", b"age\n40\n")}
    refused = owner.post("/datasets", data={"name": "x", "domain": domain}, files=file)
    assert refused.status_code == 422


def test_what_is_logged_holds_no_row_no_token_and_no_parameter(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    token = server.token("analyst")
    with caplog.at_level(logging.INFO, logger="privod.server"), server.api(token) as api:
        form = {"query": question("0.07", columns=["sex"])}
        assert api.post("/datasets/patients/ask?secret=1", json=form).status_code == 200
        assert api.get("/datasets/patients/history").status_code == 200
    ours = [record.getMessage() for record in caplog.records if record.name == "privod.server"]
    assert "POST /api/v1/datasets/{dataset}/ask 200 test analyst" in ours
    for secret in (token, CANARY, "0.07", "secret", "47.11", "patients"):
        assert not any(secret in line for line in ours)


def test_every_response_carries_the_security_headers(server: Running) -> None:
    paths = ["/api/v1/health", "/api/v1/nowhere", "/sign-in", "/static/console.css", "/", "/x"]
    for path in paths:
        response = httpx.get(server.url + path, timeout=PATIENCE)
        for name, value in HEADERS.items():
            if name != "cache-control":
                assert response.headers[name] == value
        assert "server" not in response.headers
    policy = HEADERS["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


def test_a_picture_may_load_and_run_nothing(analyst: httpx.Client) -> None:
    key = analyst.post(
        "/datasets/patients/ask", json={"query": question("0.08"), "wait": 60}
    ).json()["key"]
    picture = analyst.get(f"/datasets/patients/answers/{key}/svg")
    assert picture.headers["content-type"] == "image/svg+xml"
    assert "sandbox" in picture.headers["content-security-policy"]
    assert b"<script" not in picture.content


def test_a_table_for_spreadsheets_starts_no_formula(tmp_path: Path) -> None:
    evil = ("=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\tx", 'plain, with "quotes"')
    domain = Domain(
        (Categorical("=EVIL()", tuple(value for value in evil if value.isprintable())),)
    )
    with Curator.open(tmp_path) as curator:
        curator.register("evil", {"=EVIL()": list(evil)}, domain)
        curator.open_budget("evil", AddRemove(), Loss("10"))
        answer = curator.ask(Histogram(columns=("=EVIL()",), epsilon=1), "evil")
    rows = list(csv.reader(io.StringIO(answer.release.to_csv())))
    for row in rows:
        for cell in row:
            assert not cell.startswith(("=", "+", "@", "\t", "\r"))
            if cell.startswith("-"):
                float(cell)  # a number, which is no formula
    assert any("'=cmd|" in cell for row in rows for cell in row)
    assert rows[0] == ["'=EVIL()", "noisy count"]


@pytest.mark.parametrize(("value", "cell"), [(-3, -3), ("-3", "'-3"), ("x", "x"), ("", "")])
def test_numbers_stay_numbers_in_a_cell(value: Any, cell: Any) -> None:
    assert safe_cell(value) == cell


def test_the_questions_are_described_with_their_parameters(analyst: httpx.Client) -> None:
    found = {each["name"]: each for each in analyst.get("/questions").json()}
    assert set(found) == set(QUERIES)
    assert [each["name"] for each in found["histogram"]["parameters"]][:2] == [
        "columns",
        "epsilon",
    ]


def test_the_openapi_document_names_every_route_and_who_needs_a_token(server: Running) -> None:
    document = httpx.get(f"{server.url}/api/v1/openapi.json", timeout=PATIENCE).json()
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    ask = document["paths"]["/api/v1/datasets/{dataset}/ask"]["post"]
    assert ask["security"] == [{"token": []}]
    assert {"200", "202", "4XX", "5XX"} <= set(ask["responses"])
    assert json.dumps(document).count("HTTPValidationError") == 0


def test_an_answer_failed_error_is_not_a_client_mistake() -> None:
    from privod.server.failures import status_of
    from privod.wire import kind_of

    assert (kind_of(AnswerFailed("x")), status_of(AnswerFailed("x"))) == ("answer-failed", 500)


@pytest.mark.skipif(find_server() is None, reason="needs PostgreSQL: apt-get install postgresql")
def test_the_server_keeps_its_budget_in_postgresql(tmp_path: Path) -> None:
    with running_server() as url, running(tmp_path, database=url) as server:
        token = server.token("analyst")
        with server.api(token) as api:
            answer = api.post("/datasets/patients/ask", json={"query": QUERY, "wait": 60}).json()
            assert api.get(f"/datasets/patients/answers/{answer['key']}").json()["stored"]
        with server.browser(token) as browser:
            assert browser.get("/data/patients/history").status_code == 200
        server.curator.store.revoke_token(token_hash(token))
        with server.api(token) as api:
            assert api.get("/me").status_code == 401
