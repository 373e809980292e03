"""Servers that share a PostgreSQL database, which goes away and comes back."""

from __future__ import annotations

# slow: left out by `make quick`
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from benchmarks.soak_ledger import empty

from privod.curator.work import JobRecord
from privod.ledger.chain import now
from privod.ledger.database import lock_number
from privod.server import asking
from privod.server.authentication import LONGEST_SESSION
from privod.server.site import KEPT_SECONDS, MOST_SERVERS, SERVER
from tests.odd import odd
from tests.patience import PATIENCE, eventually
from tests.postgres_cluster import crash, find_server, running_server
from tests.running_server import GENEROUS, Running, running
from tests.test_server_restarts import asked, expected, key_of, process

__all__ = ["odd"]  # a fixture

pytestmark = [
    pytest.mark.usefixtures("odd"),
    pytest.mark.skipif(
        find_server() is None, reason="PostgreSQL: no server program (apt-get install postgresql)"
    ),
]
ONE = replace(GENEROUS, workers=1, stop_seconds=0.2)
LOOKS_SECONDS = 2.0  # ten looks of each server


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with running_server() as url:
        yield url


@pytest.fixture
def url(cluster: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(asking, "WATCH_SECONDS", 0.2)
    empty(cluster)
    return cluster


def ask(api: httpx.Client, gate: Path, epsilon: str) -> str:
    query = {"name": "odd", "epsilon": epsilon, "deed": "wait", "gate": str(gate)}
    response = api.post("/datasets/patients/ask", json={"query": query, "wait": 0})
    return str(response.json()["job"])


def is_back(api: httpx.Client) -> bool:
    return api.get("/datasets").status_code == 200


def is_done(api: httpx.Client, job: str) -> bool:
    return bool(api.get(f"/jobs/{job}").json().get("state") == "done")


def is_locked(server: Running) -> bool:
    """Whether somebody holds the lock that says that a server process is there."""
    number = lock_number(f"server-{server.site.id}") % 2**64
    with server.curator.database.lookup() as connection:
        locks = connection.execute(
            "SELECT classid::bigint, objid::bigint FROM pg_locks"
            " WHERE locktype = 'advisory' AND granted"
        )
    return divmod(number, 2**32) in locks


def test_a_living_server_keeps_its_question_when_the_database_restarts(
    tmp_path: Path, url: str
) -> None:
    gate, directory = tmp_path / "gate", tmp_path / "curator"
    with (
        running(directory, ONE, database=url) as one,
        running(directory, ONE, database=url, data=False) as other,
    ):
        token = one.token("analyst")
        with one.api(token) as here, other.api(token) as there:
            crash(url)
            for api in (here, there):
                eventually(lambda api=api: is_back(api))  # type: ignore[misc]
            eventually(lambda: is_locked(one))
            job = ask(here, gate, "0.1")
            eventually(gate.exists)
            time.sleep(LOOKS_SECONDS)
            found = one.curator.job_records.find(job)
            assert found is not None
            assert (found.server, found.outcome) == (one.site.id, None)
            (tmp_path / "gate.open").touch()
            for api in (here, there):
                eventually(lambda api=api: api.get(f"/jobs/{job}").json()["state"] == "done")  # type: ignore[misc]


def test_what_a_server_left_is_taken_over_though_the_database_restarted_meanwhile(
    tmp_path: Path, url: str
) -> None:
    gate, directory = tmp_path / "gate", tmp_path / "curator"
    with running(directory, ONE, database=url) as stays:
        token = stays.token("analyst")
        with stays.api(token) as there:
            with (
                running(directory, ONE, database=url, data=False) as ends,
                ends.api(token) as here,
            ):
                jobs = [ask(here, gate, epsilon) for epsilon in ("0.1", "0.2")]
                eventually(gate.exists)
                time.sleep(LOOKS_SECONDS)  # the other one waits for this one's lock by now
                crash(url)
                for api in (here, there):
                    eventually(lambda api=api: is_back(api))  # type: ignore[misc]
            (tmp_path / "gate.open").touch()
            # At once if its note could be taken away, else when it is believed to be gone.
            eventually(lambda: is_done(there, jobs[1]))


def test_an_answer_that_a_killed_server_left_is_begun_again_by_another_and_charged_once(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "PRESENT_SECONDS", LOOKS_SECONDS)
    gate, directory = tmp_path / "gate", tmp_path / "curator"
    with running(directory, ONE, database=url) as stays:
        token = stays.token("analyst")
        with stays.api(token) as there:
            with process(directory, url) as (killed, address):
                headers = {"authorization": f"Bearer {token}"}
                base = f"{address}/api/v1"
                with httpx.Client(base_url=base, headers=headers, timeout=PATIENCE) as here:
                    job = ask(here, gate, "0.1")
                    eventually(gate.exists)
                key = key_of(stays.curator)
                killed.kill()
            (tmp_path / "gate.open").touch()
            eventually(lambda: is_done(there, job))
            same = expected(stays.curator, asked(gate, "0.1"), key)
            assert there.get(f"/jobs/{job}").json()["answer"]["release"] == same
        kinds = [entry.kind for entry in stays.curator.history("patients")]
        assert (kinds.count("charge"), kinds.count("release")) == (1, 1)
        with stays.curator.database.lookup() as connection:
            assert connection.execute("SELECT 1 FROM unfinished") == []


def test_a_server_that_waits_for_its_lost_lock_can_leave(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever takes over from it holds the lock, for as long as a database may be away."""
    waits, given_up = threading.Event(), threading.Event()
    with running(tmp_path / "curator", ONE, database=url) as server:

        @contextmanager
        def held_elsewhere(_key: str) -> Iterator[Callable[[], bool]]:
            waits.set()
            left.wait(PATIENCE)
            given_up.set()
            yield lambda: True

        left = threading.Event()
        monkeypatch.setattr(server.curator.database, "alone", held_elsewhere)
        crash(url)
        assert waits.wait(PATIENCE)
        server.site.leave()
        assert not given_up.is_set(), "it left while the lock was held elsewhere"
        left.set()


def test_hosts_whose_clocks_differ_agree_on_who_is_signed_in(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time
    with running(tmp_path / "curator", ONE, database=url) as server:
        cookie = server.site.sessions.begin("hash")
        for ahead in (-2 * LONGEST_SESSION, 2 * LONGEST_SESSION):
            with monkeypatch.context() as elsewhere:
                elsewhere.setattr(time, "time", lambda ahead=ahead: now() + ahead)
                assert server.site.sessions.token_of(cookie) == "hash"


def leave_behind(server: Running) -> None:
    """A record and a note of a server process that is no more; nobody holds its lock."""
    notes, records = server.site.notes, server.curator.job_records
    notes.put(SERVER, "killed", "", MOST_SERVERS, notes.clock() - KEPT_SECONDS)
    lost = {"id": "lost", "server": "killed", "asker": "a", "asked_by": "", "request": "r"}
    query = {"name": "forgotten"}
    records.add(JobRecord(**lost, dataset="patients", query=query, time=now()))


def test_a_server_that_notes_nothing_for_a_while_is_taken_to_be_gone(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "PRESENT_SECONDS", LOOKS_SECONDS)
    with running(tmp_path / "curator", ONE, database=url) as server:
        leave_behind(server)
        eventually(lambda: server.curator.job_records.servers() == set())


def test_a_server_without_its_lock_is_believed_to_live_until_it_leaves(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "PRESENT_SECONDS", 3600.0)
    with running(tmp_path / "curator", ONE, database=url) as server:
        leave_behind(server)
        time.sleep(LOOKS_SECONDS)
        assert server.curator.job_records.servers() == {"killed"}
        server.site.notes.take(SERVER, "killed")
        eventually(lambda: server.curator.job_records.servers() == set())
