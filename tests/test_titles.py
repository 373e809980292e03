"""What people call data and columns: shown everywhere, escaped, and never part of a question."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from privod import wire
from privod.cli.app import app
from privod.curator import Curator
from privod.data import Categorical, Domain, Numeric, read
from privod.errors import InvalidParameter
from privod.joint.detector.question import JointDetector
from privod.mechanisms import seeded
from privod.pictures import draw, svg
from privod.privacy import AddRemove, Loss
from privod.query.catalog import QUERIES
from privod.query.query import canonical_json
from privod.questions.histogram.query import Histogram
from tests.running_server import Browser, Running, running

COLUMNS = (Numeric("age", 0, 120), Numeric("stay", 0, 60), Categorical("ward", ("a", "b", "age")))
TITLES = {"age": "Age at <b>admission</b> & 'after'", "ward": "Ward {{ 7 * 7 }}"}
TITLE = 'Patients <script>alert("1")</script>'
PLAIN = Domain(COLUMNS)
NAMED = Domain(COLUMNS, title=TITLE, titles=TITLES)
ROWS = {
    "age": [20.0, 30.0, 40.0, 50.0] * 10,
    "stay": [1.0, 2.0, 3.0, 50.0] * 10,
    "ward": ["a", "b"] * 20,
}
BY_AGE = Histogram(columns=("age",), epsilon="0.5", bins=4)


def test_titles_survive_json_and_stand_beside_the_names() -> None:
    written = NAMED.to_json()
    assert written["title"] == TITLE
    assert written["columns"][0]["title"] == TITLES["age"]
    assert "title" not in written["columns"][1]
    again = Domain.from_json(json.loads(json.dumps(written)))
    assert (again, again.title, again.titles) == (NAMED, TITLE, TITLES)
    assert again.called(("stay", "ward")) == ("stay", "Ward {{ 7 * 7 }} (ward)")


def test_a_domain_without_titles_is_written_as_it_always_was() -> None:
    text = canonical_json(Domain((Numeric("age", 0, 120), Categorical("sex", ("f",)))).to_json())
    assert text == (
        '{"columns":[{"high":120.0,"low":0.0,"name":"age"},{"name":"sex","values":["f"]}]}'
    )
    assert NAMED.untitled.to_json() == PLAIN.to_json()


def test_domains_that_differ_in_titles_alone_are_equal_and_ask_the_same() -> None:
    assert (NAMED, hash(NAMED)) == (PLAIN, hash(PLAIN))
    for kind in QUERIES.values():
        assert kind.examples(NAMED) == kind.examples(PLAIN)
    joint = JointDetector(columns=("age",), epsilon=1)
    assert joint.terms(NAMED) == joint.terms(PLAIN)  # so parties may call columns as they like


BAD = ["", " ", "a\nb", "a\x00", "\ud800", "\u202eadmission", "x" * 201, 7, ["x"], {"x": "y"}]


@pytest.mark.parametrize("bad", BAD)
def test_bad_titles_are_refused(bad: Any) -> None:
    with pytest.raises(InvalidParameter, match="title must be a printable text"):
        Domain.from_json(PLAIN.to_json() | {"title": bad})
    columns = [COLUMNS[0].to_json() | {"title": bad}, COLUMNS[1].to_json()]
    with pytest.raises(InvalidParameter, match="title of 'age' must be a printable text"):
        Domain.from_json({"columns": columns})


@pytest.mark.parametrize(
    ("titles", "said"),
    [
        ({"age": "stay"}, "names another column"),
        ({"age": "Days", "stay": "Days"}, "titles must differ"),
        ({"height": "Height"}, "titles must be of columns"),
        (["age"], "titles must be by column"),
    ],
)
def test_a_title_tells_its_column_from_all_others(titles: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        Domain(COLUMNS, titles=titles)


def texts(release: Any, titles: dict[str, str] | None = None) -> list[str]:
    found = re.findall(r"<text[^>]*>([^<]*)</text>", svg(draw(release, titles)).decode())
    return [html.unescape(text) for text in found]


DRAWN_BY_COLUMN: tuple[str, ...] = ("grid-knn", "histogram")
DRAWN_BY_COLUMN += ("outlier-context", "outlier-subspaces", "private-bounds")
DRAWN_BY_COLUMN += ("detector-profile", "rare-counts")


@pytest.mark.parametrize("name", DRAWN_BY_COLUMN)
def test_pictures_call_columns_by_their_titles(name: str) -> None:
    domain = Domain((Numeric("qqq", 0, 120), Numeric("zzz", 0, 60), COLUMNS[2]))
    rows = {"qqq": ROWS["age"], "zzz": ROWS["stay"], "ward": ROWS["ward"]}
    titles = {"qqq": "Age & <b>", "zzz": "Length of stay", "ward": "Where"}
    example = QUERIES[name].examples(domain)[0]
    release = example.answer(read(rows, domain), seeded(3))
    plain, called = texts(release), texts(release, titles)
    assert plain != called
    for text, changed in zip(plain, called, strict=True):
        expected = text
        for column, title in titles.items():
            expected = expected.replace(column, title)
        assert changed == expected or "…" in changed


def test_a_category_that_is_called_like_a_column_keeps_its_name() -> None:
    release = Histogram(columns=("ward",), epsilon=1).answer(read(ROWS, NAMED), seeded(3))
    drawn = texts(release, TITLES)
    assert "age" in drawn  # the category
    assert f"Records by {TITLES['ward']}" in drawn


def test_the_command_line_shows_titles_and_writes_them_into_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    named = Domain(COLUMNS[:1], title="Patients of the ward", titles={"age": "Age at admission"})
    Path("domain.json").write_text(json.dumps(named.to_json()))
    Path("rows.csv").write_text("age\n" + "40\n" * 20)
    asked = ("columns=age", "epsilon=0.5", "bins=4")
    for words in (
        ("register", "patients", "rows.csv", "--domain", "domain.json"),
        ("open", "patients", "--epsilon", "4"),
        ("ask", "patients", "histogram", *asked, "--picture", "age.svg"),
    ):
        app(words, standalone_mode=False)
    capsys.readouterr()
    app(("datasets",), standalone_mode=False)
    shown = capsys.readouterr().out
    assert "Patients of the ward" in shown
    assert "Age at admission (age)" in shown
    app(("datasets", "--json"), standalone_mode=False)
    (public,) = json.loads(capsys.readouterr().out)
    assert public["domain"] == named.to_json()
    assert "Records by Age at admission" in Path("age.svg").read_text()


def test_a_title_changes_neither_keys_nor_charges(tmp_path: Path) -> None:
    with Curator.open(tmp_path) as curator:
        curator.register("patients", ROWS, PLAIN)
        curator.open_budget("patients", AddRemove(), Loss(1))
        curator.ask(BY_AGE, "patients")
        curator.register("patients-2", ROWS, NAMED, continues="patients")
        answer = curator.ask(BY_AGE, "patients-2")
        assert wire.answer_key(answer.release.query) == wire.answer_key(BY_AGE)
        assert curator.budget("patients")[0].spent == Loss(1)
        assert curator.dataset("patients-2").domain.titles == TITLES
        assert curator.dataset("patients").domain.titles == {}
    with Curator.open(tmp_path) as curator:
        assert curator.dataset("patients-2").domain.title == TITLE
        assert curator.verify().datasets == 2


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("titles"), data=False) as server:
        server.curator.register("patients", ROWS, NAMED, most_records=1000)
        server.curator.open_budget("patients", AddRemove(), Loss(100))
        yield server


@pytest.fixture(scope="module")
def analyst(server: Running) -> Iterator[Browser]:
    with server.browser(server.token("analyst")) as browser:
        yield browser


def escaped(page: str) -> str:
    """The page's text, in which nothing that a title says may have become a tag."""
    assert "<script>alert" not in page
    assert "<b>admission" not in page
    assert "Ward 49" not in page
    return html.unescape(page)


