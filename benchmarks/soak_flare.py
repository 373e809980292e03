"""Joint runs in a provisioned FLARE deployment: mutual TLS, signed kits, real servers and clients.

    python benchmarks/soak_flare.py [--quick] [--jobs 5]

`nvflare provision` makes the kits of a server, three clients and an administrator; each is started
as its own process on loopback. The parties sign with the certificates of their kits (RSA). Then the
administrator submits jobs, each with the published protocol and the joint detector: every client
must find its own strangers, all must hold the same detector, and everybody must have signed the
same runs. In the last job a computing client is killed in the middle: the run must end, and for the
others too. Everything that was started is stopped again. Leaves out what cannot run: without
nvflare it says so and ends well.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from privod.data import Domain, Numeric
from privod.errors import Unavailable
from privod.joint.approvals import Approvals, subject_of
from privod.joint.detector.question import JointDetector
from privod.joint.exact.forwarder import free_port
from privod.joint.results import check_one_run
from privod.joint.roster import Member, Roster
from privod.joint.transport.channel import Patience

NAMES = ("ahus", "bern", "cork")
SERVER, ADMIN, PROJECT = "localhost", "admin@hub.example", "privod"
COLUMNS = ("x", "y", "z")
ASKED = JointDetector(columns=COLUMNS, epsilon=20)
ROWS = 400
QUIET_SECONDS = 600.0  # without a line in anybody's log, after which nobody gets on any more
PATIENCE = Patience(coming=600.0, stalled=600.0)  # a busy machine takes its time
SHORT = Patience(coming=30.0, stalled=30.0)  # of the run that must not end well
SHARED_STORE = "/tmp/nvflare"  # noqa: S108 - where FLARE keeps jobs unless told
COMPLETED = "FINISHED:COMPLETED"
ALLOWED = {"class_allow_list": ["nvflare.", "privod.joint.flare."]}


def domain() -> Domain:
    """What is public about everybody's rows."""
    return Domain(tuple(Numeric(name, -50, 50, fill=0.0) for name in COLUMNS))


