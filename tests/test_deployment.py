"""The examples of `deploy/` are started: proxies in front of a server, a read-only root, a unit."""

from __future__ import annotations

# slow: left out by `make quick`
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from benchmarks import soak_container

from privod.server.sample import DATASET, sample
from privod.server.serve import Listening
from tests.certificates import NAME, self_signed
from tests.patience import PATIENCE, eventually
from tests.running_server import DOMAIN, running

DEPLOY = Path(__file__).parent.parent / "deploy"
PROXIES = {
    ("nginx", ""): "nginx.conf",
    ("caddy", ""): "Caddyfile",
    ("nginx", "/privod"): "nginx-prefix.conf",  # which leaves the prefix on
    ("caddy", "/privod"): "Caddyfile-prefix",  # which takes it off
}
NGINX = """
daemon off;
{user}
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {example};
}}
"""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def proxy(program: str, prefix: str, folder: Path, server_port: int, port: int) -> Iterator[None]:
    """An example as it is, but for its ports and where its certificate lies."""
    path = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin")
    if path is None:
        pytest.skip(f"needs {program}")
    text = (DEPLOY / PROXIES[program, prefix]).read_text()
    site, number = ("tools", "8443") if prefix else ("curator", "443")
    replacements = [
        (f"{site}.example", NAME),
        ("127.0.0.1:8000", f"127.0.0.1:{server_port}"),
        (number, str(port)),
        (f"/etc/ssl/{site}/fullchain.pem", str(folder / "certificate.pem")),
        (f"/etc/ssl/{site}/privkey.pem", str(folder / "key.pem")),
    ]
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    example = folder / "example"
    example.write_text("{\n\tadmin off\n\tauto_https disable_redirects\n}\n" + text)
    command = [path, "run", "--adapter", "caddyfile", "--config", str(example)]
    if program == "nginx":
        example.write_text(text)
        user = "user root;" if os.geteuid() == 0 else ""  # the test's folder is closed to others
        whole = folder / "whole.conf"
        whole.write_text(NGINX.format(folder=folder, example=example, user=user))
        command = [path, "-e", "stderr", "-p", str(folder), "-c", str(whole)]
    home = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=home) as started,
    ):
        try:
            yield
        finally:
            started.terminate()


@pytest.mark.parametrize(("program", "prefix"), PROXIES)
def test_behind_an_example_proxy_on_an_odd_port_everything_works(
    program: str, prefix: str, tmp_path: Path
) -> None:
    certificate, _ = self_signed(tmp_path)
    port = free_port()
    listening = Listening(port=0, names=(NAME,), proxy="127.0.0.1", prefix=prefix)
    with (
        running(tmp_path / "curator", listening=listening) as server,
        proxy(program, prefix, tmp_path, int(server.url.rpartition(":")[2]), port),
        httpx.Client(
            base_url=f"https://127.0.0.1:{port}{prefix}",
            verify=ssl.create_default_context(cafile=str(certificate)),
            headers={"host": f"{NAME}:{port}"},
            timeout=PATIENCE,
        ) as client,
    ):
        named = {"sni_hostname": NAME}

        def answers() -> bool:
            try:
                return client.get("/api/v1/health", extensions=named).is_success
            except httpx.TransportError:
                return False

        eventually(answers)
        page = client.get("/sign-in", extensions=named)
        code = re.search(r'name="code" value="([0-9a-f]+)"', page.text)
        assert code is not None
        cookie = page.headers["set-cookie"]
        assert cookie.startswith("__Host-privod=")
        assert "Secure" in cookie
        signed_in = client.post(
            "/sign-in",
            data={"code": code.group(1), "token": server.token("owner")},
            headers={"origin": f"https://{NAME}:{port}", "cookie": cookie.partition(";")[0]},
            extensions=named,
        )
        assert signed_in.status_code == 303
        assert signed_in.headers["location"] == f"{prefix}/"
        rows = b"age,sex\n" + b"40.0000000000,female\n" * 100_000  # past what proxies allow
        sent = client.post(
            "/api/v1/datasets",
            data={"name": "large", "domain": json.dumps(DOMAIN.to_json())},
            files={"file": ("rows.csv", rows)},
            headers={"authorization": f"Bearer {server.token('owner')}"},
            extensions=named,
        )
        assert sent.status_code == 200


START = "from privod.cli import main; main()"
READ_ONLY = """
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount -o remount,bind,ro /
if touch /privod-was-here 2> /dev/null; then echo "the root can be written"; exit 1; fi
cd "$1"
exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs \
    "$2" -c "$3" serve --at "$1/curator" --port "$4" --json-logs
"""


@pytest.fixture
def served() -> Iterator[Path]:
    """A folder that is all a service may write to."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("needs the right to make a mount namespace")
    with tempfile.TemporaryDirectory(prefix="privod-served-") as folder:
        yield Path(folder)


def test_it_serves_without_any_capability_under_a_root_that_cannot_be_written(
    served: Path,
) -> None:
    folder = served
    made = sample(folder / "curator")
    made.curator.close()
    port = free_port()
    environment = {
        **os.environ,
        "PRIVOD_CACHE": str(folder / "cache"),
        "TMPDIR": str(folder),
        "HOME": "/nonexistent",
    }
    given = [str(folder), sys.executable, START, str(port)]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            ["unshare", "-m", "sh", "-c", READ_ONLY, "sh", *given],
            env=environment,
            stdout=log,
            stderr=log,
        ) as started,
    ):
        try:
            url = f"http://127.0.0.1:{port}/api/v1"

            def ready() -> bool:
                assert started.poll() is None, (folder / "log").read_text()
                try:
                    return httpx.get(f"{url}/ready", timeout=PATIENCE).is_success
                except httpx.TransportError:
                    return False

            eventually(ready)
            query = {"name": "histogram", "columns": ["radius"], "epsilon": "0.5"}
            asked = httpx.post(
                f"{url}/datasets/{DATASET}/ask",
                json={"query": query, "wait": 60},
                headers={"authorization": f"Bearer {made.analyst}"},
                timeout=PATIENCE,
            )
            assert asked.status_code == 200, asked.text + (folder / "log").read_text()
        finally:
            started.terminate()
    assert not Path("/privod-was-here").exists()


def test_the_unit_is_one_that_systemd_reads(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    unit = tmp_path / "privod.service"
    text = (DEPLOY / "privod.service").read_text()
    assert "/opt/privod/bin/privod" in text
    unit.write_text(text.replace("/opt/privod/bin/privod", sys.executable))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [line for line in checked.stderr.splitlines() if "privod.service" in line]
    assert not complaints


def test_the_commands_of_the_examples_are_commands_of_privod() -> None:
    given = re.findall(r"--[a-z-]+", (DEPLOY / "privod.service").read_text())
    helped = subprocess.run(
        [sys.executable, "-c", START, "serve", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert all(option in helped.stdout for option in given)


def test_every_instruction_of_the_container_file_is_carried_out_in_the_soak() -> None:
    found = soak_container.instructions((DEPLOY / "Containerfile").read_text())
    assert {word for word, _ in found} <= {*soak_container.IGNORED, *soak_container.CARRIED_OUT}
    runs = [rest for word, rest in found if word == "RUN"]
    assert len(runs) == 2
    assert all("\n" not in rest and "\\" not in rest for rest in runs)
    assert [rest for word, rest in found if word == "USER"] == ["privod"]
