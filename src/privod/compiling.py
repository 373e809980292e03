"""Is something being compiled? Whoever listens to progress is told.

Each compiled loop is compiled when it is first called and kept on disk, so a first run takes many
seconds longer than the next ones. Every package of kernels imports this module, so it also says
where they are kept: in the folder that PRIVOD_CACHE names, for machines whose own folders cannot be
written to, as in a container with a read-only root.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numba
from numba.core import event

from privod.errors import Unavailable
from privod.progress import report

__all__ = ["COMPILING"]

CACHE_VARIABLE = "PRIVOD_CACHE"


def _keep_in(folder: str) -> None:
    """Keep compiled loops in a folder, which must be one that can be written to."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise Unavailable(
            f"The folder {folder!r} of {CACHE_VARIABLE} cannot be used ({problem.strerror})."
            " Name a folder that you may write to."
        ) from None
    settings: Any = numba.config
    settings.CACHE_DIR = folder


if os.environ.get(CACHE_VARIABLE):
    _keep_in(os.environ[CACHE_VARIABLE])

COMPILING = "compiling, once on this machine"


class _Compiling(event.Listener):
    """Reports how many loops have been compiled, of those begun."""

    def __init__(self) -> None:
        self._begun = 0
        self._done = 0

    def on_start(self, event: Any) -> None:  # noqa: ARG002 - numba's signature
        self._begun += 1
        report(COMPILING, self._done, self._begun)

    def on_end(self, event: Any) -> None:  # noqa: ARG002 - numba's signature
        self._done += 1
        report(COMPILING, self._done, self._begun)


event.register("numba:compile", _Compiling())  # type: ignore[no-untyped-call]
