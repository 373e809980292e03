"""The console's pages about answers: found again, scored against, written as code."""

from __future__ import annotations

# slow: left out by `make quick`
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.csv as pa_csv
import pytest

from privod.curator.work import MOST_LISTED
from privod.data import Domain, Numeric
from privod.data.mock import mock_table
from privod.mechanisms import secure
from privod.privacy import AddRemove, Loss
from privod.query.axes import Axis
from privod.query.catalog import query_from_json
from privod.questions.detector_profile.query import DetectorProfile
from privod.questions.grid_knn.query import GridKnn
from privod.questions.histogram.query import Histogram, NoisyCounts
from privod.server.authentication import token_hash
from privod.server.jobs.encoding import differences
from privod.server.views.analyst import UNREADABLE
from privod.server.views.answers import MOST_SCORED
from privod.server.views.pages import ON_A_PAGE, answer_path
from privod.wire import answer_key
from tests.running_server import Browser, Running, running

DOMAIN = Domain((Numeric("age", 0, 120), Numeric("weight", 0, 300)))
N_ANSWERS = 2 * ON_A_PAGE + 3
PROFILE = DetectorProfile(columns=("age", "weight"), epsilon=1, delta=0)
GRID = GridKnn(columns=("age", "weight"), epsilon=1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("answers"), data=False) as server:
        ages, weights = np.random.default_rng(0).normal((40, 70), (12, 9), (400, 2)).T
        server.curator.register("patients", {"age": ages, "weight": weights}, DOMAIN)
        server.curator.open_budget("patients", AddRemove(), Loss("100"))
        for place in range(N_ANSWERS):
            query = Histogram(columns=("age",), bins=2 + place, epsilon="0.01")
            server.curator.ask(query, "patients")
        for asked in (PROFILE, GRID):
            server.curator.ask(asked, "patients")
        yield server


@pytest.fixture(scope="module")
def analyst(server: Running) -> Iterator[Browser]:
    with server.browser(server.token("analyst")) as browser:
        yield browser


def links(text: str) -> list[str]:
    return re.findall(r'href="(/data/patients/answers/[0-9a-f]+)"', text)


def test_every_answer_is_found_by_turning_pages(analyst: Browser) -> None:
    seen: list[str] = []
    for number in (1, 2, 3):
        seen += links(analyst.get("/data/patients/answers", params={"page": number}).text)
    assert len(seen) == len(set(seen)) == N_ANSWERS + 2


def test_a_search_finds_what_was_asked(analyst: Browser) -> None:
    found = analyst.post("/data/patients/answers", find='HISTOGRAM "bins":17')
    expected = answer_path("patients", Histogram(columns=("age",), bins=17, epsilon="0.01"))
    assert links(found.text) == [expected]
    assert "1 answer about" in found.text


@pytest.mark.parametrize(
    "params", [{"page": "0"}, {"page": "-3"}, {"page": "x" * 50}, {"page": "9"}]
)
def test_a_page_that_is_not_there_shows_one_that_is(analyst: Browser, params: Any) -> None:
    assert analyst.get("/data/patients/answers", params=params).status_code == 200
    assert analyst.get("/data/patients/history", params=params).status_code == 200


def test_what_is_searched_for_is_shown_as_text(analyst: Browser) -> None:
    text = analyst.post("/data/patients/answers", find="<script>alert(1)").text
    assert "<script>alert" not in text
    assert "0 answers" in text


def test_the_history_leads_to_the_answers(analyst: Browser) -> None:
    text = analyst.get("/data/patients/history").text
    assert answer_path("patients", PROFILE) in links(text)
    assert analyst.get(links(text)[0]).status_code == 200


def test_an_auditor_sees_the_history_without_the_answers(server: Running) -> None:
    with server.browser(server.token("auditor")) as auditor:
        assert links(auditor.get("/data/patients/history").text) == []
        assert auditor.get("/data/patients/answers").status_code == 403
        sent = auditor.post(answer_path("patients", GRID), records="age,weight\n1,2")
        assert sent.status_code == 403


