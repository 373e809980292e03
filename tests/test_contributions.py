"""A party's ledger of runs: what went to whom, entered before it leaves, and its loss in all."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.data import Domain, Numeric
from privod.errors import InvalidData, ProtocolAborted
from privod.joint.contributions import Contributions
from privod.joint.detector.question import JointDetector
from privod.privacy import AddRemove, Guarantee, Loss, Replace

THREE = ("ahus", "bern", "cork")
ALL = Domain((Numeric("x", 0, 1), Numeric("y", 0, 1)))
REPLACING = Guarantee(Loss(1, "1e-6"), Replace())


def test_runs_with_noise_add_up_whatever_columns_and_parties_they_had() -> None:
    kept = Contributions()
    for columns, parties in ((("x", "y"), THREE), (("x",), THREE[:2]), (("y",), THREE)):
        kept.claim(columns, parties, REPLACING)
    assert kept.sent().promise() == Guarantee(Loss(3, "0.000003"), Replace())


def test_a_loss_under_add_remove_counts_twice_beside_one_under_replacement() -> None:
    kept = Contributions()
    kept.claim(("x",), THREE, Guarantee(Loss(1), AddRemove()))
    assert kept.sent().promise() == Guarantee(Loss(1), AddRemove())
    kept.claim(("x",), THREE, Guarantee(Loss("1/2"), Replace()))
    assert kept.sent().promise() == Guarantee(Loss("5/2"), Replace())


def test_a_run_that_broke_off_stands_in_the_file_and_counts(tmp_path: Path) -> None:
    record = tmp_path / "site" / "contributions.json"
    number = Contributions(record).claim(("x",), THREE[::-1], REPLACING)
    Contributions(record).claim(("x",), THREE, Guarantee(Loss("1/2", "1e-9"), Replace()))
    sent = Contributions(record).finish(number, "3 of 100 records")
    assert [run.result for run in sent.runs] == ["3 of 100 records", "not finished"]
    assert [run.parties for run in sent.runs] == [THREE, THREE]
    assert sent.promise() == Guarantee(Loss("3/2", "0.000001001"), Replace())
    assert Contributions(record).sent() == sent
    assert record.stat().st_mode & 0o077 == 0


def test_a_run_is_on_disk_under_its_name_before_anything_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power failure must not bring back the ledger, or the approvals, as they were before."""
    record, sync = tmp_path / "contributions.json", os.fsync
    synced: list[tuple[bool, str | bool]] = []

    def noted(handle: int) -> None:
        is_folder = os.path.samestat(os.fstat(handle), tmp_path.stat())
        synced.append((is_folder, record.exists() and record.read_text()))
        sync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    Contributions(record).claim(("x",), THREE, REPLACING)
    assert synced[-1] == (True, record.read_text())


def test_several_users_of_one_ledger_lose_no_run(tmp_path: Path) -> None:
    record = tmp_path / "contributions.json"

    def enter(_: int) -> int:
        return Contributions(record).claim(("x",), THREE, REPLACING)

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(enter, range(40))) == list(range(40))
    assert len(Contributions(record).sent().runs) == 40


@pytest.mark.parametrize("damage", ["{", '{"runs": [{}]}', '{"runs": 3}', "[]"])
def test_a_damaged_ledger_of_runs_is_not_forgotten(tmp_path: Path, damage: str) -> None:
    record = tmp_path / "contributions.json"
    record.write_text(damage)
    with pytest.raises(ProtocolAborted, match="cannot be read"):
        Contributions(record)


def test_commands_list_the_runs_and_say_what_was_spent_before_one_is_approved(
    tmp_path: Path,
) -> None:
    record = tmp_path / "contributions.json"
    kept = Contributions(record)
    kept.finish(kept.claim(("x", "y"), THREE, REPLACING), "3 of 100 records")
    kept.claim(("x",), THREE)

    def said(*typed: str) -> str:
        return " ".join(CliRunner().invoke(app, list(typed)).output.split())

    listed = said("runs", "--record", str(record))
    assert "were sent to 1 run with noise, epsilon 1, delta 1e-6 (replace) together" in listed
    assert "with ahus, bern, cork over x, y, epsilon 1" in listed
    assert "and to 1 run without noise, which no epsilon counts" in listed
    for name, value in (
        ("question", JointDetector(columns=("x",), epsilon=1).to_json()),
        ("domain", ALL.to_json()),
    ):
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    given = ["--question", str(tmp_path / "question.json")]
    given += ["--domain", str(tmp_path / "domain.json"), "--record", str(record)]
    assert "1 run more of them would make it epsilon 3" in said("plan", *given)
    CliRunner().invoke(app, ["pki", str(tmp_path / "pki"), *_options("--party", THREE)])
    roster = ["--roster", str(tmp_path / "pki" / "roster.json")]
    approvals = ["--approvals", str(tmp_path / "approvals.json"), "--runs", "2"]
    approved = said("approve-run", *roster, *given, *approvals)
    assert "2 runs more of them would make it epsilon 5" in approved
    refused = CliRunner().invoke(app, ["runs", "--record", str(tmp_path / "none.json")])
    assert isinstance(refused.exception, InvalidData)


def _options(name: str, values: tuple[str, ...]) -> list[str]:
    return [part for value in values for part in (name, value)]
