"""Do the steps of the container file give a server that runs under a read-only root?

    python benchmarks/soak_container.py

Where no container engine is at hand, the instructions of deploy/Containerfile are carried out here,
one by one, in a namespace of their own: on top of this machine's root in place of the base image,
all that is written goes to a temporary overlay. Then the image is mounted read-only and started as
the file says: its user, its entry point, its stop signal, a volume and a /tmp in memory. A file is
registered, a question asked, the health check run, the server stopped. Needs Linux and root.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx

ROOT = Path(__file__).parent.parent
FILE = ROOT / "deploy" / "Containerfile"
PATIENCE = 3600.0  # seconds; a busy machine installs slowly
CARRIED_OUT = (
    *("COPY", "RUN", "ENV", "USER", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT"),
    "CMD",  # `serve`, with a port of our choice
)
IGNORED = ("FROM", "VOLUME", "EXPOSE")  # this machine, a folder, and a port of our choice
DOMAIN = {"columns": [{"name": "age", "low": 0, "high": 120}]}

ENTER = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/whole"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/whole"
for each in proc dev sys; do mount --rbind "/$each" "$1/whole/$each"; done
mkdir -p "$1/whole$2"
mount --bind "$2" "$1/whole$2"
exec "$3" "$4" --inside "$1/whole" "$2"
"""