@pytest.mark.parametrize("query", [PROFILE, GRID], ids=lambda query: query.name)
def test_records_are_scored_on_the_answers_page_for_free(
    server: Running, analyst: Browser, query: Any
) -> None:
    before = server.curator.budget("patients")[0].spent
    records = "weight,age\n70,40\n299,119\n"
    page = analyst.post(answer_path("patients", query), records=records)
    assert page.status_code == 200
    rows = re.findall(r'<td class="number">(\d+)</td><td class="number">([^<]+)</td>', page.text)
    expected = server.curator.release("patients", query).value
    order = [[40.0, 70.0], [119.0, 299.0]]
    assert sorted(int(row) for row, _ in rows) == [1, 2]
    assert rows[0][0] == "2", "the far record comes first"
    if query is PROFILE:
        scores = expected.scores(order)
        assert rows[0][1] == f"{scores[1]:.4g}"
        assert "Because of" in page.text
    assert ">stands out</td>" in page.text
    assert "This answer orders records" not in page.text
    assert server.curator.budget("patients")[0].spent == before


def test_a_file_is_scored_as_well(analyst: Browser) -> None:
    files = {"file": ("new.csv", b"age,weight\n40,70\n", "text/csv")}
    page = analyst.post(answer_path("patients", GRID), files=files)
    assert "of 1 records flagged" in page.text


def test_records_are_read_as_they_are_said_to_be_written(analyst: Browser) -> None:
    """As `register` and `score` read them."""
    path = answer_path("patients", PROFILE)
    plain = analyst.post(path, records="age,weight\n40.5,70.25\n1,1299\n").text
    marks = {"separator": ";", "decimal": ",", "thousands": "."}
    chosen = analyst.post(path, records="age;weight\n40,5;70,25\n1;1.299\n", **marks).text
    scores = [
        re.findall(r'<td class="number">([^<]+)</td>', text.partition("<tbody>")[2])
        for text in (plain, chosen)
    ]
    assert scores[0] == scores[1] != []
    assert '<option value=";" selected>' in chosen, "so that the next records are read likewise"
    assert ["<details open>" in text for text in (plain, chosen)] == [False, True]
    latin = "age;weight;größe\n40,5;70,25;1\n".encode("latin-1")
    file = {"file": ("new.csv", latin, "text/csv")}
    sent = analyst.post(path, files=file, encoding="latin-1", **marks)
    assert sent.status_code == 200
    assert analyst.post(path, records="age;weight\n1;2\n", separator="x").status_code == 422


def test_what_is_missing_is_said_beside_the_scores(analyst: Browser) -> None:
    records = "age,weight\n40,70\n\nNA,70\n41,71\n"
    page = analyst.post(answer_path("patients", GRID), records=records)
    rows = re.findall(r'<td class="number">(\d+)</td><td class="number">[^<]+</td>', page.text)
    assert sorted(rows) == ["1", "4"]
    assert "1 without a declared value" in page.text
    assert "row 3." in page.text


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ("", "Nothing was sent"),
        ("age\n1\n", "has no column"),
        ("age,weight\nx,y\n", "No record can be scored"),
        ("age,weight\n1\n", "not as many cells as the header"),
        ("age,weight\n1,\n", "without a declared value"),
        ("age;weight\n1;2\n", "Its header is separated by"),
        ("age,weight\n" + "1,2\n" * (MOST_SCORED + 1), f"At most {MOST_SCORED:,} records"),
    ],
)
def test_records_that_cannot_be_scored_are_refused_with_a_reason(
    analyst: Browser, records: str, said: str
) -> None:
    page = analyst.post(answer_path("patients", GRID), records=records)
    assert page.status_code == 422
    assert said in page.text


def test_an_answer_that_cannot_score_offers_no_form_and_refuses(analyst: Browser) -> None:
    path = answer_path("patients", Histogram(columns=("age",), bins=2, epsilon="0.01"))
    assert "Score your own records" not in analyst.get(path).text
    refused = analyst.post(path, records="age\n1\n")
    assert refused.status_code == 422
    assert "cannot score" in refused.text


