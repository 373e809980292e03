"""Every noun survives JSON, and means the same to the command line, the server and the client."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from privod import wire
from privod.cli import app
from privod.client import AnyCurator
from privod.curator import (
    Answer,
    BudgetState,
    Charge,
    Curator,
    DataSet,
    Entry,
    Price,
    PricedCharge,
    Registered,
    Request,
    Token,
    Verification,
)
from privod.data import Categorical, ColumnReport, Domain, IntakeReport, Numeric
from privod.errors import BudgetExceeded, InvalidData, InvalidParameter, NotAllowed, PrivodError
from privod.ledger import acts
from privod.ledger.chain import ID_LENGTH
from privod.mechanisms import secure
from privod.privacy import AddRemove, Adjacency, Guarantee, InCrowd, Loss, Replace, SameContexts
from privod.query.catalog import QUERIES
from privod.query.parameters import Parameter
from privod.query.preview import Preview
from privod.query.query import Release
from privod.questions.histogram.query import Histogram
from privod.server.app import API
from privod.server.failures import STATUS, UnknownToken
from privod.wire import nouns, problems, reading, requests
from privod.wire.acts import body_of, sent
from privod.wire.reading import describe
from tests.running_server import DOMAIN, ROWS, running

texts = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=20)
fractions = st.fractions(min_value=0, max_value=10**6, max_denominator=10**9)
losses = st.builds(Loss, fractions, fractions)
adjacencies: st.SearchStrategy[Adjacency] = st.one_of(
    st.just(AddRemove()),
    st.just(Replace()),
    st.builds(
        InCrowd,
        st.floats(0, 1e6),
        st.lists(texts, min_size=1, max_size=3).map(tuple),
        st.integers(1, 100),
    ),
    st.builds(SameContexts, texts, texts, texts),
)
guarantees = st.builds(Guarantee, losses, adjacencies)
names = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=20)
columns = st.one_of(
    st.builds(Numeric, names, st.floats(-1e6, 0), st.floats(1, 1e6)),
    st.builds(Categorical, names, st.lists(names, min_size=1, max_size=4, unique=True).map(tuple)),
)
domains = st.builds(
    Domain, st.lists(columns, min_size=1, max_size=4, unique_by=lambda column: column.name)
)
optional_texts = st.none() | texts
datasets = st.builds(DataSet, texts, domains, texts, optional_texts, texts)
small = st.builds(Loss, st.fractions(0, 1), st.fractions(0, Fraction(1, 10**7)))
counted = st.lists(st.tuples(small, st.just(1)), max_size=1).map(tuple)
budgets = st.builds(BudgetState, st.integers(1), texts, adjacencies, losses, losses, counted)
budgets |= st.builds(
    BudgetState,
    st.integers(1),
    texts,
    adjacencies,
    st.just(Loss(1, "1e-6")),
    small,
    closed=st.none() | st.integers(1),
    conversion_delta=st.just(Fraction(1, 10**7)),
    spent_rho=st.fractions(0, 1),
    adding=st.booleans(),
)
charges = st.builds(Charge, st.integers(1), adjacencies, losses, st.none() | st.fractions(0, 1))
prices = st.builds(
    Price,
    st.lists(
        st.builds(
            PricedCharge,
            adjacencies,
            losses,
            st.none() | losses,
            st.none() | st.fractions(0, 1),
            st.none() | st.integers(0),
        )
    ).map(tuple),
    st.booleans(),
    st.booleans(),
    texts,
    begun=st.booleans(),
)
AGES = Domain((Numeric("age", 0, 120),))
queries = st.builds(
    Histogram,
    columns=st.just(("age",)),
    epsilon=fractions.filter(lambda number: number > Fraction(1, 1000)),
)
entries = st.builds(
    Entry,
    number=st.integers(1),
    time=texts,
    kind=texts,
    dataset=texts,
    budget=st.none() | st.integers(1),
    adjacency=st.none() | adjacencies,
    loss=st.none() | losses,
    query=st.none() | queries.map(lambda query: query.to_json()),
    asked_by=texts,
    ask=st.none() | st.integers(1),
    request=st.none(),
    digest=optional_texts,
    previous=texts,
    hash=texts,
    details=st.none() | st.dictionaries(texts, texts, max_size=2),
    token=optional_texts,
)
verifications = st.builds(
    Verification, texts, *[st.integers(0)] * 4, st.lists(texts, max_size=3).map(tuple)
)
tokens = st.builds(
    Token,
    texts,
    st.sampled_from(["owner", "analyst"]),
    optional_texts,
    texts,
    texts,
    optional_texts,
)


def through_json(noun: Any) -> Any:
    """The noun, written as text and read back."""
    return wire.decode(type(noun), json.loads(wire.to_text(noun)))


@given(losses)
def test_a_loss_comes_back_exactly(loss: Loss) -> None:
    assert wire.Loss is Loss
    assert through_json(loss) == loss


@given(guarantees)
def test_a_guarantee_comes_back_exactly(guarantee: Guarantee) -> None:
    noun = wire.Guarantee.of(guarantee)
    assert through_json(noun) == noun
    assert reading.read(Guarantee, through_json(noun)) == guarantee


@given(datasets)
def test_a_data_set_comes_back(dataset: DataSet) -> None:
    assert reading.read(DataSet, through_json(wire.DataSet.of(dataset))) == dataset


@given(datasets, st.integers(0, 10**12))
def test_a_registration_comes_back_with_its_report(dataset: DataSet, count: int) -> None:
    column = ColumnReport("x", count, 0, 1)
    report = IntakeReport(count + 1, 1, count, 0, 0, 0, 0, 0, (column,))
    registered = Registered(dataset, report, ("people",))
    assert reading.read_registered(through_json(wire.Registered.of(registered))) == registered


@given(budgets)
def test_a_budget_comes_back(state: BudgetState) -> None:
    noun = wire.Budget.of(state)
    back = reading.read(BudgetState, through_json(noun))
    assert back.left == state.left
    assert wire.Budget.of(back) == noun


@given(prices, queries)
def test_a_price_comes_back(price: Price, query: Histogram) -> None:
    assert reading.read(Price, through_json(wire.Price.about(price, query, AGES))) == price


@given(charges)
def test_a_charge_comes_back(charge: Charge) -> None:
    assert wire.Charge is Charge
    assert through_json(charge) == charge


@given(entries)
def test_an_entry_comes_back(entry: Entry) -> None:
    assert reading.read_entry(through_json(wire.Entry.of(entry))) == entry


filed = st.builds(
    Request, st.integers(1), texts, adjacencies, st.none() | losses, texts, texts, texts
)


@given(filed)
def test_a_request_comes_back(request: Request) -> None:
    assert wire.Request is Request
    assert through_json(request) == request


@given(verifications)
def test_a_verification_comes_back(found: Verification) -> None:
    assert through_json(found) == found
    assert wire.Verification is Verification


@given(tokens)
def test_a_token_shows_its_short_name_only(token: Token) -> None:
    noun = wire.Token.of(token)
    assert through_json(noun) == noun
    assert len(noun.id) <= ID_LENGTH


def _example_answers() -> list[Answer]:
    from privod.data.sources import read

    table = read(ROWS, DOMAIN)
    asked = [query for kind in QUERIES.values() for query in kind.examples(DOMAIN)[:1]]
    paid = (Charge(3, AddRemove(), Loss("0.5")),)
    return [
        Answer(query.answer(table, secure()), paid, stored=False, head="3:ab") for query in asked
    ]


def test_the_answer_to_every_question_of_the_catalog_comes_back() -> None:
    answers = _example_answers()
    assert len(answers) > 3
    for answer in answers:
        noun = wire.Answer.with_cost(answer)
        job = wire.Job("j", "done", 10, noun)
        back = through_json(job)
        assert wire.Answer.with_cost(reading.read_answer(back.answer)) == noun


@pytest.mark.parametrize("name", list(QUERIES))
def test_the_description_of_every_question_comes_back(name: str) -> None:
    described = describe(QUERIES[name])
    assert through_json(described) == described
    assert described.parameters
    assert described.guarantee


@pytest.mark.parametrize(
    "noun",
    [
        wire.Visitor("analyst", None, "Ada"),
        wire.NewToken("privod_analyst_x"),
        wire.AnswerListed("key", {"name": "histogram"}),
        wire.Job("j", "waiting", 0),
        wire.JobListed("j", "patients", {"name": "histogram"}, "2026", "done"),
        wire.AskPrice({"name": "histogram"}),
        wire.Ask({"name": "histogram"}, "id", 1.0),
        wire.Verify(None),
        wire.Registered("new", {"columns": []}, "2026", None, "new", report={"kept": 3}),
        wire.Preview("Right to within 7.", 7, None, 0.5),
        wire.MakeToken("owner", "Ada"),
        wire.WhoIsProtected({"name": "in-crowd"}, 50),
        wire.WhoIsProtected(),
        wire.NoteHead("3:ab"),
        wire.Failure(wire.Problem("not-found", "There is none.")),
    ],
)
def test_what_has_no_value_of_its_own_comes_back(noun: Any) -> None:
    assert through_json(noun) == noun


CROWD = InCrowd(0.0, ("age",), 5)
PERSON = SameContexts("grubbs", "pay", "{}")
DONE: list[acts.Act[Any]] = [
    acts.OpenBudget("x", AddRemove(), Loss(1, "1e-6"), "zcdp"),
    acts.RaiseBudget("x", CROWD, Loss("1/3"), "more"),
    acts.CloseBudget("x", AddRemove(), "enough"),
    acts.AdmitPerson("x", PERSON, "my patient", isolating=True),
    acts.AllowExactCounts("x", CROWD, 4, "rare ages"),
    acts.LimitToken("x", Replace(), "ab", Loss(1)),
    acts.FileRequest("x", AddRemove(), Loss(2), "needed"),
    acts.FileRequest("x", PERSON, None, "needed"),
    acts.Approve("x", 7, "fine"),
    acts.Decline("x", 7, "no"),
    acts.ChargeAhead("x", Guarantee(Loss(1), Replace()), "a fit"),
    acts.ChargeElsewhere("x", Guarantee(Loss(1), Replace()), "a slide"),
    acts.Retire("x", "the study ended"),
]


def test_every_act_is_told_as_json_and_read_back() -> None:
    assert {act.name for act in DONE} == acts.ACTS.keys()
    for act in DONE:
        told = json.loads(json.dumps(act.told()))
        assert type(act).read("x", told) == act
        assert told.keys() <= {part.name for part in acts.parts_of(type(act))}
        if act.path is not None:
            body = body_of(type(act))
            sent_away = json.loads(json.dumps(sent(act, confirmed=True)))
            assert sent_away.keys() <= {field.name for field in fields(body)}


SHOWN: dict[Any, Any] = {
    wire.DataSet: DataSet,
    wire.Guarantee: Guarantee,
    wire.Registered: Registered,
    wire.Budget: BudgetState,
    wire.Preview: Preview,
    wire.Price: Price,
    wire.StoredAnswer: Release,
    wire.Answer: Answer,
    wire.Entry: Entry,
    wire.Parameter: Parameter,
    wire.Token: Token,
}
"""What each noun shows."""

RENAMED = {"of": "dataset", "dataset": "name"}


def test_a_noun_shows_every_field_of_its_value_or_says_that_it_withholds_it() -> None:
    kinds = {kind for kind in vars(nouns).values() if isinstance(kind, type)}
    named = {kind for kind in kinds if issubclass(kind, wire.Noun)} - {wire.Noun, wire.View}
    assert named == SHOWN.keys()
    assert sum(issubclass(kind, wire.View) for kind in named) == 10
    for noun, kind in SHOWN.items():
        shown = {field.name for field in fields(noun)}
        held = {field.name for field in fields(kind)}
        kept_back = set(getattr(noun, "withheld", ()))
        hidden = {name for name in held if name not in shown and RENAMED.get(name) not in shown}
        assert hidden == kept_back, noun
        assert not kept_back & shown


def test_hashes_request_ids_and_single_losses_never_leave(tmp_path: Path) -> None:
    chosen = "the-id-of-a-request"
    asked = Histogram(columns=("age",), epsilon="0.123457")
    with running(tmp_path) as server:
        with server.api(server.token("analyst")) as api:
            body = {"query": asked.to_json(), "request_id": chosen}
            assert api.post("/datasets/patients/ask", json=body).status_code == 200
        hashes = [token.hash for token in server.curator.store.tokens()]
        paths = [route.path.removeprefix("/api/v1") for route in API if route.method == "GET"]
        told = {}
        for role in ("owner", "analyst", "auditor"):
            with server.api(server.token(role)) as api:
                for path in paths:
                    named = path.format(dataset="patients", key="0", job="0", witness="w")
                    told[role, path] = api.get(named).text
        assert "123457/1000000" in told["owner", "/datasets/{dataset}/budget"]  # the sum so far
        assert len(hashes) == len(set(hashes)) > 1
        for where, text in told.items():
            assert not any(one in text for one in hashes), where
            assert chosen not in text, where
            assert '"losses"' not in text, where


def test_no_noun_is_forgotten_here() -> None:
    """Every class of the model occurs in a test of this module."""
    source = Path(__file__).read_text(encoding="utf-8")
    classes = [
        name
        for module in (nouns, requests, problems)
        for name in module.__all__
        if is_dataclass(getattr(module, name))
    ]
    assert len(classes) > 15
    absent = {name for name in classes if f"wire.{name}" not in source}
    assert absent <= {"PricedCharge", "Parameter", "Question"}  # inside Price and describe


damage = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts, st.lists(texts)
)


@given(entries.map(wire.Entry.of), st.data())
def test_a_field_of_another_type_is_refused_in_one_way(noun: wire.Entry, data: Any) -> None:
    plain = wire.encode(noun)
    name = data.draw(st.sampled_from([field.name for field in fields(noun)]))
    plain[name] = data.draw(damage)
    sent = json.loads(json.dumps(plain))
    try:
        back = wire.decode(wire.Entry, sent)
    except InvalidData:
        with pytest.raises(InvalidData, match=rf"Entry\.{name}"):
            wire.decode(wire.Entry, sent)
        return
    assert wire.encode(back) == plain


@pytest.mark.parametrize("sent", [None, 7, [], "text", {}, {"number": 1}])
def test_what_is_no_noun_at_all_is_refused(sent: Any) -> None:
    with pytest.raises(InvalidData):
        wire.decode(wire.Budget, sent)


def test_a_field_of_a_newer_server_is_passed_over() -> None:
    sent = {"epsilon": "1", "delta": "0", "rho": "1/2"}
    assert wire.decode(wire.Loss, sent) == Loss(1)


@pytest.mark.parametrize("kind", [kind for kind in STATUS if kind is not InvalidParameter])
def test_every_error_comes_back_as_what_it_is_to_whoever_asked(kind: type[PrivodError]) -> None:
    told = json.loads(json.dumps(wire.problem_of(kind("It failed."))))
    back = wire.decode(wire.Failure, told).error.exception()
    assert str(back) == "It failed."
    assert issubclass(kind, type(back))
    assert kind is not UnknownToken or type(back) is NotAllowed


def test_an_invalid_parameter_comes_back_with_its_parts() -> None:
    wrong = InvalidParameter("epsilon", "must be above 0", -1, "Try 1.")
    back = wire.decode(wire.Failure, wire.problem_of(wrong)).error.exception()
    assert isinstance(back, InvalidParameter)
    assert vars(back) == vars(wrong)


def test_an_unnameable_value_in_an_error_is_told_as_text() -> None:
    wrong = InvalidParameter("x", "must be short", {1, 2}, "Try 1.")
    assert wire.problem_of(wrong)["error"]["value"] == "{1, 2}"
    long = InvalidParameter("x", "must be short", "y" * 10_000, "Try 1.")
    assert len(json.dumps(wire.problem_of(long))) < 5_000


def test_the_nouns_load_without_numpy_and_the_server_s_framework() -> None:
    code = "import sys, privod.wire; print([n for n in ('numpy', 'pydantic') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


COMMANDS = (
    ("datasets",),
    ("price", "patients", "histogram", "columns=age", "epsilon=0.25"),
    ("ask", "patients", "histogram", "columns=age", "epsilon=0.25"),
    ("budget", "patients"),
    ("history", "patients"),
)


def test_a_directory_and_an_address_print_the_same_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path) as server:
        monkeypatch.setenv("PRIVOD_TOKEN", server.token("analyst"))
        for command in COMMANDS:
            # The address first: what it asks is stored, and the directory then shows the same.
            printed = [
                json.loads(_printed(*command, "--at", where, "--json"))
                for where in (server.url, str(tmp_path), server.url)
            ]
            assert printed[1] == printed[2]
            if command[0] == "ask":
                assert printed[0]["release"] == printed[1]["release"]
                assert not printed[0]["stored"]
                assert printed[1]["stored"]
            else:
                assert printed[0] == printed[1]
        monkeypatch.setenv("PRIVOD_TOKEN", server.token("auditor"))
        here, there = (
            json.loads(_printed("verify", "--at", where, "--json"))
            for where in (str(tmp_path), server.url)
        )
        assert here == there


def _printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None, (arguments, result.exception)
    return result.stdout


def test_an_error_in_the_shell_has_the_shape_of_the_server_s(tmp_path: Path) -> None:
    with Curator.open(tmp_path) as curator:
        curator.register("patients", ROWS, DOMAIN)
        curator.open_budget("patients", AddRemove(), Loss(1))
    asked = ["ask", "patients", "histogram", "columns=age", "epsilon=7", "--at", str(tmp_path)]
    command = [sys.executable, "-c", "from privod.cli import main; main()", *asked, "--json"]
    failed = subprocess.run(command, capture_output=True, text=True, check=False)
    told = wire.decode(wire.Failure, json.loads(failed.stderr))
    assert isinstance(told.error.exception(), BudgetExceeded)


def takes_any(curator: AnyCurator) -> tuple[DataSet, ...]:
    """Checked by mypy: what is written for any curator takes both."""
    return curator.datasets()


def test_what_is_written_for_any_curator_takes_both(tmp_path: Path) -> None:
    from privod.client import connect

    with running(tmp_path) as server, connect(server.url, server.token("analyst")) as client:
        assert takes_any(client) == takes_any(server.curator)


@pytest.mark.parametrize("epsilon", ["-1", "half", "1/0", None, {}, "1e999999999"])
def test_a_loss_that_is_none_is_refused_like_any_field(epsilon: Any) -> None:
    with pytest.raises(InvalidData, match="Loss"):
        wire.decode(Loss, {"epsilon": epsilon, "delta": "0"})


@pytest.mark.parametrize("adjacency", [None, 7, [], {}, {"name": "none"}, {"name": "in-crowd"}])
def test_a_charge_under_no_adjacency_is_refused_like_any_field(adjacency: Any) -> None:
    sent = {"entry": 1, "adjacency": adjacency, "loss": {"epsilon": "1", "delta": "0"}}
    with pytest.raises(InvalidData, match=r"Charge\.adjacency"):
        wire.decode(Charge, sent)
