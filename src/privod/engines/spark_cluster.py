"""Add up over rows on the executors of a Spark cluster, with the same bits as here.

Executors read pieces of files themselves, with our own reader, and return sums: nothing is
shuffled, so Spark writes no rows to disk. Only a table without files passes through Spark
(`spark_table`). Versions of Python and privod are compared on the executors before a question is
charged, and again by every task.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self, TypeVar, cast
from urllib.parse import urlsplit

import pyarrow as pa

from privod.data.domain import Domain
from privod.data.folding import Fold, Sweep
from privod.data.sources import check_names
from privod.engines import cluster
from privod.engines.cluster import SWEEPS_PER_THREAD, TASKS_PER_THREAD, Plan
from privod.engines.in_place import Place
from privod.engines.source import AT_ONCE, RegisteredRows, versions
from privod.engines.spark_table import SparkTable, sent_back
from privod.errors import InvalidData, InvalidParameter, Unavailable

State = TypeVar("State")

THREADS_UNLESS_SAID = 8  # where a cluster does not say how many it has
PRIVATE = {  # what Spark would write down or show about our tasks
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.io.encryption.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(AT_ONCE),
}


class SparkCluster:
    """The executors behind a session of Spark itself or of Spark Connect.

    Other processes of this machine reach it at the address too, if it has one.
    """

    def __init__(self, session: Any, address: str | None = None) -> None:
        self.session, self.address = session, address

    @classmethod
    def open(cls, address: str) -> Self:
        """Connect to a cluster, or start one on this machine; docs/engines.md has the addresses."""
        master = address.removeprefix("spark:") if address.startswith("spark:local") else address
        _refuse_open_network(master)
        try:
            from pyspark.sql import SparkSession
        except ImportError:
            raise Unavailable("Install privod[spark] to count on a Spark cluster.") from None
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder: Any = SparkSession.builder.appName("privod")
        try:
            if master.startswith("sc://"):
                return cls(builder.remote(master).getOrCreate(), address)
            if _is_here(master):
                builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
                builder = builder.config("spark.driver.host", "127.0.0.1")
            session = builder.master(master).config(map=PRIVATE).getOrCreate()
            session.sparkContext.setLogLevel("OFF")
            return cls(session)
        except Exception:
            raise Unavailable(
                f"The Spark cluster at {address!r} cannot be reached. Check that it runs and that"
                " Java 17 is installed here (Spark Connect needs none)."
            ) from None

    def close(self) -> None:
        with suppress(Exception):
            self.session.stop()

    def check(self, rows: RegisteredRows) -> None:
        """Raise `Unavailable` unless the executors can add up these rows as we would."""
        if isinstance(rows.source, SparkTable):
            return
        n = TASKS_PER_THREAD * self._n_threads()
        found = self._run(_Checks(Plan.of(rows, None), versions()), n)
        told = {part.decode() for part in found or [b"no executor answers"] if part is not None}
        wrong = sorted(told - {""})
        if wrong:
            raise Unavailable(
                f"The Spark cluster cannot count these rows: {wrong[0]}. Nothing was charged. Mend"
                " the cluster, or open the curator without it."
            )

    def fold(self, rows: RegisteredRows, fold: Fold[State]) -> State | None:
        if isinstance(rows.source, SparkTable):
            return rows.source.fold(fold)
        n_tasks = min(rows.source.pieces, TASKS_PER_THREAD * self._n_threads())
        found = self._added_up("folded", Plan.of(rows, fold), rows.source.pieces, n_tasks)
        return cast("State | None", found)

    def sweep(self, rows: RegisteredRows, sweep: Sweep[State]) -> State | None:
        if isinstance(rows.source, SparkTable):
            return None
        n_tasks = min(sweep.n_parts, SWEEPS_PER_THREAD * self._n_threads())
        found = self._added_up("swept", Plan.of(rows, sweep), sweep.n_parts, n_tasks)
        return cast("State | None", found)

    def _added_up(self, work: str, plan: Plan, n_pieces: int, n_tasks: int) -> Any:
        found = self._run(_Tasks(plan, versions(), work, n_pieces, n_tasks), n_tasks)
        if found is None or len(found) != n_tasks:
            return None
        total = cluster.merged(plan, *(None if one is None else pickle.loads(one) for one in found))  # noqa: S301 - of our own tasks
        return None if total is None else total[0]

    def _run(self, job: Any, n_tasks: int) -> list[bytes | None] | None:
        with suppress(Exception):  # whose words may hold places or rows
            frame = self.session.range(0, n_tasks, 1, n_tasks).mapInArrow(job, "found binary")
            return [None if row[0] is None else bytes(row[0]) for row in frame.collect()]
        return None

    def _n_threads(self) -> int:
        with suppress(Exception):  # of Spark Connect, which does not say it
            return int(self.session.sparkContext.defaultParallelism)
        with suppress(Exception):
            return int(self.session.conf.get("spark.default.parallelism"))
        return THREADS_UNLESS_SAID


def _is_here(master: str) -> bool:
    if master.startswith("local"):
        return True
    with suppress(ValueError):
        return ip_address(urlsplit(master).hostname or "").is_loopback
    return False


def _refuse_open_network(master: str) -> None:
    """Counts travel to the curator: encrypted, or not beyond this machine."""
    encrypted = master.startswith("spark://") or "use_ssl=true" in master
    if not _is_here(master) and not encrypted:
        rule = "must be encrypted, or on this machine"
        way_out = "Write sc://host:port/;use_ssl=true, spark://host:port or spark:local[2]."
        raise InvalidParameter("engine", rule, master, way_out)
    if master.startswith("spark://") and not _is_here(master):
        home = Path(os.environ.get("SPARK_CONF_DIR", ""), "spark-defaults.conf")
        with suppress(OSError):
            lines = [line.split() for line in home.read_text(encoding="utf-8").splitlines()]
            if ["spark.network.crypto.enabled", "true"] in lines:
                return
        rule = "must have spark.network.crypto.enabled true in spark-defaults.conf"
        raise InvalidParameter("engine", rule, master, "Set it, with spark.authenticate true.")


# ---- on an executor: a value or nothing, never an exception --------------------------------------


@dataclass(frozen=True, repr=False)
class _Checks:
    """Says why an executor cannot count."""

    plan: Plan
    versions: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield sent_back([cluster.fitness(self.plan, self.versions).encode()])


@dataclass(frozen=True, repr=False)
class _Tasks:
    """Adds up the pieces of the tasks that an executor is given."""

    plan: Plan
    versions: tuple[str, ...]
    work: str
    n_pieces: int
    n_tasks: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        work = {"folded": cluster.folded, "swept": cluster.swept}[self.work]
        for batch in batches:
            for task in batch.column(0).to_pylist():
                found = None
                if versions() == self.versions:
                    found = work(self.plan, tuple(range(task, self.n_pieces, self.n_tasks)))
                yield sent_back([None if found is None else pickle.dumps(found)])


def look_up_spark(name: str, domain: Domain, engine: Any) -> Place:
    """Find a table in the catalog of the engine; no row is read."""
    if not isinstance(engine, SparkCluster):
        raise Unavailable(
            "A table of Spark needs the engine whose catalog it is in. Set PRIVOD_ENGINE to"
            " sc://host:port or spark:local[2]."
        )
    if domain.person is not None:
        raise InvalidData(
            "A table without files has no order of rows, so a cap of rows per person cannot be"
            " kept. Write it to Parquet or Delta and register that in place, or register a copy."
        )
    try:
        names = list(engine.session.table(name).columns)
        found = engine.session.catalog.getTable(name)  # whose name may be said in several ways
        whole = ".".join([str(found.catalog), *(found.namespace or ()), found.name]).lower()
    except Exception:
        raise InvalidData(
            f"There is no table {name!r} in the catalog of Spark. Check its name."
        ) from None
    check_names(names, domain)
    return Place("spark", f"spark:{whole}", {"name": name})
