"""The console without a screen: every page renders, without script, whatever the data is called."""

from __future__ import annotations

# slow: left out by `make quick`
import html
import json
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.datastructures import FormData

from privod.client import connect
from privod.curator import Curator
from privod.data import Categorical, Date, Domain, Numeric, Ordinal
from privod.data.examples import HOSPITAL
from privod.errors import InvalidParameter
from privod.ledger.acts import AllowExactCounts, ChargeElsewhere, Retire
from privod.privacy import AddRemove, Guarantee, Loss, adjacency_from_json
from privod.query.catalog import QUERIES
from privod.query.offers import GOALS
from privod.questions.grid_knn.query import GridKnn
from privod.questions.histogram.query import Histogram
from privod.questions.rare_counts.query import RareCounts
from privod.server.authentication import create_token
from privod.server.serve import Listening
from privod.server.views.forms import boxes_of, query_from_form, with_header
from privod.server.views.pages import answer_path
from privod.wire import answer_key
from tests.patience import PATIENCE
from tests.running_server import DOMAIN, ROWS, Browser, Running, running

SCRIPTED = re.compile(r"<script(?![^>]* src=)|\son\w+=|\sstyle=|<style|javascript:", re.IGNORECASE)
COLUMNS = (
    Numeric("age", 0, 120),
    Categorical("sex", ("female", "male"), "male"),
    Categorical("grade", (1, 2, 3)),
    Numeric("weight", 1.5, 300, 70),
)
DECLARED = json.dumps(Domain(COLUMNS).to_json())
ASK = "/data/patients/ask/histogram"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("console")) as server:
        yield server


@pytest.fixture(scope="module")
def analyst(server: Running) -> Iterator[Browser]:
    with server.browser(server.token("analyst")) as browser:
        yield browser


@pytest.fixture(scope="module")
def owner(server: Running) -> Iterator[Browser]:
    with server.browser(server.token("owner")) as browser:
        yield browser


def checked(response: httpx.Response) -> str:
    """A page's text, after what every page must keep to."""
    assert "text/html" in response.headers["content-type"]
    assert SCRIPTED.search(response.text) is None
    assert "http://" not in response.text.replace("http://127.0.0.1", "")
    assert response.text.count("<h1>") == 1
    assert '<html lang="en">' in response.text
    return response.text


def test_every_page_of_an_analyst_renders(analyst: Browser) -> None:
    for path in ("/", "/data/patients", "/data/patients/ask", "/data/patients/history"):
        response = analyst.get(path)
        assert response.status_code == 200
        checked(response)


def test_the_page_of_questions_leads_by_five_goals_to_what_can_be_told(analyst: Browser) -> None:
    text = checked(analyst.get("/data/patients/ask"))
    places = [text.index(f'<h2 id="{goal}">{GOALS[goal]}</h2>') for goal in GOALS]
    assert places == sorted(places)
    for name, kind in QUERIES.items():
        if kind.examples(DOMAIN):
            assert f'href="/data/patients/ask/{name}?epsilon=' in text
    assert "from epsilon 0.125</span>" in text
    assert "needs an allowance</span>" in text
    which = text[text.index("Which persons are outliers?") :]
    assert all(name in which for name in ("detector-profile", "anomaly-labels", "outlier-context"))


def test_a_question_opens_at_the_price_that_its_card_shows(analyst: Browser) -> None:
    link = 'href="(/data/patients/ask/histogram[?]epsilon=[^"]+)"'
    found = re.search(link, analyst.get("/data/patients/ask").text)
    assert found is not None
    assert "<strong>epsilon 0.125</strong>" in checked(analyst.get(found.group(1)))
    assert analyst.get("/data/patients/ask/histogram?epsilon=much").status_code == 422


