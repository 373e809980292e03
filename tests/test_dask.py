"""Counting on a Dask cluster: the same bits, checked before the charge, lost without harm."""

from __future__ import annotations

# slow: left out by `make quick`
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster, Security
from typer.testing import CliRunner

from privod.cli import app
from privod.curator import Curator
from privod.curator import rows as rows_module
from privod.curator.asking import Asker
from privod.curator.publication import written
from privod.curator.questions import Question
from privod.curator.rows import KeptRows, RowStore
from privod.data import Categorical, Domain, Numeric, Table
from privod.data.binning import Codes, Equal
from privod.data.folding import Block, CellCounts
from privod.data.mock import mock_rows
from privod.engines import SizeClass, cluster, open_rows
from privod.engines import dask_cluster as module
from privod.engines import size as sizes
from privod.engines.dask_cluster import DaskCluster
from privod.engines.source import RegisteredRows, versions
from privod.errors import InvalidParameter, Unavailable
from privod.ledger.store import ReleaseText
from privod.mechanisms import seeded
from privod.privacy import AddRemove, Loss
from privod.query.catalog import QUERIES
from privod.query.query import canonical_json
from privod.questions.histogram.query import Histogram
from tests.certificates import self_signed
from tests.patience import eventually

DOMAIN = Domain(
    (Numeric("height", 0, 10), Numeric("weight", -5, 5), Categorical("group", ("x", "y", "z"))),
    "who",  # whose hash spreads rows over all partitions
)
LARGE = SizeClass(sizes.IN_MEMORY + 1)
COUNTS = CellCounts((("height", Equal(0, 10, 7)), ("group", Codes(3))))
IMPATIENT = {"distributed.comm.timeouts.connect": "3s"}  # where nobody will answer
QUESTION = Histogram(columns=("height",), bins=5, epsilon="0.1")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@dataclass(frozen=True)
class SlowCounts(CellCounts):
    """Counts that say who counts and take their time, so that a worker can be killed meanwhile."""

    marks: str = ""

    def add(self, state: Any, block: Block) -> Any:
        (Path(self.marks) / str(os.getpid())).touch()
        time.sleep(1)
        return super().add(state, block)


@dataclass(frozen=True)
class BrokenCounts(CellCounts):
    """Counts that quote a row when they fail."""

    def add(self, state: Any, block: Block) -> Any:
        raise ValueError(f"CANARY {block.numbers[0]} {state}")


@pytest.fixture(scope="module")
def inside() -> Iterator[DaskCluster]:
    """A cluster in this process."""
    with dask.config.set(module._NO_SPILLING | module._PATIENT):
        cluster = LocalCluster(
            processes=False,
            n_workers=2,
            threads_per_worker=1,
            protocol="inproc",
            dashboard_address="127.0.0.1:0",
        )
        engine = DaskCluster(Client(cluster, set_as_default=False), [cluster])
        yield engine
        engine.close()


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[str]:
    """The address of a scheduler that asks for certificates, which our configuration names."""
    certificate, key = map(str, self_signed(tmp_path))
    roles = {
        f"distributed.comm.tls.{role}.{what}": path
        for role in ("client", "scheduler", "worker")
        for what, path in (("cert", certificate), ("key", key))
    }
    demanded = {
        "distributed.comm.tls.ca-file": certificate,
        "distributed.comm.require-encryption": True,
        **module._PATIENT,
    }
    with dask.config.set({**roles, **demanded, **module._NO_SPILLING}):
        cluster = LocalCluster(
            processes=False,
            n_workers=1,
            threads_per_worker=1,
            protocol="tls://",
            host="127.0.0.1",
            security=Security(),
            dashboard_address="127.0.0.1:0",
        )
        yield cluster.scheduler_address
        cluster.close()


@pytest.fixture
def workers() -> Iterator[DaskCluster]:
    """Two worker processes behind TLS."""
    engine = DaskCluster.open("local:2")
    yield engine
    engine.close()


def kept(tmp_path: Path, engine: Any, n: int = 600) -> RegisteredRows:
    store = RowStore(tmp_path / "rows", engine)
    folder, seal, _ = store.keep(mock_rows(DOMAIN, n), DOMAIN, size=LARGE)
    return open_rows(store.directory / folder, seal, engine)


def kill_one(marks: Path, pids: set[int]) -> None:
    """Kill the worker that first says that it counts."""
    eventually(lambda: any(marks.iterdir()))
    killed = int(next(marks.iterdir()).name)
    assert killed in pids
    os.kill(killed, signal.SIGKILL)


