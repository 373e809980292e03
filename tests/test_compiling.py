"""Loops that several processes need at once: one compiles, the others load what it kept."""

from __future__ import annotations

import errno
import fcntl
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core.errors import TypingError

from privod.compiling import COMPILING
from privod.progress import listening
from tests.patience import PATIENCE

LOOPS = """
from privod.compiling import njit

@njit(cache=True, nogil=True)
def doubled(number):
    return 2 * number

@njit(cache=True, nogil=True)
def doubled_twice(number):
    return doubled(number) + doubled(5)

@njit(cache=True, nogil=True)
def wrong(number):
    return number.no_such_thing
"""
OTHER = """
import loops
from privod.progress import listening
with listening(lambda *heard: print(*heard, sep=", ", flush=True)):
    assert loops.doubled(3) == 6
print(sum(loops.doubled.stats.cache_misses.values()), "compiled")
"""


@pytest.fixture
def loops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of loops that nobody has compiled yet, kept in a folder of their own."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kept"))
    path = tmp_path / "loops.py"
    path.write_text(LOOPS)
    spec = importlib.util.spec_from_file_location("loops", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "loops", module)
    spec.loader.exec_module(module)
    return module


def test_a_process_that_needs_what_another_compiles_waits_and_loads_it(
    loops: Any, tmp_path: Path
) -> None:
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "PRIVOD_CACHE": str(tmp_path / "kept")}
    others: list[subprocess.Popen[str]] = []

    def compiling(_phase: str, done: int, begun: int | None) -> None:
        """While this process compiles, let another come to the same loop."""
        if done != begun:
            command = [sys.executable, "-c", OTHER]
            other = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
            others.append(other)
            assert other.stdout is not None
            assert other.stdout.readline() == f"{COMPILING}, 0, 1\n"

    with listening(compiling):
        assert loops.doubled(4) == 8
    (other,) = others
    said, _ = other.communicate(timeout=PATIENCE)
    assert said.splitlines() == [f"{COMPILING}, 1, 1", "0 compiled"]
    assert other.returncode == 0


def test_a_loop_that_cannot_be_compiled_keeps_nobody_waiting(loops: Any, tmp_path: Path) -> None:
    with pytest.raises(TypingError):
        loops.wrong(4)
    (lock,) = (tmp_path / "kept").rglob("*.lock")
    with lock.open() as handle:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_loops_are_compiled_where_nothing_can_be_locked(
    loops: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    assert loops.doubled(4) == 8


def test_a_constant_among_arguments_has_no_loop_compiled_of_its_own(loops: Any) -> None:
    assert [loops.doubled_twice(number) for number in (4, 5)] == [8 + 10, 10 + 10]
    assert len(loops.doubled.signatures) == 1
