"""Every page of the console with very many questions and very long names.

Pages come from the server's own table of routes, so that a new one is visited, too. How many
questions there are is set by `PRIVOD_CONSOLE_QUESTIONS`: `make soak` asks 3,000, for minutes, looks
at every page of every role in every look and asks axe; here the owner's on a dark and narrow screen
have to do. `PRIVOD_CONSOLE_PAGES` says how many pages of a role are visited, if not all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from privod.curator.work import JobRecord, Room
from privod.data import Categorical, Domain, Numeric
from privod.ledger.chain import now
from privod.privacy import AddRemove, InCrowd, Loss
from privod.questions.histogram.query import Histogram
from privod.server.app import CONSOLE
from privod.server.authentication import token_hash
from privod.wire import answer_key
from tests.browser.test_accessibility import AXE, complaints
from tests.browser.test_console import CHROMIUM, LONG, WORD, chromium
from tests.browser.visiting import EVERY_LOOK, NARROW, Look, Visit
from tests.running_server import Running, running

__all__ = ["chromium"]  # a fixture

N_QUESTIONS = int(os.environ.get("PRIVOD_CONSOLE_QUESTIONS", "60"))
MANY = 100  # from here on every look is taken, and axe asked
LOOKS: tuple[Look, ...] = EVERY_LOOK if N_QUESTIONS >= MANY else (("dark", NARROW),)
ROLES = ("owner", "analyst", "auditor") if N_QUESTIONS >= MANY else ("owner",)
NAME = f"{LONG}: {WORD}"[:200]
DOMAIN = Domain((Numeric(WORD, 0, 1), Categorical(LONG, (WORD, LONG, "<b>&amp;</b>"))))
QUERIES = [
    Histogram(columns=(WORD,) if place % 2 else (LONG,), epsilon=f"0.00{place:04}1")
    for place in range(N_QUESTIONS)
]
KEYS = [answer_key(query) for query in QUERIES]
NOT_PAGES = ("/static/{file}", "/robots.txt", "/sign-in/provider", "/sign-in/return")
ENDINGS = (".svg", ".json", ".csv", ".ipynb", "/progress")  # pictures, files and a part of a page
BESIDE = {  # the same pages further on, and with something in them
    "analyst": [
        f"/data/{quote(NAME)}/answers?page=2",
        "/questions?page=2",
    ],
    "owner": [f"/data/{quote(NAME)}/history?page=2"],
    "auditor": [],
}

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs chromium-headless-shell")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("many"), data=False) as server:
        curator = server.curator
        curator.register(NAME, {WORD: [0.5] * 50, LONG: [WORD] * 50}, DOMAIN)
        curator.open_budget(NAME, AddRemove(), Loss("100", "1e-5"))
        crowd = InCrowd(0.1, (WORD,), 3)
        curator.open_budget(NAME, crowd, Loss(1), confirmed=True)
        for query in QUERIES:
            curator.ask(query, NAME, asked_by=f"{LONG} {WORD}")
        yield server


def note_jobs(server: Running, token: str) -> str:
    """As if an analyst had asked all of them; the last one's job."""
    records, asker = server.curator.job_records, token_hash(token)
    for place, query in enumerate(QUERIES):
        told = (f"job-{place}", "elsewhere", asker, LONG, NAME, query.to_json(), f"asked-{place}")
        records.add(JobRecord(*told, time=now()), Room(10**6, 10**6))
        records.end(f"job-{place}", "elsewhere", "")
    return f"job-{len(QUERIES) - 1}"


def pages(role: str, job: str) -> dict[str, str]:
    """Every page of a role: what it is called, and where it is."""
    found = {}
    for route in CONSOLE:
        if route.method != "GET" or route.path in NOT_PAGES or route.path.endswith(ENDINGS):
            continue
        if route.access.roles and role not in route.access.roles:
            continue
        where = route.path.replace("{dataset}", quote(NAME)).replace("{key}", KEYS[0])
        where = where.replace("{question}", "histogram").replace("{job}", job)
        if route.path.endswith("/compare"):
            where += f"?key={KEYS[0]}&key={KEYS[1]}"
        found[route.path.strip("/").replace("/", "-") or "data"] = where
    return found


@pytest.mark.parametrize("role", ROLES)
def test_every_page_stands_many_questions_and_long_names(
    server: Running, chromium: Browser, role: str
) -> None:
    token = server.token(role)
    job = note_jobs(server, token) if role == "analyst" else "none"
    visit = Visit.begin(chromium, server.url, token)
    expect(visit.page.locator("h1")).to_have_text("Data")
    asked = pages(role, job) | {f"further-{n}": path for n, path in enumerate(BESIDE[role])}
    told: dict[str, list[str]] = {}
    for name, path in asked.items():
        visit.go(path)
        expect(visit.page.locator("h1")).to_be_visible()
        visit.photograph(f"many-{role}-{name}", LOOKS)
        if AXE.exists() and N_QUESTIONS >= MANY:
            told[path] = complaints(visit)
    assert {path: found for path, found in told.items() if found} == {}
    visit.end()