def test_a_retired_data_set_leads_to_its_answers_and_to_no_question(server: Running) -> None:
    curator = server.curator
    curator.register("over", ROWS, DOMAIN)
    curator.do(Retire("over", "the study ended"), confirmed=True)
    with server.browser(server.token("analyst", "over")) as one:
        for path in ("/data/over", "/data/over/ask"):
            text = checked(one.get(path))
            assert 'href="/data/over/answers"' in text
            assert "/data/over/ask" not in text.partition("<h1>")[2]
        refused = one.post("/data/over/ask/histogram", columns="age", epsilon="1").text
        assert "&#39;over&#39; was retired" in refused  # by its name, not as 'Over'


def test_what_is_public_is_shown_as_it_is_written(server: Running) -> None:
    columns = (
        Date("paid", "2024-01-01", "2026-12-31", "2025-01-01"),
        Ordinal("grade", ("low", "middle", "high"), "middle"),
        Numeric("dose", 0, 1.5, 0.25, "mg"),
    )
    server.curator.register("written", {one.name: [] for one in columns}, Domain(columns))
    with server.browser(server.token("auditor", "written")) as one:
        text = checked(one.get("/data/written"))
    assert "<td>2024-01-01 to 2026-12-31; if missing, 2025-01-01</td>" in text
    assert "<td>low, middle, high; if missing, middle</td>" in text
    assert "<td>0 to 1.5 mg; if missing, 0.25</td>" in text


def test_a_form_states_the_guarantee_that_would_be_charged_with_its_delta(
    server: Running, analyst: Browser
) -> None:
    """A detector takes a delta where the budget has one: its first page said it had none."""
    server.curator.register("loose", ROWS, DOMAIN)
    server.curator.open_budget("loose", AddRemove(), Loss("10", "1e-5"))
    text = checked(analyst.get("/data/loose/ask/detector-profile"))
    assert "<strong>epsilon 1, delta 1e-6</strong>" in text
    assert "up to an added probability of 1e-6" in text


def test_a_form_without_a_budget_requests_it_from_the_owner(analyst: Browser) -> None:
    text = checked(analyst.get("/data/patients/ask/rare-counts"))
    found = re.search(r'href="(/data/patients/requests\?adjacency=[^"]+)"', text)
    assert found is not None
    form = checked(analyst.get(found.group(1)))
    assert "in-crowd" in form[form.index('name="adjacency"') :]


def test_examples_are_told_apart_by_what_is_new_in_them(analyst: Browser) -> None:
    text = checked(analyst.get("/data/patients/ask/anomaly-labels"))
    named = re.findall(r'<a class="tag" href="\?example=\d">([^<]*)</a>', text)
    assert len(named) > 1
    assert len(set(named)) == len(named)
    assert not any(re.search(r"\(\d\)", name) for name in named)


def test_a_form_shows_what_must_be_chosen_and_folds_the_rest(analyst: Browser) -> None:
    text = checked(analyst.get("/data/patients/ask/histogram"))
    shown, folded = text.split("<summary>More options</summary>")
    assert 'name="columns"' in shown
    assert 'name="epsilon"' in shown
    for name in ("bins", "edges", "gaps", "noise", "delta", "adjacency", "where"):
        assert f'name="{name}"' in folded
        assert f'name="{name}"' not in shown
    assert "<details><summary>More" in text
    fields = {"columns": "age", "epsilon": "0.1", "bins": "0", "edges": ""}
    sent = analyst.post("/data/patients/ask/histogram", **fields).text
    shown, folded = sent.split("<summary>More options</summary>")
    assert "Bins must be at least 1, got 0." in shown  # what was chosen is not folded away
    assert 'name="edges"' in folded


def test_a_price_offers_to_count_the_records_until_somebody_has(analyst: Browser) -> None:
    offer = "/data/patients/ask/histogram?example=size"
    text = checked(analyst.get("/data/patients/ask/quantiles"))
    assert f'costs epsilon 0.01. <a href="{offer}">' in text
    form = checked(analyst.get(offer))
    assert 'name="bins" value="1"' in form
    assert 'name="epsilon" value="0.01"' in form
    fields = {"columns": DOMAIN.numeric_names[0], "epsilon": "0.01", "bins": "1"}
    assert analyst.ask(ASK, **fields).status_code == 303
    assert offer not in checked(analyst.get("/data/patients/ask/quantiles"))