def provision(place: Path) -> Path:
    """Make everybody's kit; return their folder."""
    people: list[dict[str, Any]] = [
        {"name": SERVER, "type": "server", "org": "hub", "fed_learn_port": free_port()}
    ]
    people += [{"name": name, "type": "client", "org": name} for name in NAMES]
    people.append({"name": ADMIN, "type": "admin", "org": "hub", "role": "project_admin"})
    here = "nvflare.lighter.impl."
    project = {
        "api_version": 3,
        "name": PROJECT,
        "description": "a soak test",
        "participants": people,
        "builders": [
            {
                "path": f"{here}workspace.WorkspaceBuilder",
                "args": {"template_file": ["master_template.yml"]},
            },
            {
                "path": f"{here}static_file.StaticFileBuilder",
                "args": {"config_folder": "config"},
            },
            {"path": f"{here}cert.CertBuilder"},
            {"path": f"{here}signature.SignatureBuilder"},
        ],
    }
    (place / "project.yml").write_text(json.dumps(project))  # JSON is YAML
    command = [sys.executable, "-m", "nvflare.cli", "provision"]
    command += ["-p", str(place / "project.yml"), "-w", str(place / "kits")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return place / "kits" / PROJECT / "prod_00"


def prepare(kits: Path) -> Roster:
    """Write everybody's site file and rows; the roster pins the kits' own certificates."""
    generator = np.random.default_rng(7)
    for number, name in enumerate(NAMES):
        local = kits / name / "local"
        rows = 0.3 * generator.normal(size=(ROWS, len(COLUMNS)))
        rows[number] = 40.0 - 60 * (number == 1) + 8 * (number == 2)
        header = ",".join(COLUMNS)
        np.savetxt(local / "rows.csv", rows, delimiter=",", header=header, comments="")
        (local / "domain.json").write_text(json.dumps(domain().to_json()))
        said = {
            "certificate": "../startup/client.crt",
            "key": "../startup/client.key",
            "data": "rows.csv",
            "domain": "domain.json",
            "record": "record.json",
            "results": "results",
            "approvals": "approvals.json",
        }
        (local / f"privod-{name}.json").write_text(json.dumps(said))
    hub = {"certificate": "../startup/server.crt", "key": "../startup/server.key"}
    server = kits / SERVER / "local" / f"privod-{PROJECT}.json"  # which FLARE names the server by
    server.write_text(json.dumps({**hub, "results": "results"}))
    for name in (SERVER, *NAMES):
        default = (kits / name / "local" / "resources.json.default").read_text()
        # Else every server of a machine has the same jobs, and tries to run the others'.
        own = json.loads(default.replace(SHARED_STORE, str(kits / name / "store")))
        (kits / name / "local" / "resources.json").write_text(json.dumps({**own, **ALLOWED}))
    members = [Member(name, (kits / name / "startup" / "client.crt").read_text()) for name in NAMES]
    return Roster(
        tuple(members),
        Member(SERVER, (kits / SERVER / "startup" / "server.crt").read_text()),
        "flare:0",
        (kits / SERVER / "startup" / "rootCA.pem").read_text(),
    )


def with_us() -> str:
    """The path on which the kits' scripts find this Python."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


@contextmanager
def deployed(kits: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Everybody's process, started with the kits' own script; all are stopped at the end."""
    running = {}
    try:
        for name in (SERVER, *NAMES):
            log = (kits / f"{name}.log").open("wb")
            running[name] = subprocess.Popen(
                ["/bin/bash", str(kits / name / "startup" / "sub_start.sh")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PATH": with_us()},
            )
        yield running
    finally:
        for process in running.values():
            stop(process)


def logs(kits: Path) -> str:
    """What everybody's logs say of errors."""
    lines = [
        line for path in kits.glob("*.log") for line in path.read_text(errors="replace").split("\n")
    ]
    return "\n".join(line for line in lines if "ERROR" in line or "privod:" in line)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that we started, with its children; FLARE gives jobs a group of their own."""
    import psutil  # nvflare needs it as well

    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(process.pid)
        for each in [*parent.children(recursive=True), parent]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
    process.wait()


def wait_until(happened: Callable[[], bool], what: str, kits: Path) -> None:
    """Wait as long as something is written to anybody's log."""
    seen, since = 0, time.monotonic()
    while not happened():
        written = sum(path.stat().st_size for path in kits.glob("*.log"))
        if written != seen:
            seen, since = written, time.monotonic()
        elif time.monotonic() - since > QUIET_SECONDS:
            quiet = f"Nobody's log has had a line for {QUIET_SECONDS:g} seconds"
            raise SystemExit(f"{quiet}, waiting until {what}.\n{logs(kits)}")
        time.sleep(0.5)


def session(kits: Path) -> Any:
    """The administrator's connection, once all clients are there."""
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    log, all_here = kits / f"{SERVER}.log", f"Total clients: {len(NAMES)}"
    wait_until(lambda: all_here in log.read_text(), "all clients have come", kits)
    return new_secure_session(ADMIN, str(kits / ADMIN), timeout=QUIET_SECONDS)


def submit(
    admin: Any, kits: Path, number: int, roster: Roster, patience: Patience = PATIENCE
) -> str:
    """Approve at every client, write a job and submit it."""
    from privod.joint.flare import write_job

    begins = datetime.now(UTC)
    for name in NAMES:
        approvals = Approvals(kits / name / "local" / "approvals.json")
        subject = subject_of(ASKED, domain(), roster)
        approvals.approve(subject, 1, begins, begins + timedelta(hours=1))
    job = kits / f"job-{number}"
    write_job(job, ASKED, roster, domain(), patience)
    return str(admin.submit_job(str(job)))


def status_of(admin: Any, job: str) -> str:
    """What FLARE says of a job."""
    return str(admin.get_job_meta(job).get("status"))


def ended(admin: Any, job: str, kits: Path) -> str:
    """How a job ended."""
    wait_until(lambda: status_of(admin, job).startswith("FINISHED"), "the job has ended", kits)
    return status_of(admin, job)


def check(kits: Path, roster: Roster, runs: int) -> None:
    """Every client has its strangers, all the same detector, and everybody signed the same runs."""
    for number, name in enumerate(NAMES):
        found = sorted((kits / name / "local" / "results").glob("*.csv"))
        assert len(found) == runs, f"{name} has {len(found)} results of {runs}"
        lines = [path.read_text().split()[1:] for path in found]
        stranger = f"{number + 1},1,"  # a row that is found together
        assert all(any(line.startswith(stranger) for line in one) for one in lines), name
    folders = [kits / name / "local" / "results" for name in (*NAMES, SERVER)]
    stems = [path.stem for path in folders[-1].glob("*.json")]
    assert len(stems) == runs
    for stem in stems:
        signed = [json.loads((folder / f"{stem}.json").read_text()) for folder in folders]
        said = check_one_run(signed, roster)
        assert len({one.get("opened") for one in said}) == 1


def break_off(admin: Any, kits: Path, roster: Roster, bern: subprocess.Popen[bytes]) -> float:
    """Kill a client right after a job has begun; return the seconds until the job has ended."""
    job = submit(admin, kits, 0, roster, SHORT)
    begun = ("RUNNING", "DISPATCHED")
    wait_until(lambda: status_of(admin, job) in begun, "the job has begun", kits)
    started = time.monotonic()
    stop(bern)
    status = ended(admin, job, kits)
    assert status != COMPLETED, status
    return time.monotonic() - started


def soak(
    admin: Any, kits: Path, roster: Roster, n_jobs: int, bern: subprocess.Popen[bytes]
) -> None:
    """Some jobs that must end well, and one that must not."""
    took = []
    for number in range(1, n_jobs + 1):
        started = time.monotonic()
        status = ended(admin, submit(admin, kits, number, roster), kits)
        took.append(time.monotonic() - started)
        assert status == COMPLETED, f"{status}\n{logs(kits)}"
        print(f"job {number}: {status} after {took[-1]:.1f} seconds", flush=True)
    check(kits, roster, n_jobs)
    print(f"figure flare_job_seconds {np.median(took):.1f}")
    print(f"figure flare_jobs {n_jobs}", flush=True)
    lost = break_off(admin, kits, roster, bern)
    print(f"figure flare_client_killed_job_ended_seconds {lost:.1f}")


def main() -> None:
    """Provision, run, check, stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one job")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    parser.add_argument("--jobs", type=int, default=5)
    asked = parser.parse_args()
    if asked.smoke:
        print("skipped: a deployment takes minutes; tests/test_flare.py runs the simulator")
        return
    try:
        import privod.joint.flare  # noqa: F401 - whether nvflare is there
    except Unavailable as problem:
        print(f"left out: {problem}")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is stopped
    with tempfile.TemporaryDirectory() as folder:
        kits = provision(Path(folder))
        roster = prepare(kits)
        started = time.monotonic()
        with deployed(kits) as running:
            admin = session(kits)
            print(f"figure flare_ready_seconds {time.monotonic() - started:.1f}", flush=True)
            try:
                soak(admin, kits, roster, 1 if asked.quick else asked.jobs, running["bern"])
            finally:
                admin.close()


if __name__ == "__main__":
    main()
