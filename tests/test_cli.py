"""The command line: from a file to an answer, JSON everywhere, errors in one sentence."""

from __future__ import annotations

# slow: left out by `make quick`
import json
import shlex
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from privod.cli import app, main, output
from privod.cli.app import GROUPS
from privod.curator import Curator
from privod.engines.size import SizeClass
from privod.errors import (
    BudgetExceeded,
    InvalidData,
    InvalidParameter,
    NeedsConfirmation,
    NoPromise,
    NotFound,
)
from privod.progress import report
from privod.query.catalog import QUERIES, release_from_json
from privod.query.offers import GOALS

RUNNER = CliRunner()
DOMAIN = {
    "columns": [{"name": "age", "low": 0, "high": 120}, {"name": "sex", "values": ["f", "m"]}]
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVOD_AT", str(tmp_path / "curator"))
    (tmp_path / "patients.csv").write_text("age,sex\n30,f\n40,m\n50,m\n")
    (tmp_path / "domain.json").write_text(json.dumps(DOMAIN))
    return tmp_path


def run(*arguments: str, fails_with: type[Exception] | None = None) -> str:
    result = RUNNER.invoke(app, list(arguments))
    if fails_with is not None:
        assert isinstance(result.exception, fails_with)
        return str(result.exception)
    assert result.exception is None, result.output
    return result.stdout


def as_json(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json"))


@pytest.fixture
def patients(place: Path) -> Path:
    run("register", "patients", "patients.csv", "--domain", "domain.json")
    run("open", "patients", "--epsilon", "1")
    return place


def test_from_a_file_to_an_answer(patients: Path) -> None:
    price = as_json("price", "patients", "histogram", "columns=age", "epsilon=0.4")
    assert price["affordable"]
    assert price["charges"][0]["loss"]["epsilon"] == "2/5"
    answer = as_json("ask", "patients", "histogram", "columns=age", "epsilon=0.4")
    assert answer["release"]["guarantee"] == {
        "loss": {"epsilon": "2/5", "delta": "0"},
        "adjacency": {"name": "add-remove"},
    }
    assert answer["guarantee"]["loss"]["epsilon"] == "2/5"
    assert not answer["stored"]
    assert as_json("ask", "patients", "histogram", "columns=age", "epsilon=2/5")["stored"]
    assert as_json("budget", "patients")[0]["left"]["epsilon"] == "3/5"
    kinds = [entry["kind"] for entry in as_json("history", "patients")]
    assert kinds == ["register", "open", "charge", "release"]
    assert as_json("verify")["questions"] == 1


def test_what_nobody_declares_is_the_same_in_the_shell(patients: Path) -> None:
    with Curator.open(patients / "curator") as curator:
        assert curator.size_class("patients") == SizeClass()


def test_a_grid_is_asked_bit_by_bit_and_charged_once(patients: Path) -> None:
    grid = ["patients", "interactive-grid", "columns=age", "cells_per_axis=12", "epsilon=0.5"]
    assert "Charged: epsilon 0.5 to add-remove." in run("ask", *grid, "records=44")
    price = as_json("price", *grid, "records=52")
    assert [charge["loss"]["epsilon"] for charge in price["charges"]] == ["0"]
    assert "was scored" in run("ask", *grid, "records=52")
    assert as_json("budget", "patients")[0]["left"]["epsilon"] == "1/2"
    kinds = [entry["kind"] for entry in as_json("history", "patients")]
    assert kinds == ["register", "open", *(["charge", "release"] * 2)]
    assert as_json("verify")["questions"] == 2


def test_answers_are_sentences_for_people(patients: Path) -> None:
    shown = run("ask", "patients", "histogram", "columns=sex", "epsilon=0.5")
    assert "records have sex" in shown
    assert "Charged: epsilon 0.5 to add-remove." in shown
    assert "cost nothing" in run("ask", "patients", "histogram", "columns=sex", "epsilon=0.5")
    assert "answered before" in run("price", "patients", "histogram", "columns=sex", "epsilon=0.5")
    for command in (["budget", "patients"], ["history"], ["datasets"], ["verify"]):
        assert run(*command)


def test_the_history_shows_which_question_was_asked_at_what_price(patients: Path) -> None:
    run("ask", "patients", "histogram", "columns=sex", "epsilon=0.25")
    shown = run("history", "patients")
    assert "charge, epsilon 0.25, add-remove, by owner" in shown
    assert "histogram columns=sex epsilon=0.25" in shown
    assert "release of no. 3, by owner" in shown


def test_the_id_of_a_token_is_never_wrapped(patients: Path) -> None:
    run("token", "add", "analyst", "--name", "Ada " * 20)
    (made,) = as_json("token", "list")
    for width in ("10", "40", "80"):
        shown = RUNNER.invoke(app, ["token", "list"], env={"COLUMNS": width}).stdout
        assert made["id"] in shown


def test_a_narrow_terminal_breaks_no_name_of_a_budget(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run("register", "patients", "patients.csv", "--domain", "domain.json")
    run("open", "patients", "--epsilon", "1000/3", "--delta", "1e-7", "--yes")
    run("open", "patients", "--epsilon", "1/3", "--adjacency", "admitted-contexts", "--yes")
    run("ask", "patients", "histogram", "columns=age", "epsilon=1/7", "--yes")
    words = run("budget", "patients").split()
    for name in ("add-remove", "admitted-contexts", "allowance", "epsilon"):
        assert name in words


def test_a_release_and_its_picture_are_written(patients: Path) -> None:
    setting = ("histogram", "columns=age,sex", "epsilon=0.5")
    files = ("--out", "r.json", "--csv", "r.csv", "--picture", "p.svg")
    assert "Written: r.json, r.csv and p.svg." in run("ask", "patients", *setting, *files)
    written = json.loads((patients / "r.json").read_text())
    assert written["query"]["name"] == "histogram"
    assert (patients / "r.csv").read_bytes().decode() == release_from_json(written).to_csv()
    assert b"<svg" in (patients / "p.svg").read_bytes()
    run("ask", "patients", *setting, "--picture", "p.png")
    assert (patients / "p.png").read_bytes().startswith(b"\x89PNG")


def test_too_much_is_refused_and_what_is_left_is_said(patients: Path) -> None:
    message = run(
        "ask", "patients", "histogram", "columns=age", "epsilon=1.5", fails_with=BudgetExceeded
    )
    assert "Left is epsilon 1." in message
    assert "over budget" in run("price", "patients", "histogram", "columns=age", "epsilon=1.5")
    assert as_json("budget", "patients")[0]["spent"]["epsilon"] == "0"


def test_a_narrow_budget_must_be_confirmed(patients: Path) -> None:
    arguments = ("open", "patients", "--epsilon", "2", "--adjacency", "replace")
    message = run(*arguments, "--json", fails_with=NeedsConfirmation)
    assert "number of records becomes public" in message
    crowd = '{"name": "in-crowd", "radius": 1, "columns": ["age"], "crowd": 5}'
    assert "crowd" in str(
        as_json("open", "patients", "--epsilon", "2", "--adjacency", crowd, "--yes")
    )
    run(*arguments, "--yes", fails_with=NoPromise)


def test_a_charge_for_what_was_lost_elsewhere_says_what_it_leaves_and_must_be_confirmed(
    patients: Path,
) -> None:
    arguments = ("charge", "patients", "--epsilon", "0.7", "--reason", "a talk")
    warning = "This would charge 'patients', for good: epsilon 0.7 to add-remove, which leaves"
    assert f"{warning} epsilon 0.3." in run(*arguments, "--json", fails_with=NeedsConfirmation)
    for silence in ("n\n", ""):
        refused = RUNNER.invoke(app, list(arguments), input=silence)
        assert refused.exit_code != 0
        assert f"{warning} epsilon 0.3." in refused.output
    assert as_json("budget", "patients")[0]["spent"]["epsilon"] == "0"
    assert "Charged: epsilon 0.7" in RUNNER.invoke(app, list(arguments), input="y\n").output
    assert f"{warning} nothing, and it would answer nothing new." in run(
        *arguments, "--json", fails_with=NeedsConfirmation
    )
    assert as_json(*arguments, "--yes")[0]["loss"]["epsilon"] == "7/10"
    assert as_json("budget", "patients")[0]["spent"]["epsilon"] == "7/5"


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (("ask", "patients", "histogram", "epsilon=1"), InvalidParameter, "columns must be given"),
        (("ask", "patients", "histogram", "colour=red"), InvalidParameter, "NAME=VALUE"),
        (("ask", "patients", "histogram", "columns"), InvalidParameter, "NAME=VALUE"),
        (("ask", "patients", "poem", "epsilon=1"), NotFound, "no question 'poem'"),
        (
            ("ask", "nobody", "histogram", "columns=x", "epsilon=1"),
            NotFound,
            "no data set 'nobody'",
        ),
        (("price", "patients", "histogram", "columns=x", "epsilon=1"), InvalidParameter, "columns"),
        (("open", "patients", "--epsilon", "lots"), InvalidParameter, "epsilon must be a number"),
        (("open", "patients", "--epsilon", "1", "--adjacency", "{"), InvalidParameter, "JSON"),
        (
            ("register", "more", "patients.csv", "--domain", "nowhere.json"),
            InvalidData,
            "no file 'nowhere.json'",
        ),
        (
            ("register", "more", "patients.csv", "--domain", "patients.csv"),
            InvalidParameter,
            "domain must be JSON (Expecting value: line 1 column 1",
        ),
        (
            ("ask", "patients", "histogram", "columns=age", "epsilon=0.1", "epsilon=1"),
            InvalidParameter,
            "epsilon must be given once",
        ),
        (
            ("ask", "patients", "rare-counts"),
            InvalidParameter,
            "columns, max_crowd and epsilon must be given",
        ),
        (
            ("admit", "patients", "p5", "--reason", "asked"),
            InvalidParameter,
            "person must be JSON, got 'p5'. `privod guarantee outlier-context`",
        ),
        (("runs", "--record", "nowhere.json"), InvalidData, "no file 'nowhere.json'. Name the"),
        (
            ("ask", "patients", "histogram", "columns=age", "epsilon=1", "--picture", "p.gif"),
            InvalidParameter,
            "picture must end in",
        ),
        (
            ("ask", "patients", "histogram", "columns=age", "epsilon=1", "--csv", "gone/a.csv"),
            InvalidData,
            "no folder 'gone' to write to",
        ),
    ],
)
def test_bad_input_is_refused_before_any_charge(
    patients: Path, arguments: tuple[str, ...], kind: type[Exception], message: str
) -> None:
    assert message in run(*arguments, fails_with=kind)
    assert as_json("budget", "patients")[0]["spent"]["epsilon"] == "0"


def test_the_questions_explain_themselves(place: Path) -> None:
    assert any(each["name"] == "histogram" for each in as_json("questions"))
    explained = as_json("questions", "histogram")
    assert {each["name"] for each in explained["parameters"]} >= {"columns", "epsilon"}
    assert "How are the records spread" in run("questions", "histogram")
    assert "histogram" in run("questions")


def test_a_question_says_what_it_promises_and_which_budget_it_needs(place: Path) -> None:
    setting = ("histogram", "columns=age", "epsilon=0.3", "adjacency=replace")
    assert as_json("guarantee", *setting)["adjacency"] == {"name": "replace"}
    shown = run("guarantee", *setting)
    assert "(epsilon 0.3)" in shown
    assert "The number of records becomes public" in shown
    assert "--adjacency" in shown


def test_the_audit_reports_claimed_and_caught(place: Path) -> None:
    verdicts = as_json("audit", "histogram", "--pairs", "60")
    assert all(verdict["holds"] for verdict in verdicts)
    assert verdicts[0]["claimed"]["epsilon"] == "1"
    assert "the promise holds" in run("audit", "histogram", "--pairs", "60")


def test_an_error_is_one_line_without_a_traceback(patients: Path) -> None:
    command = [sys.executable, "-c", "from privod.cli import main; main()", "budget", "nobody"]
    failed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    assert failed.stderr.startswith("privod: There is no data set 'nobody'.")
    assert "Traceback" not in failed.stderr
    failed = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert json.loads(failed.stderr)["error"]["kind"] == "not-found"


def test_errors_name_the_option_that_is_typed(
    patients: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (patients / "semicolons.csv").write_text("age;sex\n30;f\n")
    register = "register {} --domain domain.json"
    labels = "anomaly-labels columns=age near=distance(radius=1) max_crowd=2 epsilon=1"
    for typed, told in {
        "open patients --epsilon no": "--epsilon must be",
        register.format("patients patients.csv"): "say that it --continues the earlier one",
        register.format("more semicolons.csv"): "declare that --separator.",
        register.format("more patients.csv --most-records 1"): "as there may be, --most-records.",
        "budget nobody": "List them (`privod datasets`).",
        "ask patients histogram columns=age epsilon=1 --picture a.bmp": "--picture must end in",
        f"ask patients {labels} records=x": "privod: records must",
        "ask patients histogram columns=age epsilon=no": "privod: epsilon must",
    }.items():
        monkeypatch.setattr(sys, "argv", ["privod", *typed.split()])
        with pytest.raises(SystemExit):
            main()
        assert told in capsys.readouterr().err, typed


def test_what_takes_long_writes_a_line_now_and_then_where_nobody_sees_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for seconds, written in ((0.0, "asking: 1 of 3\nreading: 5\n"), (1e9, "")):
        monkeypatch.setattr(output, "LINE_SECONDS", seconds)
        with output.progress_bars():
            report("asking", 1, 3)
            report("reading", 5)
        assert capsys.readouterr().err == written


def test_questions_between_several_are_listed_apart_where_their_extra_is_missing() -> None:
    script = (
        "import sys; sys.modules['cryptography'] = None; from privod.cli import main;"
        " sys.argv = ['privod', 'questions']; main()"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert "histogram" in shown.stdout
    assert "joint-detector is left out." in shown.stdout
    assert "Install privod[joint]" in " ".join(shown.stdout.split())


def test_every_command_stands_in_a_group_and_the_everyday_ones_first(place: Path) -> None:
    shown = run("--help")
    places = [shown.index(f"─ {group} ─") for group in GROUPS]
    assert places == sorted(places)
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    assert not {*group.commands} - {*" ".join(GROUPS.values()).split()}


def test_asking_without_a_question_lists_what_can_be_asked_and_paid(place: Path) -> None:
    run("register", "patients", "patients.csv", "--domain", "domain.json")
    assert "No budget is open" in run("ask")
    run("open", "patients", "--epsilon", "1.5", "--yes")
    shown = run("ask", "patients")
    assert "epsilon 1.5 left of epsilon 1.5" in " ".join(shown.split())
    assert "Not possible here" not in shown
    run(*shlex.split(shown.splitlines()[-1])[1:])  # a price, as it stands there
    listed = json.loads(run("ask", "--json"))
    assert {one["goal"] for one in listed} <= {*GOALS}
    assert {one["query"]["name"] for one in listed} <= {*QUERIES}
    payable = [one["query"] for one in listed if not one["refused"]]
    assert "histogram" in [one["name"] for one in payable]
    cheapest = min(payable, key=lambda one: Fraction(one["epsilon"]))
    given = [f"{name}={value}" for name, value in cheapest.items() if name == "epsilon"]
    assert "Did you mean 'patients'" in run("ask", "patiens", fails_with=NotFound)
    wrong = ("price", "patients", "histogramm", "columns=age", *given)
    assert "Did you mean 'histogram'" in run(*wrong, fails_with=NotFound)
    wrong = ("price", "patients", "histogram", "colums=age", *given)
    assert "Did you mean 'columns'" in run(*wrong, fails_with=InvalidParameter)
    run("register", "others", "patients.csv", "--domain", "domain.json")
    assert "must be named" in run("ask", fails_with=InvalidParameter)


def test_what_cannot_be_asked_without_ranges_is_said_once(place: Path) -> None:
    unknown = [{"name": "age", "low": "unknown", "high": "unknown"}]
    (place / "open.json").write_text(json.dumps({"columns": unknown}))
    run("register", "patients", "patients.csv", "--domain", "open.json")
    assert "Not possible here" not in run("ask")  # but: no budget is open
    run("open", "patients", "--epsilon", "2")
    shown = " ".join(run("ask", "patients").split())
    assert shown.count("Not possible here: columns must have declared ranges, got 'age'") == 1


def test_a_person_of_several_rows_is_told_what_a_person_loses(place: Path) -> None:
    (place / "stays.csv").write_text("age,sex,who\n30,f,a\n40,m,a\n50,m,b\n")
    domain = {**DOMAIN, "person": "who", "max_rows_per_person": 2}
    (place / "persons.json").write_text(json.dumps(domain))
    run("register", "stays", "stays.csv", "--domain", "persons.json")
    run("open", "stays", "--epsilon", "2")
    for command in ("price", "ask"):
        told = " ".join(run(command, "stays", "histogram", "columns=age", "epsilon=1").split())
        assert "2.719 times as likely, or as unlikely (epsilon 1)" in told
        assert "Towards a person with up to 2 records no answer becomes more than 7.39" in told
    told = run("price", "stays", "histogram", "columns=age", "epsilon=2")
    assert "not enough" in told
    refused = run(
        "ask", "stays", "histogram", "columns=age", "epsilon=2", fails_with=BudgetExceeded
    )
    assert "A person may have 2 rows there, so a question costs 2 times its epsilon." in refused
    listed = " ".join(RUNNER.invoke(app, ["datasets"], env={"COLUMNS": "200"}).stdout.split())
    assert "each person by who, at most 2 rows" in listed


@pytest.mark.parametrize(
    "command",
    [
        *(["verify"], ["datasets"], ["budget", "patients"], ["history", "patients"]),
        *(["backup", "copy"], ["token", "list"], ["token", "revoke", "x"], ["clean-up"]),
        *(
            ["open", "patients", "--epsilon", "1"],
            ["ask", "patients", "histogram", "columns=age", "epsilon=1"],
        ),
        ["charge", "patients", "--epsilon", "1", "--reason", "lost", "--yes"],
        ["accept-restored", "--reason", "lost", "--yes"],
    ],
    ids=" ".join,
)
def test_a_slip_in_the_directory_starts_no_curator_there(place: Path, command: list[str]) -> None:
    assert "There is no curator in" in run(*command, fails_with=NotFound)
    assert not (place / "curator").exists()
    assert not (place / "copy").exists()


@pytest.mark.parametrize(
    "command",
    [
        *(["backup", "copy"], ["token", "list"], ["token", "add", "analyst", "--name", "Eve"]),
        *(["serve"], ["clean-up"], ["accept-restored", "--reason", "lost", "--yes"]),
        ["charge", "patients", "--epsilon", "1", "--reason", "lost", "--yes"],
    ],
    ids=" ".join,
)
def test_a_server_s_address_is_no_directory(place: Path, command: list[str]) -> None:
    arguments = (*command, "--at", "http://127.0.0.1:1")
    assert "must be a directory" in run(*arguments, fails_with=InvalidParameter)
    assert not (place / "http:").exists()
