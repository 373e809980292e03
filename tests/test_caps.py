"""A cap above one row per person costs epsilon and closes narrow questions: it is said at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.curator import Curator
from privod.data import Categorical, Domain
from privod.errors import InvalidParameter, NoPromise
from privod.ledger.acts import AllowExactCounts, FileRequest
from privod.privacy import AddRemove, InCrowd, Loss
from privod.questions.rare_counts.query import RareCounts

JOBS = (Categorical("job", ("cook", "pilot")),)
THREE = Domain(JOBS, person="who", max_rows_per_person=3)
ONE = Domain(JOBS, person="who")
ROWS = {"job": ["cook"] * 8 + ["pilot"] * 2, "who": [str(place // 2) for place in range(10)]}
RARE = RareCounts(columns=("job",), max_crowd=5, epsilon="0.5")
CROWD = InCrowd(0.0, ("job",), 5)
WHY = "max_rows_per_person of 'survey' must be 1 for budgets and questions under in-crowd, got 3"


def survey(directory: Path) -> Curator:
    curator = Curator.open(directory)
    curator.register("survey", ROWS, THREE)
    return curator


def test_a_question_that_a_cap_rules_out_is_refused_for_the_cap_before_any_request(
    tmp_path: Path,
) -> None:
    curator = survey(tmp_path)
    for opened in (False, True):
        if opened:
            curator.open_budget("survey", AddRemove(), Loss(1))
        with pytest.raises(InvalidParameter, match=WHY):
            curator.price(RARE, "survey")
        with pytest.raises(InvalidParameter, match=WHY):
            curator.ask(RARE, "survey")
        with pytest.raises(InvalidParameter, match=WHY):
            curator.do(FileRequest("survey", CROWD, Loss(1), "rare jobs"))
    assert not curator.requests("survey")


def test_a_later_version_of_one_row_per_person_is_refused_for_the_earlier_one(
    tmp_path: Path,
) -> None:
    curator = survey(tmp_path)
    curator.register("survey27", ROWS, ONE, continues="survey")
    curator.open_budget("survey27", AddRemove(), Loss(1))
    with pytest.raises(InvalidParameter, match=WHY):
        curator.open_budget("survey27", CROWD, Loss(1), confirmed=True)
    with pytest.raises(InvalidParameter, match=WHY):
        curator.price(RARE, "survey27")


def test_a_request_that_could_not_be_approved_is_refused(tmp_path: Path) -> None:
    curator = Curator.open(tmp_path)
    curator.register("once", ROWS, ONE)
    with pytest.raises(InvalidParameter, match="columns must be declared"):
        curator.do(FileRequest("once", InCrowd(0.0, ("salary",), 5), Loss(1), "pay"))
    assert not curator.requests("once")


def test_registering_says_what_a_cap_costs_and_a_cap_of_one_says_nothing(tmp_path: Path) -> None:
    curator = Curator.open(tmp_path)
    told = " ".join(curator.register("survey", ROWS, THREE).sentences())
    assert "every question costs 3 times its epsilon" in told
    assert "rare-counts, can never be asked" in told
    assert "costs" not in " ".join(curator.register("once", ROWS, ONE).sentences())


def test_the_guarantee_of_a_narrow_question_names_all_that_its_owner_must_do() -> None:
    asked = ["guarantee", "rare-counts", "columns=job", "max_crowd=5", "epsilon=0.5"]
    shown = " ".join(CliRunner().invoke(app, asked, catch_exceptions=False).stdout.split())
    for words in ("privod open DATA", "privod allow-exact DATA", "at most 1 row per person"):
        assert words in shown


def test_a_refused_exact_count_names_the_command_that_would_allow_it(tmp_path: Path) -> None:
    curator = Curator.open(tmp_path)
    curator.register("once", ROWS, ONE)
    curator.open_budget("once", AddRemove(), Loss(1))
    curator.open_budget("once", CROWD, Loss(1), confirmed=True)
    with pytest.raises(NoPromise, match=r"privod allow-exact once --counts 2 --adjacency '\{"):
        curator.price(RARE, "once")
    curator.do(AllowExactCounts("once", CROWD, 2, "rare jobs"), confirmed=True)
    assert curator.ask(RARE, "once").charges


def test_a_rehearsal_names_what_cannot_be_asked_and_goes_on(tmp_path: Path) -> None:
    domain, analysis = tmp_path / "domain.json", tmp_path / "analysis.json"
    domain.write_text(json.dumps(THREE.to_json()))
    histogram = {"name": "histogram", "columns": ["job"], "epsilon": "0.1"}
    unknown = {**histogram, "columns": ["salary"]}
    analysis.write_text(json.dumps([RARE.to_json(), histogram, unknown]))
    command = ["rehearse", str(analysis), "--domain", str(domain), "--records", "50"]
    shown = CliRunner().invoke(app, [*command, "--json"], catch_exceptions=False).stdout
    bill = json.loads(shown)
    assert [step["price"] for step in bill["steps"]] == ["epsilon 0.3 (add-remove)"]
    assert [one["place"] for one in bill["refused"]] == [1, 3]
    assert "must be 1 for budgets and questions under in-crowd" in bill["refused"][0]["message"]
    assert "salary" in bill["refused"][1]["message"]
    printed = " ".join(CliRunner().invoke(app, command, catch_exceptions=False).stdout.split())
    assert "cannot be asked" in printed


def test_a_price_before_any_budget_names_the_commands_that_give_one(tmp_path: Path) -> None:
    survey(tmp_path)
    asked = ["price", "survey", "histogram", "columns=job", "epsilon=1", "--at", str(tmp_path)]
    shown = CliRunner().invoke(app, asked)
    assert "`privod open survey --epsilon LIMIT`" in str(shown.exception)
    assert "`privod rehearse`" in str(shown.exception)


def test_a_version_that_shares_open_budgets_is_not_told_to_open_one(tmp_path: Path) -> None:
    curator = survey(tmp_path)
    curator.open_budget("survey", AddRemove(), Loss(1))
    domain, rows = tmp_path / "domain.json", tmp_path / "rows.csv"
    domain.write_text(json.dumps(THREE.to_json()))
    rows.write_text("who,job\na,cook\nb,pilot\n")
    command = ["register", "survey27", str(rows), "--domain", str(domain), "--at", str(tmp_path)]
    shown = CliRunner().invoke(app, [*command, "--continues", "survey"], catch_exceptions=False)
    told = " ".join(shown.stdout.split())
    assert "It shares the budgets of 'survey', which are open (add-remove, epsilon 1 left)" in told
    assert "privod token add ROLE --name WHO --of survey27" in told
    assert "Open a budget" not in told
