"""The same budget in PostgreSQL, on a server that the tests start and stop themselves."""

from __future__ import annotations

# slow: left out by `make quick`
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import psycopg
import pytest
from benchmarks.soak_ledger import Place, empty, hammer, kill_often

from privod.curator import Curator, backup
from privod.data import Domain, Numeric
from privod.errors import BudgetExceeded, InvalidParameter, LedgerDamaged, Unavailable
from privod.ledger.acts import ChargeElsewhere
from privod.privacy import AddRemove, Guarantee, Loss, Replace
from privod.questions.histogram.query import Histogram
from privod.questions.interactive_grid.query import InteractiveGrid
from tests.postgres_cluster import crash, find_server, running_server

pytestmark = pytest.mark.skipif(
    find_server() is None, reason="PostgreSQL: no server program (apt-get install postgresql)"
)

DOMAIN = Domain((Numeric("age", 0, 120),))
ROWS = {"age": np.arange(100.0)}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_server() as url:
        yield url


@pytest.fixture
def url(server: str) -> str:
    empty(server)
    return server


@pytest.fixture
def curator(tmp_path: Path, url: str) -> Iterator[Curator]:
    with Curator.open(tmp_path / "postgres", database=url) as curator:
        curator.register("people", ROWS, DOMAIN)
        curator.open_budget("people", AddRemove(), Loss(1))
        yield curator


def question(bins: int, epsilon: str = "0.1") -> Histogram:
    return Histogram(columns=("age",), bins=bins, epsilon=epsilon)


def test_zcdp_budgets_are_counted_the_same(tmp_path: Path, url: str) -> None:
    granted, _ = hammer(Place(str(tmp_path), url), processes=2, units=25, accounting="zcdp")
    assert granted == 30  # by plain sums 25


def change(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE entries DISABLE TRIGGER USER")
        connection.execute("ALTER TABLE releases DISABLE TRIGGER USER")
        connection.execute(statement)


def test_the_life_of_a_question(curator: Curator, tmp_path: Path, url: str) -> None:
    curator.open_budget("people", Replace(), Loss(1), confirmed=True)
    answer = curator.ask(question(3), "people", request_id="r1")
    assert [charge.loss for charge in answer.charges] == [Loss("0.1"), Loss("0.2")]
    assert curator.ask(question(3), "people", request_id="r1").stored
    with pytest.raises(InvalidParameter, match="another question"):
        curator.ask(question(4), "people", request_id="r1")
    for bins in range(4, 8):
        curator.ask(question(bins), "people")
    with pytest.raises(BudgetExceeded, match="replace budget"):
        curator.ask(question(9), "people")
    found = curator.verify()
    assert found.releases == 5
    with Curator.open(tmp_path / "postgres", database=url) as another:
        assert another.head() == curator.head() == found.head
        assert another.ask(question(3), "people").release == answer.release
        another.store.add_token("h", "auditor", None, "Ada")
    assert curator.store.find_token("h") is not None


def test_a_charge_is_on_the_disk_of_the_server_when_it_returns(curator: Curator) -> None:
    lost = Guarantee(Loss("0.001"), AddRemove())
    for number in range(30):  # the server flushes by itself now and then, and not thirty times
        with curator.database.writing() as connection:
            ChargeElsewhere("people", lost, f"reason {number}").apply(connection)
            written = connection.execute("SELECT pg_current_wal_insert_lsn()")[0][0]
        with curator.database.lookup() as connection:
            flushed = connection.execute(
                "SELECT pg_current_wal_flush_lsn() >= ?::pg_lsn", str(written)
            )
        assert flushed == [(True,)]


def test_threads_are_granted_exactly_what_there_is(curator: Curator) -> None:
    def grab(bins: int) -> bool:
        try:
            curator.ask(question(bins, "1/20"), "people")
        except BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(grab, range(1, 41))) == 20
    curator.verify()


def test_askers_of_one_question_get_one_answer(curator: Curator) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: curator.ask(question(3, "1"), "people"), range(8)))
    assert sum(not answer.stored for answer in answers) == 1
    assert curator.budget("people")[0].left == Loss(0)


def test_processes_are_granted_exactly_what_there_is(tmp_path: Path, url: str) -> None:
    granted, _ = hammer(Place(str(tmp_path), url), processes=4, units=40)
    assert granted == 40


