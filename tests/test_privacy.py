"""Losses are exact, adjacencies nest, and promises are restated only where they hold."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privod.errors import InvalidParameter, NoPromise
from privod.privacy import (
    AddRemove,
    Adjacency,
    Guarantee,
    InCrowd,
    Loss,
    Replace,
    SameContexts,
    Secrecy,
    adjacency_from_json,
    exact,
    positive,
)
from privod.privacy.guarantee import merged_promise

fractions = st.fractions(min_value=0, max_value=50, max_denominator=10**6)
crowds = st.builds(
    InCrowd,
    radius=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    columns=st.sampled_from([("x",), ("x", "y"), ("y",), ("x", "y", "z")]),
    crowd=st.integers(1, 4),
)
adjacencies: st.SearchStrategy[Adjacency] = st.one_of(
    st.sampled_from([AddRemove(), Replace(), SameContexts("grubbs", "salary", "7")]), crowds
)


def test_ten_tenths_are_one() -> None:
    assert sum((Loss(0.1) for _ in range(10)), Loss(0)) == Loss(1)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0.1, Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        (Decimal("0.1"), Fraction(1, 10)),
        ("1/3", Fraction(1, 3)),
        (np.float64(0.3), Fraction(3, 10)),
        (np.int64(2), Fraction(2)),
        (1e-6, Fraction(1, 10**6)),
        (" +1.5E-3\n", Fraction(3, 2000)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
    ],
)
def test_decimals_are_read_as_written(written: float, meant: Fraction) -> None:
    assert exact(written, "epsilon") == meant


@pytest.mark.parametrize(
    "nonsense",
    [
        *("", "one", "1/0", "nan", "inf", "1e999999999", "1e9_00000000", "1e-9_00000000"),
        *("1e900000000\n", "1e²", "1_000", "٣", "1/3e5", "0x10", Decimal("1e900000000")),
        *(Decimal("nan"), math.nan, math.inf, None, True, [1], 10**400, -(10**5000)),
    ],
    ids=lambda value: f"{value!r:.20}" if not isinstance(value, int) else "huge",
)
def test_what_is_no_number_is_refused_by_name(nonsense: object) -> None:
    with pytest.raises(InvalidParameter, match="epsilon must"):
        exact(nonsense, "epsilon")  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [0, -1, "-0.5"])
def test_an_epsilon_must_be_positive(number: float) -> None:
    with pytest.raises(InvalidParameter, match="epsilon must be greater than 0"):
        positive(number, "epsilon")


def test_a_negative_loss_is_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"delta must be at least 0, got -1\. Try 0\."):
        Loss(1, -1)


def test_very_long_texts_are_refused_before_they_become_numbers() -> None:
    with pytest.raises(InvalidParameter, match="at most 1000 characters"):
        exact("1" * 2000, "epsilon")


@given(fractions, fractions, fractions, fractions)
def test_losses_add_up_exactly_and_survive_json(
    a: Fraction, b: Fraction, c: Fraction, d: Fraction
) -> None:
    total = Loss(a, b) + Loss(c, d)
    assert (total.epsilon, total.delta) == (a + c, b + d)
    assert Loss.from_json(total.to_json()) == total
    assert Loss(a, b) <= total


def test_numbers_of_numpy_are_read_as_python_numbers() -> None:
    assert type(exact(np.int64(2), "epsilon").numerator) is int  # type: ignore[arg-type]
    assert Loss(np.int64(2)) * 10**30 == Loss(2 * 10**30)  # type: ignore[arg-type]


@given(fractions, st.fractions(min_value=Fraction(1, 10**9), max_value=Fraction(1, 100)))
def test_the_loss_of_a_group_is_never_rounded_down(epsilon: Fraction, delta: Fraction) -> None:
    group = Loss(epsilon, delta).for_groups(2)
    assert group.epsilon == 2 * epsilon
    assert group.delta == 1 or float(group.delta) >= float(delta) * (
        1 + math.exp(float(epsilon))
    ) * (1 - 1e-12)
    assert Loss.from_json(group.to_json()) == group


@given(
    st.fractions(min_value=0, max_value=3, max_denominator=1000),
    st.fractions(min_value=Fraction(1, 10**9), max_value=Fraction(1, 100)),
    st.integers(2, 12),
)
def test_the_loss_of_a_group_is_the_sum_of_its_steps(
    epsilon: Fraction, delta: Fraction, size: int
) -> None:
    steps = math.fsum(math.exp(float(epsilon) * step) for step in range(size))
    group = Loss(epsilon, delta).for_groups(size)
    assert group.epsilon == size * epsilon
    assert float(group.delta) == pytest.approx(min(1.0, float(delta) * steps), rel=1e-11)


@pytest.mark.parametrize("epsilon", [800, 10**7, 10**300])
def test_a_group_gets_no_promise_long_before_the_exponential_is_too_large(epsilon: int) -> None:
    assert Loss(epsilon, "1e-9").for_groups(2) == Loss(2 * epsilon, 1)
    assert Loss("1e-9", "1e-9").for_groups(10**18).delta == 1
    assert Loss(0, Fraction(1, 10**70)).for_groups(10**60).delta == 1


def test_a_large_group_of_a_tiny_loss_is_counted_at_once() -> None:
    grown = Loss("1e-9", "1e-12").for_groups(10**9).delta
    assert float(grown) == pytest.approx(1e-3 * math.expm1(1), rel=1e-8)
    tiny = Loss("0.1", Fraction(1, 10**400)).for_groups(2).delta
    assert 0 < tiny - (1 + Fraction(math.exp(0.1))) / 10**400 < Fraction(1, 10**410)


def test_the_loss_of_a_pure_group_stays_pure() -> None:
    assert Loss("0.3").for_groups(3) == Loss("0.9")


def test_an_empty_group_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="size must be at least 1"):
        Loss(1).for_groups(0)


def test_a_replacement_is_two_steps_and_nothing_follows_the_other_way() -> None:
    assert Guarantee(Loss(1), AddRemove()).under(Replace()) == Guarantee(Loss(2), Replace())
    with pytest.raises(NoPromise, match="replace says nothing under add-remove"):
        Guarantee(Loss(1), Replace()).under(AddRemove())


def test_a_crowd_of_one_is_everybody() -> None:
    everybody = InCrowd(radius=1, columns=("x",), crowd=1)
    assert AddRemove().steps_of(everybody) == 1
    assert everybody.steps_of(AddRemove()) == 1
    assert everybody.gives_up == ""


def test_a_larger_radius_or_a_smaller_crowd_or_fewer_columns_protect_more() -> None:
    narrow = InCrowd(radius=1, columns=("x", "y"), crowd=5)
    for wide in (
        InCrowd(radius=2, columns=("x", "y"), crowd=5),
        InCrowd(radius=1, columns=("x", "y"), crowd=4),
        InCrowd(radius=1, columns=("y",), crowd=5),
        AddRemove(),
    ):
        assert narrow.steps_of(wide) == 1
        assert wide.steps_of(narrow) is None


@given(adjacencies, adjacencies, adjacencies)
def test_nesting_is_reflexive_and_transitive(a: Adjacency, b: Adjacency, c: Adjacency) -> None:
    assert a.steps_of(a) == 1
    first, second = a.steps_of(b), b.steps_of(c)
    if first is not None and second is not None:
        whole = a.steps_of(c)
        assert whole is not None
        assert whole <= first * second


@given(adjacencies)
def test_adjacencies_survive_json_and_say_who_is_protected(adjacency: Adjacency) -> None:
    assert adjacency_from_json(adjacency.to_json()) == adjacency
    assert adjacency.protected


@pytest.mark.parametrize(
    "data", [{"name": "nobody"}, {}, {"name": "in-crowd"}, {"name": "replace", "n": 3}]
)
def test_unknown_adjacencies_are_refused(data: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter, match="adjacency"):
        adjacency_from_json(data)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"radius": -1, "columns": ("x",), "crowd": 2}, "radius must be at least 0"),
        ({"radius": math.nan, "columns": ("x",), "crowd": 2}, "radius must be finite"),
        ({"radius": 10**400, "columns": ("x",), "crowd": 2}, "radius must be below"),
        ({"radius": 10**5000, "columns": ("x",), "crowd": 2}, "got a number of thousands"),
        ({"radius": 1, "columns": (), "crowd": 2}, "columns must name a column"),
        ({"radius": 1, "columns": ("x",), "crowd": 0}, "crowd must be a whole number from 1"),
    ],
)
def test_impossible_crowds_are_refused(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        InCrowd(**parameters)  # type: ignore[arg-type]


def test_releases_about_the_same_records_add_up_under_the_narrower_adjacency() -> None:
    both = Guarantee(Loss("0.5"), AddRemove()) + Guarantee(Loss(1), Replace())
    assert both == Guarantee(Loss(2), Replace())
    assert Guarantee(Loss(1), Replace()) + Guarantee(Loss("0.5"), AddRemove()) == both


def test_two_narrow_promises_that_do_not_nest_do_not_add_up() -> None:
    first = Guarantee(Loss(1), InCrowd(radius=1, columns=("x",), crowd=2))
    second = Guarantee(Loss(1), InCrowd(radius=1, columns=("y",), crowd=2))
    with pytest.raises(NoPromise):
        first + second


def test_disjoint_parts_cost_the_largest_of_their_losses() -> None:
    parts = [Guarantee(Loss(1), AddRemove()), Guarantee(Loss("0.5", "0.01"), AddRemove())]
    assert merged_promise(parts) == Guarantee(Loss(1, "0.01"), AddRemove())


def test_persons_with_several_records_are_groups_under_add_remove_only() -> None:
    assert Guarantee(Loss(1), AddRemove()).for_groups(3).loss == Loss(3)
    with pytest.raises(NoPromise, match="persons with several records"):
        Guarantee(Loss(1), Replace()).for_groups(2)


def test_a_promise_is_a_sentence_with_its_numbers() -> None:
    sentence = Guarantee(Loss("0.1", "1e-6"), AddRemove()).sentence()
    assert "(epsilon 0.1)" in sentence
    assert "1.106" in sentence
    assert "1e-6" in sentence


def test_guarantees_survive_json_and_secrecies_say_who_learns_what() -> None:
    guarantee = Guarantee(Loss("1/3"), InCrowd(radius=1, columns=("x",), crowd=3))
    assert Guarantee.from_json(guarantee.to_json()) == guarantee
    secrecy = Secrecy("masks", (("the aggregator", "the sum"),), 1)
    assert "the aggregator learns the sum" in secrecy.sentence()
