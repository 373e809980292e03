"""How long, and how much memory, do rows take that do not fit into memory?

Rows of six numbers, three categories and a person as a text, in one Parquet file. They are
registered (clipped, coded, of each person two rows kept) by privod and by Polars streaming, then
counted: a histogram, and a grid of 8 cells in each of six columns, by privod (which checks the
seals of all it reads), Polars and DuckDB on the same files; and by one and two Dask workers.
Every step runs in a process of its own, whose peak memory is told; counts must be equal.

    python benchmarks/race_engines.py                    # 10^7 rows
    python benchmarks/race_engines.py --rows 100000000   # 10^8
    python benchmarks/race_engines.py --quick            # 5 x 10^5
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pa_parquet

from privod.curator.rows import RowStore
from privod.data import Categorical, Domain, Numeric
from privod.data.binning import Equal
from privod.engines import SizeClass, StoredRows
from privod.engines.dask_cluster import DaskCluster
from privod.engines.size import IN_MEMORY
from privod.outliers.grid.grid import Grid

NUMBERS = tuple(Numeric(f"n{place}", -4, 4) for place in range(6))
CATEGORIES = tuple(
    Categorical(f"c{place}", tuple(f"value {value}" for value in range(5))) for place in range(3)
)
MOST = 2
DOMAIN = Domain((*NUMBERS, *CATEGORIES), "who", MOST)
CELLS = 8
BATCH = 1 << 18
GRID = Grid(NUMBERS, CELLS)


def make(folder: Path, rows: int) -> None:
    """Write the source."""
    rng = np.random.default_rng(0)
    kinds = [(column.name, pa.float64()) for column in NUMBERS]
    kinds += [(column.name, pa.string()) for column in CATEGORIES] + [("who", pa.string())]
    with pa_parquet.ParquetWriter(folder / "source.parquet", pa.schema(kinds)) as writer:
        for start in range(0, rows, BATCH):
            n = min(BATCH, rows - start)
            some: dict[str, Any] = {column.name: rng.normal(size=n) for column in NUMBERS}
            for column in CATEGORIES:
                some[column.name] = pa.array(column.values).take(pa.array(rng.integers(0, 5, n)))
            owners = pa.array(rng.integers(0, max(1, rows // 2), n)).cast(pa.string())
            some["who"] = pc.binary_join_element_wise("patient", owners, "-")
            writer.write_table(pa.table(some))


def register(folder: Path, rows: int) -> int:
    """Take the source in as a curator does."""
    size = SizeClass(max(rows, IN_MEMORY + 1))
    name, seal, report = RowStore(folder / "rows").keep(
        folder / "source.parquet", DOMAIN, size=size
    )
    (folder / "where.json").write_text(json.dumps([name, seal]))
    return report.kept


def register_polars(folder: Path, _rows: int) -> int:
    """The same by Polars: clip, code, keep the first rows of each person, write."""
    import polars as pl

    source = pl.scan_parquet(folder / "source.parquet")
    coded = [
        pl.col(column.name).replace_strict(
            dict(zip(column.values, range(5), strict=True)), return_dtype=pl.UInt8
        )
        for column in CATEGORIES
    ]
    clipped = [pl.col(column.name).clip(column.low, column.high) for column in NUMBERS]
    first = pl.int_range(pl.len()).over("who") < MOST
    kept = source.with_columns(*clipped, *coded).filter(first).drop("who")
    kept.sink_parquet(folder / "polars.parquet", compression="lz4")
    return int(pl.scan_parquet(folder / "polars.parquet").select(pl.len()).collect().item())


def stored(folder: Path, engine: DaskCluster | None = None) -> StoredRows:
    """What was registered."""
    name, seal = json.loads((folder / "where.json").read_text())
    return StoredRows(folder / "rows" / name, seal, engine)


def histogram(folder: Path, _rows: int) -> list[int]:
    """Twenty bins of one column."""
    from privod.data import Table

    counts = Table.over(DOMAIN, stored(folder)).counts([("n0", Equal(-4, 4, 20))])
    return [int(count) for count in counts]


def grid(folder: Path, _rows: int) -> list[int]:
    """All cells of the grid."""
    return told(stored(folder).fold(GRID.counting()))


def told(counts: Any) -> list[int]:
    """A short sign of many counts: their sum, and a sum weighted by place."""
    weights = np.arange(len(counts)) % 1009
    return [int(counts.sum()), int((counts * weights).sum())]


def grid_polars(folder: Path, _rows: int) -> list[int]:
    """The same counts by Polars' group-by."""
    import polars as pl

    cell = pl.lit(0, pl.Int64)
    for column in NUMBERS:
        along = (pl.col(column.name) - column.low) * (CELLS / (column.high - column.low))
        cell = cell * CELLS + along.cast(pl.Int64).clip(0, CELLS - 1)
    files = str(folder / "rows" / "*" / "rows-*.parquet")
    found = (
        pl.scan_parquet(files)
        .select(cell.alias("cell"))
        .group_by("cell")
        .len()
        .collect(engine="streaming")
    )
    return told(filled(found["cell"].to_numpy(), found["len"].to_numpy()))