def test_the_console_shows_titles_escaped(analyst: Browser) -> None:
    assert f"<h2>{TITLE}</h2><small>patients</small>" in escaped(analyst.get("/").text)
    page = escaped(analyst.get("/data/patients").text)
    assert f"<h1>{TITLE}</h1>" in page
    assert f"<td>{TITLES['age']}<br><small>age</small></td>" in page
    form = escaped(analyst.get("/data/patients/ask/histogram").text)
    assert f"<span>{TITLES['age']} (age)</span>" in form
    assert 'name="columns" value="age"' in form  # what is asked is the name
    assert f'<a class="tag" href="?example=0">{TITLES["age"]}' in form
    path = "/data/patients/ask/histogram"
    fields = {"columns": "age", "epsilon": "0.5", "bins": "4", "adjacency": "add-remove"}
    confirm = escaped(analyst.post(path, **fields).text)
    answered = analyst.ask(path, **fields).headers["location"]
    for page in (confirm, escaped(analyst.get(answered).text)):
        assert f"<dd>{TITLES['age']} (age)</dd>" in page
        assert f"<dd>{TITLE} (patients)</dd>" in page
    drawn = analyst.get(f"{answered}.svg").text
    assert f"Records by {TITLES['age']}" in escaped(drawn)
    with_other = analyst.ask(path, **fields | {"bins": "5"}).headers["location"]
    keys = [where.rpartition("/")[2] for where in (answered, with_other)]
    compared = analyst.get("/data/patients/compare", params={"key": keys}).text
    assert f"{TITLES['age']} (age)" in escaped(compared)


