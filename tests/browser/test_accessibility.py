"""Every page passes axe-core, light and dark; with thousands of answers and long names, too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from privod.data import Domain, Numeric
from privod.privacy import AddRemove, Loss
from privod.questions.histogram.query import Histogram
from privod.server.views.pages import answer_path
from privod.wire import answer_key
from tests.browser.test_console import CHROMIUM, chromium
from tests.browser.visiting import Visit
from tests.running_server import Running, running

__all__ = ["chromium"]  # a fixture

FOLDER = Path(os.environ.get("PRIVOD_AXE", "out/axe/node_modules/axe-core"))
AXE = FOLDER / "axe.min.js"
DOMAIN = Domain((Numeric("age", 0, 120), Numeric("weight", 0, 300)))
ONE, OTHER = (Histogram(columns=("age",), epsilon=epsilon) for epsilon in ("0.1", "0.2"))
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
FOUND = """async (rules) => {
    const {violations} = await axe.run(document, {runOnly: rules});
    return violations.map(one => `${one.id}: ${one.help}: ${one.nodes[0].html.slice(0, 200)}`); }"""

PAGES = {
    "owner": [
        *("/", "/data/new", "/data/clinic", "/data/clinic/history", "/data/clinic/report"),
        *("/data/clinic/budgets/new", "/data/clinic/manage", "/data/clinic/protected"),
        *("/tokens", "/verify", "/nowhere"),
    ],
    "analyst": [
        *("/", "/questions", "/data/clinic", "/data/clinic/requests", "/data/clinic/ask"),
        *("/data/clinic/ask/histogram", "/data/clinic/ask/outlier-count"),
        *("/data/clinic/answers", answer_path("clinic", ONE)),
        f"/data/clinic/compare?key={answer_key(ONE)}&key={answer_key(OTHER)}",
    ],
}

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="needs chromium-headless-shell"),
    pytest.mark.skipif(
        not AXE.exists(), reason="needs axe-core: npm install --prefix out/axe axe-core@4"
    ),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("axe"), data=False) as server:
        ages, weights = np.random.default_rng(0).normal((40, 70), (12, 9), (400, 2)).T
        server.curator.register("clinic", {"age": ages, "weight": weights}, DOMAIN)
        server.curator.open_budget("clinic", AddRemove(), Loss("10", "1e-5"))
        for query in (ONE, OTHER):
            server.curator.ask(query, "clinic")
        yield server


def complaints(visit: Visit) -> list[str]:
    """What axe finds on the page as it is, light and dark."""
    found: list[str] = []
    visit.page.evaluate(AXE.read_text())  # not a script of the page, so its policy stands
    for scheme in ("light", "dark"):
        visit.page.emulate_media(color_scheme=scheme)
        found += visit.page.evaluate(FOUND, RULES)
    return found


@pytest.mark.parametrize("role", PAGES)
def test_every_page_passes_axe(server: Running, chromium: Browser, role: str) -> None:
    visit = Visit.begin(chromium, server.url)
    found = {"/sign-in": complaints(visit)}
    visit.page.fill("#token", server.token(role))
    visit.page.click("main button")
    expect(visit.page.locator("h1")).to_have_text("Data")
    for path in PAGES[role]:
        visit.go(path)
        found[path] = complaints(visit)
    if role == "analyst":
        visit.go("/data/clinic/ask/histogram")
        visit.page.click("main button:visible:has-text('Review')")
        expect(visit.page.locator("main")).to_contain_text("Nothing has been charged yet")
        found["confirm"] = complaints(visit)
    assert {path: told for path, told in found.items() if told} == {}
    visit.end()


def test_axe_would_have_told(server: Running, chromium: Browser) -> None:
    visit = Visit.begin(chromium, server.url)
    visit.page.evaluate("() => document.querySelector('main').append(new Image())")
    assert any("image-alt" in told for told in complaints(visit))
    visit.end()
