"""A connection is one of few, its head comes soon and is small, or it is closed."""

from __future__ import annotations

# slow: left out by `make quick`
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privod.server import serve
from privod.server.http import connections
from privod.server.limits import Limits
from privod.server.serve import Listening
from tests.patience import PATIENCE, eventually
from tests.running_server import GENEROUS, Running, running


def connected(server: Running, of: str = "127.0.0.1") -> socket.socket:
    host, _, port = server.url.partition("//")[2].rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE, source_address=(of, 0))


def served(server: Running) -> bool:
    """Whether a new connection is served."""
    with connected(server) as connection:
        return answered(connection)


def head(path: str = "/api/v1/health") -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n".encode()


def answered(connection: socket.socket, lines: bytes = b"") -> bool:
    """Whether a connection is served; if it is not, it was closed."""
    text = b""
    with suppress(ConnectionError):
        connection.sendall(head() + lines + b"\r\n")
        while not text.endswith(b"}") and (more := connection.recv(10_000)):
            text += more
    return b"200 OK" in text


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Close nothing for its age, but where a test wants that."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", PATIENCE)
    monkeypatch.setattr(serve, "KEEP_ALIVE_SECONDS", PATIENCE)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("connections")) as server:
        yield server


@pytest.mark.parametrize(
    ("before", "sent"),
    [(b"", b""), (b"", b"G"), (b"", head()), (head() + b"\r\n", b"G"), (head() + b"\r\n", head())],
)
def test_a_connection_whose_head_does_not_come_is_closed(
    server: Running, monkeypatch: pytest.MonkeyPatch, before: bytes, sent: bytes
) -> None:
    with ExitStack() as stack:
        if before:
            connection = stack.enter_context(connected(server))
            assert answered(connection)
            monkeypatch.setattr(connections, "HEAD_SECONDS", 0.1)
        else:
            monkeypatch.setattr(connections, "HEAD_SECONDS", 0.1)
            connection = stack.enter_context(connected(server))
        with suppress(ConnectionError):  # closed before it was sent, or with it unread
            connection.sendall(sent)
            while connection.recv(10_000):
                pass


def test_a_head_that_grows_without_end_is_cut_off_and_a_large_one_is_served(
    server: Running,
) -> None:
    line = b"x-more: " + b"x" * 1000 + b"\r\n"
    fit = (connections.HEAD_BYTES - len(head())) // len(line)
    with connected(server) as connection:
        assert answered(connection, (fit - 1) * line)
    with connected(server) as connection, suppress(ConnectionError):
        connection.sendall(head())
        for _ in range(fit + 1):
            connection.sendall(line)
        while connection.recv(10_000):  # waits for more lines, were it not cut off
            pass


def test_nobody_hurries_a_request_whose_head_is_there(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers: list[Any] = []
    complete = connections.PromptProtocol.on_headers_complete

    def noted(protocol: connections.PromptProtocol) -> None:
        timers.append(protocol._patience)
        complete(protocol)

    monkeypatch.setattr(connections.PromptProtocol, "on_headers_complete", noted)
    with connected(server) as connection:
        assert answered(connection)
        assert answered(connection)
    assert len(timers) == 2
    assert all(timer.cancelled() for timer in timers)


@pytest.mark.parametrize("is_read", [True, False])
def test_a_connection_whose_answer_is_not_read_is_closed(
    server: Running, monkeypatch: pytest.MonkeyPatch, is_read: bool
) -> None:
    made: list[connections.PromptProtocol] = []
    begin = connections.PromptProtocol.connection_made

    def noted(protocol: connections.PromptProtocol, transport: Any) -> None:
        made.append(protocol)
        begin(protocol, transport)

    monkeypatch.setattr(connections.PromptProtocol, "connection_made", noted)
    monkeypatch.setattr(connections, "READ_SECONDS", PATIENCE if is_read else 0.1)
    with connected(server) as connection:
        assert answered(connection)
        (protocol,) = made
        protocol.loop.call_soon_threadsafe(protocol.pause_writing)  # as if the buffer were full
        if is_read:
            protocol.loop.call_soon_threadsafe(protocol.resume_writing)
            assert answered(connection)
            assert protocol._reading is None
        else:
            with suppress(ConnectionError):
                assert connection.recv(1) == b""


def test_no_one_who_asks_may_hold_half_of_what_there_is() -> None:
    limits = Limits()
    in_all = serve.IDLE_CONNECTIONS + limits.at_once + limits.strangers_at_once
    assert 3 * limits.connections_each < in_all
    assert 3 * limits.at_once_each < limits.at_once
    assert 3 * limits.arriving_each < limits.arriving
    assert 3 * limits.strangers_at_once_each <= limits.strangers_at_once


def test_an_address_holds_so_many_connections_and_keeps_no_other_out(tmp_path: Path) -> None:
    few = replace(GENEROUS, connections_each=3)
    with running(tmp_path, few) as server, ExitStack() as open_ones:
        held = [open_ones.enter_context(connected(server)) for _ in range(3)]
        assert all(map(answered, held))
        for _ in range(5):
            with connected(server) as one_too_many:
                assert not answered(one_too_many)
        with connected(server, of="127.0.0.2") as another:
            assert answered(another)
        assert all(map(answered, held))


def test_a_connection_that_ends_makes_room_for_the_next(tmp_path: Path) -> None:
    with running(tmp_path, replace(GENEROUS, connections_each=1)) as server:
        for _ in range(3):
            eventually(lambda: served(server))  # it hears of the end of the last in its own time


def test_the_proxy_holds_as_many_connections_as_its_visitors_need(tmp_path: Path) -> None:
    behind = Listening(port=0, proxy="127.0.0.1")
    few = replace(GENEROUS, connections_each=3)
    with running(tmp_path, few, behind) as server, ExitStack() as open_ones:
        held = [open_ones.enter_context(connected(server)) for _ in range(10)]
        assert all(map(answered, held))
