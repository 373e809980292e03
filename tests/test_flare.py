"""A joint run as a FLARE job, in FLARE's own simulator: a server and three clients as processes."""

# slow: left out by `make quick`

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.data import Domain, Numeric
from privod.errors import AlreadyExists, InvalidData, ProtocolAborted
from privod.joint.approvals import Approvals, subject_of
from privod.joint.detector.question import JointDetector
from privod.joint.pki import write_pki
from privod.joint.results import check_one_run
from privod.joint.roster import Roster
from privod.joint.site import Site
from privod.joint.transport.channel import Meeting
from privod.joint.transport.memory import MemoryChannel
from privod.questions.detector_profile.release import NoisyProfile

if find_spec("nvflare") is None:  # and imported by tests: every worker would spend the time
    pytest.skip("needs nvflare", allow_module_level=True)

NAMES = ["ahus", "bern", "cork"]
COLUMNS = ("x", "y", "z")
SERVER = "simulator_server"
SIDES = ("server", "client")
SIMULATE = """
import sys
from nvflare.private.fed.app.simulator.simulator_runner import SimulatorRunner
if __name__ == "__main__":
    job, workspace, names = sys.argv[1:]
    sys.exit(SimulatorRunner(job, workspace, clients=names, threads=3).run())
"""


def site(folder: Path) -> tuple[JointDetector, Roster]:
    """Everybody's files, in one folder; nobody has approved anything yet."""
    from privod.joint.flare import write_job

    write_pki(folder / "pki", NAMES, "hub", "127.0.0.1:1")
    domain = Domain(tuple(Numeric(name, -50, 50, fill=0.0) for name in COLUMNS))
    (folder / "domain.json").write_text(json.dumps(domain.to_json()))
    generator = np.random.default_rng(7)
    for number, name in enumerate(NAMES):
        rows = 0.3 * generator.normal(size=(400, 3))
        rows[number] = 40.0 - 60 * (number == 1) + 8 * (number == 2)
        header = ",".join(COLUMNS)
        np.savetxt(folder / f"{name}.csv", rows, delimiter=",", header=header, comments="")
        said = {
            "certificate": f"pki/{name}/certificate.pem",
            "key": f"pki/{name}/key.pem",
            "data": f"{name}.csv",
            "domain": "domain.json",
            "record": f"{name}-record.json",
            "results": f"{name}-results",
            "approvals": f"{name}-approvals.json",
        }
        (folder / f"privod-{name}.json").write_text(json.dumps(said))
    own = {"certificate": "pki/hub/certificate.pem", "key": "pki/hub/key.pem"}
    own["results"] = "hub-results"
    (folder / f"privod-{SERVER}.json").write_text(json.dumps(own))
    asked = JointDetector(columns=COLUMNS, epsilon=20, target_fraction=0.01)
    roster = Roster.load(folder / "pki" / "roster.json")
    write_job(folder / "job", asked, roster, domain)
    return asked, roster


def approve(folder: Path, names: list[str], asked: JointDetector, roster: Roster) -> None:
    domain = Domain.from_json(json.loads((folder / "domain.json").read_text()))
    begins = datetime.now(UTC)
    for name in names:
        approvals = Approvals(folder / f"{name}-approvals.json")
        subject = subject_of(asked, domain, roster)
        approvals.approve(subject, 1, begins, begins + timedelta(hours=1))


