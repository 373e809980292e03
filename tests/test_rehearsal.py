"""An analysis is tried on made-up rows, for nothing, and its whole bill is known beforehand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.data import Categorical, Domain, Numeric, read
from privod.data.examples import HOSPITAL
from privod.data.mock import mock_rows, mock_table
from privod.errors import InvalidParameter

DOMAIN = Domain(
    (Numeric("age", 0, 120), Categorical("ward", (1, 2, 3))), person="who", max_rows_per_person=2
)
ANALYSIS = [
    {"name": "histogram", "columns": ["ward"], "epsilon": "0.1"},
    {"name": "histogram", "columns": ["age"], "epsilon": "0.2"},
]


@pytest.fixture
def domain_file(tmp_path: Path) -> Path:
    path = tmp_path / "domain.json"
    path.write_text(json.dumps(DOMAIN.to_json()))
    return path


@pytest.mark.parametrize("domain", [DOMAIN, HOSPITAL])
def test_made_up_rows_fill_the_domain_and_come_from_it_alone(domain: Domain) -> None:
    assert len(mock_table(domain, 200)) == 200
    again = mock_rows(domain, 200)
    for name, values in mock_rows(domain, 200).items():
        assert list(values) == list(again[name])


def test_made_up_rows_can_be_registered(tmp_path: Path, domain_file: Path) -> None:
    out = tmp_path / "mock.csv"
    command = ["mock", str(out), "--domain", str(domain_file), "--records", "50"]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert len(read(out, DOMAIN)) == 50


def test_the_bill_of_a_rehearsal_adds_up_for_persons(tmp_path: Path, domain_file: Path) -> None:
    analysis = tmp_path / "analysis.json"
    analysis.write_text(json.dumps(ANALYSIS))
    command = ["rehearse", str(analysis), "--domain", str(domain_file), "--records", "50", "--json"]
    shown = json.loads(CliRunner().invoke(app, command, catch_exceptions=False).stdout)
    assert [step["price"] for step in shown["steps"]] == [
        "epsilon 0.2 (add-remove)",  # a person has up to two rows
        "epsilon 0.4 (add-remove)",
    ]
    assert shown["budgets"] == ["add-remove: spent epsilon 0.6 of epsilon 0.6, left epsilon 0."]


def test_a_rehearsal_says_what_would_be_noise_as_a_price_does(
    tmp_path: Path, domain_file: Path
) -> None:
    analysis = tmp_path / "analysis.json"
    analysis.write_text(json.dumps([{"name": "histogram", "columns": ["ward"], "epsilon": "0.01"}]))
    command = ["rehearse", str(analysis), "--domain", str(domain_file), "--records", "50"]
    shown = CliRunner().invoke(app, [*command, "--json"], catch_exceptions=False).stdout
    (told,) = json.loads(shown)["worth"]
    assert "of 50 records, such an answer is mostly noise: epsilon" in told
    printed = CliRunner().invoke(app, command, catch_exceptions=False).stdout
    assert "would do." in " ".join(printed.split())


@pytest.mark.parametrize("text", ["", "{}", "[]", "[1]", "no json"])
def test_an_analysis_that_is_no_list_of_questions_is_refused(
    text: str, tmp_path: Path, domain_file: Path
) -> None:
    analysis = tmp_path / "analysis.json"
    analysis.write_text(text)
    with pytest.raises(InvalidParameter):
        CliRunner().invoke(
            app, ["rehearse", str(analysis), "--domain", str(domain_file)], catch_exceptions=False
        )
