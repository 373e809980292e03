"""What a server process leaves behind when it stops or is killed, and who takes it over."""

from __future__ import annotations

# slow: left out by `make quick`
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from privod.client import connect
from privod.curator import Answer, Curator
from privod.curator.publication import NOT_STORED
from privod.curator.results import NO_ANSWER
from privod.curator.rows import KeptRows
from privod.curator.work import JobRecord
from privod.errors import Unavailable
from privod.joint.exact.forwarder import free_port
from privod.ledger.acts import CloseBudget
from privod.ledger.chain import now
from privod.ledger.sqlite import LEDGER_FILE
from privod.ledger.store import where_rows_are
from privod.privacy import AddRemove, Loss
from privod.query.catalog import query_from_json
from privod.server import asking
from privod.server.authentication import create_token
from privod.server.jobs import jobs as jobs_module
from privod.server.jobs.jobs import LEFT_ANSWERING, STOPPED
from privod.server.limits import Rate
from privod.server.serve import Listening
from tests.odd import FOLDER, odd
from tests.patience import PATIENCE, eventually
from tests.running_server import DOMAIN, GENEROUS, ROWS, Running, is_unfinished, running

__all__ = ["odd"]  # a fixture

pytestmark = pytest.mark.usefixtures("odd")
ONE = replace(GENEROUS, workers=1, stop_seconds=0.2)
PATH = "/api/v1/datasets/patients/ask"
SERVER = """
import sys
from privod.curator import Curator
from privod.server import serve
from privod.server.limits import Limits

with Curator.open(sys.argv[1], database=sys.argv[2] or None) as curator:
    serve.serve(curator, serve.Listening(port=0), Limits(workers=1, stop_seconds=0.2))
"""


def asked(gate: Path, epsilon: str, deed: str = "wait") -> dict[str, Any]:
    return {"name": "odd", "epsilon": epsilon, "deed": deed, "gate": str(gate)}


@pytest.fixture
def token(tmp_path: Path) -> str:
    """A curator with data and a budget, and an analyst's token for it."""
    with Curator.open(tmp_path / "curator") as curator:
        curator.register("patients", ROWS, DOMAIN)
        curator.open_budget("patients", AddRemove(), Loss("10"))
        create_token(curator, "owner", None, "owner")
        return create_token(curator, "analyst", None, "analyst")