@pytest.mark.parametrize("name", QUERIES)
def test_every_question_of_the_catalog_has_a_form(analyst: Browser, name: str) -> None:
    text = checked(analyst.get(f"/data/patients/ask/{name}"))
    assert QUERIES[name].question.replace("'", "&#39;") in text
    assert text.count("<label") + text.count("<legend") >= 2


def test_radius_and_crowd_are_explained_with_a_picture_where_they_are_asked_for(
    analyst: Browser,
) -> None:
    shown = {
        name
        for name in QUERIES
        if "Radius and crowd" in checked(analyst.get(f"/data/patients/ask/{name}"))
    }
    assert {"outlier-count", "graded-count", "anomaly-labels"} <= shown
    assert not shown & {"histogram", "grid-knn", "outlier-context"}
    picture = analyst.get("/static/crowd.svg")
    assert picture.headers["content-type"] == "image/svg+xml"


def test_every_page_of_an_owner_renders(owner: Browser) -> None:
    for path in ("/", "/data/new", "/data/patients", "/data/patients/budgets/new", "/tokens"):
        assert "patients" in checked(owner.get(path)) or path == "/data/new"
    checked(owner.get("/verify"))


def test_asking_without_script_shows_the_price_first_and_then_the_answer(analyst: Browser) -> None:
    fields = {"columns": "age", "epsilon": "0.25", "bins": "4", "adjacency": "add-remove"}
    priced = checked(analyst.post(f"{ASK}/price", **fields))
    assert "epsilon 0.25" in priced
    assert 'value="0.25"' in priced
    review = checked(analyst.post(ASK, **fields))
    assert "Spend at most epsilon 0.25 and ask" in review
    assert "This would leave" in review
    asked = analyst.ask(ASK, **fields)
    assert asked.status_code == 303
    answer = checked(analyst.get(asked.headers["location"]))
    assert "records have" in answer
    assert "(epsilon 0.25)" in answer
    again = checked(analyst.post(f"{ASK}/price", **fields))
    assert "Free" in again
    for ending, kind in [("json", "application/json"), ("csv", "text/csv"), ("svg", "image/svg")]:
        file = analyst.get(f"{asked.headers['location']}.{ending}")
        assert file.status_code == 200
        assert file.headers["content-type"].startswith(kind)
    assert (
        "attachment"
        in analyst.get(f"{asked.headers['location']}.csv").headers["content-disposition"]
    )


def test_nothing_is_spent_before_the_price_is_confirmed(server: Running, analyst: Browser) -> None:
    fields = {"columns": "age", "epsilon": "0.21"}
    before = server.curator.history("patients")
    for confirmed in ("", "yes", "0" * 24):
        review = analyst.post(ASK, **fields, confirmed=confirmed)
        assert review.status_code == 200
        assert "Nothing has been charged yet" in checked(review)
    # What is confirmed is this question, not another one sent in its place.
    found = re.search(r'name="confirmed" value="([0-9a-f]+)"', review.text)
    assert found is not None
    swapped = {**fields, "epsilon": "21", "confirmed": found.group(1)}
    assert "Spend at most epsilon 21 and ask" in checked(analyst.post(ASK, **swapped))
    assert server.curator.history("patients") == before
    assert analyst.ask(ASK, **fields).status_code == 303
    assert analyst.post(ASK, **fields).status_code == 303  # stored by now, and free
    assert "histogram columns=age epsilon=0.21" in checked(analyst.get("/data/patients/history"))


