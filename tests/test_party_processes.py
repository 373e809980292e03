"""Three parties and an aggregator as real processes on loopback: a whole run, and how runs end."""

# slow: left out by `make quick`

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.data import Domain
from privod.joint.approvals import Approvals, subject_of
from privod.joint.detector.question import JointDetector
from privod.joint.exact.forwarder import free_port
from privod.joint.pki import write_pki
from privod.joint.roster import Roster
from privod.joint.transport.grpc import GrpcChannel
from tests.forked import Forked, run_privod
from tests.patience import PATIENCE, eventually

NAMES = ["ahus", "bern", "cork"]
COLUMNS = ["x", "y", "z"]
STRANGER = 40.0
QUESTION = {
    "name": "joint-detector",
    "columns": COLUMNS,
    "epsilon": "20",  # so much that noise never decides
    "target_fraction": 0.01,
}


def hold_before(phase: str, mark: Path, *words: str) -> None:
    """A party that stands still before a step, until the run ends elsewhere."""
    carry = GrpcChannel.trade

    def trade(self: GrpcChannel, at: str, payload: bytes | memoryview, most: int) -> bytes:
        if at == phase:
            mark.touch()
            while True:
                self.check()
                sleep(0.05)
        return carry(self, at, payload, most)

    GrpcChannel.trade = trade  # type: ignore[method-assign, assignment]
    run_privod(*words)


