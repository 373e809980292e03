"""Answers and pictures in processes of their own: what these may take, and what ends them."""

from __future__ import annotations

# slow: left out by `make quick`
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from privod import control_groups
from privod.curator import Curator
from privod.curator.results import NO_ANSWER
from privod.data import Domain, Numeric
from privod.data.examples import HOSPITAL, hospital
from privod.privacy import AddRemove, Loss
from privod.query.catalog import QUERIES
from privod.query.preview import duration
from privod.questions.grid_knn.query import GridKnn
from privod.questions.histogram.query import Histogram
from privod.questions.outlier_subspaces.query import OutlierSubspaces
from privod.server import limits as machine
from privod.server.authentication import token_hash
from privod.server.jobs import estimates
from privod.server.jobs.estimates import (
    allowed,
    check_work,
    most_bytes,
    most_seconds,
    needed_bytes,
)
from privod.server.jobs.workers import load_library
from privod.server.jobs.writers import Writers
from privod.server.limits import Limits, TooMuchWork
from privod.server.sample import DATASET, sample
from tests.odd import odd
from tests.patience import PATIENCE, eventually
from tests.running_server import CANARY, DOMAIN, GENEROUS, ROWS, Running, running

__all__ = ["odd"]  # a fixture

SMALL = replace(GENEROUS, answer_bytes=2**30, result_bytes=2**20, answer_seconds=PATIENCE)
pytestmark = pytest.mark.usefixtures("odd")


def asked(gate: Path, deed: str = "wait", epsilon: str = "0.5") -> dict[str, Any]:
    return {"name": "odd", "epsilon": epsilon, "deed": deed, "gate": str(gate)}


@pytest.fixture
def server(tmp_path: Path, odd: None) -> Iterator[Running]:
    with running(tmp_path / "curator", SMALL) as server:
        yield server


@pytest.fixture
def analyst(server: Running) -> Iterator[httpx.Client]:
    with server.api(server.token("analyst")) as api:
        yield api


def kinds(server: Running) -> list[str]:
    return [entry.kind for entry in server.curator.history("patients")]


def workers(server: Running) -> list[int]:
    """The processes of the workers."""
    found = [worker._process for worker in server.site.jobs._workers]
    return [process.pid for process in found if process is not None and process.pid is not None]


def test_what_rows_make_a_worker_warn_of_stands_in_no_log() -> None:
    rows = "import numpy as np; np.array([-1e308]) - 1e308; print('done')"
    for settled, told in (("", "overflow"), ("worker._settle(0);", "")):
        script = f"from privod.server.jobs import worker; {settled} {rows}"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.stdout == "done\n"
        assert told in done.stderr
        assert bool(told) is bool(done.stderr)


