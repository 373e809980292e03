"""Too large, too often, too much at once: refused in the one error shape."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from privod.curator import BookState, Curator
from privod.errors import AnswerFailed, BudgetExceeded, LimitReached, NotFound
from privod.progress import track
from privod.server import limits as limits_module
from privod.server.jobs import BEAT_RATIO, FIRST_BEAT, Jobs, next_beat
from privod.server.limits import Limits, Rate, Rates
from tests.running_server import running


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_empties_and_fills_again() -> None:
    clock = Clock()
    rates = Rates(Rate(2, 3), clock)
    for _ in range(3):
        rates.take("ada")
    with pytest.raises(LimitReached):
        rates.take("ada")
    with pytest.raises(LimitReached):
        rates.check("ada")
    rates.take("bob")
    clock.now = 0.5
    rates.take("ada")
    with pytest.raises(LimitReached):
        rates.take("ada")
    clock.now = 1000
    for _ in range(3):
        rates.take("ada")
    with pytest.raises(LimitReached):
        rates.take("ada")


def test_buckets_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_module, "MOST_BUCKETS", 10)
    rates = Rates(Rate(1, 1), Clock())
    for visitor in range(100):
        rates.take(str(visitor))
    assert len(rates._buckets) == 10


def test_a_token_that_asks_too_often_waits(tmp_path: Path) -> None:
    limits = Limits(requests=Rate(0.001, 3), strangers=Rate(0.001, 2))
    with running(tmp_path, limits) as server:
        with server.api(server.token("analyst")) as api:
            codes = [api.get("/me").status_code for _ in range(5)]
            refused = api.get("/me")
        assert codes == [200, 200, 200, 429, 429]
        assert refused.json()["error"]["kind"] == "limit-reached"
        assert refused.headers["retry-after"] == "5"
        with server.api(server.token("analyst")) as api:
            assert api.get("/me").status_code == 200
        assert [httpx.get(f"{server.url}/api/v1/health").status_code for _ in range(4)] == [
            200,
            200,
            429,
            429,
        ]


def test_too_many_requests_at_once_are_refused_in_the_one_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = Curator.budget
    inside, go_on = threading.Semaphore(0), threading.Event()

    def slow(self: Curator, of: str) -> tuple[BookState, ...]:
        inside.release()
        go_on.wait(20)
        return budget(self, of)

    monkeypatch.setattr(Curator, "budget", slow)
    with running(tmp_path, Limits(at_once=3)) as server, server.api(server.token("owner")) as api:
        path = "/datasets/patients/budget"
        with ThreadPoolExecutor(3) as pool:
            held = [pool.submit(api.get, path) for _ in range(3)]
            assert all(inside.acquire(timeout=20) for _ in held)
            refused = api.get("/me")
            go_on.set()
            assert refused.status_code == 429
            assert refused.json()["error"]["kind"] == "limit-reached"
            assert [waiting.result().status_code for waiting in held] == [200] * 3
        assert api.get("/me").status_code == 200


def chunks(size: int) -> Iterator[bytes]:
    """A body that does not say how long it is."""
    for _ in range(size // 1000):
        yield b"x" * 1000


@pytest.mark.parametrize("path", ["/api/v1/datasets/patients/ask", "/sign-in", "/nowhere"])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_body_that_is_too_large_is_refused(tmp_path: Path, path: str, streamed: bool) -> None:
    with running(tmp_path, Limits(body_bytes=20_000)) as server:
        headers = {"authorization": f"Bearer {server.token('analyst')}"}
        body = chunks(30_000) if streamed else b"x" * 30_000
        response = httpx.post(server.url + path, content=body, headers=headers)
        assert response.status_code == 413
        if path.startswith("/api/"):
            assert response.json()["error"]["kind"] == "too-large"


@pytest.mark.parametrize("streamed", [False, True])
def test_an_upload_that_is_too_large_is_refused(tmp_path: Path, streamed: bool) -> None:
    def body() -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="r.csv"\r\n\r\n'
        yield from chunks(200_000)

    with running(tmp_path, Limits(upload_bytes=100_000)) as server:
        headers = {"content-type": "multipart/form-data; boundary=b"}
        headers["authorization"] = f"Bearer {server.token('owner')}"
        sent = body() if streamed else b"".join(body())
        response = httpx.post(f"{server.url}/api/v1/datasets", content=sent, headers=headers)
        assert response.status_code == 413
        assert response.json()["error"]["kind"] == "too-large"
        assert len(server.curator.datasets()) == 1


def test_an_owner_may_send_what_others_may_not(tmp_path: Path) -> None:
    limits = Limits(body_bytes=1000, upload_bytes=100_000)
    rows = b"age,sex\n" + b"40,female\n" * 2000
    domain = '{"columns": [{"name": "age", "low": 0, "high": 120}]}'
    with running(tmp_path, limits) as server:
        form = {"name": "large", "domain": domain}
        for role, status in [("analyst", 413), ("owner", 200)]:
            with server.api(server.token(role)) as api:
                sent = api.post("/datasets", data=form, files={"file": ("rows.csv", rows)})
                assert sent.status_code == status


def test_beats_grow_by_a_fixed_factor() -> None:
    assert next_beat(0) == next_beat(FIRST_BEAT) == FIRST_BEAT
    beat = FIRST_BEAT
    for _ in range(40):
        assert next_beat(beat) == pytest.approx(beat)
        beat = next_beat(beat * 1.0001)
    assert beat == pytest.approx(FIRST_BEAT * BEAT_RATIO**40)


def napping(seconds: float) -> Callable[[], int]:
    """Work that takes so long."""

    def work() -> int:
        time.sleep(seconds)
        return 1

    return work


def test_two_answers_that_take_differently_long_are_seen_at_the_same_beat() -> None:
    seen = []
    jobs: Jobs[int] = Jobs(Limits(workers=2))
    for nap in (0.001, 0.1):
        job = jobs.start(napping(nap), asker="a", of="d", question="q")
        assert job.state() == "waiting"
        while job.state() != "done":
            time.sleep(0.002)
        seen.append(time.monotonic() - job.started)
        assert job.result() == 1
    jobs.close()
    assert all(when >= FIRST_BEAT for when in seen)
    assert abs(seen[0] - seen[1]) < 0.08  # less than the naps differ


def test_progress_is_told_in_tenths_and_only_at_beats() -> None:
    def work() -> str:
        for _ in track(range(100), "secret label"):
            time.sleep(0.012)
        return "answer"

    jobs: Jobs[str] = Jobs(Limits())
    job = jobs.start(work, asker="a", of="d", question="q")
    told: list[tuple[float, int]] = []
    while job.state() != "done":
        told.append((time.monotonic() - job.started, job.tenths()))
        time.sleep(0.005)
    changes = [when for (_, a), (when, b) in pairwise(told) if a != b]
    beats = [FIRST_BEAT * BEAT_RATIO**k for k in range(40)]
    assert changes
    assert all(min(abs(when - beat) for beat in beats) < 0.05 for when in changes)
    assert [tenths for _, tenths in told] == sorted(tenths for _, tenths in told)
    assert job.tenths() == 10
    jobs.close()


def test_what_fails_unexpectedly_says_nothing_of_why() -> None:
    def work() -> None:
        raise ValueError("row 7 says canary")

    jobs: Jobs[None] = Jobs(Limits())
    job = jobs.start(work, asker="a", of="d", question="q")
    while job.state() != "failed":
        time.sleep(0.01)
    with pytest.raises(AnswerFailed) as failed:
        job.result()
    assert "canary" not in str(failed.value)
    assert failed.value.__cause__ is None
    assert failed.value.__context__ is None
    jobs.close()


def test_an_expected_error_comes_through() -> None:
    def work() -> None:
        raise BudgetExceeded("too much")

    jobs: Jobs[None] = Jobs(Limits())
    job = jobs.start(work, asker="a", of="d", question="q")
    while job.state() != "failed":
        time.sleep(0.01)
    with pytest.raises(BudgetExceeded, match="too much"):
        job.result()
    jobs.close()


def test_too_many_jobs_are_refused_for_one_token_and_in_all() -> None:
    limits = Limits(workers=1, waiting_jobs=3, waiting_jobs_per_token=2)
    jobs: Jobs[None] = Jobs(limits)
    for asker in ("ada", "ada"):
        jobs.start(lambda: time.sleep(0.2), asker=asker, of="d", question="q")
    with pytest.raises(LimitReached, match="A token may have 2"):
        jobs.start(lambda: None, asker="ada", of="d", question="q")
    jobs.start(lambda: None, asker="bob", of="d", question="q")
    with pytest.raises(LimitReached, match="Too many answers"):
        jobs.start(lambda: None, asker="cyd", of="d", question="q")
    jobs.close()


def test_a_job_is_found_by_its_asker_only() -> None:
    jobs: Jobs[int] = Jobs(Limits())
    job = jobs.start(lambda: 1, asker="ada", of="d", question="q")
    assert jobs.find(job.id, "ada") is job
    for job_id, asker in [(job.id, "bob"), ("unknown", "ada")]:
        with pytest.raises(NotFound):
            jobs.find(job_id, asker)
    jobs.close()
