"""What all tests share: calm property tests, and data sets that are skipped by name if absent."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from functools import cache
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pytest
import typer.testing
from benchmarks._folder import data_folder, data_frame
from hypothesis import HealthCheck, settings
from typer.main import get_command

# A shared machine is slow at times; CI repeats the same examples so that a failure stays a failure.
settings.register_profile(
    "privod",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("privod")

# Spark runs for seconds in tests: less time is spent on compiling Java, and on its threads.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# The command line is built once: Typer would build forty commands anew for each line of a test.
typer.testing._get_command = cache(get_command)  # type: ignore[attr-defined]

# What is collected stays to the end: a fifth of collection went into looking for garbage in it.
gc.disable()

# A module that starts servers, sites or databases, plays long games, or searches large spaces says
# so in a line of its own. All others belong to the fast subset: `make quick`.
SLOW = "\n# slow: left out by `make quick`\n"

# What the long tests of a module add to its others, in seconds of a busy machine (--durations).
SECONDS = 0.8  # of another test
LONG = {
    "test_benchmarks": 450,
    "contracts": 320,
    "test_console": 300,
    "test_exact_runs": 240,
    "test_spark": 160,
    "test_server_restarts": 130,
    "test_dask": 120,
    "test_registry": 100,
    "test_server_serve": 100,
    "test_demo": 100,
    "test_docs": 80,
    "test_flare": 70,
    "test_server_texts": 70,
    "test_query_memory": 70,
}


@cache
def is_slow(path: Path) -> bool:
    """Whether `make quick` leaves a module out."""
    if path.suffix != ".py":
        return False
    return path.parent.name == "browser" or SLOW in path.read_text(encoding="utf-8")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what `make quick` leaves out."""
    left_out = config.getoption("markexpr") == "not slow" and is_slow(collection_path)
    return True if left_out else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make quick` leaves out: slow modules, and the games that audits play.

    Of several workers each begins with as many tests. Slow modules come first, the longest at the
    front, so that each has as much to do with them: what they take from each other at the end is
    quick.
    """
    for item in items:
        if is_slow(item.path) or "audit" in item.name:
            item.add_marker(pytest.mark.slow)
    n_workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if n_workers > 1:
        modules = {path: list(some) for path, some in groupby(items, key=lambda item: item.path)}
        work = {path: SECONDS * len(modules[path]) + LONG.get(path.stem, 0) for path in modules}
        parts: list[list[Path]] = [[] for _ in range(n_workers)]
        first = [path for path in modules if is_slow(path) or path.stem in LONG]
        for path in sorted(first, key=lambda path: -work[path]):
            min(parts, key=lambda part: sum(map(work.__getitem__, part))).append(path)
        for path in sorted(modules.keys() - set(first), key=lambda path: (-work[path], path)):
            min(parts, key=lambda part: sum(len(modules[path]) for path in part)).append(path)
        items[:] = [item for part in parts for path in part for item in modules[path]]


def pytest_collection_finish() -> None:
    """Look for garbage from here on, but not among modules and tests, which stay."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def dataset() -> Callable[[str], pa.Table]:
    """Read a data set of the PRIVOD_DATA folder; skips the test, by name, where it is unset."""

    def read(name: str) -> pa.Table:
        if data_folder() is None:
            pytest.skip(f"needs the data set {name}: PRIVOD_DATA is unset")
        return data_frame(name)

    return read