def grid_duckdb(folder: Path, _rows: int) -> list[int]:
    """The same counts by DuckDB."""
    import duckdb

    cell = "0"
    for column in NUMBERS:
        along = f"floor(({column.name} - {column.low}) * {CELLS / (column.high - column.low)})"
        cell = f"({cell}) * {CELLS} + least({along}, {CELLS - 1})::BIGINT"
    files = folder / "rows" / "*" / "rows-*.parquet"
    query = f"SELECT {cell} AS cell, count(*) AS n FROM read_parquet('{files}') GROUP BY 1"  # noqa: S608
    found = duckdb.connect().execute(query).fetchnumpy()
    return told(filled(found["cell"], found["n"]))


def filled(cells: Any, counts: Any) -> Any:
    """Counts of some cells among those of all."""
    every = np.zeros(GRID.n_cells, dtype=np.int64)
    every[np.asarray(cells, dtype=np.int64)] = np.asarray(counts, dtype=np.int64)
    return every


def dask(folder: Path, workers: int) -> tuple[list[int], float]:
    """The grid by Dask workers, the second time: the first compiles. The time without starting."""
    engine = DaskCluster.open(f"local:{workers}")
    try:
        rows = stored(folder, engine)
        engine.check(rows)
        engine.fold(rows, GRID.counting())
        start = time.perf_counter()
        found = engine.fold(rows, GRID.counting())
        return told(found), time.perf_counter() - start
    finally:
        engine.close()


STEPS: dict[str, Callable[[Path, int], Any]] = {
    "register": register,
    "register_polars": register_polars,
    "histogram": histogram,
    "grid": grid,
    "grid_polars": grid_polars,
    "grid_duckdb": grid_duckdb,
    "dask_1": lambda folder, _: dask(folder, 1),
    "dask_2": lambda folder, _: dask(folder, 2),
}


def run(step: str, folder: Path, rows: int) -> dict[str, Any]:
    """One step in a process of its own."""
    command = [sys.executable, __file__, "--step", step, "--folder", str(folder)]
    done = subprocess.run(
        [*command, "--rows", str(rows)], check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Run every step and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--step", choices=STEPS)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.step:
        start, started = time.perf_counter(), time.process_time()  # after our own imports
        result = STEPS[given.step](given.folder, given.rows)
        wall, cpu = time.perf_counter() - start, time.process_time() - started
        own, children = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        cpu += children.ru_utime + children.ru_stime
        peak = (own.ru_maxrss + children.ru_maxrss) / 1024
        print(json.dumps({"result": result, "wall": wall, "cpu": cpu, "megabytes": peak}))
        return
    rows = 500_000 if given.quick else given.rows
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make(folder, rows)
        found = {}
        for step in STEPS:
            one = found[step] = run(step, folder, rows)
            times = f"{one['wall']:8.2f} s, {one['cpu']:8.2f} s of processor time"
            print(f"{step:16} {times}, {one['megabytes']:7.0f} MB")
    assert found["register"]["result"] == found["register_polars"]["result"]
    expected = found["grid"]["result"]
    assert sum(found["histogram"]["result"]) == expected[0]
    assert found["grid_polars"]["result"] == found["grid_duckdb"]["result"] == expected
    one, two = (found[f"dask_{workers}"]["result"] for workers in (1, 2))
    assert one[0] == two[0] == expected
    print(f"figure engines_rows {rows}")
    for step in ("register", "histogram", "grid"):
        print(f"figure engines_{step}_processor_seconds {found[step]['cpu']:.4g}")
        print(f"figure engines_{step}_megabytes {found[step]['megabytes']:.4g}")
    for step, peer in (("register", "register_polars"), ("grid", "grid_polars")):
        ratio = found[peer]["cpu"] / found[step]["cpu"]
        print(f"figure engines_{step}_against_polars {ratio:.4g}")
    ratio = found["grid_duckdb"]["cpu"] / found["grid"]["cpu"]
    print(f"figure engines_grid_against_duckdb {ratio:.4g}")
    print(f"figure engines_two_dask_workers_against_one {one[1] / two[1]:.4g}")


if __name__ == "__main__":
    main()
