"""A connection is one of few, its head comes soon and is small, or it is closed."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from privod.server.http import connections
from privod.server.serve import Listening
from tests.running_server import GENEROUS, Running, running


def connected(server: Running, of: str = "127.0.0.1") -> socket.socket:
    host, _, port = server.url.partition("//")[2].rpartition(":")
    return socket.create_connection((host, int(port)), timeout=20, source_address=(of, 0))


def head(path: str = "/api/v1/health") -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n".encode()


@pytest.mark.parametrize(
    ("before", "sent"),
    [(b"", b""), (b"", b"G"), (b"", head()), (head() + b"\r\n", b"G"), (head() + b"\r\n", head())],
)
def test_a_connection_whose_head_does_not_come_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes, sent: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    with running(tmp_path) as server, connected(server) as connection:
        if before:
            connection.sendall(before)
            assert b"200 OK" in connection.recv(10_000)
        start = time.monotonic()
        connection.sendall(sent)
        while connection.recv(10_000):
            pass
        assert time.monotonic() - start < 10


def test_a_head_that_grows_without_end_is_cut_off(tmp_path: Path) -> None:
    with running(tmp_path) as server, connected(server) as connection:
        connection.sendall(head())
        sent = 0
        with suppress(ConnectionError):
            while sent < 100 * connections.HEAD_BYTES:
                connection.sendall(b"x-more: " + b"x" * 1000 + b"\r\n")
                sent += 1000
                time.sleep(0.001)
        assert connections.HEAD_BYTES <= sent < 10 * connections.HEAD_BYTES


def test_a_request_that_takes_its_time_to_be_answered_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    with running(tmp_path) as server, connected(server) as connection:
        for _ in range(2):
            connection.sendall(head() + b"\r\n")
            assert b"200 OK" in connection.recv(10_000)
            time.sleep(0.6)


def answered(connection: socket.socket) -> bool:
    """Whether a connection is served; if it is not, it was closed."""
    text = b""
    with suppress(ConnectionError):
        connection.sendall(head() + b"\r\n")
        while not text.endswith(b"}") and (more := connection.recv(10_000)):
            text += more
    return b"200 OK" in text


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
            deadline = time.monotonic() + 20
            served = False
            while not served:  # the server hears of the end of the one before in its own time
                assert time.monotonic() < deadline
                with connected(server) as connection:
                    served = answered(connection)


def test_the_proxy_holds_as_many_connections_as_its_visitors_need(tmp_path: Path) -> None:
    behind = Listening(port=0, proxy="127.0.0.1")
    few = replace(GENEROUS, connections_each=3)
    with running(tmp_path, few, behind) as server, ExitStack() as open_ones:
        held = [open_ones.enter_context(connected(server)) for _ in range(10)]
        assert all(map(answered, held))
