"""The interactive grid: one noise for a cell, ever; charged once; through crashes and restores."""

from __future__ import annotations

# slow: left out by `make quick`
import math
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privod.audit import replay_case
from privod.curator import Curator, backup, restore
from privod.curator.rows import KeptRows
from privod.data import Domain, Numeric, Table
from privod.engines.manifest import SALT
from privod.errors import AnswerFailed, InvalidParameter, Unavailable
from privod.mechanisms import DiscreteLaplace, secure, seeded
from privod.mechanisms.randomness import shared
from privod.privacy import AddRemove, Guarantee, Loss, Replace
from privod.questions.grid_knn.query import GridKnn
from privod.questions.interactive_grid.audit import worst_cases
from privod.questions.interactive_grid.query import GridScores, InteractiveGrid

DOMAIN = Domain((Numeric("x", 0, 10), Numeric("y", 0, 10)))
RNG = np.random.default_rng(0)
ROWS = {"x": RNG.normal(5, 1, 300), "y": RNG.normal(5, 1, 300)}
ASK = InteractiveGrid(
    columns=("x", "y"), cells_per_axis=10, epsilon="1/2", records=((5.2, 5.3),), n_neighbors=30
)
EVERYWHERE = tuple((x + 0.2, y + 0.3) for x in range(10) for y in range(10))


def start(folder: Path) -> Curator:
    curator = Curator.open(folder)
    curator.register("plane", Table(DOMAIN, ROWS), DOMAIN)
    curator.open_budget("plane", AddRemove(), Loss(1))
    return curator


def salt(curator: Curator) -> bytes:
    (folder,) = (curator.directory / "rows").iterdir()
    return (folder / SALT).read_bytes()


def expected(curator: Curator, query: InteractiveGrid) -> GridScores:
    """The answer from the noise that the salt of the rows stands for."""
    return query.answer(Table(DOMAIN, ROWS), shared(salt(curator), query.state)).value


def spent(curator: Curator) -> list[Loss]:
    return [state.spent for state in curator.budget("plane")]


def test_the_first_question_pays_and_the_next_ones_find_the_same_noise(tmp_path: Path) -> None:
    with start(tmp_path) as curator:
        assert curator.price(ASK, of="plane").charges[0].loss == Loss("1/2")
        first = curator.ask(ASK, of="plane")
        assert first.charges[0].loss == Loss("1/2")
        assert first.release.value == expected(curator, ASK)
    with Curator.open(tmp_path) as curator:  # after a restart
        near = replace(ASK, records=((6.2, 5.3), (5.2, 5.3)))
        assert curator.price(near, of="plane").charges[0].loss == Loss(0)
        answer = curator.ask(near, of="plane")
        assert [charge.loss for charge in answer.charges] == [Loss(0)]
        assert answer.release.value.weighted[1] == first.release.value.weighted[0]
        assert answer.release.value == expected(curator, near)
        assert spent(curator) == [Loss("1/2")]
        curator.verify()


def test_another_state_is_another_grid_with_a_charge_of_its_own(tmp_path: Path) -> None:
    with start(tmp_path) as curator:
        curator.ask(ASK, of="plane")
        for other in (replace(ASK, epsilon="1/4"), replace(ASK, cells_per_axis=9)):
            assert other.state != ASK.state
            assert curator.price(other, of="plane").charges[0].loss == other.guarantee().loss
        assert replace(ASK, n_neighbors=2, max_steps=1).state == ASK.state


def test_two_data_sets_with_the_same_rows_have_noise_of_their_own(tmp_path: Path) -> None:
    with start(tmp_path) as curator:
        curator.register("again", Table(DOMAIN, ROWS), DOMAIN)
        curator.open_budget("again", AddRemove(), Loss(1))
        # About one record two answers are alike once in 57 times, about all cells never.
        everywhere = replace(ASK, records=EVERYWHERE)
        here, there = (curator.ask(everywhere, of=name) for name in ("plane", "again"))
        assert there.charges[0].loss == Loss("1/2")
        assert here.release.value != there.release.value


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


def test_threads_of_two_curators_find_one_noise_of_every_cell(tmp_path: Path) -> None:
    places = [(x + 0.5, y + 0.5) for x in range(3, 7) for y in range(3, 6)]
    asked = [replace(ASK, records=(place,)) for place in places]
    with start(tmp_path) as one, Curator.open(tmp_path) as other:

        def ask(place: int) -> GridScores:
            curator = one if place % 2 else other
            return curator.ask(asked[place], of="plane").release.value  # type: ignore[no-any-return]

        with ThreadPoolExecutor(6) as pool:
            told = list(pool.map(ask, range(len(places))))
        assert spent(one) == [Loss("1/2")]
        one.verify()
        assert told == [expected(one, query) for query in asked]


