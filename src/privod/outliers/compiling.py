"""Is something being compiled? Whoever listens to progress is told.

Each compiled loop is compiled when it is first called and kept on disk, so a first run takes many
seconds longer than the next ones. Every package of kernels imports this module.
"""

from __future__ import annotations

from typing import Any

from numba.core import event

from privod.progress import report

__all__ = ["COMPILING"]

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
