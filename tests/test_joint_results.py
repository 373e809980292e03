"""What is kept of a joint run: results with ids, signed transcripts, approvals."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidData, InvalidParameter, ProtocolAborted
from privod.joint.approvals import Approvals, subject_of
from privod.joint.outliers import OutlierResult
from privod.joint.pki import make_identities
from privod.joint.question import Seat
from privod.joint.results import (
    check_one_run,
    check_transcript,
    keep_transcript,
    read_ids,
    transcript,
)
from privod.joint.roster import Identity, Roster
from privod.joint.run import Aggregation, aggregate, rehearse
from privod.joint.transport.channel import Channel
from privod.joint.transport.memory import meet
from tests.test_published_outliers import COLUMNS, all_points, domain, question, rows_apart

NOW = datetime(2030, 5, 1, tzinfo=UTC)
DAY = timedelta(days=1)


class Run(NamedTuple):
    """What is there after a run of three parties."""

    answers: dict[str, OutlierResult]
    hosted: Aggregation
    roster: Roster
    identities: dict[str, Identity]


@pytest.fixture(scope="module")
def ran() -> Run:
    """Three parties' answers, the aggregator's, their roster and their keys."""
    points = all_points()
    tables = rows_apart(points)
    roster, identities = make_identities(sorted(tables), "hub", "memory:0")
    asked = question("horizontal")
    hosted = []

    def party(channel: Channel) -> OutlierResult:
        name = channel.name
        return asked.take_part(
            Seat(
                table=tables[name],
                domain=domain(),
                channel=channel,
                identity=identities[name],
                roster=roster,
            )
        )

    answers = meet(
        dict.fromkeys(tables, party),
        lambda meeting: hosted.append(
            aggregate(asked, meeting, identities["hub"], roster, domain())
        ),
    )
    return Run(answers, hosted[0], roster, identities)


def test_a_result_file_names_outliers_by_id_and_is_the_owners_alone(
    ran: Run, tmp_path: Path
) -> None:
    answer = replace(ran.answers["p1"], rows=np.array([3, 8]), alone=np.array([8, 9]))
    ids = [f"patient-{row}" for row in range(answer.own_records)]
    answer.write(tmp_path, "run", ids)
    path = tmp_path / "run.csv"
    expected = ["4,patient-3,1,0", "9,patient-8,1,1", "10,patient-9,0,1"]
    assert path.read_text().split() == ["row,id,together,alone", *expected]
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(InvalidParameter, match="must not exist yet"):
        answer.write(tmp_path, "run", ids)
    with pytest.raises(InvalidData, match="as many as the rows"):
        answer.write(tmp_path, "other", ids[1:])


def test_outliers_are_listed_from_row_1(ran: Run) -> None:
    some = replace(ran.answers["p1"], rows=np.array([0, 4, 9]))
    assert some.listing().endswith("rows counted from 1: 1, 5, 10.")
    assert some.to_json()["positions"] == [0, 4, 9]
    many = replace(some, rows=np.arange(100))
    assert many.listing().endswith("19, 20 and 80 more, which --json and --results list.")
    assert replace(some, rows=np.arange(0)).listing().startswith("No row is an outlier")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_ids_are_read_as_they_stand_and_never_enter_the_table(ending: str, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    columns = {"id": ["a7", "a8", "a9"], "u": [1.0, 2.0, 3.0]}
    path = tmp_path / f"rows.{ending}"
    write: Any = pyarrow.csv.write_csv if ending == "csv" else pyarrow.parquet.write_table
    write(pa.table(columns), path)
    assert read_ids(path, domain(("u",)), "id") == ["a7", "a8", "a9"]
    with pytest.raises(InvalidParameter, match="must not be a column of the domain"):
        read_ids(path, domain(("u",)), "u")
    with pytest.raises(InvalidParameter, match="keeps every row"):
        read_ids(path, Domain((Numeric("u", 0, 5),)), "id")


def test_a_transcript_is_believed_only_as_it_was_signed(ran: Run, tmp_path: Path) -> None:
    answers, _, roster, identities = ran
    made = {}
    for name, answer in answers.items():
        keep_transcript(tmp_path / name, answer, identities[name], roster)
        made[name] = json.loads((tmp_path / name / f"{answer.stem}.json").read_text())
    assert len({one["run"] for one in made.values()}) == 1  # everybody means the same run
    written = made["p0"]
    said = check_transcript(written, roster)
    assert said["outliers"] == len(answers["p0"].rows)
    assert said["parties"] == ["p0", "p1", "p2"]
    for changed in (
        {**written, "outliers": said["outliers"] + 1},
        {**written, "party": "p1"},
        {**written, "signature": made["p1"]["signature"]},
    ):
        with pytest.raises(ProtocolAborted, match="did not sign"):
            check_transcript(changed, roster)
    other, _ = make_identities(["p0", "p1", "p2"], "hub", "memory:0")
    with pytest.raises(ProtocolAborted, match="another roster"):
        check_transcript(written, other)
    with pytest.raises(InvalidData, match="not a transcript"):
        check_transcript({"run": "1"}, roster)


def test_a_transcript_is_the_same_whichever_rows_are_outliers(ran: Run) -> None:
    """A digest of two rows of thousands is found out in seconds, by trying all pairs."""
    answers, _, roster, identities = ran
    one = answers["p0"]
    others = np.setdiff1d(np.arange(one.n_records), one.rows)[: len(one.rows)]
    assert len(others) == len(one.rows) > 0
    told = [transcript(each, identities["p0"], roster) for each in (one, replace(one, rows=others))]
    for each in told:
        del each["ended"], each["signature"]
    assert told[0] == told[1]


def test_the_aggregators_transcript_is_checked_beside_the_parties(ran: Run) -> None:
    answers, hosted, roster, identities = ran
    made = [transcript(answers[name], identities[name], roster) for name in sorted(answers)]
    made.append(transcript(hosted, identities["hub"], roster))
    said = check_one_run(made, roster)
    assert [one["party"] for one in said] == ["p0", "p1", "p2", "hub"]
    assert len({one["run"] for one in said}) == 1
    assert "outliers" not in said[-1]  # it does not know them
    posing = {**made[-1], "party": "p0"}
    with pytest.raises(ProtocolAborted, match="did not sign"):
        check_transcript(posing, roster)
    lied = replace(hosted, said={"n_records": hosted.said["n_records"] + 1})
    for other, key in ((lied, "n_records"), (replace(hosted, run=b"another"), "run")):
        made[-1] = transcript(other, identities["hub"], roster)
        with pytest.raises(ProtocolAborted, match=f"p2 and hub do not agree about '{key}'"):
            check_one_run(made, roster)


def test_an_approval_is_used_up_in_its_time_and_for_its_subject_alone(tmp_path: Path) -> None:
    roster, _ = make_identities(["p0", "p1", "p2"], "hub", "memory:0")
    asked = subject_of(question("horizontal"), domain(), roster)
    wider = subject_of(question("horizontal", radius=5.0), domain(), roster)
    approvals = Approvals(tmp_path / "approvals.json")
    approvals.approve(asked, 2, NOW, NOW + DAY)
    with pytest.raises(ProtocolAborted, match="not approved"):
        approvals.use(wider, NOW)
    with pytest.raises(ProtocolAborted, match="not approved"):
        approvals.use(asked, NOW - DAY)
    assert approvals.left(asked, NOW) == 2
    approvals.use(asked, NOW)
    Approvals(tmp_path / "approvals.json").use(asked, NOW)  # another process
    with pytest.raises(ProtocolAborted, match="not approved"):
        approvals.use(asked, NOW)
    approvals.approve(asked, 1, NOW, NOW + DAY)
    with pytest.raises(ProtocolAborted, match="not approved"):
        approvals.use(asked, NOW + DAY)
    with pytest.raises(InvalidParameter, match="until"):
        approvals.approve(asked, 1, NOW, NOW)


def test_approvals_that_cannot_be_read_approve_nothing(tmp_path: Path) -> None:
    path = tmp_path / "approvals.json"
    path.write_text('{"approvals": [{"subject": "x"}]}')
    with pytest.raises(ProtocolAborted, match="approve again"):
        Approvals(path)


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_a_scaled_run_finds_the_same_in_any_unit(partition: str) -> None:
    points = all_points(5) * 0.3
    points[:4] = np.array([[-25.0], [-10.0], [10.0], [25.0]])
    units = np.array([1.0, 1000.0, 0.01, 1.0, 60.0])
    declared = Domain(
        tuple(
            Numeric(name, -30 * unit, 30 * unit, fill=0.0)
            for name, unit in zip(COLUMNS, units, strict=True)
        )
    )
    asked = question(partition, radius=4.0 / 60, scale=True, n_tables=20)
    values = points * units
    if partition == "horizontal":
        tables = {
            f"p{at}": Table(declared, dict(zip(COLUMNS, values[at::3].T, strict=True)))
            for at in range(3)
        }
        wanted: dict[str, list[int]] = {"p0": [0, 1], "p1": [0], "p2": [0]}
    else:
        parts = {"p0": (0, 1), "p1": (2,), "p2": (3, 4)}
        tables = {
            name: Table(
                Domain(tuple(declared.columns[at] for at in part)),
                {COLUMNS[at]: values[:, at] for at in part},
            )
            for name, part in parts.items()
        }
        wanted = {name: [0, 1, 2, 3] for name in parts}
    for name, answer in rehearse(asked, tables).answers.items():
        assert set(answer.rows) >= set(wanted[name])
        assert len(answer.rows) < 30
