"""Joint runs over rows of persons: one record each and said so, or refused before they begin."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.data import Table
from privod.errors import InvalidData, InvalidParameter, ProtocolAborted
from privod.joint.detector.question import JointDetector
from privod.joint.pki import make_identities, write_pki
from privod.joint.question import Seat
from privod.joint.run import aggregate, rehearse
from tests.test_published_outliers import COLUMNS, all_points, domain, question

NOISY = JointDetector(columns=COLUMNS, epsilon=30)


def tables(cap: int) -> dict[str, Table]:
    """Three parties, where every person has two rows at one party."""
    points = all_points()
    declared = replace(domain(), person="patient", max_rows_per_person=cap)
    return {
        f"p{party}": Table(
            declared,
            {
                **dict(zip(COLUMNS, points[party::3].T, strict=True)),
                "patient": [place // 2 for place in range(len(points[party::3]))],
            },
        )
        for party in range(3)
    }


@pytest.mark.parametrize("asked", [NOISY, question("horizontal")])
def test_several_rows_of_a_person_are_refused_before_anything_is_sent(asked: Any) -> None:
    held = tables(3)
    with pytest.raises(InvalidParameter, match=r"must be 1 in a joint run.*leave the person"):
        rehearse(asked, held)
    roster, identities = make_identities(sorted(held), "hub", "memory:0")
    nobody: Any = None  # what is sent through it fails otherwise
    seat = Seat(
        table=held["p0"],
        domain=held["p0"].domain,
        channel=nobody,
        identity=identities["p0"],
        roster=roster,
    )
    with pytest.raises(InvalidParameter, match="must be 1 in a joint run"):
        asked.take_part(seat)
    with pytest.raises(InvalidParameter, match="must be 1 in a joint run"):
        aggregate(asked, nobody, identities["hub"], roster, held["p0"].domain)


def test_with_one_row_each_the_answer_says_what_holds_for_persons() -> None:
    for answer in rehearse(NOISY, tables(1)).answers.values():
        told = " ".join(answer.sentences())
        assert answer.own_records == 150
        assert "exp(30)" in told
        assert "a person who is at one party only" in told
        assert "A person at several parties is not protected as one" in told


def test_who_is_a_person_is_agreed_on_before_a_run_over_rows() -> None:
    held = tables(1)
    rows = dict(zip(COLUMNS, all_points()[2::3].T, strict=True))
    with pytest.raises(ProtocolAborted, match="or person column"):
        rehearse(NOISY, {**held, "p2": Table(domain(), rows)})


def test_a_promise_about_records_says_nothing_of_persons() -> None:
    points = all_points()
    held = {
        f"p{party}": Table(domain(), dict(zip(COLUMNS, points[party::3].T, strict=True)))
        for party in range(3)
    }
    assert "person" not in " ".join(rehearse(NOISY, held).answers["p0"].sentences())


def test_every_command_refuses_several_rows_of_a_person(tmp_path: Path) -> None:
    write_pki(tmp_path, ["p0", "p1", "p2"], "hub", "127.0.0.1:1")
    declared, asked = tmp_path / "domain.json", tmp_path / "question.json"
    declared.write_text(json.dumps(tables(3)["p0"].domain.to_json()))
    asked.write_text(json.dumps(NOISY.to_json()))
    given = ["--question", str(asked), "--domain", str(declared)]
    roster = ["--roster", str(tmp_path / "roster.json")]

    def signed(name: str) -> list[str]:
        place = tmp_path / name
        return ["--certificate", str(place / "certificate.pem"), "--key", str(place / "key.pem")]

    job = tmp_path / "job"
    commands = [
        ["plan", *given],
        ["approve-run", *roster, *given, "--approvals", str(tmp_path / "approvals.json")],
        ["aggregate", *roster, *signed("hub"), *given, "--listen", "127.0.0.1:0"],
        ["party", *roster, *signed("p0"), *given, "--data", "none.csv"],
    ]
    for command in commands:
        refused = CliRunner().invoke(app, command)
        assert isinstance(refused.exception, InvalidParameter), (command[0], refused.output)
        assert refused.exception.parameter == "max_rows_per_person"
    for command in commands[2:]:  # a folder that cannot be written is told before all else
        refused = CliRunner().invoke(app, [*command, "--results", str(asked / "results")])
        assert isinstance(refused.exception, InvalidData)
        assert "is a file" in str(refused.exception)
    pytest.importorskip("nvflare", reason="jobs of FLARE need nvflare")
    refused = CliRunner().invoke(app, ["flare-job", str(job), *roster, *given])
    assert isinstance(refused.exception, InvalidParameter)
    assert not job.exists()