def test_an_answer_is_written_as_code_that_asks_this_server(
    server: Running, analyst: Browser
) -> None:
    path = answer_path("patients", GRID)
    text = analyst.get(path).text
    assert "privod ask patients grid-knn" in text
    assert server.url in text
    notebook = json.loads(analyst.get(f"{path}.ipynb").text)
    assert "GridKnn(" in "".join(notebook["cells"][0]["source"])


def test_the_code_of_an_answer_gets_the_stored_answer(server: Running, analyst: Browser) -> None:
    notebook = json.loads(analyst.get(f"{answer_path('patients', GRID)}.ipynb").text)
    token = server.token("analyst")
    scope: dict[str, Any] = {}
    source = "".join(notebook["cells"][0]["source"]).replace(
        'os.environ["PRIVOD_TOKEN"]', repr(token)
    )
    exec(source, scope)  # noqa: S102 - our own code
    assert scope["answer"].stored
    assert query_from_json(scope["answer"].release.query.to_json()) == GRID


def histogram(**given: Any) -> Histogram:
    fixed: dict[str, Any] = {"columns": ("age",), "bins": 2, "epsilon": "0.01"}
    return Histogram(**(fixed | given))


def test_two_histograms_are_compared_cell_by_cell(server: Running, analyst: Browser) -> None:
    one, other = histogram(epsilon="3", bins=4), histogram(epsilon="2", bins=4)
    first, second = (server.curator.ask(query, "patients").release.value for query in (one, other))
    keys = [answer_key(query) for query in (one, other)]
    text = analyst.get("/data/patients/compare", params={"key": keys}).text
    rows = re.findall(r"<tr><td>([^<]+)</td>" + 3 * r'<td class="number">(-?\d+)</td>', text)
    told = {name: tuple(map(int, counts)) for name, *counts in rows}
    names = first.axes[0].names
    assert told == {
        name: (one, other, other - one)
        for name, one, other in zip(names, first.counts, second.counts, strict=True)
    }
    assert re.search(r'<th scope="row">epsilon</th><td>3</td><td>2</td><td>no</td>', text)
    assert re.search(r'<th scope="row">bins</th><td>4</td><td>4</td><td>yes</td>', text)


def test_a_difference_is_more_than_noise_only_beyond_both_margins() -> None:
    query = histogram(epsilon="1")
    axes = (Axis("age", ("low", "high"), (0.0, 60.0, 120.0)),)
    margin = 2 * query.count_noise.quantile(0.975)

    def release(*counts: int) -> Any:
        value = NoisyCounts(axes, np.array(counts, dtype=np.int64))
        return query.release(value, secure())

    found = differences(release(100, 100), release(100 + margin, 101 + margin))
    assert found is not None
    assert [(row["cell"], row["told"]) for row in found["rows"]] == [("high", True), ("low", False)]
    assert (found["margin"], found["beyond"], found["cells"]) == (margin, 1, 2)


def test_answers_of_other_kinds_are_shown_side_by_side(analyst: Browser) -> None:
    keys = [answer_key(query) for query in (PROFILE, GRID, histogram())]
    text = analyst.get("/data/patients/compare", params={"key": keys}).text
    assert text.count("<figure") == 3
    assert "Cell by cell" not in text


@pytest.mark.parametrize("keys", [[], ["one"], list("abcde"), ["x", "x"]])
def test_too_few_and_too_many_answers_are_not_compared(analyst: Browser, keys: list[str]) -> None:
    assert analyst.get("/data/patients/compare", params={"key": keys}).status_code == 422


