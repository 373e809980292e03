"""A party's ledger of runs: the same records go to the same parties, and their loss is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.data import Categorical, Domain, Numeric, Table
from privod.data.sources import read, write_parquet
from privod.errors import InvalidParameter, ProtocolAborted
from privod.joint.contributions import Contributions
from privod.joint.detector.question import JointDetector
from privod.joint.held import HeldRecords, mark_of_file
from privod.privacy import AddRemove, Guarantee, Loss, Replace

FOUR, THREE = ("ahus", "bern", "cork", "dora"), ("ahus", "bern", "cork")
X, Y = Numeric("x", 0, 1), Numeric("y", 0, 1)
WARD = Categorical("ward", ("a", "b", "c"))
ALL = Domain((X, Y, WARD))
REPLACING = Guarantee(Loss(1, "1e-6"), Replace())


def cells(seed: int, n: int = 50) -> dict[str, Any]:
    drawn = np.random.default_rng(seed)
    ward = ["abc"[place] for place in drawn.integers(0, 3, n)]
    return {"x": drawn.random(n), "y": drawn.random(n), "ward": ward}


def held(seed: int = 0, columns: tuple[str, ...] = ("x", "y"), declared: Domain = ALL) -> Any:
    return HeldRecords(Table(declared, cells(seed)), columns)


def test_records_go_to_the_same_parties_again_and_to_no_others(tmp_path: Path) -> None:
    record = tmp_path / "site" / "contributions.json"
    Contributions(record).claim(held(0), FOUR)
    Contributions(record).claim(held(0), FOUR[::-1])
    Contributions(record).claim(held(1), THREE)
    with pytest.raises(ProtocolAborted, match="would show the rows of dora"):
        Contributions(record).claim(held(0), THREE)


@pytest.mark.parametrize(
    "again",
    [
        held(0, ("x",)),
        held(0, ("y",)),
        held(0, ("ward",)),
        held(0, ("x",), Domain((X,))),
        held(0, ("ward",), Domain((WARD,))),
        held(0, ("ward",), Domain((Categorical("ward", ("d", "c", "b", "a")),))),
    ],
    ids=["x", "y", "ward", "x declared alone", "ward declared alone", "ward declared otherwise"],
)
def test_other_columns_of_the_same_records_go_to_no_other_parties(again: HeldRecords) -> None:
    kept = Contributions()
    kept.claim(held(0), FOUR)
    with pytest.raises(ProtocolAborted, match="would show the rows of dora"):
        kept.claim(again, THREE)
    kept.claim(again, FOUR)


def test_one_file_holds_the_same_records_whatever_is_declared_of_it(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("x,y\n0.1,0.5\n0.2,\n0.9,0.7\n")
    kept = Contributions()
    mark = mark_of_file(file)
    dropped = HeldRecords(read(file, Domain((Y,))), ("y",), file=mark)
    kept.claim(dropped, FOUR)
    other = HeldRecords(read(file, Domain((X,))), ("x",), file=mark)
    with pytest.raises(ProtocolAborted, match="would show the rows of dora"):
        kept.claim(other, THREE)


def test_a_folder_of_files_is_marked_by_all_of_them(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        write_parquet(Table(ALL, cells(seed)), tmp_path / f"{name}.parquet")
    before = mark_of_file(tmp_path)
    assert before == mark_of_file(tmp_path)
    write_parquet(Table(ALL, cells(2)), tmp_path / "b.parquet")
    assert mark_of_file(tmp_path) != before


def test_one_record_more_is_not_known_again() -> None:
    """What docs/deployment.md says that the ledger cannot see."""
    kept = Contributions()
    kept.claim(held(0), FOUR)
    more = {name: [*values, values[0]] for name, values in cells(0).items()}
    kept.claim(HeldRecords(Table(ALL, more), ("x", "y")), THREE)


def test_runs_with_noise_over_any_columns_add_up() -> None:
    kept = Contributions()
    for columns in (("x", "y"), ("x",), ("y",)):
        kept.claim(held(0, columns), THREE, REPLACING)
    for columns in (("x", "y"), ("x",), ("y",)):
        together = kept.sent(held(0, columns)).promise()
        assert together == Guarantee(Loss(3, "0.000003"), Replace())


def test_a_loss_under_add_remove_counts_twice_beside_one_under_replacement() -> None:
    kept = Contributions()
    kept.claim(held(0), THREE, Guarantee(Loss(1), AddRemove()))
    assert kept.sent(held(0)).promise() == Guarantee(Loss(1), AddRemove())
    kept.claim(held(0, ("x",)), THREE, Guarantee(Loss("1/2"), Replace()))
    assert kept.sent(held(0)).promise() == Guarantee(Loss("5/2"), Replace())


def test_runs_are_of_the_same_records_if_a_third_shares_a_column_with_both() -> None:
    kept = Contributions()
    for columns, declared in (("x", (X,)), ("y", (Y,)), ("x", (X, Y))):
        kept.claim(held(0, (columns,), Domain(declared)), THREE, REPLACING)
    (only,) = kept.data_sets()
    assert len(only.runs) == 3
    with pytest.raises(ProtocolAborted, match="would show the rows of dora"):
        kept.claim(held(0, ("y",), Domain((Y,))), FOUR)


def test_with_noise_every_time_other_parties_are_allowed_and_charged(tmp_path: Path) -> None:
    record = Contributions(tmp_path / "contributions.json")
    number = record.claim(held(), FOUR, REPLACING)
    assert [run.result for run in record.finish(number, "3 of 100 records").runs] == [
        "3 of 100 records"
    ]
    record.claim(held(), THREE, Guarantee(Loss("1/2", "1e-9"), Replace()))
    assert record.sent(held()).promise() == Guarantee(Loss("3/2", "0.000001001"), Replace())
    with pytest.raises(ProtocolAborted, match="would show the rows of dora"):
        record.claim(held(), THREE)
    kept = json.loads((tmp_path / "contributions.json").read_text())["runs"]
    assert [run["result"] for run in kept] == ["3 of 100 records", "not finished"]


def test_two_processes_with_one_record_cannot_send_an_input_twice(tmp_path: Path) -> None:
    record = tmp_path / "contributions.json"
    first, second = Contributions(record), Contributions(record)
    first.claim(held(0), FOUR)
    with pytest.raises(ProtocolAborted, match="already sent together"):
        second.claim(held(0), THREE)
    second.claim(held(1), THREE)
    with pytest.raises(ProtocolAborted, match="already sent together"):
        first.claim(held(1), FOUR)


def test_a_ledger_of_runs_is_the_owners_and_names_records_as_no_other_does(tmp_path: Path) -> None:
    record, other = tmp_path / "contributions.json", tmp_path / "elsewhere.json"
    Contributions(record).claim(held(), FOUR)
    Contributions(other).claim(held(), FOUR)
    assert record.stat().st_mode & 0o077 == 0
    marks = [json.loads(path.read_text())["runs"][0]["marks"] for path in (record, other)]
    assert set(marks[0]).isdisjoint(marks[1])


@pytest.mark.parametrize("damage", ["{", '{"salt": "00", "runs": [{}]}'])
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
    kept.finish(kept.claim(held(0), THREE, REPLACING), "3 of 100 records")
    kept.claim(held(1), THREE)

    def said(*typed: str) -> str:
        return " ".join(CliRunner().invoke(app, list(typed)).output.split())

    listed = said("runs", "--record", str(record))
    assert "data set 1 were sent to 1 run with noise, epsilon 1, delta 1e-06 (replace)" in listed
    assert "with ahus, bern, cork over x, y, epsilon 1" in listed
    assert "data set 2 were sent to 1 run without noise, which no epsilon counts" in listed
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
    assert isinstance(refused.exception, InvalidParameter)


def _options(name: str, values: tuple[str, ...]) -> list[str]:
    return [part for value in values for part in (name, value)]