def test_a_long_answer_is_a_job_with_progress(analyst: httpx.Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    form = {"query": asked(gate), "wait": 0.1}
    begun = analyst.post("/datasets/patients/ask", json=form)
    assert begun.status_code == 202
    assert begun.json()["answer"] is None
    job = f"/jobs/{begun.json()['job']}"
    eventually(gate.exists)  # a worker has begun, however late
    eventually(lambda: analyst.get(job).json()["tenths"] == 4)  # at the next release time
    assert analyst.get(job).json()["state"] == "answering"
    (tmp_path / "gate.open").touch()
    eventually(lambda: analyst.get(job).json()["state"] == "done")
    done = analyst.get(job).json()
    assert done["tenths"] == 10
    assert done["answer"]["sentence"]


def test_whatever_goes_wrong_in_a_worker_is_told_in_one_sentence_and_the_charge_stands(
    server: Running, analyst: httpx.Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for deed in ("raise", "die", "grow", "swell"):
        query = asked(tmp_path / deed, deed)
        failed = analyst.post("/datasets/patients/ask", json={"query": query, "wait": 60})
        assert failed.status_code == 500
        assert failed.json()["error"] == {"kind": "answer-failed", "message": NO_ANSWER}
        assert (tmp_path / deed).exists()  # it was the worker that failed
    assert kinds(server).count("charge") == 4
    assert CANARY not in caplog.text
    fine = analyst.post(
        "/datasets/patients/ask", json={"query": asked(tmp_path / "g", "nothing"), "wait": 60}
    )
    assert fine.status_code == 200  # by a new process, where one was lost


def test_no_clock_ends_an_answer_that_looks_at_rows(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    hasty = replace(SMALL, answer_seconds=0.05, picture_seconds=0.05, workers=1)
    with (
        running(tmp_path / "curator", hasty) as server,
        server.api(server.token("analyst")) as api,
    ):
        job = api.post("/datasets/patients/ask", json={"query": asked(gate), "wait": 0}).json()
        eventually(gate.exists)
        (process,) = workers(server)
        time.sleep(1)  # twenty times what the server accepts by its estimate
        assert workers(server) == [process]
        (tmp_path / "gate.open").touch()
        eventually(lambda: api.get(f"/jobs/{job['job']}").json()["state"] == "done")


def test_whoever_asked_stops_an_answer_and_its_worker_ends(
    server: Running, analyst: httpx.Client, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    form = {"query": asked(gate), "wait": 0}
    job = analyst.post("/datasets/patients/ask", json=form).json()["job"]
    eventually(gate.exists)
    (process,) = workers(server)
    with server.api(server.token("analyst")) as other:
        assert other.delete(f"/jobs/{job}").status_code == 404
    assert analyst.delete(f"/jobs/{job}").json() == {"stopped": True}
    eventually(lambda: process not in workers(server))
    eventually(lambda: analyst.get(f"/jobs/{job}").status_code == 500)
    told = analyst.get(f"/jobs/{job}").json()["error"]["message"]
    assert "on request. The charge stands" in told
    assert kinds(server).count("charge") == 1


def test_revoking_a_token_ends_the_answer_that_only_it_waits_for(
    server: Running, tmp_path: Path
) -> None:
    gate, token = tmp_path / "gate", server.token("analyst")
    with server.api(token) as api:
        api.post("/datasets/patients/ask", json={"query": asked(gate), "wait": 0})
        eventually(gate.exists)
        (process,) = workers(server)
        server.curator.store.revoke_token(token_hash(token))
        eventually(lambda: process not in workers(server))
    eventually(lambda: not server.site.jobs.under_way()["answering"])
    assert kinds(server)[-1] == "charge", "which stands"


def test_an_owner_stops_an_answer_and_one_who_joined_in_keeps_it_from_ending(
    server: Running, analyst: httpx.Client, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    form = {"query": asked(gate), "wait": 0}
    with server.api(server.token("analyst")) as other, server.api(server.token("owner")) as owner:
        jobs = [
            api.post("/datasets/patients/ask", json=form).json()["job"] for api in (analyst, other)
        ]
        eventually(gate.exists)
        assert owner.delete(f"/jobs/{jobs[0]}").status_code == 200
        assert analyst.get(f"/jobs/{jobs[0]}").status_code == 403
        assert other.get(f"/jobs/{jobs[1]}").json()["state"] == "answering"
        (tmp_path / "gate.open").touch()
        eventually(lambda: other.get(f"/jobs/{jobs[1]}").json()["state"] == "done")


def test_a_question_stopped_while_it_waits_is_not_charged(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with running(tmp_path / "curator", replace(SMALL, workers=1)) as server:
        with server.api(server.token("analyst")) as api:
            forms = [{"query": asked(gate, epsilon=e), "wait": 0} for e in ("0.1", "0.2")]
            jobs = [api.post("/datasets/patients/ask", json=form).json()["job"] for form in forms]
            eventually(gate.exists)
            api.delete(f"/jobs/{jobs[1]}")
            told = api.get(f"/jobs/{jobs[1]}").json()["error"]["message"]
            assert "Nothing was charged" in told
            (tmp_path / "gate.open").touch()
            eventually(lambda: api.get(f"/jobs/{jobs[0]}").json()["state"] == "done")
        assert kinds(server).count("charge") == 1


def test_a_worker_killed_before_its_task_is_replaced_and_nothing_is_lost(
    server: Running, analyst: httpx.Client, tmp_path: Path
) -> None:
    for place in range(3):
        query = asked(tmp_path / "g", "nothing", f"0.{place + 1}")
        done = analyst.post("/datasets/patients/ask", json={"query": query, "wait": 60})
        assert done.status_code == 200
        for process in workers(server):
            with suppress(ProcessLookupError):  # killed before, and not needed since
                os.kill(process, signal.SIGKILL)
    assert kinds(server).count("release") == 3


def test_a_worker_has_the_compiler_ready_when_it_starts() -> None:
    load_library()
    loaded = "from privod.data.kernels.ranges import settle; exit(len(settle.overloads))"
    context = multiprocessing.get_context("forkserver")
    forked = context.Process(target=exec, args=(loaded, {}))
    forked.start()
    forked.join(PATIENCE)
    assert forked.exitcode == 1


def test_a_process_that_looked_at_one_data_set_never_looks_at_another(tmp_path: Path) -> None:
    seen: list[int] = []
    with (
        running(tmp_path / "curator", replace(SMALL, workers=1)) as server,
        server.api(server.token("analyst")) as api,
    ):
        server.curator.register("others", ROWS, DOMAIN)
        server.curator.open_budget("others", AddRemove(), Loss("2"))
        for place, of in enumerate(["patients", "patients", "others", "patients"]):
            query = asked(tmp_path / "g", "nothing", f"0.{place + 1}")
            done = api.post(f"/datasets/{of}/ask", json={"query": query, "wait": 60})
            assert done.status_code == 200
            seen += workers(server)
    first, second, other, last = seen
    assert first == second
    assert len({first, other, last}) == 3


HOLDING = """
import numpy as np
from privod.server.jobs.worker import _limit_memory
held = np.ones(2**25)  # 256 MB, as of an earlier question
_limit_memory(2**27)
np.ones(2**23)  # 64 MB
try:
    np.ones(2**25)
except MemoryError:
    print("not more")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux alone")
def test_what_a_process_holds_already_is_not_taken_from_what_a_task_may_have() -> None:
    done = subprocess.run([sys.executable, "-c", HOLDING], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("not more\n", "")


@pytest.fixture
def wide() -> Domain:
    return Domain(tuple(Numeric(f"c{place}", 0, 1) for place in range(27)))


def test_column_sets_that_would_take_hours_are_refused_before_anything_is_charged(
    server: Running, analyst: httpx.Client, wide: Domain
) -> None:
    values = {name: [0.5, 0.6] for name in wide.names}
    server.curator.register("wide", values, wide, most_records=100_000)
    server.curator.open_budget("wide", AddRemove(), Loss("1"))
    query = OutlierSubspaces(radius_per_column=0.1, max_crowd=5, epsilon="1e-5", size=4)
    assert query._number_of_candidates(27) == 17_550
    for verb in ("ask", "price"):
        refused = analyst.post(f"/datasets/wide/{verb}", json={"query": query.to_json()})
        assert refused.status_code == 422
        assert refused.json()["error"]["kind"] == "too-much-work"
        told = refused.json()["error"]["message"]
        assert told.startswith("On 100,000 records, as many as its owner declared, this may take")
        assert "no question that may take more than 5 minutes (--answer-seconds). Nothing" in told
    assert [entry.kind for entry in server.curator.history("wide")].count("charge") == 0
    fewer = replace(query, size=1, epsilon="1", columns=("c0", "c1"))
    priced = analyst.post("/datasets/wide/price", json={"query": fewer.to_json()})
    assert 0 < priced.json()["about_seconds"] < SMALL.answer_seconds


def test_every_example_of_every_question_may_be_asked_of_a_server_as_it_comes(
    tmp_path: Path, wide: Domain
) -> None:
    with Curator.open(tmp_path) as curator:
        curator.register("wide", {name: [0.5] for name in wide.names}, wide)
        curator.register("patients", ROWS, DOMAIN)
        for of in ("wide", "patients"):
            for kind in QUERIES.values():
                for query in kind.examples(curator.dataset(of).domain):
                    check_work(curator, query, of, Limits(answer_bytes=8 * 2**30))
                    assert most_seconds(curator, query, of) > 0


def test_estimates_follow_what_was_declared_and_never_the_rows(
    tmp_path: Path, wide: Domain
) -> None:
    query = OutlierSubspaces(radius_per_column=0.1, max_crowd=5, epsilon="1")
    with Curator.open(tmp_path) as curator:
        for name, rows, declared in [("a", 1, 1000), ("b", 900, 1000), ("c", 1, 10**7)]:
            values = {column: [0.5] * rows for column in wide.names}
            curator.register(name, values, wide, most_records=declared)
        times = {name: most_seconds(curator, query, name) for name in "abc"}
        assert times["a"] == times["b"] < times["c"]
        check_work(curator, query, "b", Limits(answer_bytes=2**30))
        with pytest.raises(TooMuchWork, match=r"may take [0-9]+ days, .*Nothing was charged"):
            check_work(curator, query, "c", Limits(answer_bytes=2**50))


def test_a_question_that_may_need_more_memory_than_a_worker_may_take_is_refused(
    tmp_path: Path, wide: Domain
) -> None:
    query = OutlierSubspaces(radius_per_column=0.1, max_crowd=5, epsilon="1")
    with Curator.open(tmp_path) as curator:
        for name, rows in [("few", 1), ("more", 900)]:
            values = {column: [0.5] * rows for column in wide.names}
            curator.register(name, values, wide, most_records=100_000)
        needed = needed_bytes(query, wide, 100_000)
        for of in ("few", "more"):
            check_work(curator, query, of, Limits(answer_bytes=needed))
            with pytest.raises(TooMuchWork, match=r"of memory, .*--worker-memory.*Nothing was"):
                check_work(curator, query, of, Limits(answer_bytes=needed - 1))


def test_who_declares_nothing_may_ask_everything_on_a_machine_of_eight_gigabytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "machine_bytes", lambda: 8 * 2**30)
    monkeypatch.setattr(estimates, "available_threads", lambda: 8)
    limits = Limits(answer_bytes=machine.share_of_memory(2))
    with sample(tmp_path).curator as curator:
        domain = curator.dataset(DATASET).domain
        curator.register("more", hospital(), HOSPITAL)
        assert curator.size_class("more").most_records == 100_000
        for of, known in (("more", HOSPITAL), (DATASET, domain)):
            for query in QUERIES.values():
                for asked in query.examples(known):
                    check_work(curator, asked, of, limits)


def test_a_worker_of_one_gigabyte_counts_however_many_cores_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(estimates, "available_threads", lambda: 64)
    for query in Histogram.examples(HOSPITAL):
        assert needed_bytes(query, HOSPITAL, 10**6) < machine.LEAST_BYTES


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "1 second"),
        (1.2, "2 seconds"),
        (120, "120 seconds"),
        (121, "3 minutes"),
        (12_500, "4 hours"),
        (10**6, "12 days"),
    ],
)
def test_a_long_time_is_told_in_few_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_workers_share_what_their_machine_or_container_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = machine.machine_bytes()
    monkeypatch.setattr(control_groups, "GROUPS", tmp_path)
    monkeypatch.setattr(control_groups, "OWN_GROUP", tmp_path / "own")
    own = tmp_path / "system.slice" / "privod.service"
    own.mkdir(parents=True)
    (tmp_path / "own").write_text("0::/system.slice/privod.service\n")
    (own / "memory.max").write_text("max\n")
    assert machine.machine_bytes() >= whole
    (own.parent / "memory.max").write_text(f"{3 * 2**30}\n")
    assert machine.machine_bytes() == 3 * 2**30
    assert machine.share_of_memory(1) == 2**30
    assert machine.share_of_memory(workers=7) == machine.LEAST_BYTES


def test_when_an_answer_is_ended_follows_from_the_declared_size_and_suffices_for_it(
    tmp_path: Path, wide: Domain
) -> None:
    query = OutlierSubspaces(radius_per_column=0.1, max_crowd=5, epsilon="1")
    limits = Limits(answer_bytes=2**20)
    with Curator.open(tmp_path) as curator:
        for name, rows, declared in [("a", 1, 1000), ("b", 900, 1000), ("c", 1, 10**7)]:
            values = {column: [0.5] * rows for column in wide.names}
            curator.register(name, values, wide, most_records=declared)
        most = {name: allowed(curator, query, name, limits) for name in "abc"}
        assert most["a"] == most["b"]
        assert most["a"].bytes == most_bytes(query, wide, 1000)
        assert most["c"].bytes == most_bytes(query, wide, 10**7) > 8 * 10**7 * len(wide.names)
        generous = replace(limits, answer_bytes=2**50)
        assert allowed(curator, query, "a", generous).bytes == 2**50


def test_an_answer_that_grows_with_the_table_may_say_as_much_as_the_largest_one_makes(
    tmp_path: Path, wide: Domain
) -> None:
    query = GridKnn(columns=wide.names[:3], epsilon=9, cells_per_axis=1000, drop_below=1)
    with Curator.open(tmp_path) as curator:
        for name, declared in [("few", 1000), ("many", 10**7)]:
            values = {column: [0.5] for column in wide.names}
            curator.register(name, values, wide, most_records=declared)
        said = {of: allowed(curator, query, of, Limits()).result_bytes for of in ("few", "many")}
        assert said["many"] > said["few"] >= Limits().result_bytes
        longest = len("1000,") * 3 + len("[],") + len(str(10**7)) + 1  # a cell, and its count
        assert said["many"] > 10**7 * longest


def test_one_picture_is_drawn_once_however_many_ask_and_others_are_served_meanwhile(
    server: Running, analyst: httpx.Client, tmp_path: Path
) -> None:
    query = asked(tmp_path / "g", "nothing")
    analyst.post("/datasets/patients/ask", json={"query": query, "wait": 60})
    key = analyst.get("/datasets/patients/answers").json()[0]["key"]
    picture = f"/datasets/patients/answers/{key}/svg"
    with ThreadPoolExecutor(60) as pool:
        drawn = list(pool.map(lambda _: analyst.get(picture), range(60)))
    assert {response.status_code for response in drawn} == {200}
    assert (tmp_path / "g.drawn").read_text() == "drawn\n"


def test_a_stored_answer_is_encoded_once_however_many_look_at_it(
    server: Running, analyst: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = asked(tmp_path / "g", "nothing")
    analyst.post("/datasets/patients/ask", json={"query": query, "wait": 60})
    key = analyst.get("/datasets/patients/answers").json()[0]["key"]
    tasks: list[dict[str, Any]] = []
    submit = Writers.submit

    def counted(self: Writers, asker: str, task: dict[str, Any], seconds: float) -> Any:
        tasks.append(task)
        return submit(self, asker, task, seconds)

    monkeypatch.setattr(Writers, "submit", counted)
    here = f"/datasets/patients/answers/{key}/csv"
    with ThreadPoolExecutor(20) as pool:
        shown = list(pool.map(lambda _: analyst.get(here).text, range(20)))
    assert [task["form"] for task in tasks] == ["csv"]
    assert set(shown) == {shown[0]}


def test_a_picture_that_takes_too_long_is_given_up_and_the_answer_is_there(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    (tmp_path / "gate.open").touch()
    with (
        running(tmp_path / "curator", replace(SMALL, picture_seconds=1)) as server,
        server.api(server.token("analyst")) as api,
    ):
        asked_for = api.post("/datasets/patients/ask", json={"query": asked(gate), "wait": 60})
        here = f"/datasets/patients/answers/{asked_for.json()['key']}"
        refused = api.get(f"{here}/svg")
        assert refused.status_code == 503
        assert "Take the answer as JSON" in refused.json()["error"]["message"]
        assert json.loads(api.get(here).text)["sentence"]
        server.site.answers._limits = SMALL
        assert api.get(f"{here}/csv").text.startswith("count,swollen")


def test_a_picture_on_a_busy_machine_is_drawn_while_others_come_back_for_it(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    busy = replace(SMALL, picture_seconds=1, picture_wait_seconds=0.01)
    with (
        running(tmp_path / "curator", busy) as server,
        server.api(server.token("analyst")) as api,
        server.browser(server.token("analyst")) as browser,
    ):
        query = asked(gate, "doze")
        key = api.post("/datasets/patients/ask", json={"query": query, "wait": 60}).json()["key"]
        for _ in range(3):
            told = api.get(f"/datasets/patients/answers/{key}/svg")
            assert told.status_code == 503
            assert told.headers["retry-after"] == "5"
            assert "still being drawn" in told.json()["error"]["message"]
        page = browser.get(f"/data/patients/answers/{key}.svg")
        assert page.headers["refresh"] == "5"
        time.sleep(2)  # longer than it may take of a processor's time, of which it took none
        (tmp_path / "gate.open").touch()
        eventually(lambda: api.get(f"/datasets/patients/answers/{key}/svg").status_code == 200)
        assert browser.get(f"/data/patients/answers/{key}.svg").text.startswith("<?xml")
    assert (tmp_path / "gate.drawn").read_text() == "drawn\n", "once, however many came"


def test_an_answer_of_more_numbers_than_is_written_is_refused_before_the_charge(
    tmp_path: Path,
) -> None:
    large = {"name": "histogram", "columns": ["age"], "epsilon": "0.01", "bins": 2000}
    few = replace(GENEROUS, answer_numbers=1000)
    with running(tmp_path, few) as server, server.api(server.token("analyst")) as analyst:
        for verb in ("price", "ask"):
            refused = analyst.post(f"/datasets/patients/{verb}", json={"query": large})
            assert refused.status_code == 422, refused.text
            assert "numbers" in refused.json()["error"]["message"]
        assert server.curator.budget("patients")[0].spent.epsilon == 0
