"""Figures kept per head of the ledger: what is shown is what would be computed, always."""

from __future__ import annotations

# slow: left out by `make quick`
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from privod.curator import Curator
from privod.ledger.acts import (
    ChargeElsewhere,
    CloseBudget,
    LimitToken,
    OpenBudget,
    RaiseBudget,
    Retire,
)
from privod.privacy import AddRemove, Guarantee, Loss, Replace
from privod.questions.histogram.query import Histogram
from privod.server import kept
from privod.server.authentication import token_hash
from privod.server.kept import Kept
from tests.running_server import DOMAIN, ROWS, Running, running

MORE = RaiseBudget("patients", AddRemove(), Loss("3000"), "a test")
QUERY = {"name": "histogram", "columns": ["age"], "epsilon": "0.5"}
READS = (
    "/datasets",
    "/datasets/patients",
    "/datasets/patients/budget",
    "/datasets/patients/history",
    "/datasets/patients/answers",
    "/datasets/patients/requests",
    "/datasets/patients/admitted",
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as server:
        yield server


def spend(curator: Curator, epsilon: str) -> None:
    loss = Guarantee(Loss(epsilon), AddRemove())
    curator.do(ChargeElsewhere("patients", loss, "a paper"), confirmed=True)


def shown(api: httpx.Client) -> list[Any]:
    prices = [
        api.post("/datasets/patients/price", json={"query": {**QUERY, "epsilon": epsilon}})
        for epsilon in ("0.5", "2", "2000")
    ]
    return [one.json() for one in (*prices, *map(api.get, READS))]


def test_what_is_kept_is_what_would_be_computed_after_every_act(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator, token = server.curator, server.token("analyst")
    known = curator.store.find_token(token_hash(token))
    assert known is not None
    acts: list[Callable[[], Any]] = [
        lambda: curator.ask(Histogram(columns=("age",), epsilon="0.5"), "patients"),
        lambda: curator.do(LimitToken("patients", AddRemove(), known.id, Loss("1.5"))),
        lambda: curator.do(MORE, confirmed=True),
        lambda: spend(curator, "7"),
        lambda: curator.do(OpenBudget("patients", Replace(), Loss("30")), confirmed=True),
        lambda: curator.register("later", ROWS, DOMAIN, continues="patients"),
        lambda: curator.do(CloseBudget("patients", AddRemove(), "a test"), confirmed=True),
    ]
    with server.api(token) as api, server.browser(token) as browser:

        def read() -> tuple[list[Any], str]:
            return shown(api), browser.get("/data/patients").raise_for_status().text

        first = read()
        assert read() == first
        seen = [first]
        for act in acts:
            act()
            told = read()
            with monkeypatch.context() as patched:
                patched.setattr(Kept, "find", lambda *_: None)  # nothing is kept
                assert read() == told
            assert told not in seen  # each of them is to be seen somewhere
            seen.append(told)


def test_a_kept_page_is_the_visitors_own_and_its_form_is_the_browsers(server: Running) -> None:
    code = re.compile(r'name="code" value="([0-9a-f]+)"')
    pages: dict[str, list[str]] = {}
    for role in ("analyst", "analyst", "owner", "auditor"):
        token = server.token(role)
        for _ in range(2):
            with server.browser(token) as browser:
                text = browser.get("/data/patients").raise_for_status().text
                assert browser.get("/data/patients").text == text
                (of_form,) = set(code.findall(text))
                pages.setdefault(token, []).append(text.replace(of_form, "", 1))
                left = browser.request("POST", "/sign-out", data={"code": of_form})
                assert left.headers["location"] == "/sign-in"
    assert all(len(set(of_one)) == 1 for of_one in pages.values())
    assert len({of_one[0] for of_one in pages.values()}) == 3  # both analysts see the same here
    server.curator.do(Retire("patients", "a test"), confirmed=True)
    with server.browser(server.token("owner")) as browser:
        assert "Its rows are deleted" in browser.get("/data/patients").text


def test_nothing_is_computed_twice_while_the_head_stands(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for name in ("price", "budget", "history"):
        inner = getattr(Curator, name)

        def counted(*given: Any, _inner: Any = inner, _name: str = name, **named: Any) -> Any:
            calls.append(_name)
            return _inner(*given, **named)

        monkeypatch.setattr(Curator, name, counted)
    with server.api(server.token("analyst")) as api:
        told = [api.post("/datasets/patients/price", json={"query": QUERY}) for _ in range(5)]
        assert len({one.text for one in told}) == 1
        for _ in range(5):
            api.get("/datasets/patients/budget")
            api.get("/datasets/patients/history")
    assert sorted(calls) == ["budget", "history", "price"]


def test_one_token_is_never_shown_what_was_kept_for_another(server: Running) -> None:
    first, second = server.token("analyst"), server.token("analyst")
    known = server.curator.store.find_token(token_hash(first))
    assert known is not None
    server.curator.do(LimitToken("patients", AddRemove(), known.id, Loss("1.5")))
    with server.api(first) as limited, server.api(second) as free:
        left = [api.get("/datasets/patients/budget").json()[0] for api in (limited, free, limited)]
    assert left[0] == left[2]
    assert left[0]["left_to_you"] is not None
    assert left[1]["left_to_you"] is None
    with server.browser(first) as hers, server.browser(second) as another:
        assert "; to you epsilon 1.5)" in hers.get("/data/patients/ask").text
        assert "to you" not in another.get("/data/patients/ask").text


def test_a_charge_looks_at_the_ledger_and_never_at_what_is_kept(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stands in the cache, an analyst gets no more than the ledger allows."""
    with server.api(server.token("analyst")) as api:
        kept_price = api.post("/datasets/patients/price", json={"query": QUERY}).json()
        assert kept_price["affordable"]
        monkeypatch.setattr(Kept, "_follow", lambda _self: None)  # it never hears of a new head
        spend(server.curator, "999.8")
        assert api.post("/datasets/patients/price", json={"query": QUERY}).json() == kept_price
        asked = api.post("/datasets/patients/ask", json={"query": QUERY, "wait": 60})
    assert asked.status_code == 409
    assert asked.json()["error"]["kind"] == "budget-exceeded"


def test_what_is_computed_while_the_head_moves_is_not_kept(server: Running) -> None:
    figures = Kept(server.curator)
    begun, moved = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        assert moved.wait(60)
        return "of an older head"

    thread = threading.Thread(target=figures.figure, args=("key", slow))
    thread.start()
    assert begun.wait(60)
    spend(server.curator, "1")
    assert figures.find("key") is None  # somebody sees the new head
    moved.set()
    thread.join()
    assert figures.figure("key", lambda: "of the new head") == "of the new head"


def test_no_more_is_kept_than_fits(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_BYTES", 10 * kept.OVERHEAD)
    figures = Kept(server.curator)
    for place in range(100):
        figures.figure(place, lambda: "x")
    assert sum(figures.find(place) is not None for place in range(100)) == 9
    assert figures.find(99) == "x"
    assert figures.figure("large", lambda: "y" * 10 * kept.OVERHEAD)  # alone too large: not kept
    assert figures.find("large") is None
