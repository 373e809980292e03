"""How long, and how much memory, do rows take that do not fit into memory?

Three sets are made, each in one Parquet file, and removed when its steps are done:

- persons: six numbers, three categories and a person as a text. They are registered (clipped,
  coded, of each person two rows kept) by privod and by Polars streaming, then counted: a histogram,
  a detector, and a grid of 8 cells in each of six columns, by privod (which
  checks the seals of all it reads), Polars and DuckDB on the same files; and by one and two Dask
  workers, each bound to a core of its own.
- plain: six numbers alone, and many rows, registered and asked the same.
- points: six numbers. The exact number of outliers in three of them is counted by parts of space,
  holding at most a quarter of the points at once, and with all of them in memory.

Every step runs in a process of its own, whose peak memory is told, and whose processor time, since
on a busy machine the clock says little; counts must be equal.

    python benchmarks/race_engines.py                                # 10^7, 10^8 and 3 x 10^6 rows
    python benchmarks/race_engines.py --sets persons --rows 1000000
    python benchmarks/race_engines.py --quick                        # 10^5 of persons and of points
"""

from __future__ import annotations

import argparse
import json
import os
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
from privod.data import Categorical, Domain, Numeric, Table
from privod.data.binning import Equal
from privod.data.folding import SomeRows
from privod.engines import SizeClass, open_rows
from privod.engines.dask_cluster import DaskCluster
from privod.engines.size import IN_MEMORY
from privod.engines.source import RegisteredRows
from privod.mechanisms import seeded
from privod.outliers.crowds.by_space import CreditsBySpace, boxes_around
from privod.outliers.grid.grid import Grid
from privod.query.crowd_bounds import count_outliers
from privod.query.distances import Distances
from privod.questions.detector_profile.query import DetectorProfile
from privod.threads import available_threads

NUMBERS = tuple(Numeric(f"n{place}", -4, 4) for place in range(6))
CATEGORIES = tuple(
    Categorical(f"c{place}", tuple(f"value {value}" for value in range(5))) for place in range(3)
)
MOST = 2
DOMAIN = Domain((*NUMBERS, *CATEGORIES), "who", MOST)
PLAIN = Domain(NUMBERS)
OVER = Distances.over(PLAIN, ("n0", "n1", "n2"), "own", ())
RADIUS, CROWD = 0.1, 5
ON_PAPER, WORKERS = 10**10, 100  # rows and workers that nobody has here
REPEATS = 5  # of a count by Dask workers; the fastest is told
CELLS = 8
BATCH = 1 << 18
GRID = Grid(NUMBERS, CELLS)