def test_the_button_says_what_a_person_of_several_rows_is_charged(
    server: Running, analyst: Browser
) -> None:
    domain = Domain((Numeric("age", 0, 120),), person="id", max_rows_per_person=2)
    server.curator.register("visits", {"id": ["a", "a", "b"], "age": [1, 2, 3]}, domain)
    server.curator.open_budget("visits", AddRemove(), Loss(1))
    fields = {"columns": "age", "epsilon": "0.25", "bins": "4", "adjacency": "add-remove"}
    review = checked(analyst.post("/data/visits/ask/histogram", **fields))
    assert "Spend at most epsilon 0.5 and ask" in review
    assert analyst.ask("/data/visits/ask/histogram", **fields).status_code == 303
    told = "epsilon 0.25 under add-remove; epsilon 0.5 towards a person of up to 2 records"
    for listed in ("/data/visits", "/data/visits/answers"):
        assert told in checked(analyst.get(listed))
    assert "from epsilon 0.25</span>" in checked(analyst.get("/data/visits/ask"))


def test_the_console_names_no_budget_that_a_cap_rules_out(
    server: Running, analyst: Browser
) -> None:
    jobs = (Categorical("job", ("cook", "pilot")),)
    domain = Domain(jobs, person="id", max_rows_per_person=3)
    server.curator.register("survey", {"id": ["a", "a"], "job": ["cook", "pilot"]}, domain)
    server.curator.open_budget("survey", AddRemove(), Loss(1))
    asked = {"columns": "job", "max_crowd": "5", "epsilon": "0.5", "edit_margin": "1"}
    piece = analyst.post("/data/survey/price/rare-counts", **asked).text
    assert "must be 1 for budgets and questions under in-crowd" in piece
    assert "What the owner must enter" not in piece


def test_the_live_price_is_a_piece_of_the_page(analyst: Browser) -> None:
    fields = {"columns": ["age", "sex"], "epsilon": "0.125"}
    piece = analyst.post("/data/patients/price/histogram", **fields)
    assert piece.status_code == 200
    assert "epsilon 0.125" in piece.text
    assert "<html" not in piece.text
    assert SCRIPTED.search(piece.text) is None
    fields["epsilon"] = "0.00001"  # of 10,000 records at most
    noisy = analyst.post("/data/patients/price/histogram", **fields).text
    assert "such an answer is mostly noise" in noisy
    assert "would do." in noisy
    wrong = analyst.post("/data/patients/price/histogram", columns="age", epsilon="-1")
    assert wrong.status_code == 200
    assert "Epsilon must be greater than 0" in wrong.text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"columns": "age", "epsilon": "0"}, "Epsilon must be greater than 0"),
        ({"columns": "age", "epsilon": "1", "bins": "many"}, "Bins must be a whole number"),
        ({"epsilon": "1"}, "Columns must be given"),
        ({"columns": "height", "epsilon": "1"}, "Columns must be declared"),
        ({"columns": "age", "epsilon": "9999"}, "9999"),
    ],
)
def test_a_wrong_question_shows_the_form_again_with_what_was_typed(
    analyst: Browser, fields: dict[str, str], said: str
) -> None:
    response = analyst.post(ASK, **fields)
    assert response.status_code == 422
    text = checked(response)
    assert said in text
    assert 'role="alert"' in text
    assert f'value="{fields["epsilon"]}"' in text


def test_what_is_typed_is_shown_as_text_never_as_markup(analyst: Browser) -> None:
    evil = '"><script>alert(1)</script>'
    text = checked(analyst.post(ASK, columns=evil, epsilon=evil, bins=evil))
    assert "<script>alert" not in text
    text = checked(analyst.get("/data/%3Cscript%3Ealert(1)%3C%2Fscript%3E"))
    assert "<script>alert" not in text


