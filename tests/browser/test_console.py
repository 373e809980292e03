"""The console in Chromium, from an owner's registration to an analyst's answer.

Every page is looked at light and dark, wide and narrow. If PRIVOD_SCREENSHOTS names a folder, it is
photographed into that, light and wide, dark and narrow.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from privod.data import Categorical, Domain, Numeric
from privod.data.examples import HOSPITAL, hospital
from privod.privacy import AddRemove, Loss
from privod.query.catalog import QUERIES
from privod.questions.detector_profile.query import DetectorProfile
from privod.questions.histogram.query import Histogram
from privod.server.jobs.answers import Answers
from privod.server.jobs.jobs import Turn
from privod.server.limits import BeingDrawn
from privod.server.views.pages import answer_path
from tests.browser import visiting
from tests.browser.visiting import MILLISECONDS, TWO_LOOKS, Visit
from tests.patience import PATIENCE
from tests.running_server import Running, running

# Without the browser's own windows and tabs a page takes half the time.
INSTALLED = shutil.which("chromium-headless-shell") or shutil.which("chromium")
CHROMIUM = os.environ.get("PRIVOD_CHROMIUM") or INSTALLED or ""
LONG = "A data set with quite a long name, as hospitals and ministries like to give them"
WORD = "Donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbauunterbeamtengesellschaft"
DOMAIN = """{"columns": [
  {"name": "age", "low": 0, "high": 120},
  {"name": "weight", "low": 0, "high": 300, "fill": 70},
  {"name": "sex", "values": ["female", "male"]}
]}"""
ROWS = "age,weight,sex\n" + "".join(f"{20 + n % 60},{50 + n % 40},female\n" for n in range(300))

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs chromium-headless-shell")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("browser")) as server:
        server.curator.register("hospital-stays", hospital(569), HOSPITAL)
        server.curator.open_budget("hospital-stays", AddRemove(), Loss("10", "1e-5"))
        yield server


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    expect.set_options(timeout=MILLISECONDS)
    with sync_playwright() as playwright:
        # The sandbox needs rights that containers rarely have; only our own server is visited.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def test_from_an_owners_registration_to_an_analysts_answer(
    server: Running, chromium: Browser, tmp_path: Path
) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    owner = Visit.begin(chromium, server.url)
    page = owner.page
    owner.photograph("sign-in")
    page.fill("#token", "privod_owner_wrong")
    page.click("main button")
    expect(page.get_by_role("alert")).to_contain_text("unknown or revoked")
    owner.photograph("sign-in-refused", TWO_LOOKS)
    page.fill("#token", server.token("owner"))
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Data")
    owner.photograph("data")

    owner.follow("text=Register data")
    owner.photograph("register")
    page.fill("#name", "clinic")
    page.fill("#domain", DOMAIN.replace("120", "-120"))
    page.click("text=Preview what becomes public")
    expect(page.get_by_role("alert")).to_contain_text("low < high")
    owner.photograph("register-refused", TWO_LOOKS)
    page.fill("#domain", DOMAIN)
    page.click("text=Preview what becomes public")
    expect(page.locator("table")).to_contain_text("0 to 120")
    owner.photograph("register-preview")
    page.set_input_files("#file", tmp_path / "rows.csv")
    page.click("main button:has-text('Register')")
    expect(page.locator("h1")).to_have_text("What became of the rows")
    owner.photograph("report")
    page.click("text=Open a budget")
    expect(page.locator("h1")).to_have_text("Open a budget")
    owner.photograph("open-budget")
    page.fill("#epsilon", "2")
    page.click("button:text-is('Open the budget')")
    expect(page.get_by_role("alert")).to_contain_text("guesses right at most 88.1 % of the time")
    page.check("input[name=confirmed]")
    page.click("button:text-is('Open the budget')")
    expect(page.locator("h1")).to_have_text("clinic")
    owner.photograph("data-set-of-owner")

    owner.go("/data/clinic/budgets/new")
    page.select_option("#adjacency", "replace")
    page.click("button:text-is('Open the budget')")
    expect(page.get_by_role("alert")).to_contain_text("number of records becomes public")
    owner.photograph("open-budget-gives-up", TWO_LOOKS)
    page.check("input[name=confirmed]")
    page.fill("#epsilon", "5")
    page.click("button:text-is('Open the budget')")
    expect(page.get_by_role("heading", name="Replace")).to_be_visible()

    page.click("text=Hand out a token")
    page.fill("#name", "Dr. Ada Lovelace, department of analytical engines")
    page.click("text=Make the token")
    token = page.locator("#new-token").inner_text()
    owner.photograph("tokens")
    page.click("text=Verify")
    page.click("text=Verify now")
    expect(page.get_by_role("status")).to_contain_text("The ledger is intact")
    owner.photograph("verify")
    owner.end()

    analyst = Visit.begin(chromium, server.url, token)
    page = analyst.page
    analyst.follow("a.card")
    analyst.follow("text=Ask a question")
    analyst.photograph("questions")
    page.click(f"text={QUERIES['histogram'].question}")
    expect(page.locator("#price")).to_contain_text("epsilon 0.125")  # as its card said
    page.fill("#epsilon", "0.75")
    expect(page.locator("#price")).to_contain_text("epsilon 0.75")
    expect(page.locator("#price")).to_contain_text("would leave epsilon 1.25")
    analyst.photograph("question")
    page.fill("#epsilon", "7")
    expect(page.locator("#price")).to_contain_text("More than is left")
    page.click("main button:visible:has-text('Review')")
    expect(page.get_by_role("alert").first).to_be_visible()
    analyst.photograph("question-refused", TWO_LOOKS)
    page.fill("#epsilon", "0.75")
    page.check("input[value=sex]")
    page.click("main button:visible:has-text('Review')")
    page.click("main button:has-text('Spend')")
    expect(page.locator(".answer")).to_contain_text("records have")
    expect(page.locator("figure img")).to_be_visible()
    analyst.photograph("answer")
    assert page.evaluate("document.querySelector('figure img').naturalWidth") > 0
    for kind, start in [("JSON", "{"), ("CSV", "age,sex,noisy count"), ("SVG", "<?xml")]:
        with page.expect_download() as download:
            page.click(f"a:has-text('{kind}')")
        assert Path(download.value.path()).read_text().startswith(start)
    analyst.go("/data/clinic/answers")
    page.fill("input[name=find]", "histogram")
    analyst.follow("button:has-text('Find')")
    assert "histogram" not in page.url
    expect(page.locator(".items li")).to_have_count(1)
    analyst.photograph("answers")
    analyst.go("/questions")
    expect(page.locator(".items li")).to_have_count(1)
    analyst.photograph("my-questions")
    analyst.go("/data/clinic")
    analyst.photograph("data-set")
    page.click("main >> text=History")
    expect(page.locator("table")).to_contain_text("charge")
    analyst.photograph("history")
    page.click("text=Sign out")
    expect(page.locator("h1")).to_have_text("Sign in")
    analyst.end()


def test_records_are_scored_on_the_page_of_an_answer(server: Running, chromium: Browser) -> None:
    query = DetectorProfile(columns=HOSPITAL.numeric_names, epsilon=1, delta=0)
    server.curator.ask(query, "hospital-stays")
    visit = Visit.begin(chromium, server.url, server.token("analyst"))
    visit.go(answer_path("hospital-stays", query))
    header = ",".join(HOSPITAL.numeric_names)
    visit.page.get_by_role("textbox", name="Records").fill(
        f"{header}\n62,78,130,36.8,4\n119,215,250,43.9,59\n"
    )
    visit.page.click("main button:has-text('Score')")
    expect(visit.page.locator("#score tbody tr").first).to_contain_text("stands out")
    visit.page.click("text=As code")
    expect(visit.page.get_by_label("For the shell")).to_contain_text("privod ask hospital-stays")
    visit.photograph("scored")
    visit.end()


def test_two_answers_ticked_in_the_list_are_compared(server: Running, chromium: Browser) -> None:
    for epsilon in ("0.21", "0.22"):
        query = Histogram(columns=("temperature",), epsilon=epsilon)
        server.curator.ask(query, "hospital-stays")
    visit = Visit.begin(chromium, server.url, server.token("analyst", "hospital-stays"))
    visit.go("/data/hospital-stays/answers")
    visit.page.fill("input[name=find]", "temperature 0.2")
    visit.follow("button:has-text('Find')")
    for box in visit.page.locator(".items input").all():
        box.check()
    visit.page.click("main button:has-text('Compare')")
    expect(visit.page.get_by_role("heading", name="Cell by cell")).to_be_visible()
    expect(visit.page.locator("figure img")).to_have_count(2)
    visit.photograph("compare")
    visit.end()


def test_a_slider_sets_epsilon_with_the_error_beside_it(server: Running, chromium: Browser) -> None:
    visit = Visit.begin(chromium, server.url, server.token("analyst", "hospital-stays"))
    page = visit.page
    visit.go("/data/hospital-stays/ask/histogram")
    slider = page.get_by_label("More private")
    expect(slider).to_have_value("-0.3")  # epsilon 0.5
    slider.fill("-1")
    expect(page.locator("#epsilon")).to_have_value("0.1")
    expect(page.locator("#epsilon-error")).to_contain_text("margin of ± 30 (95 % confidence)")
    slider.press("ArrowRight")
    expect(page.locator("#epsilon")).to_have_value("0.11")
    page.fill("#epsilon", "0.29")
    expect(page.locator("#epsilon-error")).to_contain_text("margin of ± 10 (95 % confidence)")
    visit.end()


def test_an_analyst_requests_a_budget_and_its_owner_decides(
    server: Running, chromium: Browser
) -> None:
    analyst = Visit.begin(chromium, server.url, server.token("analyst"))
    analyst.go("/data/hospital-stays/requests")
    analyst.page.fill("#adjacency", '{"name": "add-remove"}')
    analyst.page.fill("#epsilon", "12")
    analyst.page.fill("#reason", "Ten is too little for a yearly report.")
    analyst.photograph("requests")
    analyst.page.click("main form button:has-text('Send')")
    expect(analyst.page.locator("main")).to_contain_text("yearly report")
    analyst.end()
    owner = Visit.begin(chromium, server.url, server.token("owner"))
    owner.go("/data/hospital-stays")
    owner.follow("text=Manage (1 request)")
    owner.photograph("manage")
    owner.go("/data/hospital-stays/protected")
    owner.photograph("protected")
    owner.go("/data/hospital-stays/manage")
    owner.page.locator("form:has-text('Decline') [name=reason]").fill("Ten it is.")
    owner.page.click("main button:has-text('Decline')")
    expect(owner.page.locator("main")).to_contain_text("declined")
    owner.end()


@pytest.fixture(scope="module")
def analyst(server: Running, chromium: Browser) -> Iterator[Visit]:
    """Somebody who signs in once and opens a window for each question."""
    visit = Visit.begin(chromium, server.url, server.token("analyst", "hospital-stays"))
    expect(visit.page.locator("h1")).to_have_text("Data")
    yield visit
    visit.end()


@pytest.mark.parametrize("name", QUERIES)
def test_every_question_can_be_put_together_and_priced(analyst: Visit, name: str) -> None:
    with analyst.another() as visit:
        visit.go(f"/data/hospital-stays/ask/{name}")
        expect(visit.page.locator("#price")).not_to_be_empty()
        visit.photograph(f"question-{name}", TWO_LOOKS)


def test_the_console_works_without_a_mouse(server: Running, chromium: Browser) -> None:
    visit = Visit.begin(chromium, server.url)
    page = visit.page
    expect(page.locator("#token")).to_be_focused()  # by itself
    page.keyboard.type(server.token("analyst", "hospital-stays"))
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Data")

    def tab_to(text: str) -> None:
        for _ in range(40):
            page.keyboard.press("Tab")
            focused = page.evaluate(
                "() => { const e = document.activeElement, s = getComputedStyle(e);"
                " return [e.innerText || e.id, s.outlineStyle, parseFloat(s.outlineWidth)]; }"
            )
            assert focused[1] == "solid"
            assert focused[2] >= 2, f"the focus on {focused[0]!r} cannot be seen"
            if text in focused[0]:
                return
        raise AssertionError(f"no way to {text!r} with the keyboard")

    tab_to("Skip to the content")
    tab_to("hospital-stays")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("hospital-stays")
    tab_to("Ask a question")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("What would you like to know?")
    tab_to(QUERIES["histogram"].question)
    page.keyboard.press("Enter")
    expect(page.locator("#epsilon")).to_be_visible()
    tab_to("epsilon")
    page.keyboard.press("Control+A")
    page.keyboard.type("0.33")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("Nothing has been charged yet")
    tab_to("Spend")
    page.keyboard.press("Enter")
    expect(page.locator(".answer")).to_be_visible()
    visit.end()


def test_enter_never_spends(server: Running, chromium: Browser) -> None:
    visit = Visit.begin(chromium, server.url, server.token("analyst", "hospital-stays"))
    page = visit.page
    before = server.curator.history("hospital-stays")
    visit.go("/data/hospital-stays/ask/histogram")
    page.fill("#epsilon", "0.43")
    page.press("#epsilon", "Enter")
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator("main")).to_contain_text("Nothing has been charged yet")
    visit.photograph("confirm")
    page.keyboard.press("Enter")  # nothing is focused but the page
    expect(page.locator("main")).to_contain_text("Nothing has been charged yet")
    assert server.curator.history("hospital-stays") == before
    page.click("text=Change it")
    expect(page.locator("#epsilon")).to_have_value("0.43")
    visit.end()


def test_the_console_works_without_script(server: Running, chromium: Browser) -> None:
    token = server.token("analyst", "hospital-stays")
    visit = Visit.begin(chromium, server.url, token, java_script_enabled=False)
    page = visit.page
    visit.go("/data/hospital-stays/ask/histogram")
    page.fill("#epsilon", "0.44")
    page.click("text=Show the price")
    expect(page.locator("#price")).to_contain_text("epsilon 0.44")
    page.click("main button:visible:has-text('Review')")
    page.click("main button:has-text('Spend')")
    expect(page.locator(".answer")).to_contain_text("records have")
    visit.end()


@pytest.mark.parametrize("script", [True, False])
def test_a_long_answer_shows_its_progress_and_then_itself(
    server: Running, chromium: Browser, monkeypatch: pytest.MonkeyPatch, script: bool
) -> None:
    look = Turn.look
    go_on = threading.Event()

    def slow(self: Turn, *given: Any, **more: Any) -> Any:
        self._work.hear(6)
        go_on.wait(PATIENCE)
        return look(self, *given, **more)

    monkeypatch.setattr(Turn, "look", slow)
    token = server.token("analyst", "hospital-stays")
    visit = Visit.begin(chromium, server.url, token, java_script_enabled=script)
    visit.go("/data/hospital-stays/ask/histogram")
    visit.page.fill("#epsilon", "0.51" if script else "0.52")
    visit.page.click("main button:visible:has-text('Review')")
    visit.page.click("main button:has-text('Spend')")
    expect(visit.page.locator("progress")).to_be_visible()
    if script:
        expect(visit.page.locator("progress")).to_have_js_property("value", 6)
        visit.photograph("job")
    go_on.set()
    expect(visit.page.locator(".answer")).to_be_visible()
    assert re.search(r"/answers/[0-9a-f]+$", visit.page.url)
    visit.end()


def test_a_picture_that_a_busy_server_draws_later_appears_by_itself(
    server: Running, chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Histogram(columns=("temperature",), epsilon="0.37")
    server.curator.ask(query, "hospital-stays")
    encoded = Answers.encoded
    refused: list[str] = []

    async def late(self: Answers, of: str, key: str, form: Any, asker: str) -> Any:
        if form == "svg" and not refused:
            refused.append(key)
            raise BeingDrawn("The picture is still being drawn.")
        return await encoded(self, of, key, form, asker)

    monkeypatch.setattr(Answers, "encoded", late)
    visit = Visit.begin(chromium, server.url, server.token("analyst", "hospital-stays"))
    visit.go(answer_path("hospital-stays", query))
    visit.page.wait_for_function("() => document.querySelector('figure img').naturalWidth > 0")
    assert refused
    assert all("status of 503" in complaint for complaint in visit.complaints)
    visit.complaints.clear()
    visit.end()


def test_empty_places_long_names_and_errors_look_finished(
    chromium: Browser, tmp_path: Path
) -> None:
    with running(tmp_path) as server:
        curator = server.curator
        domain = Domain((Numeric(WORD, 0, 1), Categorical(LONG, (WORD, LONG, "<b>&amp;</b>"))))
        curator.register(f"{LONG}: {WORD}"[:200], {WORD: [0.5], LONG: [WORD]}, domain)
        curator.register("bare", {"x": [0.5]}, Domain((Numeric("x", 0, 1),)))
        owner = Visit.begin(chromium, server.url, server.token("owner"))
        owner.photograph("long-names")
        owner.follow("a.card:has-text('hospitals')")
        owner.photograph("long-names-data-set")
        owner.page.click("text=Open a budget")
        owner.page.click("button:text-is('Open the budget')")
        owner.page.check("input[name=confirmed]")
        owner.page.click("button:text-is('Open the budget')")
        expect(owner.page.get_by_role("alert")).to_have_count(0)
        owner.go("/data/none")
        owner.photograph("not-found", TWO_LOOKS)
        owner.go("/nowhere")
        expect(owner.page.locator("h1")).to_have_text("Not found")
        owner.end()
        analyst = Visit.begin(chromium, server.url, server.token("analyst"))
        analyst.follow("a.card:has-text('hospitals')")
        analyst.follow("text=Ask a question")
        analyst.follow(f"text={QUERIES['histogram'].question}")
        analyst.photograph("long-names-question")
        analyst.page.click("main button:visible:has-text('Review')")
        analyst.page.click("main button:has-text('Spend')")
        expect(analyst.page.locator(".answer")).to_be_visible()
        analyst.photograph("long-names-answer")
        analyst.end()
        lonely = Visit.begin(chromium, server.url, server.token("analyst", "bare"))
        lonely.photograph("no-budget", TWO_LOOKS)
        lonely.go("/data/bare")
        lonely.photograph("no-budget-data-set", TWO_LOOKS)
        lonely.go("/data/bare/ask")
        lonely.photograph("no-budget-questions", TWO_LOOKS)
        lonely.go("/tokens")
        expect(lonely.page.locator("h1")).to_have_text("Not allowed")
        lonely.photograph("not-allowed", TWO_LOOKS)
        lonely.end()


def test_a_curator_without_data_says_what_to_do_first(chromium: Browser, tmp_path: Path) -> None:
    with running(tmp_path, data=False) as server:
        for role in ("owner", "analyst"):
            visit = Visit.begin(chromium, server.url, server.token(role))
            expect(visit.page.locator(".empty")).to_be_visible()
            visit.photograph(f"empty-{role}", TWO_LOOKS)
            visit.end()


def test_the_page_cannot_be_framed_and_runs_no_foreign_script(
    server: Running, chromium: Browser
) -> None:
    visit = Visit.begin(chromium, server.url, server.token("analyst"))
    visit.page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.evil = 1';"
        " document.body.append(s); }"
    )
    assert visit.page.evaluate("window.evil") is None
    assert any("Content Security Policy" in complaint for complaint in visit.complaints)
    visit.complaints.clear()
    visit.end()


def test_pages_are_photographed_for_whoever_wants_to_see_them(
    server: Running, chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visiting, "SCREENSHOTS", str(tmp_path / "seen"))
    visit = Visit.begin(chromium, server.url)
    visit.photograph("sign-in")
    visit.end()
    seen = sorted(path.name for path in (tmp_path / "seen").iterdir())
    assert seen == ["sign-in-dark.png", "sign-in-light.png"]


def test_the_pictures_list_is_complete() -> None:
    """Said here so that a page added later is photographed too."""
    templates = Path("src/privod/server/templates").glob("*.html")
    pages = {template.stem for template in templates} - {"base", "glyphs", "parts", "price"}
    assert pages == {
        "answer", "answers", "compare", "confirm", "data_set", "data_sets", "error", "history",
        "job", "manage", "my_questions", "open_budget", "protected", "question", "questions",
        "register", "report", "requests", "sign_in", "tokens", "verify",
    }  # fmt: skip
