"""The engine's own environment: where it lives, how it is installed, how a run starts it."""

from __future__ import annotations

import json
import os
import platform
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privod.errors import InvalidParameter, ProtocolAborted, Unavailable
from privod.joint.exact import runner
from privod.joint.exact.program import ENGINE, Program

ENGINES_VARIABLE = "PRIVOD_ENGINES"
PACKAGES = Path(__file__).with_name("spu.txt")
PYTHONS = ((3, 11), (3, 10))
OLDEST_GLIBC = (2, 28)
READY = "ready"
GONE = "The engine of this site ended before it had an answer. No verdict was opened."


def home() -> Path:
    """The folder of the engine's environment: the user's data folder, or what a variable names."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    engines = Path(os.environ.get(ENGINES_VARIABLE) or data / "privod" / "engines")
    return engines / f"spu-{ENGINE}"


def install(python: Path | None = None, say: Callable[[str], None] | None = None) -> Path:
    """Make the engine's environment from the list of hashes; return its folder."""
    kind, found = platform.libc_ver()
    old = kind != "glibc" or tuple(map(int, found.split(".")[:2])) < OLDEST_GLIBC
    if (sys.platform, platform.machine()) != ("linux", "x86_64") or old:
        raise Unavailable(
            "SPU needs Linux on x86_64 with glibc 2.28 or newer. Let such a machine compute, or a"
            " container there: parties that only hold data need no engine."
        )
    chosen, place, tell = _interpreter(python), home(), say or (lambda _: None)
    if (place / READY).is_file():
        return place
    place.mkdir(parents=True, exist_ok=True)
    tell(f"Making an environment in {str(place)!r} with {chosen!r}.")
    _do([chosen, "-m", "venv", "--clear", str(place)], "make a virtual environment")
    own = str(place / "bin" / "python")
    tell("Installing SPU and its packages: about 300 MB to fetch, 1 GB on disk.")
    options = ["--quiet", "--require-hashes", "--no-deps", "--only-binary", ":all:"]
    _do([own, "-m", "pip", "install", *options, "-r", str(PACKAGES)], "install SPU")
    with EngineProcess(Path(own)):
        (place / READY).touch()
    return place


def _interpreter(python: Path | None) -> str:
    """An interpreter that the engine runs in: the one named, this one, or one on the path."""
    names = [f"python{major}.{minor}" for major, minor in PYTHONS]
    for one in [str(python)] if python else [sys.executable, *names]:
        ask = [one, "-c", "import sys; print(*sys.version_info[:2])"]
        with suppress(OSError, subprocess.CalledProcessError, ValueError):
            told = subprocess.run(ask, capture_output=True, check=True, text=True).stdout  # noqa: S603
            if tuple(map(int, told.split())) in PYTHONS:
                return one
    rule = "must be Python 3.10 or 3.11: SPU has packages for no other"
    way_out = "Name one with --python; it need not be the one that runs privod."
    raise InvalidParameter("python", rule, None if python is None else str(python), way_out)


def _do(command: list[str], what: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if ended.returncode:
        reason = (ended.stderr.strip().splitlines() or ["no reason was given"])[-1]
        raise Unavailable(f"Could not {what}: {reason}")


class EngineProcess:
    """The engine of one computing party, for one run; by the installed interpreter unless told."""

    script = runner.__file__

    def __init__(self, python: Path | None = None) -> None:
        if python is None and not (home() / READY).is_file():
            raise Unavailable(
                f"SPU {ENGINE} is not installed for this user. Run `privod engine install spu`."
            )
        command = [str(python or home() / "bin" / "python"), "-I", self.script]
        self._process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # nobody reads what an engine may say about values
            env={"PATH": os.environ.get("PATH", ""), "JAX_PLATFORMS": "cpu"},
        )
        try:
            found = str(self._read().get("spu"))[:20]
            if found != ENGINE:
                raise Unavailable(
                    f"The engine here is SPU {found}, the run needs {ENGINE}. Remove"
                    f" {str(home())!r}, then run `privod engine install spu`."
                )
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, _problem: object, _trace: object) -> None:
        self.kill()

    def compile(self, program: Program) -> str:
        """Compile a program; return what stands for its code."""
        self._write(json.dumps(asdict(program)).encode())
        return str(self._read()["program"])

    def compute(
        self,
        job: dict[str, Any],
        shares: NDArray[np.uint64],
        sample: NDArray[np.uint64],
        moved: Callable[[int, int], None],
    ) -> NDArray[np.uint64]:
        """Compute with the peers; return this party's shares of two bits and of the verdicts."""
        self._write(json.dumps(job).encode())
        self._write(shares.astype("<u8", copy=False).tobytes())
        self._write(sample.astype("<u8", copy=False).tobytes())
        while "answer" not in (said := self._read()):
            moved(said["done"], said["total"])
        told = np.frombuffer(self._take(), "<u8").astype(np.uint64).reshape(-1, 2)
        self._process.wait()
        return told

    def kill(self) -> None:
        """End the engine, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def _write(self, message: bytes) -> None:
        try:
            runner.write(self._process.stdin, message)  # type: ignore[arg-type]  # opened above
        except (OSError, ValueError):
            raise ProtocolAborted(GONE) from None

    def _take(self) -> bytes:
        try:
            return runner.read(self._process.stdout)  # type: ignore[arg-type]  # opened above
        except (OSError, ValueError, struct.error):
            raise ProtocolAborted(GONE) from None

    def _read(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self._take() or b"{}")
        return said