def test_an_owner_registers_opens_a_budget_and_hands_out_a_token(
    server: Running, owner: Browser
) -> None:
    fields = {
        "name": "console data",
        "domain": json.dumps(Domain(COLUMNS, person="id").to_json()),
        "continues": "",
    }
    preview = checked(owner.post("/data/new/preview", **fields))
    assert "0 to 120" in preview
    assert "The unit of privacy is a person" in preview
    edited = checked(owner.post("/data/new/edit", **fields))
    assert '"values": [1, 2, 3]' in html.unescape(edited)
    rows = b"id,age,sex,grade,weight\n7,40,female,2,60\n8,41,male,1,\n"
    made = owner.post("/data/new", files={"file": ("rows.csv", rows)}, **fields)
    assert made.headers["location"] == "/data/console%20data/report"
    checked(owner.get(made.headers["location"]))
    path = "/data/console%20data/budgets/new"
    asked = checked(owner.post(path, adjacency="replace", epsilon="1", delta="0"))
    assert "number of records becomes public" in asked
    assert server.curator.budget("console data") == ()
    done = owner.post(path, adjacency="replace", epsilon="1", delta="0", confirmed="yes")
    assert done.headers["location"] == "/data/console%20data"
    assert len(server.curator.budget("console data")) == 1
    page = checked(owner.post("/tokens", name="Ada", role="analyst", of="console data"))
    found = re.search(r'id="new-token">(privod_analyst_[\w-]+)<', page)
    assert found is not None
    assert found.group(1) not in owner.get("/tokens").text
    with server.browser(found.group(1)) as ada:
        assert "console data" in ada.get("/").text
        assert "patients" not in ada.get("/").text


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"domain": ""}, "Domain must be JSON"),
        ({"domain": "age: 0 to 120"}, "Domain must be JSON"),
        ({"domain": "[" * 20_000}, "Domain must be JSON"),
        ({"domain": '"age"'}, "Domain must have a list of columns"),
        ({"domain": '{"columns": [{"name": "age", "low": 5, "high": 1}]}'}, "low &lt; high"),
        ({"domain": '{"columns": [{"name": "age", "type": "unknown"}]}'}, "age"),
        ({"name": " "}, "Name must not be empty"),
    ],
)
def test_a_wrong_domain_shows_the_form_again(
    owner: Browser, changed: dict[str, str], said: str
) -> None:
    fields = {"name": "x", "domain": DECLARED} | changed
    for path in ("/data/new/preview", "/data/new"):
        response = owner.post(path, **fields)
        assert response.status_code == 422
        assert said in checked(response)


def test_registering_without_a_file_or_with_a_bad_one_keeps_what_was_typed(owner: Browser) -> None:
    fields = {"name": "x", "domain": DECLARED}
    assert "No file was sent" in checked(owner.post("/data/new", **fields))
    bad = owner.post("/data/new", files={"file": ("rows.xlsx", b"PK")}, **fields)
    assert bad.status_code == 422
    assert "must be .csv or .parquet" in checked(bad)
    assert DECLARED in html.unescape(bad.text)


@pytest.mark.parametrize(
    "fields",
    [
        {"adjacency": "other", "other": "{"},
        {"adjacency": "other", "other": "[]"},
        {"adjacency": "other", "other": '{"name": "sideways"}'},
        {"adjacency": "nonsense"},
        {"adjacency": "add-remove", "epsilon": "none"},
        {"adjacency": "add-remove", "epsilon": "0"},
    ],
)
def test_a_wrong_budget_shows_the_form_again(owner: Browser, fields: dict[str, str]) -> None:
    response = owner.post("/data/patients/budgets/new", **{"epsilon": "1", "delta": "0", **fields})
    assert response.status_code == 422
    assert 'role="alert"' in checked(response)


def test_narrow_promises_say_whom_they_leave_out_wherever_they_are_met(tmp_path: Path) -> None:
    """To the owner with figures before opening; to the analyst with the price and the answer."""
    crowd = {"name": "in-crowd", "radius": 0, "columns": ["age"], "crowd": 3}
    asked = {"records": "7.0", "columns": "age", "max_crowd": "3", "epsilon": "0.1"}
    asked |= {"edit_margin": "1"}
    told = "Not protected: Counts of values that fewer than 2 records have are told exactly"
    path = "/data/few/ask/rare-counts"
    with running(tmp_path) as server:
        curator = server.curator
        curator.register("few", {"age": [7.0, 7.0, 7.0, 9.0]}, Domain((Numeric("age", 0, 99),)))
        curator.open_budget("few", AddRemove(), Loss(1))
        budget = {"adjacency": "other", "other": json.dumps(crowd), "epsilon": "1", "delta": "0"}
        with server.browser(server.token("owner")) as owner:
            page = checked(owner.post("/data/few/budgets/new", **budget))
            assert "3 of 4 records are protected (75.0 %); 1 are not." in page
            owner.post("/data/few/budgets/new", confirmed="yes", **budget)
        with server.browser(server.token("analyst", "few")) as analyst:
            refused = checked(analyst.post(f"{path}/price", **asked))
            assert "may tell 1 counts exactly" in refused
            assert "What the owner must enter" not in refused  # that budget is open
            relation = adjacency_from_json(crowd)
            curator.do(AllowExactCounts("few", relation, 1, "a study"), confirmed=True)
            assert told in checked(analyst.post(f"{path}/price", **asked))
            query = RareCounts(records=((7.0,),), columns=("age",), max_crowd=3, epsilon="0.1")
            curator.ask(query, "few")
            assert told in checked(analyst.get(f"/data/few/answers/{answer_key(query)}"))


