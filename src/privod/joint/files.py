"""Files of results that only their owner can read, and that never replace one."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from privod.errors import InvalidData, InvalidParameter


@contextmanager
def private_file(path: Path) -> Iterator[TextIOWrapper]:
    """Open a new file that only its owner can read; one that is there is not overwritten."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        way_out = "Name a new one; results are not overwritten."
        raise InvalidParameter("file", "must not exist yet", str(path), way_out) from None
    with os.fdopen(handle, "w", newline="", encoding="utf-8") as file:
        yield file


def write_outliers(
    path: Path,
    together: NDArray[np.int64],
    alone: NDArray[np.int64],
    ids: Sequence[str] | None,
    n_records: int,
) -> None:
    """Write every row that is an outlier, together or alone, as CSV, with its id if known."""
    if ids is not None and len(ids) != n_records:
        raise InvalidData("The ids are not as many as the rows. Give ids and rows in one file.")
    with private_file(path) as file:
        writer = csv.writer(file)
        writer.writerow(["row", *([] if ids is None else ["id"]), "together", "alone"])
        for row in np.union1d(together, alone).astype(np.int64).tolist():
            named = [] if ids is None else [ids[row]]
            writer.writerow([row + 1, *named, int(row in together), int(row in alone)])
