"""What all tests share: calm property tests, and data sets that are skipped by name if absent."""

from __future__ import annotations

import os
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import settings

from privod.data.examples import data_folder, data_frame

# A shared machine is slow at times; CI repeats the same examples so that a failure stays a failure.
settings.register_profile("privod", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("privod")


@pytest.fixture(scope="session")
def dataset() -> Callable[[str], pa.Table]:
    """Read a data set of the PRIVOD_DATA folder; skips the test, by name, where it is unset."""

    def read(name: str) -> pa.Table:
        if data_folder() is None:
            pytest.skip(f"needs the data set {name}: PRIVOD_DATA is unset")
        return data_frame(name)

    return read
