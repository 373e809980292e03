"""Too large, too often, too much at once: refused in the one error shape."""

from __future__ import annotations

# slow: left out by `make quick`
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from privod.curator import BudgetState, Curator
from privod.errors import LimitReached
from privod.server import limits as limits_module
from privod.server.http import middleware
from privod.server.http.connections import Connections
from privod.server.limits import Limits, Rate, RateLimiter, Slots, network_of
from tests.patience import PATIENCE, eventually
from tests.running_server import GENEROUS, Running, running


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("::ffff:192.0.2.1", "192.0.2.1", True),  # as a socket for both kinds tells it
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("no:address", "no:other", False),
    ],
)
def test_an_ipv6_network_counts_as_one_address(one: str, other: str, same: bool) -> None:
    assert (network_of(one) == network_of(other)) == same
    counted = Connections(1, shared=())
    assert counted.admit(one)
    assert counted.admit(other) != same
    counted.dismiss(one)
    assert counted.admit(one)


def test_a_bucket_empties_and_fills_again() -> None:
    clock = Clock()
    rates = RateLimiter(Rate(2, 3), clock)
    for _ in range(3):
        rates.take("ada")
    with pytest.raises(LimitReached):
        rates.take("ada")
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
    rates = RateLimiter(Rate(1, 1), Clock())
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
        assert [
            httpx.get(f"{server.url}/api/v1/health", timeout=PATIENCE).status_code for _ in range(4)
        ] == [
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

    def slow(self: Curator, of: str, *, token: str | None = None) -> tuple[BudgetState, ...]:
        inside.release()
        go_on.wait(PATIENCE)
        return budget(self, of, token=token)

    monkeypatch.setattr(Curator, "budget", slow)
    with (
        running(tmp_path, replace(GENEROUS, at_once=3)) as server,
        server.api(server.token("owner")) as api,
    ):
        path = "/datasets/patients/budget"
        with ThreadPoolExecutor(3) as pool:
            held = [pool.submit(api.get, path) for _ in range(3)]
            assert all(inside.acquire(timeout=PATIENCE) for _ in held)
            refused = api.get("/me")
            go_on.set()
            assert refused.status_code == 429
            assert refused.json()["error"]["kind"] == "limit-reached"
            assert [waiting.result().status_code for waiting in held] == [200] * 3
        assert api.get("/me").status_code == 200


def begun(server: Running, path: str, *headers: str) -> socket.socket:
    """A connection that says it sends 100 bytes and sends none."""
    _, _, address = server.url.partition("//")
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=PATIENCE)
    lines = [f"POST {path} HTTP/1.1", f"host: {address}", "content-length: 100", *headers, "", ""]
    connection.sendall("\r\n".join(lines).encode())
    return connection


def settled(slots: Slots, count: int) -> None:
    """Wait until so many slots are taken."""
    eventually(lambda: slots._taken.total() == count)


def test_a_body_that_does_not_arrive_is_not_waited_for(tmp_path: Path) -> None:
    with running(tmp_path, replace(GENEROUS, body_seconds=0.2)) as server:
        for path, header in [
            ("/api/v1/verify", f"authorization: Bearer {server.token('owner')}"),
            ("/api/v1/verify", "accept: */*"),
            ("/sign-in", "accept: */*"),
        ]:
            with begun(server, path, header) as connection:
                connection.sendall(b"x")
                assert connection.recv(12) == b"HTTP/1.1 408"


def test_bodies_that_never_come_keep_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Slots] = []

    def keep(most: int, most_each: int) -> Slots:
        kept.append(Slots(most, most_each))
        return kept[-1]

    monkeypatch.setattr(middleware, "Slots", keep)
    limits = replace(GENEROUS, at_once=3, at_once_each=2, arriving=8, arriving_each=3)
    limits = replace(limits, strangers_at_once=4, strangers_at_once_each=2)
    with running(tmp_path, limits) as server, ExitStack() as stack:
        hostile = [f"authorization: Bearer {server.token('analyst')}" for _ in range(2)]
        api = stack.enter_context(server.api(server.token("owner")))
        for _ in range(6):
            stack.enter_context(begun(server, "/sign-in"))
            for header in hostile:
                stack.enter_context(begun(server, "/api/v1/verify", header))
        arriving, served, strangers_arriving, _ = kept
        settled(arriving, 6)  # three of each token: the rest is refused at once
        settled(strangers_arriving, 2)
        settled(served, 0)
        assert httpx.get(f"{server.url}/sign-in", timeout=PATIENCE).status_code == 200
        assert api.get("/me").status_code == 200
        assert api.post("/verify", json={}).status_code == 200


def test_slots_are_counted_for_each_and_in_all() -> None:
    slots = Slots(3, 2)
    with ExitStack() as stack:
        for who in ("ada", "ada", "bob"):
            stack.enter_context(slots.taken(who))
        for who in ("ada", "cyd"):
            with pytest.raises(LimitReached), slots.taken(who):
                pass
    with slots.taken("ada"), slots.taken("ada"), pytest.raises(LimitReached):
        stack.enter_context(slots.taken("ada"))
    assert not slots._taken


def chunks(size: int) -> Iterator[bytes]:
    """A body that does not say how long it is."""
    for _ in range(size // 1000):
        yield b"x" * 1000


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that takes little: bodies of 20 kB, files of 100 kB."""
    limits = replace(GENEROUS, body_bytes=20_000, upload_bytes=100_000)
    with running(tmp_path_factory.mktemp("narrow"), limits) as server:
        yield server


@pytest.mark.parametrize("path", ["/api/v1/datasets/patients/ask", "/sign-in", "/nowhere"])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_body_that_is_too_large_is_refused(narrow: Running, path: str, streamed: bool) -> None:
    headers = {"authorization": f"Bearer {narrow.token('analyst')}"}
    body = chunks(30_000) if streamed else b"x" * 30_000
    response = httpx.post(narrow.url + path, content=body, headers=headers, timeout=PATIENCE)
    assert response.status_code == 413
    if path.startswith("/api/"):
        assert response.json()["error"]["kind"] == "too-large"


@pytest.mark.parametrize("streamed", [False, True])
def test_an_upload_that_is_too_large_is_refused(narrow: Running, streamed: bool) -> None:
    def body() -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="r.csv"\r\n\r\n'
        yield from chunks(200_000)

    before = narrow.curator.datasets()
    headers = {"content-type": "multipart/form-data; boundary=b"}
    with narrow.api(narrow.token("owner")) as api:
        sent = body() if streamed else b"".join(body())
        response = api.post("/datasets", content=sent, headers=headers)
    assert response.status_code == 413
    assert response.json()["error"]["kind"] == "too-large"
    assert narrow.curator.datasets() == before


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("path", ["/verify", "/tokens", "/datasets/patients/budgets", "/nowhere"])
def test_an_owner_may_send_much_only_where_files_are_sent(
    narrow: Running, path: str, streamed: bool
) -> None:
    with narrow.api(narrow.token("owner")) as api:
        body = chunks(30_000) if streamed else b"x" * 30_000
        assert api.post(path, content=body).status_code == 413


def test_an_owner_may_send_what_others_may_not(narrow: Running) -> None:
    rows = b"age,sex\n" + b"40,female\n" * 4000
    domain = '{"columns": [{"name": "age", "low": 0, "high": 120}]}'
    form = {"name": "large", "domain": domain}
    for role, status in [("analyst", 413), ("owner", 200)]:
        with narrow.api(narrow.token(role)) as api:
            sent = api.post("/datasets", data=form, files={"file": ("rows.csv", rows)})
            assert sent.status_code == status
