"""Processes that need not import everything anew: each is a fork of one that has imported it.

Half of the processor time of a short process goes into imports. A fork begins with them done, and
is else a process like any other: it has its own memory, can be killed, and ends with a code.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing import forkserver
from pathlib import Path
from subprocess import TimeoutExpired
from tempfile import mkdtemp
from typing import Any
from unittest.mock import patch

FORKS = multiprocessing.get_context("forkserver")
WARM = forkserver.ForkServer()  # not the one that servers under test fork their workers from
WARM.set_forkserver_preload(
    [
        "matplotlib.pyplot",
        "pandas",
        "privod.cli.joint",
        "privod.curator",
        "privod.estimators",
        "privod.joint.detector.question",
        "privod.joint.site",
        "privod.joint.transport.grpc",
        "pytest",
        "sklearn.ensemble",
    ]
)


class Forked:
    """A process that runs a function of a module, used like a `subprocess.Popen` with pipes."""

    def __init__(self, folder: Path, program: Callable[..., None], *arguments: Any) -> None:
        self._output = [Path(mkdtemp(dir=folder)) / name for name in ("out", "problem")]
        prepared = (self._output, dict(os.environ), program, arguments)
        self._process = FORKS.Process(target=_run, args=prepared)
        with patch.object(forkserver, "connect_to_new_process", WARM.connect_to_new_process):
            self._process.start()
        self.pid = self._process.ident or 0

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end; what it printed, and what it wrote to standard error."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise TimeoutExpired(str(self._output[0]), timeout or 0)
        out, problem = (
            path.read_text(encoding="utf-8") if path.exists() else "" for path in self._output
        )
        return out, problem


def _run(
    output: list[Path],
    environment: dict[str, str],
    program: Callable[..., None],
    arguments: tuple[Any, ...],
) -> None:
    for stream, path in enumerate(output, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream)
    os.environ.clear()
    os.environ.update(environment)
    program(*arguments)


def run_privod(*words: str) -> None:
    """What typing `privod` and these words does."""
    from privod.cli import main

    sys.argv = ["privod", *words]
    main()
