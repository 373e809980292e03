"""Starting a server: never open, never bare on a network, and gone when told."""

from __future__ import annotations

# slow: left out by `make quick`
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.client import connect
from privod.curator import Curator
from privod.errors import InvalidParameter, NotAllowed, NotFound, Unavailable
from privod.joint.exact.forwarder import free_port
from privod.ledger.sqlite import LEDGER_FILE
from privod.privacy import Loss
from privod.server.authentication import create_token, token_hash
from privod.server.limits import Limits
from privod.server.sample import DATASET, sample
from privod.server.serve import Listening, configured
from privod.wire.connection import is_loopback
from tests.certificates import self_signed
from tests.odd import FOLDER, odd
from tests.patience import PATIENCE
from tests.running_server import GENEROUS, Browser, running

__all__ = ["odd"]  # a fixture


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    return self_signed(tmp_path_factory.mktemp("tls"))


def test_it_does_not_start_without_an_owner(tmp_path: Path) -> None:
    with Curator.open(tmp_path) as curator:
        with pytest.raises(NotAllowed, match="never stands open"):
            configured(curator, Listening(), Limits())
        create_token(curator, "analyst", None, "an analyst opens nothing")
        with pytest.raises(NotAllowed):
            configured(curator, Listening(), Limits())
        owner = create_token(curator, "owner", None, "the owner")
        assert configured(curator, Listening(), Limits()).host == "127.0.0.1"
        curator.store.revoke_token(token_hash(owner))
        with pytest.raises(NotAllowed):
            configured(curator, Listening(), Limits())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])  # noqa: S104
def test_it_does_not_listen_bare_on_a_network(host: str, pair: tuple[Path, Path]) -> None:
    with pytest.raises(NotAllowed, match="in the clear"):
        Listening(host)
    assert Listening(host, certificate=pair[0], key=pair[1]).secure
    assert Listening(host, proxy="10.0.0.1").secure


@pytest.mark.parametrize(
    ("host", "expected"),
    [("localhost", True), ("127.9.9.9", True), ("::1", True), ("10.0.0.1", False), ("x", False)],
)
def test_loopback_is_told_from_networks(host: str, expected: bool) -> None:
    assert is_loopback(host) == expected


