"""A question on a real Spark cluster whose executor is killed in the middle of the answer.

    python benchmarks/soak_spark.py [--quick] [--rows 2000000]

Starts a master and two workers of Spark's standalone cluster on loopback. A Parquet file is
registered in place. Every question of the catalog that folds must release the same there and here
at one seed. Then a curator asks a detector's profile on the cluster. Once the question is charged
and executors count, one of them is killed. The answer must come, the charge must be one, and counts
on the cluster must be those that are counted here. Everything that was started is stopped again.
`--smoke` counts in two threads of one process, and kills nothing. Without Java it says so and ends
well.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from privod.curator import Curator
from privod.curator.rows import RowStore
from privod.data import Categorical, Domain, Numeric, Table
from privod.data.binning import Equal
from privod.data.folding import CellCounts
from privod.engines import InPlace, open_rows
from privod.engines.size import IN_MEMORY
from privod.engines.spark_cluster import SparkCluster
from privod.joint.exact.forwarder import free_port
from privod.ledger import store
from privod.mechanisms import seeded
from privod.privacy import AddRemove, Loss
from privod.query.catalog import QUERIES
from privod.query.query import canonical_json
from privod.questions.detector_profile.query import DetectorProfile

NAMES = tuple(f"n{place}" for place in range(6))
KINDS = ("a", "b", "c")
DOMAIN = Domain((*(Numeric(name, -4, 4) for name in NAMES), Categorical("kind", KINDS)))
ASKED = DetectorProfile(columns=NAMES, epsilon=1)
COUNTS = CellCounts((("n0", Equal(-4, 4, 20)),))
PATIENCE = 600.0  # seconds, on however busy a machine


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[int]]]:
    """A master and two workers; its address, and the processes of the workers."""
    import pyspark

    run = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    port, host = free_port(), "127.0.0.1"
    address = f"spark://{host}:{port}"
    common = ["--host", host, "--webui-port", "0"]
    master = ["org.apache.spark.deploy.master.Master", *common, "--port", str(port)]
    worker = ["org.apache.spark.deploy.worker.Worker", *common, "--cores", "1", "--memory", "1g"]
    started: list[subprocess.Popen[bytes]] = []
    with (folder / "spark.log").open("wb") as log:
        try:
            for number, command in enumerate((master, worker, worker)):
                place = folder / f"work-{number}"
                place.mkdir()
                extra = [] if number == 0 else ["--work-dir", str(place), address]
                started.append(
                    subprocess.Popen([run, *command, *extra], stdout=log, stderr=log, cwd=place)
                )
            yield address, [one.pid for one in started[1:]]
        finally:
            for one in reversed(started):
                one.terminate()
            for one in started:
                one.wait(60)


def executors(workers: list[int]) -> list[int]:
    """The executors that workers started."""
    parents = {}
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            with suppress(OSError):
                fields = (place / "stat").read_text().rpartition(")")[2].split()
                parents[int(place.name)] = int(fields[1])

    def is_below(process: int) -> bool:
        while process in parents:
            process = parents[process]
            if process in workers:
                return True
        return False

    found = []
    for process in filter(is_below, parents):
        with suppress(OSError):
            if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{process}/cmdline").read_bytes():
                found.append(process)
    return found


def eventually(is_so: Any, what: str) -> None:
    """Wait until something is so."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def make(folder: Path, rows: int) -> str:
    """Write the source."""
    rng = np.random.default_rng(0)
    numbers = {name: rng.normal(size=rows) for name in NAMES}
    table = pa.table({**numbers, "kind": rng.choice(KINDS, rows)})
    path = folder / "stays.parquet"
    pa_parquet.write_table(table, path, row_group_size=max(1, rows // 16))
    return str(path)


def soak(folder: Path, rows: int, engine: SparkCluster, workers: list[int]) -> int:
    """Ask, kill an executor where there are workers, and check; how many were killed."""
    killed = 0
    with Curator.open(folder / "curator") as curator:
        where = InPlace(make(folder, rows))
        curator.register("stays", where, DOMAIN, most_records=IN_MEMORY + 1)
        curator.open_budget("stays", AddRemove(), Loss(10))
        curator._rows.engine = engine
        with curator.database.reading() as connection:
            name, seal = store.where_rows_are(connection, "stays")
        registered = open_rows(curator._rows.directory / name, seal, engine)
        engine.check(registered)
        there = engine.fold(registered, COUNTS)
        here = registered.fold_here(COUNTS, range(registered.source.pieces))
        assert there is not None
        assert there.tolist() == here.tolist()
        places = [RowStore(curator._rows.directory, where) for where in (None, engine)]
        same_releases([place.load(name, seal, DOMAIN) for place in places], few=not workers)
        if workers:
            killed = ask_and_kill(curator, workers)
            again = engine.fold(registered, COUNTS)
            assert again is not None, "the cluster does not count after an executor was killed"
            assert again.tolist() == here.tolist()
        curator.verify()
        curator._rows.engine = None
    return killed


def same_releases(tables: list[Table], *, few: bool) -> None:
    """Every question that folds, asked here and there with one seed."""
    asked = {
        query.name: query
        for kind in QUERIES.values()
        for query in kind.examples(DOMAIN)
        if query.held_per_record(DOMAIN) == 0
    }
    for query in list(asked.values())[: 1 if few else None]:
        releases = {canonical_json(query.answer(each, seeded(5)).to_json()) for each in tables}
        assert len(releases) == 1, query.name
    print(f"figure questions_equal {1 if few else len(asked)}")


def ask_and_kill(curator: Curator, workers: list[int]) -> int:
    """Ask in a thread; kill an executor once the question is charged."""
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(curator.ask(ASKED, of="stays")))
    before = len(curator.history("stays"))
    asking.start()
    eventually(lambda: curator.budget("stays")[0].spent.epsilon > 0, "nothing was charged")
    eventually(lambda: len(executors(workers)) == 2, "there are not two executors")
    victim = executors(workers)[0]
    os.kill(victim, signal.SIGKILL)
    assert asking.is_alive(), "the answer came before the executor was killed: give more --rows"
    asking.join(PATIENCE)
    assert len(answers) == 1, "there is no answer"
    charged = [one for one in curator.history("stays")[before:] if one.kind == "charge"]
    print(f"figure charges {len(charged)}")
    assert len(charged) == 1
    assert curator.budget("stays")[0].spent.epsilon == 1
    eventually(lambda: victim not in executors(workers), "the executor lives")
    return 1


def main() -> None:
    """Run it and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    parser.add_argument("--rows", type=int, default=2_000_000)
    given = parser.parse_args()
    if shutil.which("java") is None:
        print("skipped: Java is not installed")
        return
    rows = 2000 if given.smoke else 500_000 if given.quick else given.rows
    with tempfile.TemporaryDirectory() as place:
        if given.smoke:
            engine = SparkCluster.open("spark:local[2]")
            try:
                killed = soak(Path(place), rows, engine, [])
            finally:
                engine.close()
        else:
            with cluster(Path(place)) as (address, workers):
                engine = SparkCluster.open(address)
                try:
                    killed = soak(Path(place), rows, engine, workers)
                finally:
                    engine.close()
    print(f"figure rows {rows}")
    print(f"figure executors_killed {killed}")


if __name__ == "__main__":
    main()
