"""Open the rows of a data set, wherever its manifest says that they lie."""

from __future__ import annotations

from pathlib import Path

from privod.engines.duckdb_table import DuckdbTable
from privod.engines.in_place import FilesInPlace, SourceInPlace
from privod.engines.manifest import SALT, Manifest
from privod.engines.source import Engine, RegisteredRows, Source
from privod.engines.spark_table import SparkTable
from privod.engines.stored import StoredSource

SOURCES: dict[str, type[SourceInPlace]] = {
    "parquet": FilesInPlace,
    "delta": FilesInPlace,
    "iceberg": FilesInPlace,
    "duckdb": DuckdbTable,
}


def open_rows(folder: Path, seal: str, engine: Engine | None = None) -> RegisteredRows:
    """The rows in a folder, or those that it refers to, if they are under this seal."""
    salt = (folder / SALT).read_bytes()
    manifest = Manifest.read(folder, salt, seal)
    source: Source
    if manifest.place is None:
        source = StoredSource(folder, salt, manifest)
    elif manifest.place["kind"] == "spark":
        source = SparkTable(salt, manifest, engine)
    else:
        source = SOURCES[manifest.place["kind"]](folder, salt, manifest)
    return RegisteredRows(source, manifest, folder, seal, engine)