def titled(age: object, ward: object) -> dict[str, Any]:
    return {
        "title": "Beds & their <i>patients</i>",
        "columns": [
            {"name": "age", "low": 0, "high": 120, "title": age},
            {"name": "ward", "values": ["a", "b"], "title": ward},
        ],
    }


def test_an_owner_declares_titles_in_the_form(server: Running) -> None:
    fields = {
        "name": "beds",
        "domain": json.dumps(titled("Age: at admission", "Ward")),
    }
    file = {"file": ("rows.csv", b"age,ward\n40,a\n")}
    with server.browser(server.token("owner")) as owner:
        for path in ("preview", "edit"):
            page = html.unescape(owner.post(f"/data/new/{path}", **fields).text)
            assert "<i>patients" not in owner.post(f"/data/new/{path}", **fields).text
            assert "Beds & their <i>patients</i>" in page
            assert "Age: at admission" in page
        for wrong in (("x", "x"), ("", "Ward"), ("ward", "Ward"), (7, "Ward")):
            refused = owner.post("/data/new", file, name="beds", domain=json.dumps(titled(*wrong)))
            assert refused.status_code == 422
        assert owner.post("/data/new", file, **fields).status_code == 303
    made = server.curator.dataset("beds").domain
    assert made.title == "Beds & their <i>patients</i>"
    assert made.titles == {"age": "Age: at admission", "ward": "Ward"}


def test_a_client_registers_and_reads_titles(server: Running) -> None:
    with server.api(server.token("owner")) as api:
        form = {"name": "sent", "domain": json.dumps(NAMED.to_json())}
        rows = b"age,stay,ward\n40,2,a\n"
        sent = api.post("/datasets", data=form, files={"file": ("rows.csv", rows)})
        assert sent.json()["domain"] == NAMED.to_json()
        assert api.get("/datasets/sent").json()["domain"] == NAMED.to_json()
        for bad in ("\ud800", "a\x07", "x" * 201):
            form["domain"] = json.dumps(PLAIN.to_json() | {"title": bad})
            refused = api.post("/datasets", data=form, files={"file": ("rows.csv", rows)})
            assert refused.status_code == 422
