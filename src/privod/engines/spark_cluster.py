"""Add up over rows on the executors of a Spark cluster, with the same bits as here.

Executors read pieces of files themselves, with our own reader, and return sums: nothing is
shuffled, so Spark writes no rows to disk. Only a table without files passes through Spark, by
`mapInArrow`. Versions of Python and privod are compared on the executors before a question is
charged, and again by every task.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self, TypeVar, cast
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from privod.data.csv_file import CsvDialect
from privod.data.domain import Domain
from privod.data.folding import Block, Fold, Sweep, side_by_side
from privod.data.intake import Intake, Portion
from privod.data.persons import hash_sums
from privod.data.sources import check_names, wanted_of
from privod.data.views import COMPLETE
from privod.engines import cluster
from privod.engines.cluster import SWEEPS_PER_THREAD, TASKS_PER_THREAD, Plan
from privod.engines.manifest import Manifest
from privod.engines.sealed_file import CHANGED
from privod.engines.size import SizeClass
from privod.engines.source import AT_ONCE, RegisteredRows
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
        found = self._run(_Checks(Plan.of(rows, None), cluster.versions()), n)
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
        found = self._run(_Tasks(plan, cluster.versions(), work, n_pieces, n_tasks), n_tasks)
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


def _sent(values: Iterable[bytes | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(list(values), pa.binary())], ["found"])


@dataclass(frozen=True, repr=False)
class _Checks:
    """Says why an executor cannot count."""

    plan: Plan
    versions: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield _sent([cluster.fitness(self.plan, self.versions).encode()])


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
                if cluster.versions() == self.versions:
                    found = work(self.plan, tuple(range(task, self.n_pieces, self.n_tasks)))
                yield _sent([None if found is None else pickle.dumps(found)])


# ---- a table without files -----------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class _Passes:
    """Takes in the rows of a table where Spark hands them over, adds up, and sums their hashes.

    Of `what`, None gives the tally of the intake, a fold its sum, and columns the rows themselves.
    """

    domain: dict[str, Any]
    marks: tuple[int, int]
    keys: bytes
    versions: tuple[str, ...]
    what: Any

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._found(batches)
        except Exception:
            yield _sent([None])

    def _found(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if cluster.versions() != self.versions:
            raise ValueError
        domain, (decimal, thousands) = Domain.from_json(self.domain), self.marks
        grouped = None if thousands < 0 else chr(thousands)
        intake = Intake(domain, CsvDialect(decimal=chr(decimal), thousands=grouped))
        keys, sums, state = np.frombuffer(self.keys, np.uint64), np.zeros(2, np.int64), None
        is_fold = hasattr(self.what, "start")
        if is_fold:
            state = self.what.start()
        for batch in batches:
            portion = intake.take(dict(zip(batch.schema.names, batch.columns, strict=True)))
            columns = [*portion.numbers.values(), *portion.codes.values()]
            sums += hash_sums(keys, side_by_side(columns, len(portion), np.float64))
            if is_fold:
                state = self.what.add(state, _block(portion, self.what.numbers, self.what.codes))
            elif self.what is not None:
                block = _block(portion, *self.what)
                yield _sent([pickle.dumps((block.numbers, block.codes))])
        told = intake.tally() if self.what is None else state
        yield _sent([pickle.dumps((sums, told))])


def _block(portion: Portion, numbers: Sequence[str], codes: Sequence[str]) -> Block:
    cells = {**portion.numbers, **portion.codes, COMPLETE: portion.complete}
    return Block(
        side_by_side([cells[name] for name in numbers], len(portion), np.float64),
        side_by_side([cells[name] for name in codes], len(portion), np.int64),
    )


class SparkTable:
    """A table of the engine's catalog: every pass over it sums keyed hashes of all its rows."""

    pieces = 1

    def __init__(self, salt: bytes, manifest: Manifest, engine: Any) -> None:
        self._place: dict[str, Any] = manifest.place or {}
        self._engine, self._keys = engine, hashlib.sha256(salt + b"rows").digest()

    def fold(self, fold: Fold[State]) -> State | None:
        """Add up where Spark hands the rows over; None if that did not come about."""
        total = fold.start()
        sums = np.zeros(2, np.int64)
        try:
            for row in self._passed(fold).collect():
                some, state = pickle.loads(bytes(row[0]))  # noqa: S301 - of our own tasks
                sums += some
                total = fold.merge(total, state)
        except Exception:
            return None
        return total if sums.tolist() == self._place["sums"] else None

    def read(self, _piece: int, numbers: Sequence[str], codes: Sequence[str]) -> Iterator[Block]:
        """The rows, a batch at a time; raises at the end if they are not the registered ones."""
        sums = np.zeros(2, np.int64)
        try:
            for row in self._passed((tuple(numbers), tuple(codes))).toLocalIterator():
                one, other = pickle.loads(bytes(row[0]))  # noqa: S301 - of our own tasks
                if other is None:
                    sums += one
                else:
                    yield Block(one, other)
        except InvalidData:
            raise
        except Exception:
            raise Unavailable("Spark does not hand the table over.") from None
        if sums.tolist() != self._place["sums"]:
            raise InvalidData(CHANGED)

    def identity(self) -> None:
        """Sum the hashes of all rows: nothing less tells whether they are the registered ones."""
        if not self.sealed_again():
            raise InvalidData(CHANGED)

    def sealed_again(self) -> bool:
        try:
            return bool(self.tallied()[0].tolist() == self._place["sums"])
        except Exception:
            return False

    def tallied(self) -> tuple[Any, list[Any]]:
        """The sums of all rows' hashes, and the tallies of their intake."""
        found = [pickle.loads(bytes(row[0])) for row in self._passed(None).collect()]  # noqa: S301
        return sum((one[0] for one in found), np.zeros(2, np.int64)), [one[1] for one in found]

    def _passed(self, what: Any) -> Any:
        domain = Domain.from_json(self._place["domain"])
        job = _Passes(
            self._place["domain"], self._place["marks"], self._keys, cluster.versions(), what
        )
        frame = self._engine.session.table(self._place["name"]).select(*wanted_of(domain))
        return frame.mapInArrow(job, "found binary")


def look_up_spark(name: str, domain: Domain, engine: Any) -> dict[str, Any]:
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
    except Exception:
        raise InvalidData(
            f"There is no table {name!r} in the catalog of Spark. Check its name."
        ) from None
    check_names(names, domain)
    return {"name": name}


def refer_to_table(
    salt: bytes, intake: Intake, about: dict[str, Any], size: SizeClass, engine: Any
) -> Manifest:
    """Sum the hashes of a table's rows and take them in where Spark hands them over."""
    found = Manifest(size, (), (), place=about)
    try:
        sums, tallies = SparkTable(salt, found, engine).tallied()
    except Exception:
        raise Unavailable(
            "The executors of Spark cannot take in the table. Check that they have the same"
            " versions of Python and privod. Nothing was registered."
        ) from None
    for tally in tallies:
        intake.add(tally)
    report = intake.report(0)
    if report.read > size.most_records:
        size.refuse_more()
    about = json.loads(json.dumps({**about, "sums": sums.tolist()}))
    complete = report.read - report.incomplete
    return replace(found, rows=(report.read,), complete=complete, place=about)