def test_a_budget_survives_kill_9_at_random_moments(tmp_path: Path, url: str) -> None:
    assert kill_often(Place(str(tmp_path / "curator"), url), times=5, scratch=tmp_path) > 0


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("UPDATE entries SET epsilon = '1/11' WHERE number = 3", "Entry 3 was changed"),
        ("DELETE FROM entries WHERE number = 3", "Entry 3 was removed"),
        ("UPDATE budgets SET spent_epsilon = '0'", "running sum"),
        ("UPDATE releases SET release = replace(release, '1', '2')", "entry 4 was changed"),
        ("DELETE FROM releases", "entry 4 was removed"),
    ],
)
def test_what_was_changed_is_found(
    curator: Curator, url: str, statement: str, finding: str
) -> None:
    curator.ask(question(3), "people")
    change(url, statement)
    with pytest.raises(LedgerDamaged, match=finding):
        curator.verify()


@pytest.mark.parametrize("statement", ["DELETE FROM entries", "TRUNCATE releases"])
def test_a_slip_of_the_hand_is_stopped_by_the_database(
    curator: Curator, url: str, statement: str
) -> None:
    with (
        psycopg.connect(url) as connection,
        pytest.raises(psycopg.errors.RaiseException, match="append-only"),
    ):
        connection.execute(statement)


def test_a_server_that_restarts_costs_one_failed_request_at_most(
    curator: Curator, url: str
) -> None:
    curator.ask(question(3), "people")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'privod' AND pid <> pg_backend_pid()"
        )
    with pytest.raises(Unavailable, match="went away"):
        curator.budget("people")
    assert curator.budget("people")[0].spent == Loss("0.1")


def test_a_server_that_crashes_forgets_nothing_that_was_shown(curator: Curator, url: str) -> None:
    answers = [curator.ask(question(bins), "people") for bins in (3, 4, 5)]
    crash(url)
    with pytest.raises(Unavailable, match="went away"):
        curator.budget("people")
    assert curator.budget("people")[0].spent == Loss("0.3")
    for bins, answer in zip((3, 4, 5), answers, strict=True):
        assert curator.ask(question(bins), "people").release == answer.release
    curator.verify(answers[-1].head)


def test_a_server_that_is_not_there_is_named_without_its_password(tmp_path: Path) -> None:
    gone = f"postgresql://me:secret@/postgres?host={tmp_path}"
    with pytest.raises(Unavailable, match="cannot be reached") as problem:
        Curator.open(tmp_path / "rows", database=gone)
    assert "secret" not in str(problem.value)


def test_a_user_without_rights_is_told_so(curator: Curator, url: str, tmp_path: Path) -> None:
    change(url, "CREATE ROLE reader LOGIN")
    change(url, "GRANT USAGE ON SCHEMA public TO reader")
    reader = url.replace("privod@", "reader@")
    with pytest.raises(Unavailable, match="cannot be written"):
        Curator.open(tmp_path / "postgres", database=reader)


def test_backups_are_left_to_the_servers_own_tools(curator: Curator, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="pg_dump"):
        backup(curator, tmp_path / "copy")


# ---- noise that is shared ------------------------------------------------------------------------

GRID = InteractiveGrid(
    columns=("age",), cells_per_axis=12, epsilon="1/2", records=((35.0,),), n_neighbors=5
)


def test_cells_of_an_interactive_grid_keep_their_noise_and_are_charged_once(
    curator: Curator, tmp_path: Path, url: str
) -> None:
    assert curator.ask(GRID, of="people").charges[0].loss == Loss("1/2")
    with Curator.open(
        tmp_path / "postgres", database=url
    ) as later:  # another process, or a restart
        near = replace(GRID, records=((45.0,), (35.0,)))
        answer = later.ask(near, of="people")
        assert [charge.loss for charge in answer.charges] == [Loss(0)]
        first = later.release("people", GRID).value
        assert answer.release.value.weighted[1] == first.weighted[0]
        assert later.budget("people")[0].spent == Loss("1/2")
        later.verify()


def test_two_curators_that_ask_at_once_are_charged_once(
    curator: Curator, tmp_path: Path, url: str
) -> None:
    with Curator.open(tmp_path / "postgres", database=url) as other:

        def ask(place: int) -> None:
            asked = replace(GRID, records=((5.0 + 10 * (place % 4),),), n_neighbors=2 + place)
            (curator if place % 2 else other).ask(asked, of="people")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(ask, range(8)))
        assert curator.budget("people")[0].spent == Loss("1/2")
        curator.verify()