def test_an_empty_curator_says_what_to_do(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        server.curator.register("bare", {"x": [1.0]}, Domain((Numeric("x", 0, 1),)))
        with server.browser(server.token("analyst", "bare")) as browser:
            assert "no budget yet" in checked(browser.get("/"))
            assert "Nothing has been asked yet" in checked(browser.get("/data/bare"))
            assert "No budget is open" in checked(browser.get("/data/bare/ask"))
            assert "No budget is open" in checked(browser.get("/data/bare/ask/histogram"))


def test_a_long_and_strange_name_fits_everywhere(tmp_path: Path) -> None:
    name = "ünïcode & <b>bold</b> ? # % \" ' " + "long" * 40
    domain = Domain((Numeric("a column " + "of words " * 20, 0, 1), Categorical("ö;", ("ä,", "<"))))
    rows: dict[str, list[float]] = {column.name: [] for column in domain.columns}
    with running(tmp_path) as server:
        server.curator.register(name, rows, domain)
        with server.browser(server.token("owner")) as owner:
            listed = checked(owner.get("/"))
            link = next(
                href for href in re.findall(r'href="(/data/[^"]+)"', listed) if "%26" in href
            )
            page = owner.get(link)
            assert page.status_code == 200
            assert "<b>bold</b>" not in checked(page)
            form = {"adjacency": "add-remove", "epsilon": "1", "delta": ""}
            meant = checked(owner.post(f"{link}/budgets/new", **form))
            assert "guesses right at most 73.2 % of the time" in meant
            opened = owner.post(f"{link}/budgets/new", **form, confirmed="yes")
            assert opened.headers["location"] == link
        with server.browser(server.token("analyst", name)) as analyst:
            fields = {"columns": "ö;", "epsilon": "0.5"}
            asked = analyst.ask(f"{link}/ask/histogram", **fields)
            assert asked.status_code == 303
            assert analyst.get(asked.headers["location"]).status_code == 200
            assert analyst.get(asked.headers["location"] + ".svg").status_code == 200


def test_an_unknown_page_is_a_page_too(analyst: Browser) -> None:
    for path in ("/nowhere", "/static/nothing.css", "/jobs/unknown", "/data/none/answers/x.svg"):
        response = analyst.get(path)
        assert response.status_code == 404
        assert "Not found" in checked(response)


def test_static_files_are_kept_by_browsers_and_pages_are_not(analyst: Browser) -> None:
    assert "immutable" in analyst.get("/static/console.css").headers["cache-control"]
    assert analyst.get("/").headers["cache-control"] == "no-store"
    assert analyst.get("/robots.txt").text.endswith("Disallow: /\n")


def test_a_damaged_budget_is_told(owner: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    from privod.errors import LedgerDamaged

    def damaged(_: Curator, __: str | None) -> None:
        raise LedgerDamaged("Entry 3 was changed.")

    assert "The ledger is intact" in checked(owner.post("/verify"))
    assert "must be like" in checked(owner.post("/verify", head="nonsense"))
    assert "The ledger is damaged" in checked(owner.post("/verify", head="1:" + "0" * 64))
    monkeypatch.setattr(Curator, "verify", damaged)
    assert "Entry 3 was changed." in checked(owner.post("/verify"))


def test_a_delta_lost_elsewhere_is_shown_where_the_budget_has_none(
    server: Running, owner: Browser
) -> None:
    server.curator.register("leaked", {"x": [1.0]}, Domain((Numeric("x", 0, 1),)))
    server.curator.open_budget("leaked", AddRemove(), Loss(1))
    assert "delta spent" not in checked(owner.get("/data/leaked"))
    lost = Guarantee(Loss("0.1", "0.001"), AddRemove())
    server.curator.do(ChargeElsewhere("leaked", lost, "a noisy mean, by hand"), confirmed=True)
    text = checked(owner.get("/data/leaked"))
    assert "0.1 of 1 epsilon spent</span><span>0 left" in text
    assert "0.001 of 0 delta spent</span><span>0 left" in text


@pytest.mark.parametrize(
    ("typed", "meant"), [("auto", "auto"), ("7", 7), ("", None), ("none", None)]
)
def test_a_number_that_may_also_be_a_word_is_typed_in_one_line(
    typed: str, meant: int | str | None
) -> None:
    form = FormData([("columns", "age"), ("epsilon", "1"), ("drop_below", typed)])
    asked = query_from_form(GridKnn, form)
    assert isinstance(asked, GridKnn)
    assert asked.drop_below == meant
    boxes = {box.name: box for box in boxes_of(GridKnn, Domain((Numeric("age", 0, 1),)), [], {})}
    limit, cells = boxes["drop_below"], boxes["cells_per_axis"]
    assert (limit.widget, limit.inputmode, limit.text, limit.hint) == ("line", "text", "auto", "")
    assert (cells.widget, cells.inputmode) == ("line", "numeric")


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("age,sex", ["age", "sex"]),
        ('age;"sex, at birth";age', ["age", "sex, at birth"]),
        ("age\tsex\n31\tfemale", ["age", "sex"]),
    ],
)
def test_a_header_proposes_columns_and_nothing_of_what_they_hold(
    owner: Browser, header: str, columns: list[str]
) -> None:
    text = owner.post("/data/new/edit", name="x", domain="", header=header).text
    drafted = html.unescape(text.partition('aria-describedby="about-domain">')[2])
    proposed = json.loads(drafted.partition("</textarea>")[0])
    assert [one["name"] for one in proposed["columns"]] == columns
    assert {one["type"] for one in proposed["columns"]} == {"unknown"}
    known = {"columns": [{"name": "age", "low": 0, "high": 120}], "person": "id"}
    more = json.loads(with_header(json.dumps(known), header))
    assert (more["columns"][0], more["person"]) == (known["columns"][0], "id")
    assert [one["name"] for one in more["columns"]] == columns
    assert with_header("what was typed", "\n \n") == "what was typed"
    for wrong in ("[1]", '{"columns": {}}', '{"columns": ["age"]}', "{"):
        assert owner.post("/data/new/edit", domain=wrong, header=header).status_code == 422


