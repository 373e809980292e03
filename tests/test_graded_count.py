"""The graded count: its sensitivity by brute force, its answers, its audit."""

from __future__ import annotations

# slow: left out by `make quick`
import math
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privod.audit import replay_case
from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteLaplace, seeded
from privod.privacy import AddRemove, Guarantee, Loss, Replace
from privod.query.crowd_bounds import count_outliers, graded_credits
from privod.questions.graded_count.audit import worst_cases
from privod.questions.graded_count.query import GradedCount, graded_sensitivity

PLANE = Domain((Numeric("x", -10, 10), Numeric("y", -10, 10)))


def by_hand(points: NDArray[np.float64], radius: float, max_crowd: int, grades: int) -> int:
    """L times the sum of clamp(1 - (neighbors - (k - 1)) / L, 0, 1), neighbor by neighbor."""
    total = 0
    for place, one in enumerate(points):
        others = (other for index, other in enumerate(points) if index != place)
        near = sum(float(((one - other) ** 2).sum()) <= radius * radius for other in others)
        total += min(max(grades - (near - (max_crowd - 1)), 0), grades)
    return total


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), max_size=25),
    st.integers(1, 4),
    st.integers(1, 6),
)
def test_credits_are_those_of_the_definition(
    rows: list[tuple[int, int]], max_crowd: int, grades: int
) -> None:
    points = np.array(rows, dtype=float).reshape(-1, 2)
    found = graded_credits(points, 1.5, max_crowd, grades)
    assert int(found.sum()) == by_hand(points, 1.5, max_crowd, grades)
    hard = count_outliers(points, 1.5, max_crowd)
    assert int((found == grades).sum()) == hard
    assert int(graded_credits(points, 1.5, max_crowd, 1).sum()) == hard
    assert found.sum() >= grades * hard


@pytest.mark.parametrize(("max_crowd", "grades"), [(1, 1), (1, 2), (2, 1), (1, 3), (2, 2)])
def test_on_the_line_the_bounds_are_reached_and_never_passed(max_crowd: int, grades: int) -> None:
    """All multisets of places on a fine line, one record more, and one replaced."""
    places = np.arange(0, 2.5, 0.5)  # what lies farther apart than 2 r cannot matter together
    size = 2 * (max_crowd + grades - 1)
    worst = {AddRemove(): 0, Replace(): 0}
    for rows in combinations_with_replacement(places, size):
        base = np.array(rows).reshape(-1, 1)
        before = by_hand(base, 1, max_crowd, grades)
        sums = []
        for z in (*places, 50.0):
            after = by_hand(np.append(base, [[z]], axis=0), 1, max_crowd, grades)
            worst[AddRemove()] = max(worst[AddRemove()], abs(after - before))
            sums.append(after)
        worst[Replace()] = max(worst[Replace()], max(sums) - min(sums))
    for adjacency, found in worst.items():
        assert found == graded_sensitivity(max_crowd, grades, 1, adjacency)


@pytest.mark.parametrize(("max_crowd", "grades"), [(1, 1), (2, 3), (5, 10)])
def test_in_the_plane_a_pentagon_comes_near_the_bound(max_crowd: int, grades: int) -> None:
    angles = 2 * math.pi * np.arange(5) / 5
    corners = 0.99 * np.column_stack([np.cos(angles), np.sin(angles)])
    rows = np.repeat(corners, max_crowd + grades - 1, axis=0)
    credits_before = graded_credits(rows, 1, max_crowd, grades).sum()
    with_center = np.append(rows, [[0.0, 0.0]], axis=0)
    credits_after = graded_credits(with_center, 1, max_crowd, grades).sum()
    assert credits_before - credits_after == 5 * (max_crowd + grades - 1)
    apart = np.append(rows, [[9.0, 9.0]], axis=0)
    replaced = graded_credits(apart, 1, max_crowd, grades).sum() - credits_after
    assert replaced == 5 * (max_crowd + grades - 1) + grades
    assert replaced <= graded_sensitivity(max_crowd, grades, 2, Replace())


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2)), min_size=1, max_size=30),
    st.tuples(st.floats(-2, 2), st.floats(-2, 2)),
    st.integers(1, 3),
    st.integers(1, 5),
)
def test_no_pair_passes_the_bounds(
    rows: list[tuple[float, float]], z: tuple[float, float], max_crowd: int, grades: int
) -> None:
    points = np.array(rows, dtype=float)
    sums = [
        int(graded_credits(table, 1, max_crowd, grades).sum())
        for table in (points, np.append(points, [z], axis=0), np.append(points[1:], [z], axis=0))
    ]
    assert abs(sums[1] - sums[0]) <= graded_sensitivity(max_crowd, grades, 2, AddRemove())
    assert abs(sums[2] - sums[0]) <= graded_sensitivity(max_crowd, grades, 2, Replace())


