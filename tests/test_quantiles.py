"""Quantiles: near the data's own, covered by their intervals, and no dearer than they say."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privod import Domain, Numeric, Ordinal, Table
from privod.audit.replay import replay
from privod.data import Date
from privod.errors import InvalidParameter
from privod.mechanisms import ExponentialMechanism, seeded
from privod.privacy import AddRemove, Replace
from privod.questions.quantiles.lattice import SLOTS, Lattice
from privod.questions.quantiles.query import Quantiles, _worth

NUMBERS = Domain((Numeric("x", 0, 1000),))
GRADES = Domain((Ordinal("g", ("a", "b", "c", "d")),))


@given(st.lists(st.integers(0, 5), min_size=2, max_size=9), st.fractions(0, 1, max_denominator=9))
def test_the_utility_is_how_far_the_share_lies_from_a_slot(
    counts: list[int], share: Fraction
) -> None:
    if not 0 < share < 1:
        return
    below = np.concatenate([[0], np.cumsum(counts)])
    wanted = share * sum(counts)
    slow = [
        -share.denominator
        * max(Fraction(0), sum(counts[:slot]) - wanted, wanted - sum(counts[: slot + 1]))
        for slot in range(len(counts))
    ]
    assert _worth(below, share).tolist() == slow


@given(st.lists(st.sampled_from("abcd"), max_size=30), st.sampled_from("abcd"))
def test_a_record_more_is_one_more_in_one_slot(grades: list[str], more: str) -> None:
    lattice = Lattice(GRADES.numeric()[0])
    counts = lattice.counts(Table(GRADES, {"g": grades}))
    changed = lattice.counts(Table(GRADES, {"g": [*grades, more]})) - counts
    assert sorted(changed.tolist()) == [0] * (4 * SLOTS - 1) + [1]
    assert counts.reshape(4, SLOTS).sum(axis=1).tolist() == [grades.count(one) for one in "abcd"]


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from("abcd"), max_size=12),
    st.sampled_from("abcd"),
    st.sampled_from("abcd"),
    st.integers(0, 2**32),
)
def test_no_adjacent_pair_loses_more_than_is_promised(
    grades: list[str], old: str, new: str, seed: int
) -> None:
    shares = (Fraction(1, 10), Fraction(1, 2), Fraction(7, 10))
    query = Quantiles(columns=("g",), epsilon=1, quantiles=shares)
    tables = [Table(GRADES, {"g": rows}) for rows in (grades, [*grades, new], [*grades, old])]
    assert lost(query, tables[0], tables[1], seed) <= 1
    assert lost(replace(query, adjacency=Replace()), tables[2], tables[1], seed) <= 1


def lost(query: Any, table: Table, other: Table, seed: int) -> Fraction:
    return Fraction(replay(query.answer, table, other, seed).epsilon)


def test_a_choice_made_for_less_than_a_record_changes_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def planted(self: Quantiles, share: Fraction) -> ExponentialMechanism:
        return ExponentialMechanism.for_loss(2 * self.level_epsilon / self.parts, share.numerator)

    monkeypatch.setattr(Quantiles, "choice", planted)
    query = Quantiles(columns=("g",), epsilon=1, quantiles=(Fraction(1, 10),))
    pair = [Table(GRADES, {"g": rows}) for rows in (["a"] * 4, ["a"] * 5)]
    assert max(lost(query, pair[0], pair[1], seed) for seed in range(20)) > 1


def test_quantiles_are_near_and_intervals_cover_them() -> None:
    values = np.clip(np.random.default_rng(1).lognormal(4, 1, 5000), 0, 1000)
    table, exact = Table(NUMBERS, {"x": values}), np.sort(values)
    query = Quantiles(columns=("x",), epsilon=1)
    ranks = np.arange(1, 10) * 500
    covered, off = [], []
    for seed in range(20):
        value = query.answer(table, seeded(seed)).value
        off.append(np.abs(np.searchsorted(exact, value.values[0]) - ranks).mean())
        own = exact[ranks - 1]
        covered += ((np.array(value.lows[0]) <= own) & (own <= np.array(value.highs[0]))).tolist()
    assert np.mean(off) < 25
    assert np.mean(covered) > 0.95


def test_where_many_share_a_value_several_quantiles_are_that_value() -> None:
    table = Table(NUMBERS, {"x": [10.0] * 300 + [500.0] * 600 + [900.0] * 100})
    value = Quantiles(columns=("x",), epsilon=20).answer(table, seeded(2)).value
    near = [min((10, 500, 900), key=lambda mass: abs(mass - found)) for found in value.values[0]]
    assert near[:2] == [10, 10]
    assert near[3:8] == [500] * 5


def test_dates_and_ordered_values_are_told_as_such() -> None:
    domain = Domain((Date("day", "2020-01-01", "2024-12-31"), Ordinal("g", ("a", "b", "c"))))
    rows = {"day": ["2022-06-15"] * 900, "g": ["b"] * 900}
    query = Quantiles(columns=("day", "g"), epsilon=10, quantiles=(Fraction(1, 2),))
    release = query.answer(Table(domain, rows), seeded(1))
    assert "0.5 at 2022-06-15 (" in release.sentence()
    assert "0.5 at b (b to b)" in release.sentence()
    assert release.table()["value"] == ["2022-06-15", "b"]
    assert query.value_from_json(query.value_to_json(release.value)) == release.value
    release.plot()


def test_nothing_depends_on_there_being_records() -> None:
    for n in (0, 1, 2):
        found = Quantiles(columns=("x",), epsilon=1).answer(
            Table(NUMBERS, {"x": [5.0] * n}), seeded(n)
        )
        assert len(found.value.values[0]) == 9


@pytest.mark.parametrize(
    ("shares", "message"),
    [((), "must be 1 to"), ((0.5, 0.5), "must increase"), ((0,), "must increase"),
     ((1.5,), "must increase"), (("1/3",), "multiples of 1/10000"), (("x",), "quantiles")],
)  # fmt: skip
def test_impossible_shares_are_refused(shares: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Quantiles(columns=("x",), epsilon=1, quantiles=shares)
    with pytest.raises(InvalidParameter, match="numeric"):
        Quantiles(columns=("z",), epsilon=1).check(NUMBERS)


def test_the_loss_is_epsilon_under_both_adjacencies() -> None:
    for adjacency in (AddRemove(), Replace()):
        query = Quantiles(columns=("x",), epsilon="0.3", adjacency=adjacency)
        assert query.guarantee().loss.epsilon == Fraction(3, 10)