def test_an_owner_declares_the_most_records(server: Running, owner: Browser) -> None:
    fields = {"domain": '{"columns": [{"name": "age", "low": 0, "high": 120}]}'}
    file = {"file": ("rows.csv", b"age\n" + b"40\n" * 20)}
    for most in ("ten", "0", "10"):
        sent = owner.post("/data/new", file, name="few", most_records=most, **fields)
        assert sent.status_code == 422
    sent = owner.post("/data/new", file, name="few", most_records="20", **fields)
    assert sent.status_code == 303
    assert server.curator.size_class("few").most_records == 20


def test_a_token_made_at_the_curator_works_at_the_server(server: Running) -> None:
    with server.api(create_token(server.curator, "auditor", None, "eve")) as api:
        assert api.post("/verify").status_code == 200


@pytest.mark.parametrize("kept", [True, False], ids=["the prefix comes in", "it is taken off"])
def test_under_a_prefix_every_address_that_goes_out_carries_it(tmp_path: Path, kept: bool) -> None:
    with running(tmp_path, listening=Listening(port=0, prefix="/tools/privod")) as server:
        query = Histogram(columns=("age",), epsilon="0.5")
        server.curator.ask(query, "patients")
        for role in ("owner", "analyst"):
            with server.browser(server.token(role)) as browser:
                below = "/tools/privod" if kept else ""
                pages = ["/", "/data/patients", "/data/patients/history", "/data/patients/answers"]
                pages += [answer_path("patients", query), "/nowhere"]
                pages += ["/tokens", "/data/new"] if role == "owner" else ["/questions"]
                pages += ["/data/patients/ask/histogram"] if role == "analyst" else []
                for path in pages:
                    text = browser.get(below + path).text
                    found = re.findall(r'(?:href|src|action|data-[a-z]+)="(/[^"]*)"', text)
                    assert found
                    assert all(one.startswith("/tools/privod/") for one in found), path
        with Browser(server.url) as stranger:
            led = stranger.get(f"{below}/data/patients").headers["location"]
            assert led == "/tools/privod/sign-in?next=/data/patients"
        with connect(f"{server.url}/tools/privod", server.token("analyst")) as client:
            assert client.ask(query, "patients").stored


