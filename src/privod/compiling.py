"""Is something being compiled? Whoever listens to progress is told, and nobody compiles it twice.

Each loop is compiled when it is first called and kept on disk, where PRIVOD_CACHE says if that is
set, so a first run takes many seconds longer. Every package of kernels takes `njit` from here.

Processes that need one loop at once take turns: the first compiles it, the others load that. Two
that compile it for different types could write both results to one file.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.types import unliteral

from privod.errors import Unavailable
from privod.progress import report

Loop = TypeVar("Loop", bound=Callable[..., Any])

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
    """Reports how many loops have been compiled, of those begun, here or in another process."""

    def __init__(self) -> None:
        self._begun = 0
        self._done = 0

    def hear(self, *, begun: int = 0, done: int = 0) -> None:
        self._begun, self._done = self._begun + begun, self._done + done
        report(COMPILING, self._done, self._begun)

    def on_start(self, event: Any) -> None:  # noqa: ARG002 - numba's signature
        self.hear(begun=1)

    def on_end(self, event: Any) -> None:
        loop = event.data["dispatcher"]
        failed = tuple(event.data["args"]) not in loop.overloads
        if failed and isinstance(loop._cache, _InTurn):
            loop._cache.let_go()  # nothing will be kept
        self.hear(done=1)


_compiling = _Compiling()
event.register("numba:compile", _compiling)


class _InTurn(FunctionCache):
    """Where a loop is kept; from the first miss until it is kept, other processes wait.

    A loop is compiled with the loops that it calls, and none calls itself by way of another: so no
    two processes ever wait for each other.
    """

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._turn: int | None = None
        self._holder = 0

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)
        if found is None and self._turn is None:
            self._take_turn()
            found = super().load_overload(sig, target_context)
            if found is not None:
                self.let_go()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        finally:
            self.let_go()

    def _take_turn(self) -> None:
        try:
            self._impl.locator.ensure_cache_path()
            path = Path(self.cache_path) / f"{self._impl.filename_base}.lock"
            turn = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError:
            return  # nothing can be kept here, so there is nothing to wait for
        try:
            _wait_for(turn)
            self._turn, self._holder = turn, os.getpid()
        except OSError:  # a file system without locks: compiled, perhaps more than once
            pass
        finally:
            if self._turn is None:
                os.close(turn)

    def let_go(self) -> None:
        """Let the next process have its turn."""
        if self._turn is not None:
            if self._holder == os.getpid():  # and not a child that was forked meanwhile
                fcntl.flock(self._turn, fcntl.LOCK_UN)
            os.close(self._turn)
            self._turn = None


def _wait_for(turn: int) -> None:
    try:
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _compiling.hear(begun=1)
        fcntl.flock(turn, fcntl.LOCK_EX)
        _compiling.hear(done=1)


def njit(**options: Any) -> Callable[[Loop], Loop]:
    """`numba.njit` with `cache=True`, whose loops are compiled by one process at a time."""

    def compiled(function: Loop) -> Loop:
        made: Any = numba.njit(**options)(function)
        made._cache = _InTurn(function)
        called = made.get_call_template  # with a constant: the same loop as for all values
        made.get_call_template = lambda given, named: called(tuple(map(unliteral, given)), named)
        return cast(Loop, made)

    return compiled