def here(rows: RegisteredRows) -> Any:
    return rows.fold_here(COUNTS, range(rows.source.pieces))


def only_for_one_thread(work: Any) -> Any:
    """What a worker's task does; whoever else adds up does not say how many threads."""

    def worked(*asked: Any) -> Any:
        assert asked[3:] == (cluster.ONE_THREAD,)
        return work(*asked)

    return worked


def test_every_question_releases_the_same_on_a_cluster(
    tmp_path: Path, inside: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    there: list[Any] = []

    added_up = DaskCluster._added_up

    def recorded(*asked: Any) -> Any:
        there.append(added_up(*asked))
        return there[-1]

    monkeypatch.setattr(DaskCluster, "_added_up", recorded)
    monkeypatch.setattr(RegisteredRows, "fold_here", only_for_one_thread(RegisteredRows.fold_here))
    monkeypatch.setattr(
        RegisteredRows, "sweep_here", only_for_one_thread(RegisteredRows.sweep_here)
    )
    store = RowStore(tmp_path / "rows")
    folder, seal, _ = store.keep(mock_rows(DOMAIN, 600), DOMAIN, size=LARGE)
    memory = Table(DOMAIN, mock_rows(DOMAIN, 600))
    store.engine = inside
    spread = store.load(folder, seal, DOMAIN)
    asked = [
        query
        for kind in QUERIES.values()
        for query in kind.examples(DOMAIN)
        if query.held_per_record(DOMAIN) == 0
    ]
    assert len({query.name for query in asked}) >= 10
    for query in asked:
        releases = {
            canonical_json(query.answer(table, seeded(3)).to_json()) for table in (memory, spread)
        }
        assert len(releases) == 1, query.name
    assert len(there) >= len(asked)
    assert not any(part is None for part in there)


def test_a_task_that_fails_returns_nothing_and_rows_are_added_up_here(
    tmp_path: Path, inside: DaskCluster, caplog: pytest.LogCaptureFixture
) -> None:
    rows = kept(tmp_path, inside)
    broken = BrokenCounts(COUNTS.axes)
    plan = cluster.Plan.of(rows, broken)
    assert cluster.folded(plan, (0, 1)) is None
    assert cluster.swept(plan, (0, 1)) is None
    assert cluster.merged(plan, (np.zeros(3),), None) is None
    assert inside.fold(rows, broken) is None
    assert "CANARY" not in caplog.text
    inside.check(rows)


def test_workers_are_checked_before_the_charge(tmp_path: Path, inside: DaskCluster) -> None:
    rows = kept(tmp_path, inside)
    inside.check(rows)
    ours = versions()
    plan = cluster.Plan.of(rows, None)
    assert "other versions" in module._fitness(plan, ("0", *ours[1:]))
    with dask.config.set({"distributed.worker.memory.spill": 0.7}):
        assert "spills to disk" in module._fitness(plan, ours)
    unseen = cluster.Plan(pickle.dumps((str(tmp_path / "CANARY"), rows.seal, None)))
    assert "CANARY" not in repr(unseen)
    assert module._fitness(unseen, ours) == "a worker does not see the files"


class Lost:
    """A cluster that answered when it was asked, and is gone when it counts."""

    def __init__(self, answers: bool) -> None:
        self.answers, self.asked = answers, 0

    def run(self, *_: object) -> dict[str, str]:
        return {"worker": ""} if self.answers else {}

    def scheduler_info(self, **_: object) -> Any:
        self.asked += 1
        raise OSError("the scheduler is gone")


@pytest.mark.parametrize("answers", [True, False])
def test_a_lost_cluster_refuses_before_the_charge_and_costs_time_alone_after_it(
    tmp_path: Path, answers: bool
) -> None:
    lost = Lost(answers)
    with Curator.open(tmp_path) as curator:
        curator.register("d", mock_rows(DOMAIN, 100), DOMAIN, most_records=LARGE.most_records)
        curator.open_budget("d", AddRemove(), Loss(1))
        curator._rows.engine = DaskCluster(lost)
        if answers:
            assert len(curator.ask(QUESTION, "d").charges) == 1
            assert lost.asked > 0
        else:
            with pytest.raises(Unavailable, match=r"no worker answers\. Nothing was charged"):
                curator.ask(QUESTION, "d")
        assert curator.budget("d")[0].spent == Loss("0.1" if answers else 0)
        curator._rows.engine = None


def test_a_scheduler_with_certificates_counts_for_curator_and_server_and_for_nobody_else(
    tmp_path: Path, tls: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tls.startswith("tls://127.0.0.1:")
    monkeypatch.setattr(RegisteredRows, "fold_here", only_for_one_thread(RegisteredRows.fold_here))
    with Curator.open(tmp_path / "curator", engine=tls) as curator:
        curator.register("d", mock_rows(DOMAIN, 600), DOMAIN, most_records=LARGE.most_records)
        curator.open_budget("d", AddRemove(), Loss(10**7))
        sure = Histogram(columns=("group",), epsilon=10**6)
        told: list[Any] = []

        def look(question: Question, rows: KeptRows, key: bytes | None) -> ReleaseText:
            told.append(rows)
            table = rows.load()  # as a server's worker process does
            return written(sure, 1, sure.answer(table, rows.noise(key, question.query)))

        asker = Asker("owner", None, None)
        answer = curator.asking.ask(sure, curator.dataset("d"), asker, look=look)
        assert told[0].engine == tls
        counts = np.bincount(Table(DOMAIN, mock_rows(DOMAIN, 600)).codes(("group",))[:, 0])
        assert answer.release.read().value.counts.tolist() == counts.tolist()
        curator.ask(QUESTION, "d")
    rows_module._connected(tls).close()
    rows_module._connected.cache_clear()
    other = tmp_path / "other"
    other.mkdir()
    certificate, key = map(str, self_signed(other))
    strange = {"cert": certificate, "key": key}
    with (
        dask.config.set({f"distributed.comm.tls.client.{one}": strange[one] for one in strange}),
        dask.config.set(IMPATIENT),
        pytest.raises(Unavailable, match="cannot be reached"),
    ):
        DaskCluster.open(tls)
    monkeypatch.undo()
    lost = KeptRows(told[0].directory, told[0].folder, told[0].seal, DOMAIN, "tls://127.0.0.1:1")
    with dask.config.set(IMPATIENT):
        assert sum(lost.load().counts([("group", Codes(3))])) == 600  # counted here


def test_two_worker_processes_count_alike_and_one_killed_changes_neither_answer_nor_charge(
    tmp_path: Path, workers: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    slow = SlowCounts((("group", Codes(3)),), str(marks))
    monkeypatch.setattr(Table, "counts", lambda table, _: table.fold(slow))
    with Curator.open(tmp_path / "curator") as curator:
        curator.register("d", mock_rows(DOMAIN, 600), DOMAIN, most_records=LARGE.most_records)
        curator.open_budget("d", AddRemove(), Loss(10**7))
        curator._rows.engine = workers
        (folder,) = (tmp_path / "curator" / "rows").iterdir()
        seal = curator._rows.seal(folder.name)
        rows = open_rows(folder, seal)
        pids = set(workers._client.run(os.getpid).values())
        assert len(pids) == 2
        counted: Any = workers.fold(rows, COUNTS)
        assert counted.tolist() == here(rows).tolist()
        killing = threading.Thread(target=kill_one, args=(marks, pids))
        killing.start()
        answer = curator.ask(Histogram(columns=("group",), epsilon=10**6), "d")
        killing.join()
        curator._rows.engine = None
        assert any(marks.iterdir())
        counts = np.bincount(Table(DOMAIN, mock_rows(DOMAIN, 600)).codes(("group",))[:, 0])
        assert answer.release.value.counts.tolist() == counts.tolist()
        assert len(answer.charges) == 1
        assert curator.budget("d")[0].spent == Loss(10**6)


def test_a_curator_starts_and_stops_workers_of_its_own(tmp_path: Path) -> None:
    with Curator.open(tmp_path, engine="local:1") as curator:
        curator.register("d", mock_rows(DOMAIN, 100), DOMAIN, most_records=LARGE.most_records)
        curator.open_budget("d", AddRemove(), Loss(1))
        assert curator.ask(QUESTION, "d").charges
        engine = curator._rows.engine
        assert isinstance(engine, DaskCluster)
        (pid,) = engine._client.run(os.getpid).values()
    eventually(lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.parametrize(
    "address",
    ["tcp://192.0.2.1:8786", "tcp://cluster:8786", "http://127.0.0.1", "local", "local:0", "tls:"],
)
def test_a_cluster_elsewhere_is_reached_by_tls_alone(address: str) -> None:
    with pytest.raises(InvalidParameter, match="engine must"):
        DaskCluster.open(address)


def test_a_server_takes_no_cluster_that_would_start_and_stop_with_each_of_its_workers() -> None:
    told = CliRunner().invoke(app, ["serve", "--engine", "local:2"])
    assert isinstance(told.exception, InvalidParameter)
    assert "must be the address of a cluster" in str(told.exception)