KILLED = """
import os, sys
from privod.curator import Curator
from privod.questions.interactive_grid.query import InteractiveGrid
InteractiveGrid.answer = lambda *_: os._exit(9)
query = InteractiveGrid(columns=("x", "y"), cells_per_axis=10, epsilon="1/2",
                              records=((5.2, 5.3),), n_neighbors=30)
Curator.open(sys.argv[1]).ask(query, of="plane")
"""


def test_a_process_killed_while_it_draws_costs_budget_and_tells_nothing(tmp_path: Path) -> None:
    start(tmp_path).close()
    died = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert died.returncode == 9
    with Curator.open(tmp_path) as curator:
        assert spent(curator) == [Loss("1/2")]
        curator.verify()
        answer = curator.ask(ASK, of="plane")  # the state is paid for
        assert [charge.loss for charge in answer.charges] == [Loss(0)]
        assert answer.release.value == expected(curator, ASK)
        assert spent(curator) == [Loss("1/2")]
        curator.verify()


def test_a_restored_copy_repeats_the_noise_of_cells_told_since_the_backup(tmp_path: Path) -> None:
    later = replace(ASK, records=((2.1, 7.9),))
    with start(tmp_path / "live") as curator:
        curator.ask(ASK, of="plane")
        backup(curator, tmp_path / "kept")
        told = curator.ask(later, of="plane").release.value
    with (
        Curator.open(tmp_path / "kept", restoring=True) as kept_copy,
        pytest.raises(Unavailable, match="is a backup"),
    ):
        kept_copy.ask(later, of="plane")
    restore(tmp_path / "kept", tmp_path / "restored")
    with Curator.open(tmp_path / "restored", restoring=True) as restored:
        restored.accept_restored("the original's disk broke")
        answer = restored.ask(later, of="plane")
        assert answer.release.value == told
        assert [charge.loss for charge in answer.charges] == [Loss(0)]
        restored.verify()


def finds_one_noise(curator: Curator) -> bool:
    """Whether two questions of one state see the same counts of cells."""
    first, second = (
        curator.ask(replace(ASK, records=records), of="plane").release.value.weighted
        for records in (EVERYWHERE, EVERYWHERE[::-1])
    )
    return bool((np.asarray(first) == np.asarray(second)[::-1]).all())


