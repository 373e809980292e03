"""The data sets of the papers and races, from a folder of Parquet files that PRIVOD_DATA names."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from privod.errors import InvalidParameter, NotFound, Unavailable

FOLDER_VARIABLE = "PRIVOD_DATA"


def data_folder() -> Path | None:
    """The folder of Parquet files that PRIVOD_DATA names, if it is set."""
    named = os.environ.get(FOLDER_VARIABLE)
    if not named:
        return None
    folder = Path(named)
    if not folder.is_dir():
        way_out = "Name a folder of Parquet files, or unset it."
        raise InvalidParameter(FOLDER_VARIABLE, "must name a folder", named, way_out)
    return folder


def data_frame(name: str) -> pa.Table:
    """One data set of that folder, whole, as an Arrow frame."""
    folder = data_folder()
    if folder is None:
        raise Unavailable(f"{FOLDER_VARIABLE} is not set. Let it name a folder of Parquet files.")
    path = folder / f"{name}.parquet"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in folder.glob("*.parquet")))
        raise NotFound(f"There is no data set {name!r} in the folder. There are: {known}.")
    return pa_parquet.read_table(path)
