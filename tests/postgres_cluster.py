"""A PostgreSQL server of our own, in a temporary directory, for as long as it is needed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE

__all__ = ["crash", "find_server", "running_server"]

DEBIAN = Path("/usr/lib/postgresql")
URL = "postgresql://privod@/postgres?host="  # and the server's directory
UNPRIVILEGED = ("postgres", "nobody")  # the server refuses to run as root


def find_server() -> Path | None:
    """The directory of the newest server's programs, if there is one."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).parent
    versions = [path for path in DEBIAN.glob("*/bin") if (path / "initdb").exists()]
    return max(versions, key=lambda path: int(path.parent.name), default=None)


def _account() -> dict[str, Any]:
    """As whom to run the server: ourselves, or somebody without rights if we are root."""
    if os.getuid() != 0:
        return {}
    for name in UNPRIVILEGED:
        try:
            account = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    raise RuntimeError("there is no unprivileged account to run PostgreSQL as")


def _run(home: Path, program: str, *arguments: str) -> None:
    programs = find_server()
    assert programs is not None
    command = [str(programs / program), "-D", str(home / "data"), *arguments]
    with (home / "log").open("ab") as output:
        subprocess.run(
            command,
            check=True,
            stdout=output,
            stderr=output,
            cwd=home,
            timeout=PATIENCE,
            **_account(),
        )


@contextmanager
def running_server() -> Iterator[str]:
    """Start a fresh server that listens on a local socket only; yields its URL."""
    account = _account()
    home = Path(tempfile.mkdtemp(prefix="privod-postgres-"))
    if account:
        os.chown(home, account["user"], account["group"])
    try:
        _run(home, "initdb", "-U", "privod", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-k {home} -c listen_addresses= -c max_connections=200"
        _run(home, "pg_ctl", "-w", "-o", options, "start")
        try:
            yield f"{URL}{home}"
        finally:
            _run(home, "pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def crash(url: str) -> None:
    """End a server at once, as a power failure would end its processes, and start it again."""
    _run(Path(url.removeprefix(URL)), "pg_ctl", "-w", "-m", "immediate", "restart")
