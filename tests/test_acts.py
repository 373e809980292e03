"""What people do to a ledger: one definition each, what it means in words, all of it or nothing."""

from __future__ import annotations

import math
from dataclasses import fields
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command
from typer.testing import CliRunner

from privod.cli import app
from privod.curator import Curator, protection
from privod.data import Domain, Numeric
from privod.errors import InvalidParameter, NeedsConfirmation, NoPromise, NotFound, Unavailable
from privod.ledger import chain
from privod.ledger.acts import (
    ACTS,
    Act,
    AdmitPerson,
    Approve,
    ChargeAhead,
    CloseBudget,
    FileRequest,
    OpenBudget,
    RaiseBudget,
    guessed_right,
    meaning,
    parts_of,
)
from privod.ledger.database import Connection
from privod.privacy import (
    AddRemove,
    AdmittedContexts,
    Guarantee,
    InCrowd,
    Loss,
    Replace,
    SameContexts,
)
from privod.questions.outlier_context.query import OutlierContext
from privod.server.app import API, CONSOLE
from privod.wire.acts import body_of
from tests.running_server import running
from tests.test_allowances import CROWD, people

PERSON = OutlierContext(
    group_columns=("job",),
    persons=(("CEO", 50),),
    column="age",
    epsilon=1,
    detector="grubbs(alpha=0.05)",
)


@pytest.fixture
def curator(tmp_path: Path) -> Curator:
    return people(tmp_path)


# ---- one definition ------------------------------------------------------------------------------


def test_every_act_has_a_command_with_its_parts_and_nothing_is_typed_twice() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for act in ACTS.values():
        taken = {one.name for one in commands[act.name].params}
        assert {part.name for part in parts_of(act)} <= taken
        assert commands[act.name].help.startswith((act.__doc__ or "").partition("\n")[0])


def test_every_act_that_may_come_over_the_network_has_a_route_and_a_documented_body(
    tmp_path: Path,
) -> None:
    with running(tmp_path, data=False) as server, server.api(server.token("owner")) as api:
        document = api.get("/openapi.json").json()
    paths = {route.path for route in API}
    for act in ACTS.values():
        if act.path is None:
            continue
        path = f"/api/v1/datasets/{{dataset}}/{act.path}"
        assert path in paths
        operation = document["paths"][path]["post"]
        named = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        schema = document["components"]["schemas"][named.rpartition("/")[2]]
        assert schema["properties"].keys() == {field.name for field in fields(body_of(act))}
        assert schema["additionalProperties"] is False


def test_the_console_has_a_form_for_what_owners_do() -> None:
    forms = {route.path.rpartition("/")[2] for route in CONSOLE if "/manage/" in route.path}
    owners = {name for name, act in ACTS.items() if act.role == "owner" and act.path}
    assert owners - forms == {"open", "charge-ahead"}  # a page of its own; before a fit, in code


# ---- all of it, or nothing -----------------------------------------------------------------------


class HalfDone(Act[None]):
    """An act that fails when half of it is entered."""

    title: ClassVar[str] = "Do half of it"
    followed: ClassVar[list[str]] = []

    def apply(self, connection: Connection) -> None:
        chain.append(connection, kind="retire", dataset=self.of)
        raise Unavailable("The lights went out.")

    def after(self, curator: Any, done: None) -> None:  # noqa: ARG002
        self.followed.append(self.of)

    def said(self, done: None) -> str:  # noqa: ARG002
        return ""


def test_an_act_that_fails_leaves_nothing_and_nothing_follows(curator: Curator) -> None:
    before = curator.head()
    with pytest.raises(Unavailable, match="lights"):
        curator.do(HalfDone("people"))
    assert curator.head() == before
    assert not HalfDone.followed


def test_what_is_not_confirmed_enters_nothing(curator: Curator) -> None:
    before = curator.head()
    acts: list[Act[Any]] = [
        CloseBudget("people", AddRemove(), "done"),
        RaiseBudget("people", AddRemove(), Loss(99), "more"),
        OpenBudget("people", Replace(), Loss(1)),
    ]
    for act in acts:
        with pytest.raises(NeedsConfirmation, match="Confirm it"):
            curator.do(act)
    assert curator.head() == before


