"""Counting on Spark: the same bits by files and by tables, checked before the charge."""

from __future__ import annotations

# slow: left out by `make quick`
import os
import pickle
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privod.curator import Curator
from privod.curator.rows import RowStore
from privod.data import Table
from privod.engines import InPlace, cluster, open_rows, spark_cluster
from privod.engines.source import versions
from privod.engines.spark_cluster import SparkCluster
from privod.engines.spark_table import SparkTable
from privod.errors import InvalidData, InvalidParameter, LedgerDamaged, Unavailable
from privod.joint.exact.forwarder import free_port
from privod.mechanisms import seeded
from privod.privacy import AddRemove, Loss
from privod.query.query import canonical_json
from privod.questions.histogram.query import Histogram
from tests.test_engines import PERSONS, PLAIN, rows_of
from tests.test_in_place import ASK, EXAMPLES, LARGE, arrow_of, lake, referred, spent

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore"),
]
JAVA = pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
ONE_EACH = list({query.name: query for query in EXAMPLES}.values())
ROWS = rows_of(300)
SOAK = Path(__file__).parents[1] / "benchmarks" / "soak_spark.py"


class Pretended:
    """A frame, or the session that makes frames, whose tasks run here, each from a pickled copy."""

    def __init__(self, parts: list[pa.RecordBatch] | None = None) -> None:
        self.parts = parts or []

    def range(self, start: int, end: int, _step: int, _parts: int) -> Pretended:
        return Pretended([pa.record_batch({"id": [task]}) for task in range(start, end)])

    def table(self, _name: str) -> Pretended:
        rows = arrow_of(ROWS).combine_chunks()
        return Pretended([rows.slice(at, 100).to_batches()[0] for at in (200, 0, 100)])

    @property
    def catalog(self) -> Pretended:
        return self

    def getTable(self, name: str) -> SimpleNamespace:  # noqa: N802 - as Spark has it
        return SimpleNamespace(catalog="lake", namespace=["default"], name=name.rpartition(".")[2])

    @property
    def columns(self) -> list[str]:
        return list(self.table("").parts[0].schema.names)

    def select(self, *names: str) -> Pretended:
        return Pretended([part.select(list(names)) for part in self.parts])

    def mapInArrow(self, job: Any, _schema: str) -> Pretended:  # noqa: N802 - as Spark has it
        jobs = [pickle.loads(pickle.dumps(job)) for _ in self.parts]  # noqa: S301 - our own
        found = zip(jobs, self.parts, strict=True)
        return Pretended([one for work, part in found for one in work(iter([part]))])

    def collect(self) -> list[tuple[Any]]:
        return [(value,) for part in self.parts for value in part.column(0).to_pylist()]

    toLocalIterator = collect  # noqa: N815


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkCluster]:
    """A session of this process."""
    if shutil.which("java") is None:
        pytest.skip("Java is not installed")
    engine = SparkCluster.open("spark:local[2]")
    yield engine
    engine.close()


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is added up elsewhere from now on."""
    there: list[Any] = []
    added_up = SparkCluster._added_up

    def record(*asked: Any) -> Any:
        there.append(added_up(*asked))
        return there[-1]

    monkeypatch.setattr(SparkCluster, "_added_up", record)
    return there


def same_bits(asked: list[Any], tables: list[Table]) -> None:
    for query in asked:
        releases = {canonical_json(query.answer(each, seeded(5)).to_json()) for each in tables}
        assert len(releases) == 1, query.name


def by_files(tmp_path: Path, engine: SparkCluster) -> Table:
    store = RowStore(tmp_path / "rows", engine)
    place = InPlace(str(lake(tmp_path / "lake", ROWS))).look_up(PERSONS)
    folder, seal, _ = store.keep(place, PERSONS, size=LARGE, confirmed=True)
    return store.load(folder, seal, PERSONS)


def by_table(tmp_path: Path, engine: SparkCluster) -> Table:
    store = RowStore(tmp_path / "rows", engine)
    place = InPlace("spark:stays").look_up(PLAIN, engine)
    folder, seal, report = store.keep(place, PLAIN, size=LARGE, confirmed=True)
    assert report == RowStore(tmp_path / "own").keep(ROWS, PLAIN, size=LARGE, confirmed=True)[2]
    return store.load(folder, seal, PLAIN)


def test_every_question_releases_the_same_by_the_tasks_that_executors_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, engine = recorded(monkeypatch), SparkCluster(Pretended())
    same_bits(ONE_EACH, [Table(PERSONS, ROWS), by_files(tmp_path, engine)])
    assert len(there) >= len(ONE_EACH)
    assert not any(part is None for part in there)
    same_bits(ONE_EACH, [Table(PLAIN, ROWS), by_table(tmp_path, engine)])


@JAVA
def test_spark_releases_the_same_by_files_and_by_a_table(
    tmp_path: Path, spark: SparkCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = recorded(monkeypatch)
    asked = [query for query in ONE_EACH if query.name in ("histogram", "grid-knn")]
    assert len(asked) == 2
    same_bits(asked, [Table(PERSONS, ROWS), by_files(tmp_path, spark)])
    assert there
    assert not any(part is None for part in there)
    spark.session.createDataFrame(arrow_of(ROWS)).repartition(3).createOrReplaceTempView("stays")
    table = by_table(tmp_path, spark)
    same_bits(asked[:1], [Table(PLAIN, ROWS), table])
    there_too = table.as_stored().numbers()
    own = Table(PLAIN, ROWS).as_stored().numbers()
    assert sorted(map(repr, there_too.tolist())) == sorted(map(repr, own.tolist()))


@JAVA
def test_the_soak_runs_in_the_session_of_this_process(
    spark: SparkCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SparkCluster, "open", lambda _address: spark)
    monkeypatch.setattr(SparkCluster, "close", lambda _engine: None)
    monkeypatch.setattr(sys, "argv", [str(SOAK), "--smoke"])
    runpy.run_path(str(SOAK), run_name="__main__")
    assert "figure questions_equal 1\n" in capsys.readouterr().out


def test_a_changed_table_is_refused_before_the_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = SparkCluster(Pretended())
    with Curator.open(tmp_path / "curator") as curator:
        curator._rows.engine = engine
        where = InPlace("spark:stays")
        curator.register("stays", where, PLAIN, most_records=LARGE.most_records, confirmed=True)
        curator.open_budget("stays", AddRemove(), Loss(1))
        assert curator.ask(ASK, of="stays").release is not None
        curator.verify()
        monkeypatch.setitem(ROWS, "height", np.where(np.arange(300) == 7, 3.25, ROWS["height"]))
        before = spent(curator)
        later = Histogram(columns=("weight",), bins=5, epsilon="0.1")
        with pytest.raises(Unavailable, match="Nothing was charged"):
            curator.ask(later, of="stays")
        assert spent(curator) == before
        rows = open_rows(*_where(curator), engine)
        assert isinstance(rows.source, SparkTable)
        assert rows.source.fold(histogram_counts()) is None
        with pytest.raises(InvalidData, match="not those that were registered"):
            rows.fold(histogram_counts())
        with pytest.raises(LedgerDamaged):
            curator.verify()
        curator._rows.engine = None
        with pytest.raises(Unavailable, match=r"are not in.*Nothing was charged"):
            curator.ask(later, of="stays")


def _where(curator: Curator) -> tuple[Path, str]:
    from privod.ledger import store

    with curator.database.reading() as connection:
        folder, seal = store.where_rows_are(connection, "stays")
    return curator._rows.directory / folder, seal


def histogram_counts() -> Any:
    from privod.data.binning import Equal
    from privod.data.folding import CellCounts

    return CellCounts((("height", Equal(0, 10, 7)),))


def test_executors_are_checked_before_the_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = lake(tmp_path / "lake", ROWS)
    with Curator.open(tmp_path / "curator") as curator:
        many = LARGE.most_records
        curator.register("stays", InPlace(str(where)), PLAIN, most_records=many, confirmed=True)
        curator.open_budget("stays", AddRemove(), Loss(1))
        curator._rows.engine = SparkCluster(Pretended())
        others = ("2", "7", *versions()[2:])
        with monkeypatch.context() as patched:
            patched.setattr(spark_cluster, "versions", lambda: others)  # of the plan alone
            with pytest.raises(Unavailable, match=r"other versions of Python.*Nothing was charged"):
                curator.ask(ASK, of="stays")
        assert spent(curator).epsilon == 0
        assert curator.ask(ASK, of="stays").release is not None


def test_a_task_that_fails_returns_nothing(tmp_path: Path) -> None:
    spark = SparkCluster(Pretended())
    store = RowStore(tmp_path / "rows", spark)
    place = InPlace(str(lake(tmp_path / "lake", ROWS))).look_up(PLAIN)
    folder, seal, _ = store.keep(place, PLAIN, size=LARGE, confirmed=True)
    rows = open_rows(store.directory / folder, seal, spark)
    counts = histogram_counts()
    other = spark_cluster._Tasks(cluster.Plan.of(rows, counts), ("2", "7"), "folded", 4, 2)
    assert spark._run(other, 2) == [None, None]
    assert "lake" not in repr(other)
    for path in (tmp_path / "lake").iterdir():
        path.unlink()
    assert spark.fold(rows, counts) is None
    with pytest.raises(Unavailable, match="does not see the files"):
        spark.check(rows)
    with pytest.raises(Unavailable, match="no executor answers"):
        SparkCluster(None).check(rows)


def test_a_table_is_one_however_its_name_is_said() -> None:
    spark = SparkCluster(Pretended())
    said = ("spark:stays", "spark:STAYS", "spark:default.stays", "spark:lake.default.Stays")
    assert len({InPlace(where).look_up(PLAIN, spark).table for where in said}) == 1


def test_what_spark_cannot_do_is_refused() -> None:
    spark = SparkCluster(Pretended())
    with pytest.raises(Unavailable, match="needs the engine whose catalog"):
        InPlace("spark:stays").look_up(PLAIN)
    with pytest.raises(InvalidData, match="no order of rows"):
        InPlace("spark:stays").look_up(PERSONS, spark)
    with pytest.raises(InvalidData, match="no table 'nowhere'"):
        InPlace("spark:nowhere").look_up(PLAIN, SparkCluster(None))
    for address in ("sc://elsewhere:15002", "spark://elsewhere:7077"):
        with pytest.raises(InvalidParameter, match="must"):
            SparkCluster.open(address)


BY_CONNECT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from privod.curator.rows import RowStore
from privod.engines import InPlace, open_rows
from privod.engines.spark_cluster import SparkCluster
from tests.test_engines import PLAIN, rows_of
from tests.test_in_place import LARGE, arrow_of, lake
from tests.test_spark import histogram_counts

place = Path(sys.argv[1])
session = SparkSession.builder.remote(sys.argv[2]).getOrCreate()
spark = SparkCluster(session)
rows = rows_of(300)
session.createDataFrame(arrow_of(rows)).createOrReplaceTempView("stays")
store = RowStore(place / "rows", spark)
for where in (str(lake(place / "lake", rows)), "spark:stays"):
    found = InPlace(where).look_up(PLAIN, spark)
    folder, seal, _ = store.keep(found, PLAIN, size=LARGE, confirmed=True)
    registered = open_rows(store.directory / folder, seal, spark)
    spark.check(registered)
    print(spark.fold(registered, histogram_counts()).tolist())
spark.close()
"""


@JAVA
def test_spark_connect_counts_the_same(tmp_path: Path, spark: SparkCluster) -> None:
    """The server that is connected to is in the session of this process, which has Java running."""
    context = spark.session.sparkContext
    context._jsc.sc().conf().set("spark.connect.grpc.binding.address", "127.0.0.1")
    port = free_port()
    context._jsc.sc().conf().set("spark.connect.grpc.binding.port", str(port))
    service = context._jvm.org.apache.spark.sql.connect.service.SparkConnectService
    service.start(context._jsc.sc())
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BY_CONNECT, str(tmp_path), f"sc://127.0.0.1:{port}"],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    own = referred(tmp_path / "again", str(tmp_path / "lake"), PLAIN)
    counts = own.as_stored().fold(histogram_counts()).tolist()
    assert done.stdout.splitlines()[-2:] == [str(counts)] * 2
