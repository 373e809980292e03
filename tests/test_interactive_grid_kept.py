"""The interactive grid: one draw for a cell, ever; charged once; through crashes and restores."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privod.audit.game import play
from privod.curator import Curator, backup, publication, restore
from privod.data import Domain, Numeric, Table
from privod.errors import AnswerFailed, InvalidParameter, LedgerDamaged, NoPromise, Unavailable
from privod.ledger.kept_counts import read_kept
from privod.ledger.sqlite import SQLite
from privod.mechanisms import DiscreteLaplace, seeded
from privod.privacy import AddRemove, Guarantee, Loss, Replace
from privod.questions.grid_knn.query import GridKnn
from privod.questions.interactive_grid.audit import games
from privod.questions.interactive_grid.query import InteractiveGridScores

DOMAIN = Domain((Numeric("x", 0, 10), Numeric("y", 0, 10)))
RNG = np.random.default_rng(0)
ROWS = {"x": RNG.normal(5, 1, 300), "y": RNG.normal(5, 1, 300)}
ASK = InteractiveGridScores(
    columns=("x", "y"), cells_per_axis=10, epsilon="1/2", records=((5.2, 5.3),), n_neighbors=30
)


def start(folder: Path) -> Curator:
    curator = Curator.open(folder)
    curator.register("plane", Table(DOMAIN, ROWS), DOMAIN)
    curator.open_budget("plane", AddRemove(), Loss(1))
    return curator


def kept(curator: Curator, query: InteractiveGridScores = ASK) -> dict[str, int]:
    with curator.database.reading() as connection:
        return read_kept(connection, "plane", query)


def _file(curator: Curator) -> Path:
    assert isinstance(curator.database, SQLite)
    return Path(curator.database.path)


def spent(curator: Curator) -> list[Loss]:
    return [state.spent for state in curator.budget("plane")]


def test_the_first_question_pays_and_the_next_ones_find_the_same_noise(tmp_path: Path) -> None:
    with start(tmp_path) as curator:
        assert curator.price(ASK, of="plane").charges[0].loss == Loss("1/2")
        assert curator.ask(ASK, of="plane").charges[0].loss == Loss("1/2")
        before = kept(curator)
        assert set(before) == set(ASK.needed(DOMAIN))
        assert len(before) == 13
    with Curator.open(tmp_path) as curator:  # after a restart
        near = replace(ASK, records=((6.2, 5.3), (5.2, 5.3)))
        assert curator.price(near, of="plane").charges[0].loss == Loss(0)
        answer = curator.ask(near, of="plane")
        assert [charge.loss for charge in answer.charges] == [Loss(0)]
        after = kept(curator)
        assert before.items() < after.items()
        first = curator.release("plane", ASK).value
        assert answer.release.value.weighted[1] == first.weighted[0]
        assert spent(curator) == [Loss("1/2")]
        curator.verify()


def test_another_state_is_another_grid_with_a_charge_of_its_own(tmp_path: Path) -> None:
    with start(tmp_path) as curator:
        curator.ask(ASK, of="plane")
        for other in (replace(ASK, epsilon="1/4"), replace(ASK, max_cells=99_999)):
            assert other.state != ASK.state
            assert curator.price(other, of="plane").charges[0].loss == other.guarantee().loss
        assert replace(ASK, n_neighbors=2, max_steps=1).state == ASK.state


def test_a_budget_opened_later_is_charged_once_for_all_questions_of_a_grid(tmp_path: Path) -> None:
    with start(tmp_path) as curator:
        for n_neighbors in (5, 6, 7):
            curator.ask(replace(ASK, n_neighbors=n_neighbors), of="plane")
        curator.open_budget("plane", Replace(), Loss(2), confirmed=True)
        assert {state.adjacency: state.spent for state in curator.budget("plane")} == {
            AddRemove(): Loss("1/2"),
            Replace(): Loss(1),
        }
        curator.verify()


def test_a_question_past_the_limit_on_cells_is_refused_without_a_trace(tmp_path: Path) -> None:
    narrow = replace(ASK, max_cells=20)
    with start(tmp_path) as curator:
        curator.ask(narrow, of="plane")
        head = curator.head()
        far = replace(narrow, records=((2.5, 7.5),))
        for door in (curator.price, curator.ask):
            with pytest.raises(InvalidParameter, match="13 counts that are drawn and 13 more"):
                door(far, of="plane")
        assert curator.head() == head
        curator.ask(replace(narrow, records=((5.2, 7.3),), max_steps=1), of="plane")
        assert len(kept(curator, narrow)) == 16


def test_threads_of_two_curators_draw_every_cell_once(tmp_path: Path) -> None:
    places = [(x + 0.5, y + 0.5) for x in range(3, 7) for y in range(3, 6)]
    with start(tmp_path) as one, Curator.open(tmp_path) as other:

        def ask(place: int) -> float:
            query = replace(ASK, records=(places[place],))
            curator = one if place % 2 else other
            return float(curator.ask(query, of="plane").release.value.weighted[0])

        with ThreadPoolExecutor(6) as pool:
            told = list(pool.map(ask, range(len(places))))
        assert spent(one) == [Loss("1/2")]
        one.verify()  # refuses a cell that was drawn twice
        counts = kept(one)
        again = [replace(ASK, records=(place,)).value_of(DOMAIN, counts) for place in places]
        assert told == [value.weighted[0] for value in again]


KILLED = """
import os, sys
from privod.curator import Curator, publication
from privod.questions.interactive_grid.query import InteractiveGridScores
real = publication.enter_kept
def dies(*given):
    real(*given)
    os._exit(9)
