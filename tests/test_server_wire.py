"""A request's head comes soon and is small, or its connection is closed."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from privod.server import wire
from tests.running_server import Running, running


def connected(server: Running) -> socket.socket:
    host, _, port = server.url.partition("//")[2].rpartition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def head(path: str = "/api/v1/health") -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n".encode()


@pytest.mark.parametrize(
    ("before", "sent"),
    [(b"", b""), (b"", b"G"), (b"", head()), (head() + b"\r\n", b"G"), (head() + b"\r\n", head())],
)
def test_a_connection_whose_head_does_not_come_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes, sent: bytes
) -> None:
    monkeypatch.setattr(wire, "HEAD_SECONDS", 0.3)
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
            while sent < 100 * wire.HEAD_BYTES:
                connection.sendall(b"x-more: " + b"x" * 1000 + b"\r\n")
                sent += 1000
                time.sleep(0.001)
        assert wire.HEAD_BYTES <= sent < 10 * wire.HEAD_BYTES


def test_a_request_that_takes_its_time_to_be_answered_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "HEAD_SECONDS", 0.3)
    with running(tmp_path) as server, connected(server) as connection:
        for _ in range(2):
            connection.sendall(head() + b"\r\n")
            assert b"200 OK" in connection.recv(10_000)
            time.sleep(0.6)