def simulated(folder: Path) -> str:
    """Run the job in the simulator, where every site lets our classes in; return its log."""
    from privod.joint.flare import SITES_VARIABLE

    for name in (".", "server", *NAMES):
        local = folder / "ws" / name / "local"
        local.mkdir(parents=True)
        allowed = {"format_version": 2, "class_allow_list": ["nvflare.", "privod.joint.flare."]}
        (local / "resources.json").write_text(json.dumps(allowed))
    done = subprocess.run(
        [sys.executable, "-c", SIMULATE, str(folder / "job"), str(folder / "ws"), ",".join(NAMES)],
        env={**os.environ, SITES_VARIABLE: str(folder), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    return done.stdout


def test_a_flare_job_gives_sites_their_own_outliers_and_one_detector_of_all(
    tmp_path: Path,
) -> None:
    asked, roster = site(tmp_path)
    approve(tmp_path, NAMES, asked, roster)
    log = simulated(tmp_path)
    assert "the run is complete" in log, log[-3000:]
    (stem,) = (path.stem for path in (tmp_path / "hub-results").glob("*.json"))
    folders = [f"{name}-results" for name in [*NAMES, "hub"]]
    signed = [json.loads((tmp_path / each / f"{stem}.json").read_text()) for each in folders]
    assert [said["party"] for said in check_one_run(signed, roster)] == [*NAMES, "hub"]
    released = []
    for number, name in enumerate(NAMES):
        heading, *found = (tmp_path / f"{name}-results" / f"{stem}.csv").read_text().split()
        assert heading == "row,together,alone"
        assert any(line.startswith(f"{number + 1},1,") for line in found)
        released.append(NoisyProfile.load(tmp_path / f"{name}-results" / f"{stem}.privod"))
    assert released[0] == released[1] == released[2]
    assert abs(released[0].records - 1200) < 60


def test_a_site_that_approved_nothing_ends_the_run_for_all(tmp_path: Path) -> None:
    asked, roster = site(tmp_path)
    meeting = Meeting(NAMES)
    own = Site.load(tmp_path / "privod-ahus.json")
    with pytest.raises(ProtocolAborted, match="has not approved this run"):
        own.run(asked, roster, lambda: MemoryChannel("ahus", meeting))
    assert "has not approved this run" in str(meeting.failure)
    assert not (tmp_path / "ahus-record.json").exists()  # nothing was entered, nothing sent


def test_a_site_that_cannot_read_its_rows_tells_the_others_at_once_and_no_more(
    tmp_path: Path,
) -> None:
    asked, roster = site(tmp_path)
    (tmp_path / "ahus.csv").unlink()
    meeting = Meeting(NAMES)
    own = Site.load(tmp_path / "privod-ahus.json")
    with pytest.raises(ProtocolAborted, match="has not approved this run"):  # rows are not tried
        own.run(asked, roster, lambda: MemoryChannel("ahus", Meeting(NAMES)))
    approve(tmp_path, ["ahus"], asked, roster)
    with pytest.raises(ProtocolAborted, match=r"ahus\.csv"):
        own.run(asked, roster, lambda: MemoryChannel("ahus", meeting))
    assert meeting.failure == "'ahus' ended the run: its own rows cannot be read."


def test_a_site_file_must_name_approvals(tmp_path: Path) -> None:
    site(tmp_path)
    path = tmp_path / "privod-ahus.json"
    said = json.loads(path.read_text())
    assert Site.load(path).identity.name == "ahus"
    del said["approvals"]
    path.write_text(json.dumps(said))
    with pytest.raises(InvalidData, match="approvals"):
        Site.load(path)


def test_a_job_folder_is_not_overwritten(tmp_path: Path) -> None:
    from privod.joint.flare import write_job

    asked, roster = site(tmp_path)
    with pytest.raises(AlreadyExists, match="new folder"):
        write_job(tmp_path / "job", asked, roster)


def test_the_shell_writes_the_same_job(tmp_path: Path) -> None:
    asked, _ = site(tmp_path)
    (tmp_path / "question.json").write_text(json.dumps(asked.to_json()))
    command = ["flare-job", str(tmp_path / "again"), "--question", str(tmp_path / "question.json")]
    command += ["--roster", str(tmp_path / "pki" / "roster.json")]
    shown = CliRunner().invoke(app, [*command, "--domain", str(tmp_path / "domain.json")])
    assert shown.exit_code == 0, shown.output
    for name in ("meta.json", *(f"app/config/config_fed_{side}.json" for side in SIDES)):
        assert (tmp_path / "again" / name).read_text() == (tmp_path / "job" / name).read_text()
