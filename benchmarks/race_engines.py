"""How long, and how much memory, do rows take that do not fit into memory?

Sets are made, each in one Parquet file, and removed when its steps are done:

- persons: six numbers, three categories and a person as a text. They are registered (clipped,
  coded, of each person two rows kept) by privod and by Polars streaming, then counted: a histogram,
  a detector, and a grid of 8 cells in each of six columns, by privod (which
  checks the seals of all it reads), Polars and DuckDB on the file that Polars wrote; and by one and
  two Dask workers, each bound to a core of its own.
- plain: six numbers alone, and many rows, registered and asked the same.
  Both are registered in place, too: the Parquet file, a table of DuckDB, and the file on Spark.
- lake: six numbers in 10^7 rows, in a folder that names their file many times: 10^9 rows in place.
- points: six numbers. The exact number of outliers in three of them is counted by parts of space,
  holding at most a quarter of the points at once, and with all of them in memory.

Every step runs in a process of its own, whose peak memory is told, and whose processor time, since
on a busy machine the clock says little; counts must be equal.

    python benchmarks/race_engines.py                                # 10^7, 10^8 and 3 x 10^6 rows
    python benchmarks/race_engines.py --sets persons --rows 1000000
    python benchmarks/race_engines.py --sets lake --rows 1e9         # once
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
from contextlib import suppress
from functools import partial
from itertools import product
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
from privod.data.views import SeenFold, View
from privod.engines import InPlace, SizeClass, open_rows
from privod.engines.dask_cluster import DaskCluster
from privod.engines.size import IN_MEMORY
from privod.engines.source import RegisteredRows
from privod.engines.spark_cluster import SparkCluster
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


def register(folder: Path, rows: int, holder: str = "stored") -> int:
    """Take the source in as a curator does, or where it lies."""
    size, lake = SizeClass(max(rows, IN_MEMORY + 1)), folder / "lake"
    source: Any = folder / "source.parquet"
    plain = "who" not in pa_parquet.read_schema(source).names
    domain = PLAIN if plain else DOMAIN
    if holder == "duckdb":
        source = InPlace(f"duckdb:{folder / 'source.duckdb'}#source").look_up(domain)
    elif holder == "parquet":
        source = InPlace(str(lake if lake.exists() else source)).look_up(domain)
    name, seal, report = RowStore(folder / "rows").keep(source, domain, size=size)
    (folder / f"{holder}.json").write_text(json.dumps([name, seal]))
    return report.kept


def make_duckdb(folder: Path, _rows: int) -> int:
    """Write the source into a table of DuckDB."""
    import duckdb

    with duckdb.connect(str(folder / "source.duckdb")) as connection:
        sql = f"CREATE TABLE source AS SELECT * FROM '{folder / 'source.parquet'}'"  # noqa: S608
        connection.execute(sql)
    return 0


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


def stored(
    folder: Path, engine: DaskCluster | SparkCluster | None = None, holder: str = "stored"
) -> RegisteredRows:
    """What was registered."""
    name, seal = json.loads((folder / f"{holder}.json").read_text())
    return open_rows(folder / "rows" / name, seal, engine)


def seen(folder: Path, holder: str = "stored") -> Table:
    """The six numbers as questions see them."""
    return Table.over(PLAIN, stored(folder, None, holder).seen(PLAIN))


def histogram(folder: Path, _rows: int, holder: str = "stored") -> list[int]:
    """Twenty bins of one column."""
    counts = seen(folder, holder).counts([("n0", Equal(-4, 4, 20))])
    return [int(count) for count in counts]


def detector(folder: Path, _rows: int, holder: str = "stored") -> int:
    """The release of a detector, of which the number of records is told."""
    query = DetectorProfile(columns=PLAIN.names, epsilon=10**6)
    return int(query.answer(seen(folder, holder), seeded(0)).value.total)


def crowds(folder: Path, _rows: int) -> int:
    """How many outliers there are, holding a quarter of the points at once in all threads."""
    table = seen(folder)
    columns = (OVER.numbers, OVER.codes, OVER.points_of)
    at_once = len(table) * OVER.n_axes // 4 // available_threads()
    boxes = boxes_around(table.fold(SomeRows(*columns)), 8 * available_threads())
    return table.sweep(CreditsBySpace(*columns, RADIUS, CROWD, 1, boxes, at_once))


def crowds_in_memory(folder: Path, _rows: int) -> int:
    """The same with all points in memory."""
    return count_outliers(OVER.points(seen(folder)), RADIUS, CROWD)


def grid(folder: Path, _rows: int, holder: str = "stored") -> list[int]:
    """All cells of the grid."""
    return told(seen(folder, holder).fold(GRID.counting()))


def spark(folder: Path, _rows: int) -> tuple[list[int], float, float]:
    """The grid by two threads of Spark that read the files; the first time compiles.

    The times are without starting: by the clock, and of all processors of Spark and its workers.
    """
    engine = SparkCluster.open("spark:local[2]")
    try:
        rows = stored(folder, engine, "parquet")
        engine.check(rows)
        counting = SeenFold(GRID.counting(), View(PLAIN))
        engine.fold(rows, counting)
        walls, spent = [], []
        for _ in range(REPEATS):
            before, start = tree_seconds(), time.perf_counter()
            found = engine.fold(rows, counting)
            walls.append(time.perf_counter() - start)
            spent.append(tree_seconds() - before)
        return told(found), min(walls), min(spent)
    finally:
        engine.close()


def tree_seconds() -> float:
    """Processor seconds of this process and all it started, also of those that ended."""
    children: dict[int, list[int]] = {}
    own: dict[int, float] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            with suppress(OSError):
                fields = (place / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(place.name))
                own[int(place.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    waiting, total = [os.getpid()], 0.0
    while waiting:
        process = waiting.pop()
        total += own.get(process, 0)
        waiting += children.get(process, [])
    return total


def told(counts: Any) -> list[int]:
    """A short sign of many counts: their sum, and a sum weighted by place."""
    weights = np.arange(len(counts)) % 1009
    return [int(counts.sum()), int((counts * weights).sum())]


def grid_polars(folder: Path, _rows: int) -> list[int]:
    """The same counts by Polars' group-by."""
    import polars as pl

    cell = pl.lit(0, pl.Int64)
    for column in NUMBERS:
        value = pl.col(column.name).clip(column.low, column.high)  # beyond a range: infinite
        along = (value - column.low) * (CELLS / (column.high - column.low))
        cell = cell * CELLS + along.cast(pl.Int64).clip(0, CELLS - 1)
    found = (
        pl.scan_parquet(folder / "polars.parquet")
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
        value = f"least(greatest({column.name}, {column.low}), {column.high})"
        along = f"floor(({value} - {column.low}) * {CELLS / (column.high - column.low)})"
        cell = f"({cell}) * {CELLS} + least({along}, {CELLS - 1})::BIGINT"
    files = folder / "polars.parquet"
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


STEPS: dict[str, Callable[..., Any]] = {
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
    "make_duckdb": make_duckdb,
    "spark": spark,
}
ASKED = ("register", "histogram", "detector", "grid")
OF_PERSONS = tuple(step for step in STEPS if not step.startswith(("crowds", "make", "spark")))
for place, step in product(("parquet", "duckdb"), ASKED):
    STEPS[f"{step}_in_{place}"] = partial(STEPS[step], holder=place)
IN_PARQUET = tuple(f"{step}_in_parquet" for step in ASKED)
IN_DUCKDB = ("make_duckdb", *(f"{step}_in_duckdb" for step in ASKED if step != "detector"))
SETS = {
    "persons": (10**7, (*OF_PERSONS, *IN_PARQUET, *IN_DUCKDB, "spark")),
    "plain": (10**8, (*ASKED, *IN_PARQUET)),
    "lake": (10**9, IN_PARQUET),
    "points": (3 * 10**6, ("register", "crowds", "crowds_in_memory")),
}
IN_ONE_FILE = 10**7
QUICK = 100_000
EVERY_TIME = ("persons", "plain", "points")
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
        once = min(rows, IN_ONE_FILE) if name == "lake" else rows
        make(Path(place), once, plain=name != "persons")
        if name == "lake":
            (Path(place) / "lake").mkdir()
            for number in range(rows // once):
                os.link(Path(place) / "source.parquet", Path(place) / f"lake/{number:04d}.parquet")
        for step in SETS[name][1]:
            if step in without:
                continue
            one = found[step] = run(step, Path(place), rows)
            times = f"{one['wall']:8.2f} s, {one['cpu']:8.2f} s of processor time"
            print(f"{name:8} {step:16} {times}, {one['megabytes']:7.0f} MB", flush=True)
    return found


def kept(found: dict[str, dict[str, Any]]) -> int:
    """How many records were kept."""
    return int((found.get("register") or found["register_in_parquet"])["result"])


def check(found: dict[str, dict[str, Any]]) -> None:
    """Fail unless everybody counted the same."""
    results = {step: one["result"] for step, one in found.items()}
    n_kept = kept(found)
    for step, result in results.items():
        if step.startswith(("register", "detector")):
            assert result == n_kept, step
        elif step.startswith("histogram"):
            assert sum(result) == n_kept, step
            assert result == results.get("histogram", result), step
        elif step.startswith(("grid", "dask", "spark")):
            counts = result[0] if step.startswith(("dask", "spark")) else result
            assert counts == results.get("grid", counts), step
    if "crowds" in found and "crowds_in_memory" in found:
        assert found["crowds"]["result"] == found["crowds_in_memory"]["result"]


def tell(name: str, rows: int, found: dict[str, dict[str, Any]]) -> None:
    """The figures of a set."""
    print(f"figure {name}_rows {rows}")
    print(f"figure {name}_kept {kept(found)}")
    for step, one in found.items():
        print(f"figure {name}_{step}_processor_seconds {one['cpu']:.3g}")
        print(f"figure {name}_{step}_seconds {one['wall']:.3g}")
        print(f"figure {name}_{step}_megabytes {one['megabytes']:.0f}")
        print(f"figure {name}_{step}_microseconds_a_row {one['cpu'] / rows * 1e6:.2g}")
    for step, peer in (("register", "polars"), ("grid", "polars"), ("grid", "duckdb")):
        if f"{step}_{peer}" in found:
            ratio = found[step]["cpu"] / found[f"{step}_{peer}"]["cpu"]
            print(f"figure {name}_{step}_times_{peer} {ratio:.2f}")
    for step, one in found.items():
        peer, _, place = step.partition("_in_")
        if place in ("parquet", "duckdb") and peer in found:
            print(f"figure {name}_{step}_times_stored {one['cpu'] / found[peer]['cpu']:.2f}")
    if "spark" in found:
        each = found["spark"]["result"][2] / rows * 1e6
        print(f"figure {name}_spark_grid_microseconds_a_row {each:.2f}")
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
    parser.add_argument(
        "--rows", type=lambda text: int(float(text)), help="of every set, instead of its own number"
    )
    parser.add_argument("--sets", nargs="*", choices=SETS)
    parser.add_argument("--without", nargs="*", choices=STEPS, default=[], help="steps left out")
    parser.add_argument("--step", choices=STEPS)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.step:
        GRID.all_counts(np.zeros((1, len(NUMBERS))))  # compiled, or read from where it is kept
        one: dict[str, Any] = {column.name: [0.0] for column in NUMBERS}
        Table(DOMAIN, {**one, **{column.name: ["value 0"] for column in CATEGORIES}, "who": ["p"]})
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
        few = ("register_in_parquet", "grid_in_parquet")
        given.without = [step for step in STEPS if step not in few]
    for name in given.sets or (
        QUICK_SETS[:1] if given.smoke else QUICK_SETS if quick else EVERY_TIME
    ):
        rows = 2000 if given.smoke else QUICK if quick else given.rows or SETS[name][0]
        races[name] = rows, race(name, rows, given.without)
    for name, (rows, found) in races.items():
        check(found)
        tell(name, rows, found)


if __name__ == "__main__":
    main()
