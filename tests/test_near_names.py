"""A name with a typo is answered with the nearest one that the reader may see, everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.client import connect
from privod.curator import Curator
from privod.data import Domain, Numeric
from privod.errors import InvalidData, InvalidParameter, NotFound, PrivodError
from privod.estimators.bounds import open_columns
from privod.privacy import AddRemove, InCrowd, Loss
from privod.query.catalog import query_from_json
from privod.questions.graded_count.query import GradedCount
from privod.questions.histogram.query import Histogram
from tests.running_server import DOMAIN, ROWS, Running, running

AGE = {"name": "histogram", "columns": ["age"], "epsilon": "0.1"}
TYPOS = {
    "question": ("patients", AGE | {"name": "histgram"}, "'histogram'"),
    "parameter": (
        "patients",
        {"colums" if n == "columns" else n: AGE[n] for n in AGE},
        "'columns'",
    ),
    "column": ("patients", AGE | {"columns": ["aeg"]}, "'age'"),
    "data set": ("patinets", AGE, "'patients'"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("near")) as server:
        server.curator.register("hidden", ROWS, DOMAIN)
        yield server


@pytest.mark.parametrize("typo", TYPOS)
def test_the_nearest_name_is_proposed_in_python(server: Running, typo: str) -> None:
    of, query, near = TYPOS[typo]
    with pytest.raises(PrivodError, match=f"Did you mean {near}"):
        server.curator.price(query_from_json(query), of)


@pytest.mark.parametrize("typo", TYPOS)
def test_the_nearest_name_is_proposed_over_http(server: Running, typo: str) -> None:
    of, query, near = TYPOS[typo]
    with server.api(server.token("analyst")) as api:
        told = api.post(f"/datasets/{of}/price", json={"query": query})
    assert told.status_code in (404, 422)
    assert f"Did you mean {near}?" in told.json()["error"]["message"]


@pytest.mark.parametrize("typo", TYPOS)
def test_the_nearest_name_is_proposed_in_the_shell(
    server: Running, monkeypatch: pytest.MonkeyPatch, typo: str
) -> None:
    of, query, near = TYPOS[typo]
    monkeypatch.setenv("PRIVOD_AT", str(server.curator.directory))
    given = [f"{name}={value[0] if name == 'columns' else value}" for name, value in query.items()]
    for command in ("price", "ask"):
        done = CliRunner().invoke(app, [command, of, str(query["name"]), *given[1:]])
        assert f"Did you mean {near}?" in str(done.exception)


def test_the_nearest_question_is_proposed_on_a_page(server: Running) -> None:
    with server.browser(server.token("analyst")) as browser:
        page = browser.get("/data/patients/ask/histgram")
        assert page.status_code == 404
        assert "Did you mean &#39;histogram&#39;?" in page.text
        assert "Did you mean &#39;patients&#39;?" in browser.get("/data/patinets").text


def test_no_name_is_proposed_that_the_reader_may_not_see(server: Running) -> None:
    client = connect(server.url, server.token("analyst", "patients"))
    query = Histogram(columns=("age",), epsilon="0.1")
    for typed in ("hiden", "hidden"):
        with pytest.raises(NotFound, match="this token is for") as told:
            client.price(query, typed)
        assert "Did you mean" not in str(told.value)
    with pytest.raises(NotFound, match="Did you mean 'patients'"):
        client.price(query, "patinets")


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        (["regsiter"], "register"),
        (["opne"], "open"),  # made from an act when it is looked for
        (["verfy"], "verify"),
        (["token", "ad"], "add"),
        (["engine", "instal"], "install"),
        (["open", "stays", "--epsilom", "3"], "--epsilon"),
    ],
)
def test_the_nearest_command_is_proposed(typed: list[str], near: str) -> None:
    done = CliRunner().invoke(app, typed)
    assert done.exit_code == 2
    assert near in done.output.partition("No such")[2]


def test_the_nearest_column_is_proposed_wherever_one_is_named(tmp_path: Path) -> None:
    domain = Domain((Numeric("heart_rate", 0, 200), Numeric("pressure", 0, 300)))
    count = GradedCount(columns=("presure",), radius=5, max_crowd=3, epsilon=1)
    with pytest.raises(InvalidParameter, match="Did you mean 'pressure'"):
        count.check(domain)
    with Curator.open(tmp_path) as curator:
        with pytest.raises(InvalidData, match="Did you mean 'presure'"):
            curator.register("stays", {"heart_rate": [1.0], "presure": [1.0]}, domain)
        curator.register("stays", {"heart_rate": [1.0], "pressure": [1.0]}, domain)
        curator.open_budget("stays", AddRemove(), Loss(1))
        with pytest.raises(InvalidParameter, match="Did you mean 'pressure'"):
            curator.open_budget("stays", InCrowd(5, ("presure",), 3), Loss(1), confirmed=True)
    rows = {"heart_rate": [1.0], "pressure": [1.0]}
    with pytest.raises(InvalidParameter, match="Did you mean 'pressure'"):
        open_columns(rows, {"presure": (0, 300)}, domain.names)
