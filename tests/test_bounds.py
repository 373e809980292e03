"""PrivateBounds: ranges bought with budget."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privod.audit import replay_case
from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteLaplace, Randomness, secure, seeded
from privod.privacy import AddRemove, Guarantee, Loss, Replace
from privod.query.query import Release
from privod.questions.private_bounds.audit import worst_cases
from privod.questions.private_bounds.query import PrivateBounds

WIDE = Domain((Numeric("x", -(2.0**64), 2.0**64),))


def found(values: object, zooms: int = 1, epsilon: object = 1, seed: int = 0) -> Numeric:
    query = PrivateBounds(columns=("x",), epsilon=epsilon, zooms=zooms)  # type: ignore[arg-type]
    return query.answer(Table(WIDE, {"x": values}), seeded(seed)).value[0]


def test_every_look_at_every_column_has_its_share_of_the_loss() -> None:
    query = PrivateBounds(columns=("x", "y", "z"), epsilon=1, zooms=2)
    assert query.guarantee() == Guarantee(Loss(1), AddRemove())
    assert query.count_noise == DiscreteLaplace(Fraction(9))  # 3 columns, 3 looks
    replaced = PrivateBounds(columns=("x", "y", "z"), epsilon=1, zooms=2, adjacency=Replace())
    assert replaced.guarantee() == Guarantee(Loss(1), Replace())
    assert replaced.count_noise == DiscreteLaplace(Fraction(18))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
@pytest.mark.parametrize("seed", range(3))
def test_the_bulk_of_a_normal_column_lies_within_and_not_in_a_corner(
    scale: float, seed: int
) -> None:
    values = np.random.default_rng(seed).normal(0, scale, 1000)
    column = found(values, seed=seed)
    inside = (values >= column.low) & (values <= column.high)
    assert inside.mean() > 0.93
    assert column.high - column.low < 24 * scale


@pytest.mark.parametrize("seed", range(3))
def test_more_zooms_find_a_narrow_range_far_from_zero(seed: int) -> None:
    values = np.random.default_rng(seed).normal(1000, 5, 2000)
    column = found(values, zooms=3, seed=seed)
    inside = (values >= column.low) & (values <= column.high)
    assert inside.mean() > 0.97
    assert column.high - column.low < 200


@pytest.mark.parametrize("seed", range(3))
def test_zeros_do_not_hide_the_size_of_the_other_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.concatenate([np.zeros(600), rng.normal(1e6, 1e5, 400)])
    column = found(values, seed=seed)
    assert column.low <= 0
    assert 1.1e6 < column.high < 1e7


def test_a_column_of_zeros_has_a_range_around_them() -> None:
    column = found(np.zeros(1000))
    assert column.low <= 0 <= column.high


def test_what_is_found_stays_within_what_is_declared() -> None:
    domain = Domain((Numeric("x", 0, 100),))
    values = np.random.default_rng(0).uniform(0, 100, 5000)
    query = PrivateBounds(columns=("x",), epsilon=1)
    column = query.answer(Table(domain, {"x": values}), seeded(0)).value[0]
    assert (column.low, column.high) == (0, 100)


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=40),
    limits=st.sampled_from([(0.0, 2.0**-500), (-1e308, 7e307), (-1.0, 1.0), (1e-150, 1e-149)]),
    zooms=st.integers(1, 3),
)
def test_no_rows_make_it_fail(values: list[float], limits: tuple[float, float], zooms: int) -> None:
    domain = Domain((Numeric("x", *limits),))
    table = Table(domain, {"x": np.array(values, dtype=np.float64)})
    query = PrivateBounds(columns=("x",), epsilon="0.01", zooms=zooms)
    column = query.answer(table, secure()).value[0]
    (declared,) = domain.numeric()
    assert declared.low <= column.low < column.high <= declared.high


@pytest.mark.parametrize("zooms", [1, 2, 3, 50])
@pytest.mark.parametrize("limits", [(-8.9e307, 8.9e307), (0.0, 1.7e308), (-1.7e308, 0.0)])
def test_zooms_stay_within_the_widest_ranges(limits: tuple[float, float], zooms: int) -> None:
    domain = Domain((Numeric("x", *limits),))
    rows = np.linspace(*limits, 2001)
    for values in (rows, rows[:1], rows[-1:], rows[[0, -1]], rows[:0]):
        query = PrivateBounds(columns=("x",), epsilon=1000, zooms=zooms)
        column = query.answer(Table(domain, {"x": values}), secure()).value[0]
        assert limits[0] <= column.low < column.high <= limits[1]
        if len(values) == len(rows):
            assert ((rows >= column.low) & (rows <= column.high)).mean() > 0.9


@pytest.mark.parametrize("limits", [(0.0, 2.0**-499), (0.0, 2.0**-480), (1.0, 1.0 + 2.0**-52)])
def test_zooms_past_the_finest_numbers_return_what_was_declared(
    limits: tuple[float, float],
) -> None:
    domain = Domain((Numeric("x", *limits),))
    for values in ([limits[0]] * 50, [limits[1]] * 50, list(limits), []):
        query = PrivateBounds(columns=("x",), epsilon=1000, zooms=50)
        column = query.answer(Table(domain, {"x": values}), secure()).value[0]
        assert limits[0] <= column.low < column.high <= limits[1]


def test_it_survives_json_and_speaks_in_words() -> None:
    query = PrivateBounds(columns=("x",), epsilon=1)
    value = query.answer(Table(WIDE, {"x": [1.0, 2.0]}), secure()).value
    assert query.value_from_json(query.value_to_json(value)) == value
    assert "Most records lie within x from" in query.sentence(value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": -1}, "epsilon must be greater than 0"),
        ({"zooms": 0}, "zooms must be at least 1"),
        ({"columns": ("x", "x")}, "columns must be different names"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, object], message: str) -> None:
    right: dict[str, object] = {"columns": ("x",), "epsilon": 1}
    with pytest.raises(InvalidParameter, match=message):
        PrivateBounds(**{**right, **wrong})  # type: ignore[arg-type]


class _ExactMaximum(PrivateBounds):
    """A planted bug: the upper end is read off the rows."""

    def answer(self, table: Table, randomness: Randomness) -> Release[tuple[Numeric, ...]]:
        release = super().answer(table, randomness)
        high = float(table.numbers(self.columns).max(initial=1.0))
        return replace(release, value=(Numeric("x", -(2.0**20), high),))


@pytest.mark.parametrize("place", [0, 1])
def test_the_audit_catches_a_look_at_the_rows_and_not_the_honest_one(place: int) -> None:
    caught = replay_case(worst_cases(_ExactMaximum)[place])
    assert not caught.holds, caught.sentence()
    honest = replay_case(worst_cases()[place])
    assert honest.holds, honest.sentence()
