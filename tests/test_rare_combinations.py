"""Rare combinations: told exactly, the others noisy, and nobody else's cell moves."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privod.audit import replay_game
from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import Randomness, secure, seeded
from privod.outliers.crowds.anomalies import protected_crowd
from privod.privacy import AddRemove, InCrowd
from privod.query.query import Release
from privod.questions.rare_combinations.audit import games
from privod.questions.rare_combinations.query import CombinationCounts, RareCombinations

LETTERS, GRADES = ("a", "b", "c"), (1, 2)
DOMAIN = Domain((Categorical("letter", LETTERS), Categorical("grade", GRADES), Numeric("x", 0, 1)))
records = st.lists(st.tuples(st.sampled_from(LETTERS), st.sampled_from(GRADES)), max_size=40)


def ask(**changed: Any) -> RareCombinations:
    asked: dict[str, Any] = {"columns": ("letter", "grade"), "max_crowd": 4, "epsilon": "0.1"}
    return RareCombinations(**(asked | changed))


def table(rows: list[tuple[str, int]]) -> Table:
    letters, grades = [row[0] for row in rows], [row[1] for row in rows]
    return Table(DOMAIN, {"letter": letters, "grade": grades, "x": np.zeros(len(rows))})


@given(records, st.integers(1, 6), st.integers(1, 6))
def test_a_count_is_exact_where_it_is_rare_and_said_to_be_noisy_elsewhere(
    rows: list[tuple[str, int]], max_crowd: int, margin: int
) -> None:
    query = ask(max_crowd=max_crowd, edit_margin=margin)
    value = query.answer(table(rows), seeded(1)).value
    expected = Counter(rows)
    for i, j in np.ndindex(3, 2):
        count = expected[LETTERS[i], GRADES[j]]
        assert value.noisy[i, j] == (count >= query.noisy_from)
        if not value.noisy[i, j]:
            assert value.counts[i, j] == count


@given(records, st.integers(1, 5), st.integers(1, 5), st.sampled_from(LETTERS))
def test_what_is_exact_is_the_same_on_both_sides_of_every_adjacent_pair(
    rows: list[tuple[str, int]], max_crowd: int, margin: int, letter: str
) -> None:
    query = ask(max_crowd=max_crowd, edit_margin=margin)
    more = [*rows, (letter, 1)]
    adjacency = query.guarantee().adjacency
    least = adjacency.crowd if isinstance(adjacency, InCrowd) else 1
    assert least > 1 or adjacency == AddRemove()
    if more.count((letter, 1)) < least:
        return  # nothing is promised to such a record
    one, other = (query.answer(table(some), secure()).value for some in (rows, more))
    assert np.array_equal(one.noisy, other.noisy)
    exact = ~one.noisy
    assert np.array_equal(one.counts[exact], other.counts[exact])


def test_the_sentence_names_the_rarest_and_how_many_there_are() -> None:
    rows = [("a", 1)] * 50 + [("b", 1)] + [("c", 2)] * 2
    query = ask(epsilon=1)
    release = query.answer(table(rows), secure())
    assert release.value.rare() == [(("b", "1"), 1), (("c", "2"), 2)]
    assert release.sentence() == (
        "Exactly 2 of 6 combinations of letter and grade have 1 to 2 records: b, 1 (1); c, 2 (2);"
        " other counts are right to within 3 with 95 % certainty, each."
    )
    assert "No combination" in query.answer(table([]), secure()).sentence()
    assert "told exactly" in ask(edit_margin=4).answer(table(rows), secure()).sentence()


def test_noise_is_drawn_for_rare_cells_too() -> None:
    """So the same seed gives a common cell the same noise, whatever the other cells hold."""
    few, many = [("c", 2)] * 40, [("c", 2)] * 40 + [("a", 1)]
    values = [ask().answer(table(rows), seeded(9)).value for rows in (few, many)]
    assert values[0].counts[2, 1] == values[1].counts[2, 1]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"columns": ("x",)}, "categorical"),
        ({"columns": ("nowhere",)}, "categorical"),
        ({"columns": ()}, "columns"),
        ({"max_crowd": 0}, "max_crowd"),
        ({"edit_margin": 0}, "edit_margin"),
        ({"epsilon": "1e-14"}, "epsilon must lie between"),
        ({"epsilon": 0}, "epsilon"),
    ],
)
def test_bad_questions_are_refused_before_anything_is_asked(
    changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidParameter, match=said):
        ask(**changed).check(DOMAIN)


def test_too_many_combinations_are_refused() -> None:
    wide = Domain(tuple(Categorical(f"c{n}", tuple(range(50))) for n in range(3)))
    with pytest.raises(InvalidParameter, match="at most 100000 combinations"):
        ask(columns=("c0", "c1", "c2")).check(wide)


class LooksAheadTooLittle(RareCombinations):
    @property
    def noisy_from(self) -> int:
        return protected_crowd(self.max_crowd, self.edit_margin)


class TellsEmptyCellsExactly(RareCombinations):
    def answer(self, table: Table, randomness: Randomness) -> Release[CombinationCounts]:
        value = super().answer(table, randomness).value
        held = np.zeros(value.counts.shape, dtype=bool)
        held[tuple(table.codes(self.columns).T)] = True
        counts = np.where(held, value.counts, 0)
        return self.release(CombinationCounts(value.axes, counts, value.noisy & held), randomness)


@pytest.mark.parametrize("kind", [LooksAheadTooLittle, TellsEmptyCellsExactly])
def test_the_audit_catches_planted_bugs(kind: type[RareCombinations]) -> None:
    assert not all(replay_game(game).holds for game in games(kind))
    assert all(replay_game(game).holds for game in games())