def test_the_margin_is_right_and_far_below_the_hard_counts() -> None:
    query = GradedCount(radius=1, max_crowd=50, epsilon=1)
    hard = DiscreteLaplace.for_loss(1, 6 * 50).quantile(0.95)
    assert hard / query.margin(2) == pytest.approx(50 * 100 / 149, rel=0.02)
    assert query.preview(PLANE).margin == math.ceil(query.margin(2))
    rows = np.random.default_rng(0).normal(size=(400, 2))
    table = Table(PLANE, {"x": rows[:, 0], "y": rows[:, 1]})
    truth = by_hand(np.asarray(table.numbers(("x", "y"))), 1, 50, 100) / 100
    errors = [abs(query.answer(table, seeded(seed)).value.count - truth) for seed in range(200)]
    assert 0.9 < np.mean([error <= query.margin(2) for error in errors]) < 0.99


@pytest.mark.parametrize("adjacency", [AddRemove(), Replace()], ids=lambda a: a.name)
@pytest.mark.parametrize("columns", [("x",), ("x", "y"), ()])
def test_the_guarantee_is_epsilon_in_any_number_of_columns(columns: Any, adjacency: Any) -> None:
    query = GradedCount(radius=1, max_crowd=5, epsilon="0.3", columns=columns, adjacency=adjacency)
    assert query.guarantee() == Guarantee(Loss("0.3"), adjacency)
    noise = query.noise(len(columns) or 2)
    assert noise.loss(query.sensitivity(len(columns) or 2)) == Loss("0.3")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_crowd": 0}, "max_crowd must be at least 1"),
        ({"grades": 0}, "grades must be at least 1"),
        ({"grades": 10**7}, "grades must be at most"),
        ({"radius": -1}, "radius must be at least 0"),
        ({"epsilon": 0}, "epsilon must be greater than 0"),
        ({"epsilon": 10**10}, "epsilon must"),
    ],
)
def test_bad_parameters_are_told_by_name(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        GradedCount(**{"radius": 1, "max_crowd": 5, "epsilon": 1, **parameters})


def test_too_many_columns_are_told_before_anything() -> None:
    names = [f"c{place}" for place in range(150)]
    wide = Domain(tuple(Numeric(name, 0, 1) for name in names))
    with pytest.raises(InvalidParameter, match="columns must be fewer"):
        GradedCount(radius=1, max_crowd=5, epsilon=1).check(wide)


@dataclass(frozen=True, kw_only=True)
class CountsItselfAlone(GradedCount):
    """A planted bug: noise as if a record changed its own credit only."""

    def sensitivity(self, dimensions: int, n_groups: int = 1) -> int:  # noqa: ARG002
        return self.n_grades


@dataclass(frozen=True, kw_only=True)
class ThirdOfTheNoise(GradedCount):
    """A planted bug: a third of the noise."""

    def noise(self, dimensions: int, n_groups: int = 1) -> DiscreteLaplace:
        return DiscreteLaplace(super().noise(dimensions, n_groups).scale / 3)


def test_the_honest_count_passes_the_audit_and_planted_bugs_are_caught() -> None:
    for game in worst_cases():
        verdict = replay_case(game)
        assert verdict.holds
        assert verdict.share > 0.2
    for bug in (CountsItselfAlone, ThirdOfTheNoise):
        assert not all(replay_case(game).holds for game in worst_cases(bug))
