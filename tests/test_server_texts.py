"""No text poisons the curator: every field of every body is tried with what must not be stored.

Schemathesis makes bodies from the document; this fuzzer takes bodies that are right and breaks them
in one place after another, and looks each time whether the data set can still be used.
"""

from __future__ import annotations

# slow: left out by `make quick`
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privod import wire
from privod.curator import Curator
from privod.data import Categorical, Domain, Numeric
from privod.errors import AnswerFailed, InvalidParameter
from privod.ledger import chain
from privod.privacy import AddRemove, InCrowd, Loss
from privod.query.catalog import QUERIES
from privod.query.query import canonical_json
from privod.questions.histogram.query import Histogram
from privod.texts import DEEPEST, check_texts, is_plain_json, is_text
from tests.running_server import DOMAIN, ROWS, Running, running

SURROGATE, CONTROL = "\ud800", "a\x00b"
POISON: tuple[Any, ...] = (
    SURROGATE,
    "ok\udfff",
    CONTROL,
    "\x1b[31m",
    "\x85",
    "",
    "\u202e",
    "x" * 5000,
    None,
    True,
    -1,
    10**400,
    1e308,
    [],
    [SURROGATE],
    {},
    {SURROGATE: 1},
    {"name": SURROGATE},
)
FEW = (SURROGATE, CONTROL, None, 10**400, [SURROGATE], {"name": SURROGATE})
NEVER_STORED = (SURROGATE, "ok\udfff", CONTROL, "\x1b[31m", "\x85")

CROWD = {"name": "in-crowd", "radius": 1, "columns": ["age"], "crowd": 5}
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "budgets": ("owner", {"adjacency": CROWD, "epsilon": "1", "delta": "0", "confirmed": True}),
    "ask": (
        "analyst",
        {
            "query": {"name": "histogram", "columns": ["age"], "epsilon": "0.001"},
            "request_id": "mine",
            "wait": 1.0,
        },
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("texts")) as server:
        yield server


@pytest.fixture(scope="module")
def apis(server: Running) -> Iterator[dict[str, httpx.Client]]:
    clients = {role: server.api(server.token(role)) for role in ("owner", "analyst", "auditor")}
    yield clients
    for client in clients.values():
        client.close()