def test_no_template_leads_past_the_prefix() -> None:
    past = re.compile(r'(?:href|src|action|data-[a-z]+)="/')
    templates = resources.files("privod.server") / "templates"
    assert [page.name for page in templates.iterdir() if past.search(page.read_text())] == []


def test_a_slash_at_the_end_leads_nowhere(tmp_path: Path) -> None:
    with running(tmp_path, listening=Listening(port=0, prefix="/privod")) as server:
        for path in ("/privod/sign-in/", "/privod/api/v1/datasets/"):
            answer = httpx.post(f"{server.url}{path}", timeout=PATIENCE)
            assert answer.status_code in (404, 405)
            assert "location" not in answer.headers


@pytest.mark.parametrize("prefix", ["/data", "/api/privod"])
def test_a_prefix_does_not_begin_like_a_page_of_the_server(tmp_path: Path, prefix: str) -> None:
    with (
        pytest.raises(InvalidParameter, match="must not begin like a page"),
        running(tmp_path, listening=Listening(port=0, prefix=prefix)),
    ):
        pass


@pytest.mark.parametrize("prefix", ["privod", "/privod/", "/", "/../x", "/a b", '/"', "//x"])
def test_a_prefix_is_a_plain_path(prefix: str) -> None:
    with pytest.raises(InvalidParameter, match="prefix"):
        Listening(port=0, prefix=prefix)


@pytest.mark.parametrize("kind", QUERIES.values(), ids=QUERIES)
def test_ticked_columns_are_sent_in_the_order_of_the_records_beside_them(kind: Any) -> None:
    for example in kind.examples(HOSPITAL):
        for box in boxes_of(kind, HOSPITAL, (), example.parameters()):
            if box.widget == "checks":
                sent = [choice.value for choice in box.choices if choice.value in box.values]
                assert sent == list(box.values)
                assert {choice.value for choice in box.choices} <= {*HOSPITAL.names}


def test_a_declaration_that_is_no_json_is_refused_at_its_field_with_the_line(
    owner: Browser,
) -> None:
    typed = '{"columns": [\n  {"name": "age", "low": 0 "high": 120}]}'
    refused = owner.post("/data/new/preview", name="x", domain=typed, most_records="")
    said = html.unescape(refused.text.partition('aria-describedby="about-domain"')[2])
    assert 'must be JSON (line 2), got \'{"name": "age", "low": 0 "high": 120}]}\'' in said


def test_a_refused_request_keeps_what_was_typed(analyst: Browser) -> None:
    sent = {"adjacency": "add-remove", "epsilon": "much", "delta": "", "reason": "for a report"}
    refused = analyst.post("/data/patients/requests", **sent)
    assert refused.status_code == 422
    assert 'value="much"' in refused.text
    assert 'value="for a report"' in refused.text