def test_a_curator_that_draws_anew_for_every_question_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: the mean of many answers would take the noise away."""
    with start(tmp_path / "honest") as curator:
        assert finds_one_noise(curator)
    monkeypatch.setattr(KeptRows, "noise", lambda *_: secure())
    with start(tmp_path / "bug") as curator:
        assert not finds_one_noise(curator)


def test_a_failing_answer_is_told_in_one_sentence_and_the_state_stays_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start(tmp_path) as curator:
        with monkeypatch.context() as patch:
            patch.setattr(InteractiveGrid, "true_counts", lambda *_: 1 / 0)
            with pytest.raises(AnswerFailed):
                curator.ask(ASK, of="plane")
        assert curator.ask(ASK, of="plane").release.value == expected(curator, ASK)
        assert spent(curator) == [Loss("1/2")]


GOLDEN = {  # the noise of the cells "0,0", "1,1", "2,4", ... from one salt, for good
    "1/1000": [-472, -367, 716, -81, 469, -1395, -1504, -1448, 218, 596, 1122, 1617],
    "1/100": [-157, -56, 139, -38, 152, -58, -170, -99, 160, 39, 48, 38],
    "1/2": [-4, -1, 2, -1, 2, -1, -4, -2, 2, 0, 0, 0],
    "1": [-2, -1, 0, 2, 0, -1, -2, -1, 0, 0, 0, 0],
    "3": [1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0],
}


@pytest.mark.parametrize("epsilon", GOLDEN)
def test_the_sampler_never_uses_the_stream_of_a_cell_in_another_way(epsilon: str) -> None:
    """If this must change, raise SAMPLER: or cells that were told get noise a second time."""
    noise = DiscreteLaplace.for_loss(Fraction(epsilon), 1)
    source = shared(bytes(range(32)), "a state")
    cells = [f"{place},{place**2}" for place in range(12)]
    found = [int(noise.add_to(np.array([0]), source.stream(cell))[0]) for cell in cells]
    assert found == GOLDEN[epsilon]


def test_a_question_finds_the_noise_that_it_always_found() -> None:
    """The state, the names of cells and the sampler together; as above."""
    empty = Table(DOMAIN, {"x": [], "y": []})
    query = replace(ASK, epsilon="1/50", n_neighbors=1000)
    found = query.answer(empty, shared(bytes(range(32)), ASK.state)).value
    assert ASK.state == '["interactive-grid",1,["x","y"],10,"1/2"]'
    assert (found.weighted, found.graded) == ((-59.8,), (0.3,))


def test_the_noise_of_a_cell_is_the_same_for_every_count_and_question() -> None:
    """Noise is added to the count, so that of a cell does not hang on who else was asked about."""
    source = shared(bytes(32), ASK.state)
    more = replace(ASK, records=((9.0, 9.0), *ASK.records))
    empty, full = Table(DOMAIN, {"x": [], "y": []}), Table(DOMAIN, ROWS)
    alone, beside = (query.answer(empty, source).value for query in (ASK, more))
    assert alone.weighted[0] == beside.weighted[1]
    noise = ASK.count_noise
    for cell, count in zip(ASK.needed(DOMAIN), ASK.true_counts(full), strict=True):
        drawn = [int(noise.add_to(np.array([n]), source.stream(cell))[0]) for n in (0, count)]
        assert drawn[1] - drawn[0] == count


def test_the_noise_of_many_cells_has_its_law() -> None:
    """4000 cells: a chi-square over the values from -3 to 3, its limit set before looking."""
    noise = DiscreteLaplace.for_loss(1, 1)
    source = shared(bytes(31) + b"x", "law")
    found = np.array(
        [noise.add_to(np.array([0]), source.stream(str(cell)))[0] for cell in range(4000)]
    )
    ratio = math.exp(-1)
    chances = np.array([(1 - ratio) / (1 + ratio) * ratio ** abs(k) for k in range(-3, 4)])
    counts = np.array([(found == k).sum() for k in range(-3, 4)])
    spread = ((counts - 4000 * chances) ** 2 / (4000 * chances)).sum()
    rest = 4000 - counts.sum()
    left = 4000 * (1 - chances.sum())
    assert spread + (rest - left) ** 2 / left < 29.9  # 7 degrees of freedom, once in 10,000


def test_scores_are_those_of_the_grid_held_in_memory() -> None:
    """With hardly any noise both walk over the exact counts."""
    table = Table(DOMAIN, ROWS)
    places = ((5.5, 5.5), (9.5, 9.5), (0.5, 9.5))  # middles: a held grid walks from there
    query = replace(ASK, epsilon=10**6, records=places, max_steps=4)
    held = GridKnn(columns=("x", "y"), cells_per_axis=10, epsilon=10**6, drop_below=None)
    expected = held.answer(table, seeded(1)).value.walk(np.array(places), 30, "0.4")
    found = query.answer(table, seeded(2)).value
    np.testing.assert_array_equal(found.basic, expected.basic)
    np.testing.assert_array_equal(found.weighted, expected.weighted)
    np.testing.assert_array_equal(found.graded, expected.graded)


class ThirdOfTheNoise(InteractiveGrid):
    """A planted bug: a third of the noise that is paid for."""

    @property
    def count_noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(super().count_noise.scale / 3)

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(self.epsilon), AddRemove())


def test_too_little_noise_is_caught_by_the_game() -> None:
    """That the honest grid is not caught by it is in every question's contract."""
    assert not replay_case(worst_cases(ThirdOfTheNoise)[0]).holds


MANY = tuple((place / 200, 5.0) for place in range(2000))


def changed(**parameters: Any) -> Callable[[], InteractiveGrid]:
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
        (changed(epsilon=0), "epsilon"),
        (
            changed(columns=tuple("abcdefghij"), records=((0.0,) * 10,), max_steps=9),
            "20000 cells",
        ),
    ],
)
def test_bad_parameters_are_refused_with_a_way_out(
    make: Callable[[], InteractiveGrid], message: str
) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (changed(columns=("x", "z")), "numeric columns"),
        (changed(cells_per_axis=10**5, records=MANY), "20000 cells in all"),
    ],
)
def test_what_does_not_fit_is_refused_before_any_charge(
    make: Callable[[], InteractiveGrid], message: str
) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make().check(DOMAIN)