def places(body: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every field and every element, however deep."""
    if here:
        yield here
    if isinstance(body, dict):
        for key, value in body.items():
            yield from places(value, (*here, key))
    elif isinstance(body, list):
        for index, value in enumerate(body):
            yield from places(value, (*here, index))


def broken(body: Any, way: tuple[Any, ...], poison: Any) -> Any:
    """The body with the poison in one place."""
    made = copy.deepcopy(body)
    inner = made
    for step in way[:-1]:
        inner = inner[step]
    inner[way[-1]] = poison
    return made


def send(api: httpx.Client, path: str, body: Any) -> httpx.Response:
    text = json.dumps(body)  # surrogates as escapes, which JSON allows and httpx would refuse
    return api.post(path, content=text, headers={"content-type": "application/json"})


def still_works(apis: dict[str, httpx.Client]) -> None:
    query = {"name": "histogram", "columns": ["sex"], "epsilon": "0.5"}
    for path in ("", "/budget", "/history", "/answers"):
        assert apis["analyst"].get(f"/datasets/patients{path}").status_code == 200
    assert send(apis["analyst"], "/datasets/patients/price", {"query": query}).status_code == 200


def check(response: httpx.Response) -> None:
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        wire.decode(wire.Failure, response.json())


@pytest.mark.parametrize("route", BODIES)
def test_no_field_of_a_body_takes_poison(apis: dict[str, httpx.Client], route: str) -> None:
    role, body = BODIES[route]
    for way in places(body):
        for poison in POISON:
            response = send(apis[role], f"/datasets/patients/{route}", broken(body, way, poison))
            check(response)
            if poison in NEVER_STORED:
                assert response.status_code == 422, (way, poison)
        still_works(apis)


def test_tokens_and_heads_take_no_poison(apis: dict[str, httpx.Client]) -> None:
    token = {"role": "analyst", "name": "Ada", "dataset": "patients"}
    for path, body in (("/tokens", token), ("/verify", {"expected_head": "1:ab"})):
        for way in places(body):
            for poison in POISON:
                check(send(apis["owner"], path, broken(body, way, poison)))
    assert apis["owner"].get("/tokens").status_code == 200
    still_works(apis)


@pytest.mark.parametrize("name", list(QUERIES))
def test_no_parameter_of_any_question_takes_poison(
    apis: dict[str, httpx.Client], name: str
) -> None:
    examples = QUERIES[name].examples(DOMAIN)
    if not examples:
        pytest.skip("no example fits the columns")
    body = {"query": examples[0].to_json()}
    for way in places(body):
        for poison in FEW:
            response = send(apis["analyst"], "/datasets/patients/price", broken(body, way, poison))
            check(response)
            if poison in NEVER_STORED:
                assert response.status_code in (404, 422), (way, poison)
    still_works(apis)


COLUMNS = [
    {"name": "age", "low": 0, "high": 120, "fill": 5, "title": "Age in years"},
    {"name": "sex", "values": ["female", "male"], "fill": "male"},
]


def test_no_domain_takes_poison(apis: dict[str, httpx.Client]) -> None:
    body = {"columns": COLUMNS, "title": "People", "person": "id", "max_rows_per_person": 2}
    file = {"file": ("rows.csv", b"age,sex,id\n40,male,a\n")}
    for number, way in enumerate(places(body)):
        for poison in FEW:
            fields = {"name": f"new {number}", "domain": json.dumps(broken(body, way, poison))}
            response = apis["owner"].post("/datasets", data=fields, files=file)
            check(response)
            if poison in NEVER_STORED:
                assert response.status_code == 422, (way, poison)
    for dataset in apis["analyst"].get("/datasets").json():
        assert apis["analyst"].get(f"/datasets/{dataset['name']}/history").status_code == 200


@pytest.mark.parametrize("path", ["a%00b", "%ED%A0%80", "%25ED%25A0%2580", "a%0Ab", "%1B"])
def test_no_address_takes_poison(apis: dict[str, httpx.Client], path: str) -> None:
    for way in (f"/datasets/{path}", f"/datasets/{path}/budget", f"/jobs/{path}"):
        assert apis["analyst"].get(way).status_code in (404, 422)


@pytest.mark.parametrize("typed", ["%ED%A0%80", "a%00b", "%1B%5B31m"])
def test_no_form_takes_poison(server: Running, typed: str) -> None:
    with server.browser(server.token("analyst")) as browser:
        fields = f"code={browser.code()}&columns={typed}&epsilon=1"
        headers = {"content-type": "application/x-www-form-urlencoded"}
        path = "/data/patients/ask/histogram"
        answered = browser.request("POST", path, content=fields, headers=headers)
        assert answered.status_code == 422
        assert browser.get("/data/patients/history").status_code == 200


CELLS = "age,sex\n40,female\n50,male\n"
UPLOADS: dict[str, tuple[str, bytes]] = {
    "a column of another name": ("rows.csv", CELLS.replace("sex", "s\x00x").encode()),
    "surrogates in a cell": ("rows.csv", CELLS.encode().replace(b"male", b"\xed\xa0\x80")),
    "bytes that are no text": ("rows.csv", CELLS.encode() + b"\xff\xfe,\x80\n"),
    "control characters in a cell": ("rows.csv", CELLS.encode() + b"4\x000,\x1b[31m\n"),
    "a cell without an end": ("rows.csv", CELLS.encode() + b'60,"' + b"x" * 100_000),
    "nothing": ("rows.csv", b""),
    "only lines": ("rows.csv", b"\n" * 1000),
    "a name with controls": ("ro\x1b[31mws.csv", CELLS.encode()),
    "a name that leads elsewhere": ("../../etc/rows.csv", CELLS.encode()),
    "no Parquet": ("rows.parquet", CELLS.encode()),
    "a cut Parquet": ("rows.parquet", b"PAR1" + b"\x00" * 100 + b"PAR1"),
}


@pytest.mark.parametrize("case", UPLOADS)
def test_no_uploaded_file_makes_the_server_fail_or_stays_behind(
    server: Running, apis: dict[str, httpx.Client], case: str
) -> None:
    name, content = UPLOADS[case]
    form = {"name": f"upload {case}", "domain": json.dumps(DOMAIN.to_json()), "confirmed": "true"}
    sent = apis["owner"].post("/datasets", data=form, files={"file": (name, content)})
    check(sent)
    still_works(apis)
    assert not list(server.curator.directory.glob("upload-*"))
    if sent.is_success:
        report = apis["owner"].get(f"/datasets/upload {case}/report")
        assert report.status_code == 200


def test_no_report_of_an_intake_takes_poison(
    server: Running, apis: dict[str, httpx.Client]
) -> None:
    server.curator.register("reported", ROWS, DOMAIN)
    right = server.curator.report("reported").to_json()
    for number, way in enumerate(places(right)):
        for poison in FEW:
            name = f"intake {number} {FEW.index(poison)}"
            form = {
                "name": name,
                "domain": json.dumps(DOMAIN.to_json()),
                "intake": json.dumps(broken(right, way, poison)),
            }
            file = {"file": ("rows.csv", CELLS.encode())}
            check(apis["owner"].post("/datasets", data=form, files=file))
            shown = apis["owner"].get(f"/datasets/{name}/report")
            assert shown.status_code in (200, 404)
    still_works(apis)


def test_an_answer_that_cannot_be_read_back_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Histogram, "value_to_json", lambda _self, _value: {"counts": "none"})
    with Curator.open(tmp_path) as curator:
        curator.register("patients", ROWS, DOMAIN)
        curator.open_budget("patients", AddRemove(), Loss(1))
        with pytest.raises(AnswerFailed):
            curator.ask(Histogram(columns=("age",), epsilon=1), "patients")
        monkeypatch.undo()
        assert [entry.kind for entry in curator.history("patients")][-1] == "charge"
        assert curator.releases("patients") == ()
        curator.verify()


def test_the_ledger_refuses_an_entry_that_cannot_be_read_back(tmp_path: Path) -> None:
    """The last line of defense, inside the transaction, whatever a caller has let through."""
    with Curator.open(tmp_path) as curator:
        curator.register("patients", ROWS, DOMAIN)
        curator.open_budget("patients", AddRemove(), Loss(1))
        before = curator.history()
        for poison in ({"query": '{"name": "\\ud800"}'}, {"asked_by": CONTROL}):
            with (
                pytest.raises(InvalidParameter, match="valid Unicode"),
                curator.database.writing() as connection,
            ):
                chain.append(connection, kind="charge", dataset="patients", **poison)
        for damaged in ({"adjacency": "{"}, {"query": "nonsense"}, {"epsilon": "x", "delta": "0"}):
            with (
                pytest.raises(InvalidParameter, match="read back"),
                curator.database.writing() as connection,
            ):
                chain.append(connection, kind="charge", dataset="patients", **damaged)
        assert curator.history() == before
        curator.verify()


def test_python_is_held_to_the_same_rule(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="valid Unicode"):
        Categorical("sex", ("female", SURROGATE))
    with pytest.raises(InvalidParameter, match="valid Unicode"):
        InCrowd(1.0, (SURROGATE,), 5)
    with pytest.raises(InvalidParameter, match="valid Unicode"):
        Domain((Numeric("age", 0, 1),), person=CONTROL)
    with Curator.open(tmp_path) as curator:
        curator.register("patients", ROWS, DOMAIN)
        curator.open_budget("patients", AddRemove(), Loss(1))
        with pytest.raises(InvalidParameter):
            curator.ask(Histogram(columns=(SURROGATE,), epsilon=1), "patients")
        assert curator.budget("patients")[0].spent == Loss(0)


@given(st.text())
def test_a_text_that_may_be_stored_is_a_text_that_can_be_written(text: str) -> None:
    if is_text(text):
        text.encode("utf-8")
    else:
        assert not text.isprintable()
    assert is_text(text, lines=True) or not is_text(text)


def test_nesting_has_an_end() -> None:
    deep: Any = []
    for _ in range(DEEPEST + 1):
        deep = [deep]
    with pytest.raises(InvalidParameter, match="nested deeper"):
        check_texts(deep, "the body")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(VALUES, st.integers(0, 2 * DEEPEST))
def test_what_is_plain_at_a_glance_is_never_refused_at_a_closer_look(
    value: Any, depth: int
) -> None:
    for _ in range(depth):
        value = [value]
    if is_plain_json(canonical_json(value)):
        check_texts(value, "the value")


@pytest.mark.parametrize("letter", ["\x07", "\n", "\x7f", "\x9b", "\ud800", "\\", "\u202e"])
def test_no_control_character_and_no_escape_is_plain(letter: str) -> None:
    assert is_plain_json(canonical_json({"name": ["a b", 1]}))
    assert not is_plain_json(canonical_json({"name": [f"a{letter}b"]}))
    assert not is_plain_json(canonical_json({f"a{letter}b": 1}))