def test_my_questions_are_mine_and_lead_to_their_answers(server: Running) -> None:
    with (
        server.browser(server.token("analyst")) as one,
        server.browser(server.token("analyst")) as other,
    ):
        one.ask("/data/patients/ask/histogram", columns="age", epsilon="0.0123", bins="7")
        text = one.get("/questions").text
        assert links(text) == [answer_path("patients", histogram(bins=7, epsilon="0.0123"))]
        assert "answered" in text
        assert links(one.post("/questions", find="patients 0.0123").text) != []
        assert "0 questions" in one.post("/questions", find="weight").text
        assert "You have asked nothing here yet" in other.get("/questions").text


def test_thousands_of_my_questions_are_counted_paged_and_searched(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, n_asked = server.token("analyst"), MOST_LISTED + 7
    with server.curator.database.writing() as connection:
        for place in range(n_asked):
            query = histogram(bins=2 + place, epsilon="0.01").to_json()
            connection.execute(
                "INSERT INTO jobs"
                " (id, server, asker, asked_by, dataset, query, request, time, outcome)"
                " VALUES (?, 'elsewhere', ?, 'Ada', 'patients', ?, ?, ?, '')",
                *(f"many-{place}", token_hash(token), json.dumps(query), f"many-{place}"),
                f"2001-01-01T00:00:00.{place:06}Z",
            )
    last = -(-n_asked // ON_A_PAGE)
    with server.browser(token) as one, server.api(token) as api:
        text = one.get("/questions").text
        assert f"{n_asked} questions." in text
        assert f"Page 1 of {last}" in text
        assert answer_path("patients", histogram(bins=1 + n_asked, epsilon="0.01")) in text
        oldest = one.get("/questions", params={"page": last}).text
        assert links(oldest)[-1] == answer_path("patients", histogram(bins=2, epsilon="0.01"))
        assert len(links(oldest)) == n_asked % ON_A_PAGE
        assert "1 question " in one.post("/questions", find='"bins":2,').text
        monkeypatch.setattr("privod.server.views.analyst.MOST_SEARCHED", 100)
        few = one.post("/questions", find="histogram").text
        assert f"100 questions about “histogram”, among the newest 100 of your {n_asked}." in few
        assert "find=" not in few  # no address carries what was searched for
        older = one.post("/questions", find="histogram", page="2").text
        assert "Page 2 of 2" in older
        assert not set(links(older)) & set(links(few))
        assert len(api.get("/jobs").json()) == MOST_LISTED
        assert len(api.get("/jobs", params={"first": MOST_LISTED}).json()) == 7
        assert api.get("/jobs", params={"first": -1}).status_code == 422


def test_a_question_that_this_version_cannot_read_is_named_and_the_others_stay(
    server: Running,
) -> None:
    with server.browser(server.token("analyst")) as one:
        path = "/data/patients/ask/histogram"
        for epsilon in ("0.0101", "0.0102", "0.0103"):
            assert one.ask(path, columns="age", epsilon=epsilon).status_code == 303
        with server.curator.database.writing() as connection:
            found = connection.execute("SELECT id, query FROM jobs ORDER BY time DESC LIMIT 2")
            changes = ({"gone_parameter": 1}, {"name": "forgotten"})
            for (job_id, query), change in zip(found, changes, strict=True):
                text = json.dumps(json.loads(query) | change)
                connection.execute("UPDATE jobs SET query = ? WHERE id = ?", text, job_id)
        page = one.get("/questions")
        assert page.status_code == 200
        assert len(links(page.text)) == 1
        assert page.text.count(UNREADABLE) == 2
        assert "forgotten" in page.text
        assert one.post("/questions", find="forgotten").text.count(UNREADABLE) == 1


def test_mock_data_comes_from_the_domain_alone(server: Running, analyst: Browser) -> None:
    sent = analyst.get("/data/patients/mock.csv")
    assert sent.headers["content-type"].startswith("text/csv")
    made = mock_table(DOMAIN)
    frame = pa_csv.read_csv(io.BytesIO(sent.content))
    assert frame.column_names == ["age", "weight"]
    assert np.allclose(frame["age"].to_numpy(), made.numbers(("age",))[:, 0])
    with server.browser(server.token("auditor")) as auditor:
        assert auditor.get("/data/patients/mock.csv").status_code == 403