def test_what_the_owners_report_could_not_read_is_refused_before_it_is_entered(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: a number that the report cannot count with."""

    def overflows(*_: object, **__: object) -> None:
        raise OverflowError("Python int too large to convert to C long")

    monkeypatch.setattr(protection, "who_is_protected", overflows)
    before = curator.head()
    acts: list[Act[Any]] = [
        OpenBudget("people", CROWD, Loss(1)),
        FileRequest("people", CROWD, Loss(1), "needed"),
    ]
    for act in acts:
        with pytest.raises(InvalidParameter, match="owner's report can read"):
            curator.do(act, confirmed=True)
    assert curator.head() == before


@pytest.mark.parametrize("said", ["anybody", "[" * 100_000])
def test_a_person_whom_nobody_could_read_is_not_admitted(curator: Curator, said: str) -> None:
    curator.open_budget("people", AdmittedContexts(), Loss(1), confirmed=True)
    nobody = SameContexts("grubbs(alpha=0.05)", "age", said)
    with pytest.raises(InvalidParameter, match="report can read"):
        curator.do(AdmitPerson("people", nobody, "why"), confirmed=True)
    assert curator.admitted("people") == ()


def test_a_restored_ledger_is_not_charged_ahead(tmp_path: Path) -> None:
    people(tmp_path / "here").close()
    with Curator.open(tmp_path / "here", restoring=True) as restored:
        before = restored.head()
        with pytest.raises(Unavailable, match="accepts it"):
            restored.do(ChargeAhead("people", Guarantee(Loss("0.01"), AddRemove()), "a fit"))
        assert restored.head() == before


# ---- requests ------------------------------------------------------------------------------------


def test_a_request_that_could_not_be_approved_is_not_filed(curator: Curator) -> None:
    (main,) = curator.budget("people")
    before = curator.head()
    for adjacency, loss in ((AddRemove(), main.budget), (AddRemove(), Loss("0.001"))):
        with pytest.raises(InvalidParameter, match="must allow more"):
            curator.do(FileRequest("people", adjacency, loss, "more"))
    person = PERSON.guarantee().adjacency
    with pytest.raises(NotFound, match="no budget under admitted-contexts"):
        curator.do(FileRequest("people", person, None, "my patient"))
    curator.open_budget("people", Replace(), Loss(9), confirmed=True)
    before = curator.head()
    with pytest.raises(NoPromise, match="beside a replace budget"):
        curator.do(FileRequest("people", CROWD, Loss(1), "rare ages"))
    assert curator.head() == before
    assert curator.requests("people") == ()


def test_approving_says_and_confirms_what_the_act_inside_does(curator: Curator) -> None:
    made = curator.do(FileRequest("people", AddRemove(), Loss(30), "a second study"))
    with pytest.raises(NeedsConfirmation, match="guesses right at most 100 % of the time"):
        curator.do(Approve("people", made.number, "fine"))
    curator.do(Approve("people", made.number, "fine"), confirmed=True)
    assert curator.budget("people")[0].budget == Loss(30)


def test_requests_are_listed_in_words(tmp_path: Path) -> None:
    with people(tmp_path) as curator:
        curator.do(FileRequest("people", CROWD, Loss(2), "rare ages"))
    shown = CliRunner().invoke(app, ["requests", "people", "--at", str(tmp_path)])
    assert "epsilon 2 under in-crowd" in " ".join(shown.output.split())
    assert "{" not in shown.output


def test_raising_leaves_delta_as_it_is_unless_another_is_given(tmp_path: Path) -> None:
    curator = people(tmp_path, Loss(1))
    curator.do(RaiseBudget("people", AddRemove(), Loss(9, "1e-6"), "more"), confirmed=True)
    raised = curator.do(RaiseBudget("people", AddRemove(), Loss(10), "more"), confirmed=True)
    assert raised.budget == Loss(10, "1e-6")
    raised = curator.do(
        RaiseBudget("people", AddRemove(), Loss(10, "1e-5"), "more"), confirmed=True
    )
    assert raised.budget == Loss(10, "1e-5")
    curator.verify()


# ---- what it means -------------------------------------------------------------------------------


@given(
    st.fractions(0, 39, max_denominator=10**6),
    st.fractions(0, Fraction(999_999, 10**6), max_denominator=10**6),
)
def test_a_guess_is_never_right_more_often_than_is_said(epsilon: Fraction, delta: Fraction) -> None:
    said = guessed_right(Loss(epsilon, delta))
    with localcontext() as context:
        context.prec = 80
        power = (Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp()
        exact = (power + Decimal(delta.numerator) / Decimal(delta.denominator)) / (1 + power)
        thousandths = exact * 1000
    assert said == Fraction(math.ceil(thousandths), 1000)


def test_epsilon_three_is_what_the_manual_says() -> None:
    assert guessed_right(Loss(3)) == Fraction(953, 1000)
    assert guessed_right(Loss(0)) == Fraction(1, 2)
    assert guessed_right(Loss(10**9)) == 1
    rows, persons = Domain((Numeric("x", 0, 1),)), Domain((Numeric("x", 0, 1),), "id")
    said = meaning(Loss(3), AddRemove(), persons, ())
    assert "50:50 that a person is in the data guesses right at most 95.3 % of the time" in said
    assert "that a row is in the data" in meaning(Loss(3), AddRemove(), rows, ())
    assert "which of two values a row has" in meaning(Loss(3), Replace(), rows, ())


def test_what_allowances_leave_out_is_always_said(curator: Curator) -> None:
    domain = curator.dataset("people").domain
    (main,) = curator.budget("people")
    crowd = InCrowd(0.0, ("age",), 5)
    said = meaning(Loss(1), crowd, domain, [main])
    assert "this budget and of those open beside it" in said
    assert crowd.gives_up in said
    both = guessed_right(main.budget + Loss(1))
    assert f"{float(both * 100):g} %" in said
    curator.open_budget("people", CROWD, Loss(1), confirmed=True)
    assert CROWD.gives_up in meaning(main.budget, AddRemove(), domain, curator.budget("people"))


def test_opening_says_what_it_means_and_gives_nothing_up(tmp_path: Path) -> None:
    with Curator.open(tmp_path) as curator:
        curator.register("rows", {"x": [0.5]}, Domain((Numeric("x", 0, 1),)))
    shown = CliRunner().invoke(app, ["open", "rows", "--epsilon", "3", "--at", str(tmp_path)])
    assert "that a row is in the data guesses right at most 95.3 %" in shown.output
    assert "Opened a budget of epsilon 3" in shown.output


@pytest.mark.parametrize(
    "spoils",
    [
        "UPDATE budgets SET spent_epsilon = '1/0'",
        "UPDATE budgets SET adjacency = '{}' WHERE number = (SELECT MAX(number) FROM budgets)",
    ],
)
def test_what_could_not_be_read_again_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoils: str
) -> None:
    curator = people(tmp_path)
    apply, before = OpenBudget.apply, curator.head()

    def spoiled(act: OpenBudget, connection: Connection) -> Any:
        done = apply(act, connection)
        connection.execute(spoils)
        return done

    monkeypatch.setattr(OpenBudget, "apply", spoiled)
    with pytest.raises(InvalidParameter, match="can be read again"):
        curator.open_budget("people", Replace(), Loss(5), confirmed=True)
    monkeypatch.undo()
    assert curator.head() == before
    assert len(curator.budget("people")) == 1
    assert curator.history("people")
    assert curator.verify()
    curator.open_budget("people", Replace(), Loss(5), confirmed=True)


def test_a_charge_reads_back_its_own_entry_and_no_more_however_long_the_ledger_is(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []
    found = chain.Entry.from_row

    def counted(row: Any) -> chain.Entry:
        read.append(row)
        return found(row)

    monkeypatch.setattr(chain.Entry, "from_row", counted)
    lost = Guarantee(Loss("1e-6"), AddRemove())
    times = []
    for number in range(12):
        read.clear()
        curator.do(ChargeAhead("people", lost, f"fit {number}"))
        times.append(len(read))
    assert len(set(times)) == 1