@dataclass
class Image:
    """What the container file says."""

    steps: list[tuple[str, str]] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    user: str = "root"
    health: list[str] = field(default_factory=list)
    entry: list[str] = field(default_factory=list)
    stop: str = "SIGTERM"


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a container file, comments and line breaks taken out."""
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", "", plain)
    return [
        (word, rest.strip())
        for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line.strip())
    ]


class Container:
    """A root folder in which the instructions are carried out.

    Parameters
    ----------
    root : Path
        The overlay.
    wheels : Path
        The folder that is copied from, seen under the same name inside.
    """

    def __init__(self, root: Path, wheels: Path) -> None:
        self._root = root
        self._wheels = wheels
        python = str(Path(sys.base_prefix) / "bin")
        self.image = Image(environment={"PATH": f"{python}:{os.environ['PATH']}"})

    def build(self) -> None:
        """Carry out every instruction; one that is unknown here is an error."""
        for place in Path(sys.base_prefix).parents:  # as in a base image, anybody may run Python
            (self._root / str(place)[1:]).chmod(0o755)
        for word, rest in instructions(FILE.read_text(encoding="utf-8")):
            began = time.monotonic()
            self._carry_out(word, rest)
            print(f"{word} {rest[:60]}: {time.monotonic() - began:.1f} s", flush=True)
            self.image.steps.append((word, rest))

    def _carry_out(self, word: str, rest: str) -> None:
        image = self.image
        if word == "COPY":
            target = shlex.split(rest)[-1]
            self.run(["sh", "-c", f"cp {self._wheels}/* {target}"])
        elif word == "RUN":
            self.run(["sh", "-c", rest])
        elif word == "ENV":
            for one in shlex.split(rest):
                name, _, value = one.partition("=")
                image.environment[name] = value.replace("$PATH", image.environment["PATH"])
        elif word == "USER":
            image.user = rest
        elif word == "STOPSIGNAL":
            image.stop = rest
        elif word == "HEALTHCHECK":
            image.health = json.loads(rest.removeprefix("CMD "))
        elif word == "ENTRYPOINT":
            image.entry = json.loads(rest)
        elif word not in (*CARRIED_OUT, *IGNORED):
            raise SystemExit(f"the container file says {word}, which is not carried out here")

    def command(self, command: list[str]) -> list[str]:
        """A command as the image's user, without a capability or the way to one."""
        who = ["--reuid", self.image.user, "--regid", self.image.user, "--init-groups"]
        lone = [*who, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
        lower = ["setpriv", *lone] if self.image.user != "root" else []
        return ["chroot", str(self._root), *lower, *command]

    def environment(self) -> dict[str, str]:
        """The image's environment; while it is built, where this machine finds packages too."""
        own = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        return own | self.image.environment

    def run(self, command: list[str]) -> str:
        """Run to its end, or fail."""
        run = subprocess.run(
            self.command(command),
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        if run.returncode:
            raise SystemExit(f"{command} failed:\n{run.stdout}{run.stderr}")
        return run.stdout

    def seal(self) -> None:
        """From now on only a volume and a /tmp in memory can be written to."""
        root = str(self._root)
        for options in (
            ["-t", "tmpfs", "tmpfs", f"{root}/var/lib/privod"],
            ["-t", "tmpfs", "tmpfs", f"{root}/tmp"],  # noqa: S108 - the container's own
            ["-o", "remount,ro", root],
        ):
            subprocess.run(["mount", *options], check=True)
        subprocess.run(
            ["chroot", root, "sh", "-c", "chown privod: /var/lib/privod; chmod 1777 /tmp"],
            check=True,
        )
        written = subprocess.run(
            ["chroot", root, "touch", "/opt/privod/here"], capture_output=True, check=False
        )
        if written.returncode == 0:
            raise SystemExit("the root can be written to")


def asked(address: str, owner: str, analyst: str) -> int:
    """Register a file, open a budget, ask a question; the status of the answer."""
    with httpx.Client(base_url=address, timeout=PATIENCE) as client:
        client.headers["authorization"] = f"Bearer {owner}"
        rows = b"age\n" + b"40\n" * 1000
        form = {"name": "patients", "domain": json.dumps(DOMAIN)}
        client.post("/datasets", data=form, files={"file": ("a.csv", rows)}).raise_for_status()
        budget = {"adjacency": {"name": "add-remove"}, "epsilon": "1"}
        client.post("/datasets/patients/budgets", json=budget).raise_for_status()
        client.headers["authorization"] = f"Bearer {analyst}"
        query = {"name": "histogram", "columns": ["age"], "epsilon": "0.5"}
        sent = client.post("/datasets/patients/ask", json={"query": query, "wait": 60})
        return sent.status_code


def serve(container: Container) -> bool:
    """Start the sealed image, use it and stop it; True if all went well."""
    image = container.image
    tokens = [
        container.run([*image.entry, "token", "add", role, "--name", "Olga"]).split()[-1]
        for role in ("owner", "analyst")
    ]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    began = time.monotonic()
    with subprocess.Popen(
        container.command([*image.entry, "serve", "--port", port]), env=image.environment
    ) as server:
        try:
            health = [one.replace("8000", port) for one in image.health]
            while subprocess.run(
                container.command(health), env=image.environment, stderr=subprocess.DEVNULL
            ).returncode:
                if server.poll() is not None or time.monotonic() - began > PATIENCE:
                    raise SystemExit("the server did not become healthy")
                time.sleep(0.5)
            ready = time.monotonic() - began
            status = asked(f"http://127.0.0.1:{port}/api/v1", *tokens)
            server.send_signal(signal.Signals[image.stop])
            stopped = server.wait(PATIENCE)
        finally:
            server.kill()
    print(f"healthy after {ready:.1f} s; the answer came with {status}; it ended with {stopped}")
    print(f"figure container_steps {len(image.steps)}")
    print(f"figure container_healthy_seconds {ready:.3g}")
    return status == 200 and stopped == 128 + signal.Signals[image.stop]  # as the shell says it


def main() -> None:
    """Enter the namespaces, carry out the file, run what it gives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="nothing: this takes minutes")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    parser.add_argument("--inside", nargs=2, type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside is not None:
        container = Container(*given.inside)
        container.build()
        container.seal()
        met = serve(container)
        print("all met" if met else "missed")
        sys.exit(not met)
    if sys.platform != "linux" or os.geteuid() != 0:
        print("skipped: needs Linux and root")
        return
    if given.quick or given.smoke:
        print("skipped: this takes minutes")
        return
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as wheels:
        subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", wheels, str(ROOT)],
            check=True,
        )
        shutil.copy(FILE.parent / "constraints.txt", wheels)
        entered = subprocess.run(
            ["unshare", "-m", "sh", "-c", ENTER, "sh", place, wheels, sys.executable, __file__],
            check=False,
        )
    sys.exit(entered.returncode)


if __name__ == "__main__":
    main()