@dataclass
class Site:
    """A folder with everybody's files, and the processes that were started from it."""

    folder: Path
    pki: str = "pki"
    running: list[Forked] = field(default_factory=list)
    holding: dict[str, str] = field(default_factory=dict)

    def party(self, name: str, question: dict[str, Any] = QUESTION, *options: str) -> Forked:
        rows = self.folder / f"{name}.csv"
        own = ["--data", str(rows)] if rows.exists() else []
        own += ["--record", str(self.folder / f"{name}-record.json"), "--coming", str(PATIENCE)]
        return self._start("party", name, question, [*own, *options])

    def wait_until_held(self, name: str) -> None:
        """Until the party that holds the others up has come to its step."""
        mark = self.folder / f"{name}-holds"
        eventually(mark.exists)
        mark.unlink()

    def waiting(self, name: str, *options: str) -> Forked:
        """A party that waits for approved runs, with results in its folder."""
        more = [
            "--daemon",
            "--coming",
            str(PATIENCE),
            "--approvals",
            str(self.folder / f"{name}-approvals.json"),
        ]
        more += ["--results", str(self.folder / f"{name}-results"), *options]
        rows = ["--data", str(self.folder / f"{name}.csv")]
        rows += ["--record", str(self.folder / f"{name}-record.json")]
        return self._start("party", name, QUESTION, [*rows, *more])

    def aggregator(self, question: dict[str, Any] = QUESTION, results: str | None = None) -> Forked:
        options = ["--coming", str(PATIENCE)]
        if results is not None:
            options += ["--results", str(self.folder / results)]
        return self._start("aggregate", "hub", question, options)

    def _start(
        self, command: str, name: str, question: dict[str, Any], options: list[str]
    ) -> Forked:
        asked = self.folder / f"{name}-question.json"
        asked.write_text(json.dumps(question))
        arguments = [
            *("--roster", str(self.folder / self.pki / "roster.json")),
            *("--certificate", str(self.folder / self.pki / name / "certificate.pem")),
            *("--key", str(self.folder / self.pki / name / "key.pem")),
            *("--question", str(asked), "--domain", str(self.folder / "domain.json")),
        ]
        words = [command, *arguments, *options]
        if name in self.holding:
            mark = self.folder / f"{name}-holds"
            process = Forked(self.folder, hold_before, self.holding[name], mark, *words)
        else:
            process = Forked(self.folder, run_privod, *words)
        self.running.append(process)
        return process


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Certificates, a domain and three small tables; whatever is left running is stopped."""
    address = f"127.0.0.1:{free_port()}"
    write_pki(tmp_path / "pki", NAMES, "hub", address)
    write_pki(tmp_path / "pki-of-four", [*NAMES, "dale"], "hub", address, NAMES)
    columns = [{"name": name, "low": -50, "high": 50, "fill": 0} for name in COLUMNS]
    (tmp_path / "domain.json").write_text(json.dumps({"columns": columns}))
    generator = np.random.default_rng(7)
    for number, name in enumerate([*NAMES, "dale"]):
        rows = 0.3 * generator.normal(size=(400, 3))
        rows[number] = STRANGER - 60 * (number == 1) + 8 * (number == 2)
        np.savetxt(
            tmp_path / f"{name}.csv", rows, delimiter=",", header=",".join(COLUMNS), comments=""
        )
    site = Site(tmp_path)
    yield site
    for process in site.running:
        process.kill()
        process.communicate()


def outcome(process: Forked) -> tuple[int | None, str, str]:
    """Wait for the end of a process."""
    out, problem = process.communicate(timeout=PATIENCE)
    return process.returncode, out, problem


def told(out: str) -> str:
    """What was printed, in one line."""
    return " ".join(out.split())


def test_three_sites_find_their_own_outliers(site: Site) -> None:
    aggregator = site.aggregator()
    parties = [site.party(name) for name in NAMES]
    for process in parties:
        code, out, log = outcome(process)
        assert code == 0, log
        assert told(out).startswith("Alone ")
        assert re.match(r"Alone \d+ of your 400 records are outliers, together \d+", told(out))
        assert "3 holders took part" in told(out)
        assert "the computation is hidden" in told(out)
        assert "opening of counts: done" in log
    code, out, log = outcome(aggregator)
    assert code == 0, log
    assert "The run is complete" in out
    for process in site.running:
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)


def test_a_waiting_party_makes_the_approved_runs_and_no_more(site: Site) -> None:
    roster = Roster.load(site.folder / "pki" / "roster.json")
    declared = Domain.from_json(json.loads((site.folder / "domain.json").read_text()))
    subject = subject_of(JointDetector.from_json(QUESTION), declared, roster)
    begins = datetime.now(UTC)
    for name in NAMES:
        path = site.folder / f"{name}-approvals.json"
        Approvals(path).approve(subject, 1, begins, begins + timedelta(hours=1))
    rows = (site.folder / "ahus.csv").read_text().splitlines()
    named = [f"{rows[0]},number", *(f"{row},n{at}" for at, row in enumerate(rows[1:]))]
    (site.folder / "ahus.csv").write_text("\n".join(named) + "\n")
    waiting = [site.waiting("ahus", "--ids", "number"), *(site.waiting(n) for n in NAMES[1:])]
    code, _, log = outcome(site.aggregator(results="hub-results"))
    assert code == 0, log
    for process in waiting:  # end by themselves, since nothing more is approved
        code, _, log = outcome(process)
        assert code == 0, log
    (result,) = (site.folder / "ahus-results").glob("*.csv")
    heading, first, *_ = result.read_text().split()
    assert heading == "row,id,together,alone"
    assert first == "1,n0,1,1"
    runs = {
        path.stem.removesuffix("-detector")
        for name in NAMES
        for path in (site.folder / f"{name}-results").iterdir()
    }
    assert len(runs) == 1
    (stem,) = runs
    files = [str(site.folder / f"{name}-results" / f"{stem}.json") for name in [*NAMES, "hub"]]
    pinned = ["--roster", str(site.folder / "pki" / "roster.json")]
    shown = CliRunner().invoke(app, ["transcript", *files, *pinned])
    assert shown.exit_code == 0
    assert "cork signed this" in shown.stdout
    assert "The 4 transcripts are about one run and agree" in shown.stdout


@pytest.mark.parametrize("killed", ["bern", "hub"])
def test_a_killed_computing_party_or_aggregator_ends_the_run_and_the_next_is_a_new_release(
    site: Site, killed: str
) -> None:
    site.holding = {"cork": "shares of counts"}  # a stage is open, another one has begun
    running = {name: site.party(name) for name in NAMES}
    running["hub"] = site.aggregator()
    site.wait_until_held("cork")
    running.pop(killed).kill()
    for process in running.values():
        code, out, log = outcome(process)
        assert (code, out) == (2, "")
        assert ("'bern' was lost during" if killed == "bern" else "The aggregator was lost") in log
    site.holding = {}
    aggregator = site.aggregator()
    for process in [*(site.party(name) for name in NAMES), aggregator]:
        code, _, log = outcome(process)
        assert code == 0, log
    listed = CliRunner().invoke(app, ["runs", "--record", str(site.folder / "ahus-record.json")])
    assert "2 runs with noise, epsilon 40" in told(listed.stdout)  # the broken one counts
    assert "not finished" in told(listed.stdout)


def test_a_killed_holder_is_left_out(site: Site) -> None:
    site.pki = "pki-of-four"
    site.holding = {"dale": "shares of counts"}
    aggregator = site.aggregator()
    parties = [site.party(name) for name in NAMES]
    dale = site.party("dale")
    site.wait_until_held("dale")
    dale.kill()
    for process in parties:
        code, out, log = outcome(process)
        assert code == 0, log
        assert "4 holders took part. Left out: dale from counts on." in told(out)
    code, out, log = outcome(aggregator)
    assert code == 0, log
    assert "went on without dale" in told(out)
