"""The examples of `deploy/` are started: proxies in front of a server, a read-only root, a unit."""

from __future__ import annotations

# slow: left out by `make quick`
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from benchmarks import soak_container
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from privod.curator import Curator
from privod.joint.exact.forwarder import free_port
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
        (number, str(port)),  # first: the server's port may hold 443, as one in a hundred does
        ("127.0.0.1:8000", f"127.0.0.1:{server_port}"),
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
            query = {"name": "histogram", "columns": ["age"], "epsilon": "0.5"}
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


def test_the_unit_leaves_little_exposed() -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", str(DEPLOY / "privod.service")],
        capture_output=True,
        text=True,
        check=False,
    )
    exposure = re.search(r"exposure level for privod.service: ([0-9.]+)", rated.stdout)
    assert exposure is not None, rated.stderr
    assert float(exposure.group(1)) < 3


def test_the_commands_of_the_examples_are_commands_of_privod() -> None:
    given = re.findall(r"--[a-z-]+", (DEPLOY / "privod.service").read_text())
    for one in chart():
        if one["kind"] == "StatefulSet":
            first, *options = one["spec"]["template"]["spec"]["containers"][0].get(
                "args", ["serve"]
            )
            assert first == "serve"
            given += [option.partition("=")[0] for option in options]
    helped = subprocess.run(
        [sys.executable, "-c", START, "serve", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert "--answer-numbers" in given
    assert all(option in helped.stdout for option in given)


def test_every_instruction_of_the_container_file_is_carried_out_in_the_soak() -> None:
    found = soak_container.instructions((DEPLOY / "Containerfile").read_text())
    assert {word for word, _ in found} <= {*soak_container.IGNORED, *soak_container.CARRIED_OUT}
    runs = [rest for word, rest in found if word == "RUN"]
    assert len(runs) == 2
    assert all("\n" not in rest and "\\" not in rest for rest in runs)
    assert [rest for word, rest in found if word == "USER"] == ["privod"]


def pinned() -> dict[str, str]:
    lines = (DEPLOY / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {one[0]: one[1] for one in pairs}


def installed_with(extras: set[str]) -> set[str]:
    """Every package that an image with these extras holds, as this environment knows them."""
    waiting: list[tuple[str, frozenset[str]]] = [("privod", frozenset(extras))]
    seen = set()
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        for text in metadata.distribution(name).requires or ():
            one = Requirement(text)
            kinds = [{"extra": extra} for extra in wanted or {""}]
            if one.marker is None or any(one.marker.evaluate(kind) for kind in kinds):
                waiting.append((canonicalize_name(one.name), frozenset(one.extras)))
    return {name for name, _ in seen} - {"privod"}


def test_the_image_pins_its_base_and_every_package_of_all_server_extras() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    base = re.search(r"^FROM python:3\.1\d\.\d+-\S+$", text, re.MULTILINE)
    extras = re.search(r"\$wheel\[(.*)\]", text)
    assert base is not None
    assert extras is not None
    named = set(extras.group(1).split(","))
    assert {"server", "oidc", "postgres", "dask"} <= named
    assert installed_with(named) <= set(pinned())
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    listed = [project["dependencies"], *project["optional-dependencies"].values()]
    for one in map(Requirement, chain(*listed)):
        version = pinned().get(canonicalize_name(one.name))
        assert version is None or one.specifier.contains(version), one


EXPRESSION = re.compile(r"\{\{ ([^{}]*) \}\}")
RELEASE = {"Name": "hospital", "Namespace": "data"}


def rendered(template: Path, values: dict[str, Any]) -> str:
    """A template with its values; it may use nothing but values, names, and `toJson`."""

    def value(found: re.Match[str]) -> str:
        path, _, then = found.group(1).partition(" | ")
        assert then in ("", "toJson")
        root, *rest = path.removeprefix(".").split(".")
        inside: Any = {"Values": values, "Release": RELEASE}[root]
        for part in rest:
            inside = inside[part]  # a value that values.yaml does not name fails here
        assert then or not isinstance(inside, (dict, list))
        return json.dumps(inside) if then else str(inside)

    text = EXPRESSION.sub(value, template.read_text())
    assert "{{" not in re.sub(r"\{\w+: \{", "", text).replace("requests: {storage", "")
    return text


def chart() -> list[dict[str, Any]]:
    values = yaml.safe_load((DEPLOY / "helm" / "values.yaml").read_text())
    templates = sorted((DEPLOY / "helm" / "templates").glob("*.yaml"))
    assert rendered(DEPLOY / "helm" / "templates" / "NOTES.txt", values)
    return [one for file in templates for one in yaml.safe_load_all(rendered(file, values))]


def test_every_value_of_the_chart_is_used() -> None:
    texts = "".join(file.read_text() for file in (DEPLOY / "helm" / "templates").iterdir())

    def paths(values: dict[str, Any], above: str = ".Values") -> Iterator[str]:
        for name, value in values.items():
            path = f"{above}.{name}"
            if isinstance(value, dict) and f"{path} |" not in texts:
                yield from paths(value, path)
            else:
                yield path

    for path in paths(yaml.safe_load((DEPLOY / "helm" / "values.yaml").read_text())):
        assert f"{{{{ {path} " in texts, path


def test_every_pod_of_the_chart_has_no_rights_and_a_root_it_cannot_write() -> None:
    pods = [one["spec"]["template"]["spec"] for one in chart() if one["kind"] == "StatefulSet"]
    assert len(pods) == 3
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            closed = container["securityContext"]
            assert closed["readOnlyRootFilesystem"] is True
            assert closed["allowPrivilegeEscalation"] is False
            assert closed["capabilities"] == {"drop": ["ALL"]}
            mounted = {one["name"] for one in container["volumeMounts"]}
            claimed = {"curator", "witness", "ledger"}
            assert mounted <= {one["name"] for one in pod["volumes"]} | claimed


def test_services_policies_and_selectors_of_the_chart_fit_together() -> None:
    parts = chart()
    pods = {one["metadata"]["name"]: one for one in parts if one["kind"] == "StatefulSet"}
    for one in parts:
        if one["kind"] == "Service":
            ports = pods[one["spec"]["selector"]["app"]]["spec"]["template"]["spec"]["containers"]
            named = {port["name"] for port in ports[0]["ports"]}
            assert {port["targetPort"] for port in one["spec"]["ports"]} <= named
        if one["kind"] == "NetworkPolicy":
            assert one["spec"]["podSelector"]["matchLabels"]["app"] in pods
    policies = {one["metadata"]["name"] for one in parts if one["kind"] == "NetworkPolicy"}
    assert policies == set(pods)  # each accepts whom it must alone
    curator = pods["hospital-curator"]["spec"]["template"]["spec"]["containers"][0]
    given = {one["name"]: one.get("value") for one in curator["env"]}
    assert given["PRIVOD_WITNESS"] == (
        "https://hospital-witness.data.svc:8443/api/v1/witnesses/hospital"
    )
    assert {"PRIVOD_DATABASE", "PRIVOD_WITNESS_TOKEN"} <= set(given)


def test_the_first_owner_of_the_chart_gets_one_token_however_often_a_pod_starts(
    tmp_path: Path,
) -> None:
    pods = [one["spec"]["template"]["spec"] for one in chart() if one["kind"] == "StatefulSet"]
    commands = {one["args"][0] for pod in pods for one in pod.get("initContainers", ())}
    (command,) = commands
    program = tmp_path / "bin" / "privod"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{START}" "$@"\n')
    program.chmod(0o755)
    at = tmp_path / "curator"
    at.mkdir()
    path = f"{program.parent}:{os.environ['PATH']}"
    for _ in range(2):
        environment = {**os.environ, "PATH": path, "PRIVOD_AT": str(at)}
        subprocess.run(["sh", "-ec", command], check=True, env=environment)
    token = (at / "first-owner").read_text().split()[-1]
    assert token.startswith("privod_owner_")
    assert (at / "first-owner").stat().st_mode & 0o777 == 0o600
    with Curator.open(at) as curator:
        assert len(curator.store.tokens()) == 1


def test_helm_finds_nothing_wrong_with_the_chart() -> None:
    if shutil.which("helm") is None:
        pytest.skip("needs helm")
    subprocess.run(["helm", "lint", "--strict", str(DEPLOY / "helm")], check=True)
    subprocess.run(["helm", "template", "hospital", str(DEPLOY / "helm")], check=True)