@contextmanager
def process(directory: Path, database: str = "") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, and its address."""
    path = os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(directory), database],
        env={**os.environ, "PYTHONPATH": path, "PRIVOD_MARK": str(directory)},
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stderr is not None
        try:
            line = server.stderr.readline()
            while "http://" not in line:
                line = server.stderr.readline()
            yield server, "http" + line.partition("http")[2].split()[0]
        finally:
            server.kill()


def processes_of(directory: Path) -> list[str]:
    """The processes that belong to a server of `process`."""
    found = []
    for running_one in Path("/proc").glob("[0-9]*"):
        try:
            if f"PRIVOD_MARK={directory}".encode() in (running_one / "environ").read_bytes():
                found.append(running_one.name)
        except OSError:
            continue
    return found


def key_of(curator: Curator) -> bytes:
    """The key of the one answer that was charged and is not stored."""
    with curator.database.lookup() as connection:
        ((key,),) = connection.execute("SELECT noise_key FROM unfinished")
    return bytes.fromhex(key)


def expected(curator: Curator, query: dict[str, Any], key: bytes) -> Any:
    """The release that a key gives where nothing is interrupted."""
    with curator.database.lookup() as connection:
        folder, seal = where_rows_are(connection, "patients")
    rows = KeptRows(curator.directory / "rows", folder, seal, DOMAIN)
    asked = query_from_json(query)
    return asked.answer(rows.load(), rows.noise(key, asked)).to_json()


@pytest.mark.parametrize("end", [subprocess.Popen.kill, subprocess.Popen.terminate])
def test_after_a_kill_or_a_stop_workers_end_and_what_was_charged_or_waited_is_answered_once(
    tmp_path: Path, token: str, end: Callable[[subprocess.Popen[str]], None]
) -> None:
    gate, directory = tmp_path / "gate", tmp_path / "curator"
    headers = {"authorization": f"Bearer {token}"}
    with (
        process(directory) as (server, url),
        httpx.Client(headers=headers, timeout=PATIENCE) as api,
    ):
        forms = [{"query": asked(gate, epsilon), "wait": 0} for epsilon in ("0.1", "0.2")]
        first = api.post(url + PATH, json=forms[0]).json()["job"]
        eventually(gate.exists)
        second = api.post(url + PATH, json=forms[1]).json()["job"]
        assert processes_of(directory)
        end(server)
        server.wait()
    eventually(lambda: not processes_of(directory))
    (tmp_path / "gate.open").touch()
    with Curator.open(directory) as left:
        key = key_of(left)
        same = expected(left, asked(gate, "0.1"), key)
    with running(directory, ONE, data=False) as after, after.api(token) as api:
        for job in (first, second):
            eventually(lambda job=job: _state(api, job) == "done")  # type: ignore[misc]
        answer = api.get(f"/jobs/{first}").json()["answer"]
        assert answer["release"] == same, "as if nothing had been interrupted"
        assert len(answer["charges"]) == 1
        listed = {one["job"]: one["state"] for one in api.get("/jobs").json()}
        assert listed == {first: "done", second: "done"}
        kinds = [entry.kind for entry in after.curator.history("patients")]
        assert (kinds.count("charge"), kinds.count("release")) == (2, 2)
        assert after.curator.verify().questions == 2
    kept = b"".join(path.read_bytes() for path in directory.glob(f"{LEDGER_FILE}*"))
    assert key.hex().encode() not in kept


def test_a_client_waits_for_the_server_to_be_back_and_pays_once(
    tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privod.wire.connection.WAIT", 0.0)
    gate, directory = tmp_path / "gate", tmp_path / "curator"

    def answered(url: str) -> Answer:
        with connect(url, token, away_seconds=PATIENCE) as client:
            return client.ask(query_from_json(asked(gate, "0.1")), of="patients")

    here = Listening(port=free_port())
    with ThreadPoolExecutor(1) as pool:
        with running(directory, ONE, here, data=False) as before:
            waiting = pool.submit(answered, before.url)
            eventually(gate.exists)
        (tmp_path / "gate.open").touch()
        with running(directory, ONE, here, data=False) as after:
            answer = waiting.result(PATIENCE)
            assert answer.release == after.curator.release("patients", answer.release.query)
            kinds = [entry.kind for entry in after.curator.history("patients")]
            assert (kinds.count("charge"), kinds.count("release")) == (1, 1)


def test_a_worker_that_dies_by_itself_has_failed_for_good(tmp_path: Path, token: str) -> None:
    gate, directory = tmp_path / "gate", tmp_path / "curator"
    form = {"query": asked(gate, "0.1"), "wait": 0}
    with running(directory, ONE, data=False) as before, before.api(token) as api:
        job = api.post("/datasets/patients/ask", json=form).json()["job"]
        eventually(gate.exists)
        key_of(before.curator)
        worker = before.site.jobs._workers[0]._process
        assert worker is not None
        worker.kill()
        eventually(lambda: api.get(f"/jobs/{job}").status_code == 500)
        assert api.get(f"/jobs/{job}").json()["error"]["message"] == NO_ANSWER
        assert not is_unfinished(before.curator, query_from_json(asked(gate, "0.1")), "patients")
    gate.unlink()
    with running(directory, ONE, data=False) as after, after.api(token) as api:
        assert api.get(f"/jobs/{job}").status_code == 500
        assert not gate.exists(), "nobody looked again"
        kinds = [entry.kind for entry in after.curator.history("patients")]
        assert (kinds.count("charge"), kinds.count("release")) == (1, 0)


def test_what_was_left_and_is_stopped_before_it_is_begun_again_stays_charged(
    tmp_path: Path, token: str
) -> None:
    gate, directory = tmp_path / "gate", tmp_path / "curator"
    with running(directory, ONE, data=False) as before, before.api(token) as api:
        form = {"query": asked(gate, "0.1"), "wait": 0}
        job = api.post("/datasets/patients/ask", json=form).json()["job"]
        eventually(gate.exists)
        before.site.jobs.close()
        before.site.stop_elsewhere(job)  # looked at by the next server alone
        told = api.get(f"/jobs/{job}").json()["error"]
        assert told == {"kind": "interrupted", "message": LEFT_ANSWERING}
    with running(directory, ONE, data=False) as after, after.api(token) as api:
        eventually(lambda: api.get(f"/jobs/{job}").status_code == 500)
        assert api.get(f"/jobs/{job}").json()["error"]["message"] == STOPPED
        assert not is_unfinished(after.curator, query_from_json(asked(gate, "0.1")), "patients")


def test_two_servers_on_one_directory_charge_once_and_show_each_others_jobs(
    tmp_path: Path, token: str
) -> None:
    gate, directory = tmp_path / "gate", tmp_path / "curator"
    with (
        running(directory, ONE, data=False) as one,
        running(directory, ONE, data=False) as other,
        one.api(token) as here,
        other.api(token) as there,
    ):
        form = {"query": asked(gate, "0.1"), "wait": 0}
        job = here.post("/datasets/patients/ask", json=form).json()["job"]
        eventually(gate.exists)
        assert there.get(f"/jobs/{job}").json()["state"] == "waiting"
        again = there.post("/datasets/patients/ask", json=form).json()["job"]
        (tmp_path / "gate.open").touch()
        for api in (here, there):
            for each in (job, again):
                eventually(lambda api=api, each=each: _state(api, each) == "done")  # type: ignore[misc]
        answers = [here.get(f"/jobs/{each}").json()["answer"] for each in (job, again)]
        assert answers[0]["release"] == answers[1]["release"]
        kinds = [entry.kind for entry in one.curator.history("patients")]
        assert (kinds.count("charge"), kinds.count("release")) == (1, 1)


@pytest.mark.parametrize("payer_stops", [True, False])
def test_who_stops_while_another_server_answers_is_not_charged_and_leaves_it_to_who_paid(
    tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch, payer_stops: bool
) -> None:
    monkeypatch.setattr(asking, "WATCH_SECONDS", 0.2)
    gate, directory = tmp_path / "gate", tmp_path / "curator"
    waits = threading.Event()
    with (
        running(directory, ONE, data=False) as other,
        other.api(token) as payer,
        other.api(other.token("analyst")) as joining,
    ):
        with running(directory, ONE, data=False) as one, one.api(token) as here:
            paid = here.post("/datasets/patients/ask", json=form_of(gate)).json()["job"]
            eventually(gate.exists)
            alone = other.curator.database.alone

            def noticed(key: str) -> Any:
                if not key.startswith("server-"):
                    waits.set()
                return alone(key)

            monkeypatch.setattr(other.curator.database, "alone", noticed)
            job = joining.post("/datasets/patients/ask", json=form_of(gate)).json()["job"]
            assert waits.wait(PATIENCE)
            joining.delete(f"/jobs/{job}")
            if payer_stops:
                here.delete(f"/jobs/{paid}")
                eventually(lambda: here.get(f"/jobs/{paid}").status_code == 500)
            one.site.jobs.close()
        (tmp_path / "gate.open").touch()
        eventually(lambda: joining.get(f"/jobs/{job}").status_code == 403)
        assert "Nothing was charged" in joining.get(f"/jobs/{job}").text
        if not payer_stops:
            eventually(lambda: _state(payer, paid) == "done")
        kinds = [entry.kind for entry in other.curator.history("patients")]
        assert (kinds.count("charge"), kinds.count("release")) == (1, 0 if payer_stops else 1)


def test_what_was_left_is_answered_though_its_budget_is_closed_and_its_asker_asked_again(
    tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, directory = tmp_path / "gate", tmp_path / "curator"
    form = {**form_of(gate), "request_id": "r"}
    with running(directory, ONE, data=False) as before, before.api(token) as api:
        job = api.post("/datasets/patients/ask", json=form).json()["job"]
        eventually(gate.exists)
        used = {"query": asked(gate, "0.2"), "wait": 0, "request_id": "r"}
        assert api.post("/datasets/patients/ask", json=used).status_code == 422
        before.curator.do(CloseBudget("patients", AddRemove(), "enough"), confirmed=True)
        before.site.jobs.close()
    gate.unlink()
    may_take_over, take_over = threading.Event(), asking._take_over

    def late(*arguments: Any) -> None:
        may_take_over.wait(PATIENCE)
        take_over(*arguments)

    monkeypatch.setattr(asking, "_take_over", late)
    with running(directory, ONE, data=False) as after, after.api(token) as api:
        again = api.post("/datasets/patients/ask", json=form).json()["job"]
        eventually(gate.exists)
        may_take_over.set()
        eventually(lambda: after.site.id in after.curator.job_records.servers())
        eventually(lambda: len(after.site.jobs._jobs) == 2)
        (tmp_path / "gate.open").touch()
        for each in (job, again):
            eventually(lambda each=each: _state(api, each) == "done")  # type: ignore[misc]
        eventually(lambda: after.curator.job_records.servers() == set())
        kinds = [entry.kind for entry in after.curator.history("patients")]
        assert (kinds.count("charge"), kinds.count("release")) == (1, 1)


def test_an_answer_is_stopped_through_a_server_that_does_not_work_on_it(
    tmp_path: Path, token: str
) -> None:
    directory = tmp_path / "curator"
    with (
        running(directory, ONE, data=False) as one,
        running(directory, ONE, data=False) as other,
        one.api(token) as here,
        other.api(token) as there,
        other.api(other.token("analyst")) as stranger,
    ):
        jobs = []
        for epsilon in ("0.1", "0.2"):
            form = {"query": asked(tmp_path / epsilon, epsilon), "wait": 0}
            jobs.append(here.post("/datasets/patients/ask", json=form).json()["job"])
        eventually((tmp_path / "0.1").exists)
        assert stranger.delete(f"/jobs/{jobs[0]}").status_code == 404
        for job in reversed(jobs):  # the one that waits, then the one under way
            assert there.delete(f"/jobs/{job}").json() == {"stopped": True}
        eventually(lambda: here.get(f"/jobs/{jobs[0]}").status_code == 500)
        eventually(lambda: here.get(f"/jobs/{jobs[1]}").status_code == 403)
        assert not (tmp_path / "0.2").exists(), "it was never looked at"
        kinds = [entry.kind for entry in one.curator.history("patients")]
        assert (kinds.count("charge"), kinds.count("release")) == (1, 0)


def test_servers_share_the_rates_that_they_allow(tmp_path: Path, token: str) -> None:
    directory = tmp_path / "curator"
    few = replace(GENEROUS, requests=Rate(1e-9, 8))
    with running(directory, few, data=False) as one:
        with running(directory, few, data=False) as other:
            for server in (one, other):
                server.site.be_present()
            allowed = 0
            for server in (one, other):
                with server.api(token) as api:
                    allowed += sum(api.get("/me").status_code == 200 for _ in range(10))
            assert allowed == 8
        one.site.be_present()
        assert one.site.requests.among == 1, "the other one is gone"


def test_a_server_that_left_never_notes_again_that_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "WATCH_SECONDS", 0.05)
    with running(tmp_path, ONE) as server:
        looks = threading.Semaphore(0)
        monkeypatch.setattr(server.site, "note_ends", looks.release)
        server.site.leave()
        assert all(looks.acquire(timeout=PATIENCE) for _ in range(3))  # and it goes on looking
        assert server.site.last_seen(server.site.id) is None


def test_what_a_killed_server_left_is_taken_over_by_one_that_ran_before_it(
    tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "WATCH_SECONDS", 0.2)
    gate, directory = tmp_path / "gate", tmp_path / "curator"
    headers = {"authorization": f"Bearer {token}"}
    with running(directory, GENEROUS, data=False) as other, other.api(token) as there:
        with process(directory) as (server, address):
            jobs = []
            for epsilon in ("0.1", "0.2"):  # one worker: the second waits
                form = {"query": asked(gate, epsilon), "wait": 0}
                sent = httpx.post(f"{address}{PATH}", json=form, headers=headers, timeout=PATIENCE)
                jobs.append(sent.json()["job"])
            eventually(gate.exists)
            server.kill()
        (tmp_path / "gate.open").touch()
        for job in jobs:
            eventually(lambda job=job: _state(there, job) == "done")  # type: ignore[misc]
        kinds = [entry.kind for entry in other.curator.history("patients")]
        assert (kinds.count("charge"), kinds.count("release")) == (2, 2)


def _state(api: httpx.Client, job: str) -> str:
    return str(api.get(f"/jobs/{job}").json()["state"])


def test_a_record_whose_question_is_unknown_by_now_ends_in_words(
    tmp_path: Path, token: str
) -> None:
    with running(tmp_path / "curator", ONE, data=False) as before, before.api(token) as api:
        form = {"query": asked(tmp_path / "gate", "0.1"), "wait": 0}
        job = api.post("/datasets/patients/ask", json=form).json()["job"]
        eventually((tmp_path / "gate").exists)
        asker = before.curator.job_records.find(job)
        assert asker is not None
        lost = replace(asker, id="lost", server="gone", query={"name": "forgotten"})
        before.curator.job_records.add(lost)
        api.delete(f"/jobs/{job}")
        eventually(lambda: api.get(f"/jobs/{job}").status_code == 500)
    with running(tmp_path / "curator", ONE, data=False) as after:
        records = after.curator.job_records

        def ended() -> bool:
            found = records.find("lost")
            return found is not None and found.outcome is not None

        eventually(ended)


def test_an_answer_that_could_not_be_stored_is_stored_once_the_ledger_is_back(
    tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_module, "AGAIN_SECONDS", 0.05)
    gate, again = tmp_path / "gate", threading.Event()
    with running(tmp_path / "curator", ONE, data=False) as server, server.api(token) as api:
        job = api.post("/datasets/patients/ask", json=form_of(gate)).json()["job"]
        eventually(gate.exists)
        key = key_of(server.curator)
        begin = server.site.jobs._asked

        def noticed(*arguments: Any) -> Any:
            again.set()
            return begin(*arguments)

        monkeypatch.setattr(server.site.jobs, "_asked", noticed)
        server.curator.database.read_only = True
        (tmp_path / "gate.open").touch()
        assert again.wait(PATIENCE), "it asks again"
        assert api.get(f"/jobs/{job}").json()["state"] == "answering"
        server.curator.database.read_only = False
        eventually(lambda: _state(api, job) == "done")
        answer = api.get(f"/jobs/{job}").json()["answer"]
        assert answer["release"] == expected(server.curator, asked(gate, "0.1"), key)
        kinds = [entry.kind for entry in server.curator.history("patients")]
        assert (kinds.count("charge"), kinds.count("release")) == (1, 1)


def test_an_answer_that_cannot_be_stored_for_long_ends_and_is_gone_on_with_when_asked_again(
    tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_module, "STORE_SECONDS", -1.0)
    gate, few = tmp_path / "gate", replace(ONE, waiting_jobs_per_token=1)
    with running(tmp_path / "curator", few, data=False) as server, server.api(token) as api:
        job = api.post("/datasets/patients/ask", json=form_of(gate)).json()["job"]
        eventually(gate.exists)
        server.curator.database.read_only = True
        (tmp_path / "gate.open").touch()
        eventually(lambda: api.get(f"/jobs/{job}").status_code == 503)
        assert api.get(f"/jobs/{job}").json()["error"]["message"] == NOT_STORED
        server.curator.database.read_only = False
        server.site.note_ends()
        answer = api.post("/datasets/patients/ask", json={**form_of(gate), "wait": 60}).json()
        assert answer["charges"] == []
        kinds = [entry.kind for entry in server.curator.history("patients")]
        assert (kinds.count("charge"), kinds.count("release")) == (1, 1)


def form_of(gate: Path) -> dict[str, Any]:
    return {"query": asked(gate, "0.1"), "wait": 0}


def test_ends_that_could_not_be_noted_are_noted_later_and_make_room_again(
    tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "WATCH_SECONDS", 0.2)
    gate, few = tmp_path / "gate", replace(ONE, waiting_jobs_per_token=1)
    with running(tmp_path / "curator", few, data=False) as server, server.api(token) as api:
        job = api.post("/datasets/patients/ask", json=form_of(gate)).json()["job"]
        eventually(gate.exists)
        server.curator.database.read_only = True
        api.delete(f"/jobs/{job}")
        eventually(lambda: api.get(f"/jobs/{job}").status_code >= 500)
        told = api.get(f"/jobs/{job}").json()
        found = server.curator.job_records.find(job)
        assert found is not None
        assert found.outcome is None, "it could not be written"
        key_of(server.curator)  # nor could its key be erased
        server.curator.database.read_only = False
        eventually(lambda: server.curator.job_records.servers() == set())
        assert api.get(f"/jobs/{job}").json() == told
        assert not is_unfinished(server.curator, query_from_json(asked(gate, "0.1")), "patients")
        form = {"query": asked(gate, "0.2", "nothing"), "wait": 60}
        assert api.post("/datasets/patients/ask", json=form).status_code == 200


def test_a_question_that_could_not_be_taken_in_takes_up_no_room(
    tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "WATCH_SECONDS", 0.2)
    with running(tmp_path / "curator", ONE, data=False) as server, server.api(token) as api:
        database = server.curator.database
        sync = database._make_durable

        def fail(driver: Any) -> None:
            sync(driver)
            raise Unavailable("The disk went away after the commit.")

        monkeypatch.setattr(database, "_make_durable", fail)
        form = {"query": asked(tmp_path / "gate", "0.1"), "wait": 0}
        assert api.post("/datasets/patients/ask", json=form).status_code == 503
        monkeypatch.setattr(database, "_make_durable", sync)
        eventually(lambda: server.curator.job_records.servers() == set())
        assert api.get("/jobs").json() == []


def test_a_record_that_fails_to_be_taken_over_ends_in_words(
    tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path / "curator", ONE, data=False) as server:
        records = server.curator.job_records

        def fail(_query: object) -> None:
            raise ArithmeticError

        monkeypatch.setattr(asking, "query_from_json", fail)
        lost = {
            "id": "lost",
            "server": server.site.id,
            "asker": "a",
            "asked_by": "",
            "request": "r",
        }
        record = JobRecord(**lost, dataset="patients", query={}, time=now())
        records.add(record)
        asking._resume(server.site, record)
        found = records.find("lost")
        assert found is not None
        assert found.outcome is not None
        assert asking.NOT_TAKEN_OVER in found.outcome


def left_waiting(server: Running) -> JobRecord:
    """A question that a server process took in and never came to."""
    records = server.curator.job_records
    query = {"name": "histogram", "columns": ["age"], "epsilon": "1"}
    left = {"id": "left", "server": server.site.id, "asker": "a", "asked_by": "", "request": "r"}
    record = JobRecord(**left, dataset="patients", query=query, time=now())
    records.add(record)
    return record


def test_a_question_that_is_taken_over_waits_while_the_database_is_away(
    tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "WATCH_SECONDS", 0.01)
    with running(tmp_path / "curator", ONE, data=False) as server:
        release = server.curator.stored_release
        failures: list[Any] = []

        def away_twice(*arguments: Any) -> Any:
            if len(failures) < 2:
                failures.append(arguments)
                raise Unavailable("The database cannot be reached.")
            return release(*arguments)

        monkeypatch.setattr(server.curator, "stored_release", away_twice)
        record = left_waiting(server)
        asking._resume(server.site, record)
        assert len(failures) == 2
        eventually(lambda: "token" in (server.curator.job_records.find("left").outcome or ""))  # type: ignore[union-attr]


def test_a_question_that_a_stopping_server_took_over_is_left_for_the_next(
    tmp_path: Path, token: str
) -> None:
    with running(tmp_path / "curator", ONE, data=False) as server:
        record = left_waiting(server)
        server.site.jobs.close()
        asking._resume(server.site, record)
        found = server.curator.job_records.find("left")
        assert found is not None
        assert found.outcome is None


def test_records_that_were_taken_over_on_the_way_to_a_disk_that_failed_are_gone_on_with(
    tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change stood and its error hid that: the question took up room until a restart."""
    monkeypatch.setattr(asking, "WATCH_SECONDS", 0.2)
    with running(tmp_path / "curator", ONE, data=False) as server:
        records, failures = server.curator.job_records, []
        adopt = records.adopt

        def stands_and_fails(old: str, new: str) -> list[JobRecord]:
            adopt(old, new)
            failures.append(old)
            raise Unavailable("The disk failed.")

        monkeypatch.setattr(records, "adopt", stands_and_fails)
        lost = {"id": "lost", "server": "killed", "asker": "a", "asked_by": "", "request": "r"}
        query = {"name": "forgotten"}
        records.add(JobRecord(**lost, dataset="patients", query=query, time=now()))
        eventually(lambda: records.servers() == set())
        assert failures == ["killed"]
