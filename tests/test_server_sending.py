"""Stored answers are sent in pieces, whole or in part, and one token's work delays no other's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from privod.errors import LimitReached
from privod.ledger.store import ReleaseText
from privod.query.query import Release
from privod.server import limits as limits_module
from privod.server.authentication import token_hash
from privod.server.http import streaming
from privod.server.jobs import writers as writers_module
from privod.server.jobs.encoding import SMALL_BYTES
from privod.server.jobs.writers import Writers
from privod.server.limits import Limits, Pace
from tests.patience import PATIENCE, eventually
from tests.running_server import GENEROUS, Running, running

SMALL = {"name": "histogram", "columns": ["age"], "bins": 4, "epsilon": "0.01"}
FIRST = {"range": "bytes=0-9"}
LARGE = {"name": "histogram", "columns": ["age"], "bins": 50_000, "epsilon": "0.01"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("sending")) as started:
        yield started


@pytest.fixture(scope="module")
def analyst(server: Running) -> Iterator[httpx.Client]:
    with server.api(server.token("analyst")) as api:
        yield api


@pytest.fixture(scope="module", params=["small", "large"])
def place(analyst: httpx.Client, request: pytest.FixtureRequest) -> str:
    query = SMALL if request.param == "small" else LARGE
    asked = analyst.post("/datasets/patients/ask", json={"query": query, "wait": 60})
    assert asked.status_code == 200, asked.text
    assert (len(asked.content) > SMALL_BYTES) == (request.param == "large")
    return f"/datasets/patients/answers/{asked.json()['key']}"


@pytest.mark.parametrize("form", ["", "/csv", "/svg"])
def test_ranges_add_up_to_the_whole(analyst: httpx.Client, place: str, form: str) -> None:
    whole = analyst.get(place + form)
    size, tag = len(whole.content), whole.headers["etag"]
    parts = []
    for first, last in [(0, 9), (10, size // 2), (size // 2 + 1, size + 99)]:
        part = analyst.get(
            place + form, headers={"range": f"bytes={first}-{last}", "if-range": tag}
        )
        assert part.status_code == 206
        assert part.headers["content-range"] == f"bytes {first}-{min(last, size - 1)}/{size}"
        parts.append(part.content)
    assert b"".join(parts) == whole.content
    end = analyst.get(place + form, headers={"range": "bytes=-7"})
    assert (end.status_code, end.content) == (206, whole.content[-7:])


def test_a_range_beyond_the_end_is_refused_with_the_size(analyst: httpx.Client, place: str) -> None:
    size = len(analyst.get(place).content)
    beyond = analyst.get(place, headers={"range": f"bytes={size}-"})
    assert (beyond.status_code, beyond.content) == (416, b"")
    assert beyond.headers["content-range"] == f"bytes */{size}"


def test_what_has_not_changed_is_not_sent_again(analyst: httpx.Client, place: str) -> None:
    tag = analyst.get(place).headers["etag"]
    again = analyst.get(place, headers={"if-none-match": f'"other", {tag}'})
    assert (again.status_code, again.content) == (304, b"")
    other = analyst.get(place, headers={"if-none-match": '"other"'})
    assert other.status_code == 200
    changed = analyst.get(place, headers={"range": "bytes=0-9", "if-range": '"other"'})
    assert changed.status_code == 200


def test_headers_say_who_may_keep_it_and_where_the_ledger_ends(
    analyst: httpx.Client, place: str
) -> None:
    found = analyst.get(place)
    assert found.headers["cache-control"] == "private, no-cache"
    assert "last-modified" not in found.headers
    number, _, digest = found.headers["privod-ledger-head"].partition(":")
    assert int(number) > 0
    assert len(digest) == 64


def test_a_revoked_token_gets_no_part_of_an_answer(server: Running, place: str) -> None:
    token = server.token("analyst")
    with server.api(token) as api:
        tag = api.get(place).headers["etag"]
        server.curator.store.revoke_token(token_hash(token))
        for headers in ({}, {"range": "bytes=0-9"}, {"if-none-match": tag}):
            assert api.get(place, headers=headers).status_code == 401


def test_a_download_ends_when_its_token_is_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "PIECE_BYTES", 4096)
    monkeypatch.setattr(streaming, "VALID_SECONDS", 0.0)
    limits = replace(GENEROUS, sent_bytes=40_000)  # seconds, in which it is revoked
    with running(tmp_path, limits) as server:
        token = server.token("analyst")
        with server.api(token) as api:
            asked = api.post("/datasets/patients/ask", json={"query": LARGE, "wait": 0})
            job = asked.json()["job"]
            eventually(lambda: api.get(f"/jobs/{job}", headers=FIRST).status_code == 206)
            key = server.site.answered("patients")[0][0]
            with api.stream("GET", f"/datasets/patients/answers/{key}") as answer:
                assert answer.status_code == 200
                size, pieces = int(answer.headers["content-length"]), answer.iter_raw()
                got = len(next(pieces))
                server.curator.store.revoke_token(token_hash(token))
                with pytest.raises(httpx.RemoteProtocolError):
                    got += sum(map(len, pieces))
        assert 0 < got < size


def test_a_token_has_so_many_bytes_a_second_however_it_takes_them() -> None:
    now = 0.0
    pace = Pace(1000, lambda: now)
    assert [pace.delay("a", 500) for _ in range(4)] == [0.0, 0.5, 1.0, 1.5]
    assert pace.delay("b", 500) == 0.0
    now = 1.75
    assert [pace.delay("a", 500), pace.delay("a", 500)] == [0.25, 0.75]
    now = 100.0
    assert pace.delay("a", 500) == 0.0
    for place in range(limits_module.MOST_BUCKETS + 10):
        now += 1.0
        pace.delay(f"visitor {place}", 1)
    assert len(pace._free) <= limits_module.MOST_BUCKETS + 1


def test_a_folder_that_was_emptied_is_filled_again(
    server: Running, analyst: httpx.Client, place: str
) -> None:
    before = analyst.get(place).content
    for path in Path(server.curator.directory, "encoded").glob("*"):
        path.unlink()
    assert analyst.get(place).content == before


class Slow:
    """A worker whose tasks wait until they are let go."""

    def __init__(self, *_: int) -> None:
        self.begun: list[str] = []
        self.go = threading.Semaphore(0)
        all_workers.append(self)

    def run(self, task: dict[str, Any], _seconds: float) -> bytes:
        self.begun.append(task["of"])
        assert self.go.acquire(timeout=PATIENCE)
        return b""

    def end(self) -> None:
        """There is no process."""


all_workers: list[Slow] = []


def test_a_token_holds_one_worker_at_most_and_its_line_has_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writers_module, "Worker", Slow)
    all_workers.clear()
    writers = Writers(Limits(writers=2, waiting_writes_per_token=3))
    mine = [writers.submit("greedy", {"of": "greedy"}, 9.0) for _ in range(3)]
    with pytest.raises(LimitReached):
        writers.submit("greedy", {"of": "greedy"}, 9.0)
    eventually(lambda: sum(len(one.begun) for one in all_workers) == 1)
    other = writers.submit("honest", {"of": "honest"}, 9.0)
    eventually(lambda: sum(len(one.begun) for one in all_workers) == 2)
    assert sorted(name for one in all_workers for name in one.begun) == ["greedy", "honest"]
    for one in all_workers:
        for _ in range(4):
            one.go.release()
    for future in (*mine, other):
        assert future.result(timeout=PATIENCE) == b""
    writers.close()


def test_a_new_answer_is_neither_read_nor_written_in_the_serving_process(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its worker to the database, and from an encoding worker to who asked."""

    def refuse(*_: object) -> Any:
        raise AssertionError("a release was read or written where everybody is served")

    for kind, name in ((ReleaseText, "read"), (Release, "to_json"), (Release, "sentence")):
        monkeypatch.setattr(kind, name, refuse)
    query = {"name": "histogram", "columns": ["age", "sex"], "epsilon": "0.0421"}
    with server.api(server.token("analyst")) as api:
        asked = api.post("/datasets/patients/ask", json={"query": query, "wait": 60})
        assert asked.status_code == 200
        assert len(asked.json()["charges"]) == 1
        again = api.post("/datasets/patients/ask", json={"query": query, "wait": 60})
        assert again.json()["release"] == asked.json()["release"]
        price = api.post("/datasets/patients/price", json={"query": query})
        assert price.json()["already_answered"]
