"""The engine's own environment: where it lives, how it is installed, how a run starts it.

SPU needs other versions of Python and NumPy than privod and is large. It lives in a virtual
environment of its own and runs as a subprocess; nothing of it is imported here.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from struct import error as struct_error
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privod.errors import InvalidParameter, ProtocolAborted, Unavailable
from privod.joint.exact import runner
from privod.joint.exact.question import ENGINE, Program

__all__ = ["EngineProcess", "engine_python", "install"]

PACKAGES = Path(__file__).with_name("spu.txt")
RUNNER = Path(runner.__file__)
PYTHONS = ((3, 10), (3, 11))
OLDEST_GLIBC = (2, 28)
ENGINES_VARIABLE = "PRIVOD_ENGINES"
DONE = "installed.json"


def home() -> Path:
    """The folder of the engine's environment, in the user's data folder unless told otherwise."""
    told = os.environ.get(ENGINES_VARIABLE)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return (Path(told) if told else Path(data) / "privod" / "engines") / f"spu-{ENGINE}"


def engine_python() -> Path:
    """The interpreter of the installed engine; raise if there is none of this version."""
    if not (home() / DONE).is_file():
        raise Unavailable(
            f"SPU {ENGINE} is not installed for this user. Run `privod engine install spu`."
        )
    return home() / "bin" / "python"


def install(python: Path | None = None, say: Callable[[str], None] = lambda text: None) -> Path:
    """Make the engine's environment from the list of hashes; return its folder."""
    machine, (libc, version) = platform.machine(), platform.libc_ver()
    old = libc != "glibc" or tuple(map(int, version.split(".")[:2])) < OLDEST_GLIBC
    if sys.platform != "linux" or machine != "x86_64" or old:
        raise Unavailable(
            "SPU needs Linux on x86_64 with glibc 2.28 or newer. Let such a machine, or a container"
            " on one, compute: parties that only hold data need no engine."
        )
    chosen = _interpreter(python)
    place = home()
    if (place / DONE).is_file():
        return place
    place.mkdir(parents=True, exist_ok=True)
    say(f"Making an environment in {str(place)!r} with {str(chosen)!r}.")
    _done([str(chosen), "-m", "venv", "--clear", str(place)], "make a virtual environment")
    own = str(place / "bin" / "python")
    say("Installing SPU and its packages: about 400 MB to fetch, 1 GB on disk.")
    options = ["--quiet", "--require-hashes", "--no-deps", "--only-binary", ":all:"]
    _done([own, "-m", "pip", "install", *options, "-r", str(PACKAGES)], "install SPU")
    with EngineProcess(Path(own)) as started:
        (place / DONE).write_text(json.dumps(started.versions))
    return place


def _interpreter(python: Path | None) -> Path:
    """An interpreter that the engine runs in: the one named, this one, or one on the path."""
    names = [f"python{major}.{minor}" for major, minor in PYTHONS]
    for one in [str(python)] if python else [sys.executable, *reversed(names)]:
        ask = [one, "-c", "import sys; print(*sys.version_info[:2])"]
        try:
            found = subprocess.run(ask, capture_output=True, check=True, text=True).stdout  # noqa: S603
        except (OSError, subprocess.CalledProcessError):
            continue
        if tuple(map(int, found.split())) in PYTHONS:
            return Path(one)
    rule = "must be Python 3.10 or 3.11: SPU has no packages for others"
    way_out = "Name one with --python; it need not be the one that runs privod."
    raise InvalidParameter("python", rule, None if python is None else str(python), way_out)


def _done(command: list[str], what: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if ended.returncode:
        reason = (ended.stderr.strip().splitlines() or ["no reason was given"])[-1]
        raise Unavailable(f"Could not {what}: {reason}")


class EngineProcess:
    """The engine of one computing party, for one run.

    Parameters
    ----------
    python : path, optional
        The interpreter of the engine's environment; the installed one unless told.
    """

    def __init__(self, python: Path | None = None) -> None:
        command = [str(python or engine_python()), "-I", str(RUNNER)]
        self._process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # nobody reads what an engine may say about values
            env={"PATH": os.environ.get("PATH", ""), "JAX_PLATFORMS": "cpu"},
        )
        self.versions: dict[str, str] = self._read()
        if self.versions.get("spu") != ENGINE:
            self.kill()
            raise Unavailable(
                f"The engine here is SPU {str(self.versions.get('spu'))[:20]}, the run needs"
                f" {ENGINE}. Remove {str(home())!r}, then `privod engine install spu`."
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def compile(self, program: Program) -> str:
        """Compile a program; return what stands for its code."""
        self._write(json.dumps(program.to_json()).encode())
        return str(self._read()["program"])

    def compute(
        self,
        links: dict[str, Any],
        shares: NDArray[np.uint64],
        sample: NDArray[np.int64],
        progress: Callable[[int, int], None],
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Compute with the peers; return this party's shares of the verdicts and of two bits."""
        self._write(json.dumps(links).encode())
        self._write(np.ascontiguousarray(shares).data.cast("B"))
        self._write(sample.tobytes())
        while "answer" not in (said := self._read()):
            progress(said["done"], said["total"])
        verdicts, bits = (np.frombuffer(self._take(), np.uint64).reshape(-1, 2) for _ in "12")
        self._process.wait()
        return verdicts, bits

    def kill(self) -> None:
        """End the engine, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def _write(self, message: bytes | memoryview) -> None:
        assert self._process.stdin is not None  # noqa: S101 - opened above, told to the type checker
        try:
            runner.write(self._process.stdin, message)
        except OSError:
            raise ProtocolAborted(self._gone()) from None

    def _take(self) -> bytes:
        assert self._process.stdout is not None  # noqa: S101 - as above
        try:
            return runner.read(self._process.stdout)
        except (OSError, ValueError, struct_error):
            raise ProtocolAborted(self._gone()) from None

    def _read(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self._take())
        return said

    def _gone(self) -> str:
        return "The engine of this site ended before it had an answer. No verdict was opened."