publication.enter_kept = dies
query = InteractiveGridScores(columns=("x", "y"), cells_per_axis=10, epsilon="1/2",
                              records=((5.2, 5.3),), n_neighbors=30)
Curator.open(sys.argv[1]).ask(query, of="plane")
"""


def test_a_process_killed_while_it_draws_costs_budget_and_tells_nothing(tmp_path: Path) -> None:
    start(tmp_path).close()
    died = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert died.returncode == 9
    with Curator.open(tmp_path) as curator:
        assert spent(curator) == [Loss("1/2")]
        assert kept(curator) == {}
        curator.verify()
        answer = curator.ask(ASK, of="plane")  # the state is paid for
        assert [charge.loss for charge in answer.charges] == [Loss(0)]
        assert spent(curator) == [Loss("1/2")]
        assert len(kept(curator)) == 13
        curator.verify()


def test_after_an_accepted_restore_no_old_grid_is_asked_on(tmp_path: Path) -> None:
    with start(tmp_path) as curator:
        curator.ask(ASK, of="plane")
        curator.accept_restored("a rehearsal")
        with pytest.raises(NoPromise, match="restored after this grid was opened"):
            curator.ask(replace(ASK, n_neighbors=4), of="plane")
        assert curator.ask(ASK, of="plane").stored  # what was told stays told
        curator.ask(replace(ASK, epsilon="1/4"), of="plane")


def test_a_cell_told_after_a_backup_is_not_drawn_again_by_the_restored_curator(
    tmp_path: Path,
) -> None:
    later = replace(ASK, records=((2.1, 7.9),))
    with start(tmp_path / "live") as curator:
        curator.ask(ASK, of="plane")
        backup(curator, tmp_path / "kept")
        curator.ask(later, of="plane")
    with (
        Curator.open(tmp_path / "kept", restoring=True) as kept_copy,
        pytest.raises(Unavailable, match="is a backup"),
    ):
        kept_copy.ask(later, of="plane")
    restore(tmp_path / "kept", tmp_path / "restored")
    with Curator.open(tmp_path / "restored", restoring=True) as restored:
        restored.accept_restored("the original's disk broke")
        with pytest.raises(NoPromise, match="restored after this grid was opened"):
            restored.ask(later, of="plane")
        assert restored.ask(ASK, of="plane").stored
        restored.ask(replace(ASK, epsilon="1/4"), of="plane")
        restored.verify()


def test_a_store_that_forgets_what_it_drew_is_found_by_verification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: every question draws anew, so the mean of many takes the noise away."""
    with start(tmp_path) as curator:
        monkeypatch.setattr(publication, "read_kept", lambda *_: {})
        for n_neighbors in (5, 6):
            curator.ask(replace(ASK, n_neighbors=n_neighbors), of="plane")
        with pytest.raises(LedgerDamaged, match="draws the noise of a count again"):
            curator.verify()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE kept_counts SET counts = '{\"5,5\":7}'", "not those entered"),
        ("UPDATE kept_counts SET state = 'x'", "another question"),
        ("DELETE FROM kept_counts", "not those entered"),
        ("INSERT INTO kept_counts VALUES (1, 'x', '{}')", "which entered none"),
    ],
)
def test_counts_that_were_tampered_with_are_found(
    tmp_path: Path, change: str, message: str
) -> None:
    with start(tmp_path) as curator:
        curator.ask(ASK, of="plane")
        file = _file(curator)
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("DROP TRIGGER kept_counts_never_update")
        database.execute("DROP TRIGGER kept_counts_never_delete")
        database.execute(change)
    with Curator.open(tmp_path) as curator, pytest.raises(LedgerDamaged, match=message):
        curator.verify()


