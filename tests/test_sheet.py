"""The privacy sheet says what the ledger says, no less, and reads no row."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from privod.cli import app
from privod.curator import Curator
from privod.curator.sheet import written
from privod.data import Domain, Numeric
from privod.ledger.acts import ChargeElsewhere
from privod.ledger.acts.consequences import guessed_right
from privod.privacy import AddRemove, Guarantee, InCrowd, Loss, Replace
from privod.questions.histogram.query import Histogram

AGES = (Numeric("age", 0, 120),)
ROWS = {"age": np.arange(100.0), "who": np.arange(100) // 2}


def start(directory: Path, domain: Domain | None = None, *, epsilon: int = 3) -> Curator:
    curator = Curator.open(directory)
    curator.register("people", ROWS, domain or Domain(AGES))
    curator.open_budget("people", AddRemove(), Loss(epsilon))
    return curator


def sheet_of(curator: Curator) -> str:
    history = curator.history("people")
    return written(curator.dataset("people"), curator.budget("people"), history, curator.head())


def test_a_sheet_tells_what_was_charged_and_how_often_a_guess_is_right(tmp_path: Path) -> None:
    curator = start(tmp_path)
    curator.ask(Histogram(columns=("age",), epsilon="0.3"), "people")
    told = sheet_of(curator)
    assert "| histogram | 1 | add-remove | epsilon 0.3 |" in told
    assert "| a row is in the data, so far | epsilon 0.3 | 57.5 % |" in told
    assert "| a row is in the data, with the whole budget | epsilon 3 | 95.3 % |" in told
    assert "A person with several rows can lose as many times as much." in told
    assert 'variant_name: "Pure DP"' in told
    assert "privacy_parameters: {epsilon: 3, delta: 0}" in told
    assert curator.head() in told


def test_an_allowance_counts_and_names_whom_it_leaves_out(tmp_path: Path) -> None:
    curator = start(tmp_path)
    narrow = InCrowd(0, ("age",), 5)
    curator.open_budget("people", narrow, Loss(1), confirmed=True)
    told = sheet_of(curator)
    assert "with all allowances, for those they protect | epsilon 4 | 98.3 % |" in told
    for_people = told.partition("## For the people")[2]
    assert narrow.gives_up in for_people
    assert "at most 98.3 % of the time" in for_people


def test_what_an_owner_entered_beyond_the_limit_is_not_understated(tmp_path: Path) -> None:
    curator = start(tmp_path)
    lost = Guarantee(Loss(5), AddRemove())
    curator.do(ChargeElsewhere("people", lost, "a paper"), confirmed=True)
    told = sheet_of(curator)
    assert "with the whole budget | epsilon 5 | 99.4 % |" in told
    assert "| elsewhere | 1 | add-remove | epsilon 5 |" in told


def test_persons_and_replacement_have_their_own_words(tmp_path: Path) -> None:
    curator = Curator.open(tmp_path)
    curator.register("people", ROWS, Domain(AGES))
    curator.open_budget("people", Replace(), Loss("1", "1e-6"), confirmed=True)
    told = sheet_of(curator)
    assert "a row has one of two values, with the whole budget" in told
    assert Replace().gives_up in told
    assert 'variant_name: "Approximate DP"' in told
    persons = start(tmp_path / "other", Domain(AGES, person="who", max_rows_per_person=2))
    told = sheet_of(persons)
    assert "a person is in the data" in told
    assert "several rows" not in told


def test_the_registry_entry_and_the_tables_can_be_read_back(tmp_path: Path) -> None:
    odd = 'Ages: "all", of {us} | #1'
    with start(tmp_path / "at", Domain(AGES, title=odd)):
        pass
    shown = CliRunner().invoke(app, ["sheet", "people", "--at", str(tmp_path / "at"), "--json"])
    assert shown.exit_code == 0, shown.output
    told = json.loads(shown.output)["markdown"]
    entry = told.partition("```yaml\n")[2].partition("```")[0]
    (named,) = (line for line in entry.splitlines() if line.startswith("    name: "))
    assert json.loads(named.removeprefix("    name: ")) == odd  # which YAML reads as JSON does
    plain = CliRunner().invoke(app, ["sheet", "people", "--at", str(tmp_path / "at")])
    assert plain.output == told + "\n"


def test_a_sheet_is_written_when_the_rows_are_gone(tmp_path: Path) -> None:
    with start(tmp_path / "at") as curator:
        before = sheet_of(curator)
    files = list((tmp_path / "at" / "rows").rglob("rows-*"))
    assert files
    for rows in files:
        rows.unlink()
    shown = CliRunner().invoke(app, ["sheet", "people", "--at", str(tmp_path / "at")])
    assert shown.output == before + "\n"


def test_the_officers_page_shows_the_bound_rounded_up() -> None:
    page = (Path(__file__).parent.parent / "docs" / "data_protection.md").read_text()
    rows = re.findall(r"^\| ([\d/]+) \| (\d+) % \| (\d+) % \|$", page, re.MULTILINE)
    assert len(rows) == 5
    for epsilon, *shares in rows:
        for share, delta in zip(shares, ("0", "1/10"), strict=True):
            assert int(share) == math.ceil(guessed_right(Loss(epsilon, delta)) * 100)


def test_an_unknown_data_set_is_refused(tmp_path: Path) -> None:
    with start(tmp_path / "at"):
        pass
    shown = CliRunner().invoke(app, ["sheet", "nobody", "--at", str(tmp_path / "at")])
    assert shown.exit_code != 0