def make(folder: Path, rows: int, plain: bool) -> None:
    """Write the source."""
    rng = np.random.default_rng(0)
    kinds = [(column.name, pa.float64()) for column in NUMBERS]
    if not plain:
        kinds += [(column.name, pa.string()) for column in CATEGORIES] + [("who", pa.string())]
    with pa_parquet.ParquetWriter(folder / "source.parquet", pa.schema(kinds)) as writer:
        for start in range(0, rows, BATCH):
            n = min(BATCH, rows - start)
            some: dict[str, Any] = {column.name: rng.normal(size=n) for column in NUMBERS}
            if not plain:
                for column in CATEGORIES:
                    places = pa.array(rng.integers(0, 5, n))
                    some[column.name] = pa.array(column.values).take(places)
                owners = pa.array(rng.integers(0, max(1, rows // 2), n)).cast(pa.string())
                some["who"] = pc.binary_join_element_wise("patient", owners, "-")
            writer.write_table(pa.table(some))


def register(folder: Path, rows: int) -> int:
    """Take the source in as a curator does."""
    size = SizeClass(max(rows, IN_MEMORY + 1))
    source = folder / "source.parquet"
    plain = "who" not in pa_parquet.read_schema(source).names
    name, seal, report = RowStore(folder / "rows").keep(
        source, PLAIN if plain else DOMAIN, size=size
    )
    (folder / "where.json").write_text(json.dumps([name, seal]))
    return report.kept


def register_polars(folder: Path, _rows: int) -> int:
    """The same by Polars: clip, code, keep the first rows of each person, write."""
    import polars as pl

    source = pl.scan_parquet(folder / "source.parquet")
    names = source.collect_schema().names()
    coded = [
        pl.col(column.name).replace_strict(
            dict(zip(column.values, range(5), strict=True)), return_dtype=pl.UInt8
        )
        for column in CATEGORIES
        if column.name in names
    ]
    clipped = [pl.col(column.name).clip(column.low, column.high) for column in NUMBERS]
    kept = source.with_columns(*clipped, *coded)
    if "who" in names:
        kept = kept.filter(pl.int_range(pl.len()).over("who") < MOST).drop("who")
    kept.sink_parquet(folder / "polars.parquet", compression="lz4")
    return int(pl.scan_parquet(folder / "polars.parquet").select(pl.len()).collect().item())


def stored(folder: Path, engine: DaskCluster | None = None) -> RegisteredRows:
    """What was registered."""
    name, seal = json.loads((folder / "where.json").read_text())
    return open_rows(folder / "rows" / name, seal, engine)


def histogram(folder: Path, _rows: int) -> list[int]:
    """Twenty bins of one column."""
    counts = Table.over(PLAIN, stored(folder)).counts([("n0", Equal(-4, 4, 20))])
    return [int(count) for count in counts]


def detector(folder: Path, _rows: int) -> int:
    """The release of a detector, of which the number of records is told."""
    query = DetectorProfile(columns=PLAIN.names, epsilon=10**6)
    return int(query.answer(Table.over(PLAIN, stored(folder)), seeded(0)).value.total)


def crowds(folder: Path, _rows: int) -> int:
    """How many outliers there are, holding a quarter of the points at once in all threads."""
    table = Table.over(PLAIN, stored(folder))
    columns = (OVER.numbers, OVER.codes, OVER.points_of)
    at_once = len(table) * OVER.n_axes // 4 // available_threads()
    boxes = boxes_around(table.fold(SomeRows(*columns)), 8 * available_threads())
    return table.sweep(CreditsBySpace(*columns, RADIUS, CROWD, 1, boxes, at_once))


def crowds_in_memory(folder: Path, _rows: int) -> int:
    """The same with all points in memory."""
    return count_outliers(OVER.points(Table.over(PLAIN, stored(folder))), RADIUS, CROWD)


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


def dask(folder: Path, workers: int) -> tuple[list[int], float, float]:
    """The grid by Dask workers; the first time compiles, of the others the fastest is told.

    The times are without starting: by the clock, and of the processor of the busiest worker.
    """
    engine = DaskCluster.open(f"local:{workers}")
    cores = sorted(os.sched_getaffinity(0))
    try:
        addresses = sorted(engine._client.scheduler_info(n_workers=-1)["workers"])
        for place, address in enumerate(addresses):
            core = {cores[place % len(cores)]}
            engine._client.run(os.sched_setaffinity, 0, core, workers=[address])
        rows = stored(folder, engine)
        engine.check(rows)
        engine.fold(rows, GRID.counting())
        walls, busiest = [], []
        for _ in range(REPEATS):
            before = engine._client.run(time.process_time)
            start = time.perf_counter()
            found = engine.fold(rows, GRID.counting())
            walls.append(time.perf_counter() - start)
            after = engine._client.run(time.process_time)
            busiest.append(max(after[worker] - before[worker] for worker in before))
        return told(found), min(walls), min(busiest)
    finally:
        engine.close()


STEPS: dict[str, Callable[[Path, int], Any]] = {
    "register": register,
    "register_polars": register_polars,
    "histogram": histogram,
    "detector": detector,
    "grid": grid,
    "grid_polars": grid_polars,
    "grid_duckdb": grid_duckdb,
    "dask_1": lambda folder, _: dask(folder, 1),
    "dask_2": lambda folder, _: dask(folder, 2),
    "crowds": crowds,
    "crowds_in_memory": crowds_in_memory,
}
ASKED = ("register", "histogram", "detector", "grid")
SETS = {
    "persons": (10**7, tuple(step for step in STEPS if not step.startswith("crowds"))),
    "plain": (10**8, ASKED),
    "points": (3 * 10**6, ("register", "crowds", "crowds_in_memory")),
}
QUICK = 100_000
QUICK_SETS = ("persons", "points")  # the steps of plain are those of persons: most of it is imports


def own_peak() -> float:
    """The most memory this process ever had, in MB; `getrusage` would count who started it too."""
    status = Path("/proc/self/status").read_text()
    return next(
        int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")
    )


def run(step: str, folder: Path, rows: int) -> dict[str, Any]:
    """One step in a process of its own."""
    command = [sys.executable, __file__, "--step", step, "--folder", str(folder)]
    done = subprocess.run(
        [*command, "--rows", str(rows)], check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def race(name: str, rows: int, without: list[str]) -> dict[str, dict[str, Any]]:
    """Every step of a set; its files are gone afterwards."""
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as place:
        make(Path(place), rows, plain=name != "persons")
        for step in SETS[name][1]:
            if step in without:
                continue
            one = found[step] = run(step, Path(place), rows)
            times = f"{one['wall']:8.2f} s, {one['cpu']:8.2f} s of processor time"
            print(f"{name:8} {step:16} {times}, {one['megabytes']:7.0f} MB", flush=True)
    return found


def check(found: dict[str, dict[str, Any]]) -> None:
    """Fail unless everybody counted the same."""
    n_kept = found["register"]["result"]
    for step in ("register_polars", "detector"):
        assert step not in found or found[step]["result"] == n_kept, step
    assert "histogram" not in found or sum(found["histogram"]["result"]) == n_kept
    for step in ("grid_polars", "grid_duckdb"):
        assert step not in found or found[step]["result"] == found["grid"]["result"], step
    for step in ("dask_1", "dask_2"):
        assert step not in found or found[step]["result"][0] == found["grid"]["result"], step
    if "crowds" in found and "crowds_in_memory" in found:
        assert found["crowds"]["result"] == found["crowds_in_memory"]["result"]


def tell(name: str, rows: int, found: dict[str, dict[str, Any]]) -> None:
    """The figures of a set."""
    print(f"figure {name}_rows {rows}")
    print(f"figure {name}_kept {found['register']['result']}")
    for step, one in found.items():
        print(f"figure {name}_{step}_processor_seconds {one['cpu']:.3g}")
        print(f"figure {name}_{step}_seconds {one['wall']:.3g}")
        print(f"figure {name}_{step}_megabytes {one['megabytes']:.0f}")
        print(f"figure {name}_{step}_microseconds_a_row {one['cpu'] / rows * 1e6:.2g}")
    for step, peer in (("register", "polars"), ("grid", "polars"), ("grid", "duckdb")):
        if f"{step}_{peer}" in found:
            ratio = found[step]["cpu"] / found[f"{step}_{peer}"]["cpu"]
            print(f"figure {name}_{step}_times_{peer} {ratio:.2f}")
    if "grid" in found:  # what docs/engines.md works out on paper
        each, registered = found["grid"]["cpu"] / rows, found["register"]["cpu"] / rows
        print(f"figure {name}_on_paper_grid_seconds_a_worker {each * ON_PAPER / WORKERS:.2g}")
        print(f"figure {name}_on_paper_register_hours {registered * ON_PAPER / 3600:.2g}")
    if "crowds" in found:
        print(f"figure {name}_outliers {found['crowds']['result']}")
    if {"dask_1", "dask_2"} <= found.keys():
        one, two = (found[f"dask_{workers}"]["result"] for workers in (1, 2))
        print(f"figure {name}_two_dask_workers_faster_by_the_clock {one[1] / two[1]:.2f}")
        print(f"figure {name}_two_dask_workers_faster_by_processor {one[2] / two[2]:.2f}")


def main() -> None:
    """Run every step and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    parser.add_argument("--rows", type=int, help="of every set, instead of its own number")
    parser.add_argument("--sets", nargs="*", choices=SETS)
    parser.add_argument("--without", nargs="*", choices=STEPS, default=[], help="steps left out")
    parser.add_argument("--step", choices=STEPS)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.step:
        GRID.all_counts(np.zeros((1, len(NUMBERS))))  # compiled, or read from where it is kept
        start, started = time.perf_counter(), time.process_time()  # after our own imports
        result = STEPS[given.step](given.folder, given.rows)
        wall, cpu = time.perf_counter() - start, time.process_time() - started
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu += children.ru_utime + children.ru_stime
        peak = own_peak() + children.ru_maxrss / 1024
        print(json.dumps({"result": result, "wall": wall, "cpu": cpu, "megabytes": peak}))
        return
    races = {}
    quick = given.quick or given.smoke
    if given.smoke:
        kept = ("register", "grid", "grid_polars", "grid_duckdb")
        given.without = [step for step in STEPS if step not in kept]
    for name in given.sets or (QUICK_SETS[:1] if given.smoke else QUICK_SETS if quick else SETS):
        rows = 2000 if given.smoke else QUICK if quick else given.rows or SETS[name][0]
        races[name] = rows, race(name, rows, given.without)
    for name, (rows, found) in races.items():
        check(found)
        tell(name, rows, found)


if __name__ == "__main__":
    main()