def test_the_trigger_stops_slips(tmp_path: Path) -> None:
    with start(tmp_path) as curator:
        curator.ask(ASK, of="plane")
        file = _file(curator)
    with closing(sqlite3.connect(file)) as database:
        for slip in ("UPDATE kept_counts SET state = ''", "DELETE FROM kept_counts"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                database.execute(slip)


def test_a_failing_answer_is_told_in_one_sentence_and_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start(tmp_path) as curator:
        with monkeypatch.context() as patch:
            patch.setattr(InteractiveGridScores, "value_of", lambda *_: 1 / 0)
            with pytest.raises(AnswerFailed):
                curator.ask(ASK, of="plane")
        assert kept(curator) == {}
        assert len(curator.ask(ASK, of="plane").release.value.graded) == 1


def test_scores_are_those_of_the_grid_held_in_memory() -> None:
    """With hardly any noise both walk over the exact counts."""
    table = Table(DOMAIN, ROWS)
    places = ((5.2, 5.3), (9.7, 9.1), (0.0, 10.0))
    query = replace(ASK, epsilon=10**6, records=places, max_steps=4)
    lazy = GridKnn(columns=("x", "y"), cells_per_axis=10, epsilon=10**6).lazy(table, seeded(1))
    expected = lazy.scores(np.array(places), 30, "0.4")
    found = query.answer(table, seeded(2)).value
    np.testing.assert_array_equal(found.basic, expected.basic)
    np.testing.assert_array_equal(found.weighted, expected.weighted)
    np.testing.assert_array_equal(found.graded, expected.graded)


class ThirdOfTheNoise(InteractiveGridScores):
    """A planted bug: a third of the noise that is paid for."""

    @property
    def count_noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(super().count_noise.scale / 3)

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(self.epsilon), AddRemove())


def test_too_little_noise_is_caught_by_the_game() -> None:
    """That the honest grid is not caught by it is in every question's contract."""
    assert not play(games(ThirdOfTheNoise)[0], 600, seeded(3)).holds


MANY = tuple((place / 200, 5.0) for place in range(2000))


def changed(**parameters: Any) -> Callable[[], InteractiveGridScores]:
    return lambda: replace(ASK, **parameters)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (changed(columns=()), "name a column"),
        (changed(columns=("x", "x")), "different names"),
        (changed(cells_per_axis=1), "at least 2"),
        (changed(cells_per_axis=10**7), "at most"),
        (changed(records=()), "hold a record"),
        (changed(records=((1.0,),)), "2 values each"),
        (changed(records=((1.0, float("nan")),)), "records"),
        (changed(n_neighbors=0), "n_neighbors"),
        (changed(max_steps=-1), "max_steps"),
        (changed(max_steps=101), "max_steps"),
        (changed(max_cells=0), "max_cells"),
        (changed(max_cells=10**9), "max_cells"),
        (changed(epsilon=0), "epsilon"),
        (
            changed(columns=tuple("abcdefghij"), records=((0.0,) * 10,), max_steps=9),
            "20000 cells",
        ),
    ],
)
def test_bad_parameters_are_refused_with_a_way_out(
    make: Callable[[], InteractiveGridScores], message: str
) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (changed(columns=("x", "z")), "numeric columns"),
        (changed(max_cells=12), "at least the 13 cells"),
        (changed(cells_per_axis=10**5, records=MANY), "20000 cells in all"),
    ],
)
def test_what_does_not_fit_is_refused_before_any_charge(
    make: Callable[[], InteractiveGridScores], message: str
) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make().check(DOMAIN)
