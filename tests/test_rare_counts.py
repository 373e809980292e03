"""Rare counts: told exactly, the others noisy, and nobody else's cell moves."""

from __future__ import annotations

# slow: left out by `make quick`
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privod.audit import replay_case
from privod.curator import Curator
from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidParameter, NoPromise
from privod.ledger.acts import AllowExactCounts
from privod.mechanisms import Randomness, secure, seeded
from privod.outliers.crowds.anomalies import protected_crowd
from privod.pictures import draw
from privod.privacy import AddRemove, InCrowd, Loss
from privod.query.query import Release
from privod.questions.rare_counts.audit import worst_cases
from privod.questions.rare_counts.query import RareCounts, ValueCounts

LETTERS, GRADES = ("a", "b", "c"), (1, 2)
DOMAIN = Domain((Categorical("letter", LETTERS), Categorical("grade", GRADES), Numeric("x", 0, 1)))
records = st.lists(st.tuples(st.sampled_from(LETTERS), st.sampled_from(GRADES)), max_size=40)


def ask(**changed: Any) -> RareCounts:
    asked: dict[str, Any] = {"columns": ("letter", "grade"), "max_crowd": 4, "epsilon": "0.1"}
    return RareCounts(**(asked | changed))


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
        " other counts are within ± 3 (95 % confidence each)."
    )
    assert "None of the 6 combinations" in query.answer(table([]), secure()).sentence()
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
        ({"records": ()}, "1 to 1000 rows"),
        ({"records": ((1,),)}, "2 values each"),
        ({"records": (("a", 1), ("a", 1.0))}, "must differ"),
        ({"records": (("a", 2**53), ("a", 2**53 + 1))}, "must differ"),
        ({"records": (("z", 1),)}, "declared value as letter"),
        ({"columns": ("x",), "records": (("a",),)}, "number as x"),
        ({"columns": ("x",), "records": ((math.nan,),)}, "finite"),
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


def copies(n: int) -> Table:
    """So many records with one value, and two without it."""
    rows = {"letter": ["a"] * n + ["b", "c"], "grade": [1] * (n + 2)}
    return Table(DOMAIN, {**rows, "x": [0.5] * n + [0.25, 0.5]})


def about(*records: tuple[Any, ...], **changed: Any) -> RareCounts:
    return ask(**({"columns": ("x", "letter"), "records": records} | changed))


def test_records_asked_about_are_counted_over_numbers_and_categories() -> None:
    query = about((0.5, "a"), (0.25, "b"), (0.5, "b"))
    value = query.answer(copies(2), secure()).value
    assert value.counts.tolist() == [2, 1, 0]
    assert not value.noisy.any()
    assert value.rare() == [(("0.25", "b"), 1), (("0.5", "a"), 2)]
    assert query.table(value)["count"] == [2, 1, 0]
    noisy = {int(query.answer(copies(3), seeded(s)).value.counts[0]) for s in range(20)}
    assert len(noisy) > 3


@given(records, st.lists(st.sampled_from(LETTERS), min_size=1, unique=True), st.integers(1, 5))
def test_records_are_counted_as_their_combinations_are(
    rows: list[tuple[str, int]], letters: list[str], max_crowd: int
) -> None:
    """Every record of the data lies in one of the counts at most, so they cost epsilon once."""
    every = ask(max_crowd=max_crowd, epsilon=10**6)
    some = ask(max_crowd=max_crowd, epsilon=10**6, records=[(one, 1) for one in letters])
    assert some.guarantee() == every.guarantee()
    here, there = (query.answer(table(rows), secure()).value for query in (some, every))
    places = [LETTERS.index(one) for one in letters]
    assert here.counts.tolist() == there.counts[places, 0].tolist()
    assert here.noisy.tolist() == there.noisy[places, 0].tolist()
    assert here.counts.sum() <= len(rows)


def test_the_sentence_never_calls_a_noisy_count_exact() -> None:
    def told(count: int, *, noisy: bool) -> str:
        return about((0.5, "a"), epsilon=1).sentence(
            ValueCounts((), np.array([count]), np.array([noisy]), ((0.5, "a"),))
        )

    assert told(-2, noisy=True) == (
        "-2 ± 3 records have these values of x and letter (95 % confidence)."
    )
    assert told(1, noisy=False) == "Exactly 1 record has these values of x and letter."
    assert told(0, noisy=False) == "Exactly 0 records have these values of x and letter."
    several = about((0.5, "a"), (0.25, "b")).answer(copies(1), secure()).sentence()
    assert several.startswith("Exactly 2 of 2 records asked about have 1 to 2 records")


@pytest.mark.parametrize("noisy", [False, True])
def test_the_picture_has_an_error_bar_exactly_if_there_is_noise(noisy: bool) -> None:
    value = ValueCounts((), np.array([2]), np.array([noisy]), ((0.5, "a"),))
    axes = draw(about((0.5, "a")).release(value, secure())).axes[0]
    bars = [some for some in axes.containers if some.__class__.__name__ == "ErrorbarContainer"]
    assert len(bars) == int(noisy)


def test_memberships_of_people_who_stand_alone_are_not_sold_for_nothing(tmp_path: Path) -> None:
    """Rare counts are exact at any price, so a price and a number of them limit what is told."""
    line = Domain((Numeric("x", -100, 100),))
    with Curator.open(tmp_path) as curator:
        curator.register("people", {"x": np.arange(200) / 2}, line)
        curator.open_budget("people", AddRemove(), Loss(1))
        asked = ask(columns=("x",), max_crowd=10, records=[(n / 2,) for n in range(200)])
        crowd = asked.guarantee().adjacency
        curator.open_budget("people", crowd, Loss(1), confirmed=True)
        curator.do(AllowExactCounts("people", crowd, 199, "whatever it costs"), confirmed=True)
        with pytest.raises(InvalidParameter, match="where rare counts are told exactly"):
            curator.ask(replace(asked, epsilon="1e-11"), "people")
        with pytest.raises(NoPromise, match="200 counts exactly"):
            curator.ask(asked, "people")
        curator.ask(replace(asked, records=asked.records[:199]), "people")  # type: ignore[index]
    wide = ask(max_crowd=3, edit_margin=5, epsilon="1e-6")
    assert wide.noisy_from == 0
    wide.check(DOMAIN)  # nothing is exact there


class LooksAheadTooLittle(RareCounts):
    @property
    def noisy_from(self) -> int:
        return protected_crowd(self.max_crowd, self.edit_margin)


class TellsEmptyCellsExactly(RareCounts):
    def answer(self, table: Table, randomness: Randomness) -> Release[ValueCounts]:
        value = super().answer(table, randomness).value
        if self.records is not None:
            return self.release(value, randomness)
        held = np.zeros(value.counts.shape, dtype=bool)
        held[tuple(table.codes(self.columns).T)] = True
        counts = np.where(held, value.counts, 0)
        return self.release(ValueCounts(value.axes, counts, value.noisy & held), randomness)


@pytest.mark.parametrize("kind", [LooksAheadTooLittle, TellsEmptyCellsExactly])
def test_the_audit_catches_planted_bugs(kind: type[RareCounts]) -> None:
    assert not all(replay_case(game).holds for game in worst_cases(kind))
    assert all(replay_case(game).holds for game in worst_cases())