def test_a_certificate_needs_its_key_and_both_must_be_readable(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    certificate, key = pair
    for wrong in [(certificate, None), (None, key), (tmp_path / "x", key), (key, certificate)]:
        with pytest.raises(InvalidParameter):
            Listening(certificate=wrong[0], key=wrong[1])


def test_over_tls_cookies_are_secure_and_the_client_checks_who_answers(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    listening = Listening(port=0, certificate=pair[0], key=pair[1])
    with running(tmp_path, listening=listening) as server:
        token = server.token("analyst")
        with connect(server.url, token, authority=pair[0]) as client:
            assert client.dataset("patients").name == "patients"
        with connect(server.url, token) as stranger, pytest.raises(Unavailable):
            stranger.datasets()
        trusting = ssl.create_default_context(cafile=str(pair[0]))
        with httpx.Client(base_url=server.url, verify=trusting, timeout=PATIENCE) as browser:
            page = browser.get("/sign-in")
            cookie = page.headers["set-cookie"]
            assert cookie.startswith("__Host-privod=")
            assert "Secure" in cookie
            assert page.headers["strict-transport-security"].startswith("max-age=")


def test_behind_a_proxy_its_name_is_answered_to_and_its_word_is_taken(tmp_path: Path) -> None:
    listening = Listening(port=0, names=("Curator.Example",), proxy="127.0.0.1")
    with running(tmp_path, listening=listening) as server:
        headers = {"host": "curator.example", "x-forwarded-proto": "https"}
        page = httpx.get(f"{server.url}/sign-in", headers=headers, timeout=PATIENCE)
        assert page.status_code == 200
        assert "Secure" in page.headers["set-cookie"]


def test_the_sample_has_data_a_budget_and_a_token_for_each_role(tmp_path: Path) -> None:
    made = sample(tmp_path)
    with made.curator as curator:
        assert curator.dataset(DATASET).domain.names
        assert curator.budget(DATASET)
        roles = [token.role for token in curator.store.tokens()]
        assert roles == ["owner", "analyst", "auditor"]


def command(*given: str, at: Path) -> Any:
    """Run the command line and read what it prints as JSON."""
    result = CliRunner().invoke(app, [*given, "--at", str(at), "--json"])
    if result.exception is not None:
        raise result.exception
    return json.loads(result.stdout)


def test_tokens_are_made_listed_and_revoked_at_the_command_line(tmp_path: Path) -> None:
    made = command("token", "add", "analyst", "--name", "Ada", at=tmp_path)["token"]
    (listed,) = command("token", "list", at=tmp_path)
    assert (listed["role"], listed["name"], listed["revoked"]) == ("analyst", "Ada", None)
    assert made not in json.dumps(listed)
    command("token", "revoke", listed["id"], at=tmp_path)
    assert command("token", "list", at=tmp_path)[0]["revoked"]
    with pytest.raises(NotFound, match="no such token"):
        command("token", "revoke", "x", at=tmp_path)


def test_a_taken_port_is_named_before_anything_is_made() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refused = CliRunner().invoke(app, ["serve", "--sample", "--port", str(port)])
    assert isinstance(refused.exception, Unavailable)
    assert f"Try --port {port + 1}" in str(refused.exception)
    assert "privod_owner" not in refused.output


@pytest.mark.parametrize(
    "arguments", [("--at", "http://127.0.0.1:1"), ("--at", "place", "--engine", "local:2")]
)
def test_what_is_wrong_is_named_before_a_port_is_tried(arguments: tuple[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        refused = CliRunner().invoke(app, ["serve", *arguments, "--port", port])
    assert isinstance(refused.exception, InvalidParameter)


def test_the_sample_server_prints_its_tokens_serves_and_stops_when_interrupted() -> None:
    start = "from privod.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", start, "serve", "--sample", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            tokens = {line.split()[0]: line.split()[1] for line in _lines(process.stdout, 3)}
            assert set(tokens) == {"owner", "analyst", "auditor"}
            directory = Path(process.stdout.readline().split()[-1])
            assert (directory / LEDGER_FILE).is_file()
            found = None
            while found is None:
                found = re.search(
                    r"running on (http://127\.0\.0\.1:\d+)", process.stderr.readline()
                )
            with connect(found.group(1), tokens["analyst"]) as client:
                assert client.datasets()[0].name == DATASET
            with Browser(found.group(1)) as browser:
                assert browser.post("/sign-in", token=tokens["owner"]).status_code == 303
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=PATIENCE)
            assert "Traceback" not in errors
            assert not directory.exists()
            assert not any(token in errors for token in tokens.values())
        finally:
            process.kill()


ENDLESS = """
import os, signal, sys, threading, time
from pathlib import Path
import httpx
from privod.server import serve
from privod.server.limits import Limits
from privod.server.sample import sample

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background job ignores
made = sample(Path(sys.argv[1]) / "curator")
gate = Path(sys.argv[1]) / "gate"

def visit():
    query = {"name": "odd", "epsilon": "0.5", "deed": "wait", "gate": str(gate)}
    headers = {"authorization": f"Bearer {made.analyst}"}
    address = f"http://127.0.0.1:{sys.argv[2]}/api/v1/datasets/stays/ask"
    while not gate.exists():
        try:
            httpx.post(address, json={"query": query, "wait": 0}, headers=headers)
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=visit, daemon=True).start()
try:
    serve.serve(made.curator, serve.Listening(port=int(sys.argv[2])), Limits(stop_seconds=0.2))
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.usefixtures("odd")
def test_an_answer_that_does_not_end_keeps_no_server_up_and_its_charge_stands(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", ENDLESS, str(tmp_path), str(free_port())]
    path = os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment
    )
    assert ended.returncode == 130
    assert "its charge stands" in ended.stderr
    with Curator.open(tmp_path / "curator") as curator:
        assert curator.verify().questions == 1
        assert curator.budget(DATASET)[0].spent == Loss("0.5")


def _lines(stream: Any, count: int) -> list[str]:
    return [stream.readline() for _ in range(count)]


def test_readiness_tells_a_full_disk_and_a_database_that_is_gone(tmp_path: Path) -> None:
    with running(tmp_path / "a") as server, server.api() as api:
        assert api.get("/ready").json() == {"status": "ready"}
        server.curator.database.close()
        for file in (tmp_path / "a").glob(f"{LEDGER_FILE}*"):
            file.write_bytes(b"no database" * 100)
        assert api.get("/ready").status_code == 503
        assert api.get("/health").status_code == 200
    with running(tmp_path / "b", replace(GENEROUS, least_free_bytes=2**62)) as server:
        with server.api() as stranger, server.api(server.token("owner")) as owner:
            told, why = stranger.get("/ready"), owner.get("/ready")
        assert told.status_code == why.status_code == 503
        assert "disk" not in told.text
        assert "nearly full" in why.json()["error"]["message"]


def test_what_a_killed_server_left_of_an_upload_is_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead, alive = tmp_path / f"upload-{ended.pid}-x", tmp_path / f"upload-{os.getpid()}-y"
    for folder in (dead, alive, tmp_path / "upload-old"):
        folder.mkdir()
        (folder / "rows.csv").write_text("age\n40\n")
    with running(tmp_path):
        assert not dead.exists()
        assert not (tmp_path / "upload-old").exists()
        assert alive.exists()
