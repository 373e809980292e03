"""One meaning of distance: scaled, weighted, with categories, and within the bounds of it all."""

from __future__ import annotations

# slow: left out by `make quick`
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import seeded
from privod.outliers.crowds.distance import crowds
from privod.privacy import AddRemove, Adjacency, Replace
from privod.query.crowd_bounds import (
    GroupedCover,
    count_outliers,
    count_sensitivity,
    graded_credits,
    local_bound,
)
from privod.query.distances import Distances
from privod.questions.graded_count.query import GradedCount, graded_sensitivity
from privod.questions.outlier_count.query import OutlierCount
from privod.questions.outlier_subspaces.query import OutlierSubspaces

SHARP = 10**6
DOMAIN = Domain(
    (
        Numeric("age", 0, 100),
        Numeric("income", 0, 10_000),
        Categorical("ward", ("A", "B", "C")),
        Categorical("sex", ("f", "m")),
    )
)


def table(rows: list[tuple[float, float, str, str]]) -> Table:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
    names = ("age", "income", "ward", "sex")
    return Table(DOMAIN, {name: list(some) for name, some in zip(names, columns, strict=True)})


def counted(rows: list[tuple[float, float, str, str]], **asked: Any) -> int:
    query = OutlierCount(max_crowd=1, epsilon=SHARP, noise="global", **asked)
    return query.answer(table(rows), seeded(0)).value.count


def test_a_range_counts_as_one_whatever_its_units() -> None:
    pair = [(10.0, 1000.0, "A", "f"), (13.0, 1400.0, "A", "f")]  # 0.03 and 0.04 of the ranges
    for radius, outlying in ((0.0499, 2), (0.0501, 0)):
        assert counted(pair, radius=radius, scale="range") == outlying


def test_weights_multiply_what_a_column_counts() -> None:
    pair = [(10.0, 1000.0, "A", "f"), (13.0, 1400.0, "A", "f")]
    asked: dict[str, Any] = {"columns": ("income", "age"), "weights": (0.01, 1)}
    assert counted(pair, radius=4.99, **asked) == 2
    assert counted(pair, radius=5.0, **asked) == 0
    assert (
        counted(pair, radius=0.1001, scale="range", columns=("age", "income"), weights=(2, 2)) == 0
    )
    assert (
        counted(pair, radius=0.0999, scale="range", columns=("age", "income"), weights=(2, 2)) == 2
    )


@pytest.mark.parametrize(("column", "other"), [("ward", ("B", "f")), ("sex", ("A", "m"))])
def test_a_mismatch_is_as_far_as_its_weight(column: str, other: tuple[str, str]) -> None:
    pair = [(10.0, 0.0, "A", "f"), (13.0, 0.0, *other)]
    asked: dict[str, Any] = {"columns": ("age", column), "weights": (1, 4)}
    assert counted(pair, radius=4.99, **asked) == 2
    assert counted(pair, radius=5.001, **asked) == 0
    same = [(10.0, 0.0, "A", "f"), (10.0, 0.0, *other)]
    assert counted(same, radius=4.0, **asked) == 0  # exactly at the radius counts


def test_all_questions_about_crowds_measure_alike() -> None:
    generator = np.random.default_rng(5)
    rows = [
        (float(age), float(income), str(ward), str(sex))
        for age, income, ward, sex in zip(
            generator.uniform(0, 100, 60),
            generator.uniform(0, 10_000, 60),
            generator.choice(["A", "B", "C"], 60),
            generator.choice(["f", "m"], 60),
            strict=True,
        )
    ]
    asked: dict[str, Any] = {"scale": "range", "columns": ("age", "income"), "weights": (1, 2)}
    hard = counted(rows, radius=0.2, **asked)
    graded = GradedCount(radius=0.2, max_crowd=1, grades=1, epsilon=SHARP, **asked)
    assert graded.answer(table(rows), seeded(1)).value.count == hard
    sets = OutlierSubspaces(
        radius_per_column=0.2 / math.sqrt(2),
        max_crowd=1,
        epsilon=SHARP,
        size=2,
        count_share="0.5",
        **asked,
    )
    assert sets.true_counts(table(rows), [("age", "income")]) == [hard]
    counting = sets.counting(("income", "age"))
    assert dict(zip(counting.columns, counting.weights, strict=True)) == {"age": 1, "income": 2}
    assert 0 < hard < 60


places = st.sampled_from([0.0, 0.6, 0.9, 1.0, 1.8])
kinds = st.sampled_from(["A", "B", "C"])


def mixed(rows: list[tuple[float, str]]) -> Table:
    return table([(10 + x, 0.0, ward, "f") for x, ward in rows])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(places, kinds), min_size=1, max_size=12),
    st.tuples(places, kinds),
    st.sampled_from([0.3, 0.8, 0.9, 1.0, 1.1]),
    st.integers(1, 3),
)
def test_no_pair_with_categories_passes_the_bounds(
    rows: list[tuple[float, str]], new: tuple[float, str], mismatch: float, max_crowd: int
) -> None:
    over = Distances.over(DOMAIN, ("age", "ward"), "own", (1.0, mismatch))
    groups = over.n_groups(1.0)
    assert groups == (3 if mismatch <= 1 else 1)
    tables = {AddRemove(): mixed([*rows, new]), Replace(): mixed([*rows[1:], new])}
    before = over.points(mixed(rows))
    for adjacency, other in tables.items():
        after = over.points(other)
        hard = [count_outliers(points, 1.0, max_crowd) for points in (before, after)]
        most = count_sensitivity(max_crowd, 1, adjacency, n_groups=groups)
        assert abs(hard[0] - hard[1]) <= most
        soft = [graded_credits(points, 1.0, max_crowd, 4).sum() for points in (before, after)]
        limit = graded_sensitivity(max_crowd, 4, 1, adjacency, groups)
        assert abs(int(soft[0]) - int(soft[1])) <= limit


@pytest.mark.parametrize("adjacency", [AddRemove(), Replace()])
@pytest.mark.parametrize("mismatch", [0.9, 1.1])
def test_with_categories_u_t_bounds_every_change_and_grows_into_the_next(
    adjacency: Adjacency, mismatch: float
) -> None:
    over = Distances.over(DOMAIN, ("age", "sex"), "own", (1.0, mismatch))
    spots = [(x, sex) for x in (9.0, 10.0, 10.5) for sex in ("f", "m")]
    every = [
        data for size in range(4) for data in itertools.combinations_with_replacement(spots, size)
    ]

    def looked(data: Any) -> tuple[int, list[int]]:
        rows = table([(x, 0.0, "A", sex) for x, sex in data])
        points = over.points(rows)
        cover = GroupedCover(points[:, :1], 1.0, over.extent, over.apart(rows, 1.0))
        bound = local_bound(crowds(points, 1.0), cover, 1, 10**6, adjacency)
        return count_outliers(points, 1.0, 1), [bound(t) for t in range(3)]

    known = {data: looked(data) for data in every}
    for data, (count, bounds) in known.items():
        fewer = {data[:i] + data[i + 1 :] for i in range(len(data))}
        more = {tuple(sorted((*data, spot))) for spot in spots}
        swapped = {tuple(sorted((*rest, spot))) for rest in fewer for spot in spots}
        for other in (fewer | more) if adjacency == AddRemove() else swapped:
            if other in known:
                assert abs(count - known[other][0]) <= bounds[0]
                assert all(bounds[t] <= known[other][1][t + 1] for t in range(2))


def test_a_smooth_count_with_categories_is_answered_with_its_margin() -> None:
    rows = [(float(age), 0.0, "ABC"[age % 3], "fm"[age % 2]) for age in range(60)]
    for weights in ((1, 2, 3), (1, 20, 30)):
        query = OutlierCount(
            radius=4,
            max_crowd=2,
            epsilon=1,
            columns=("age", "ward", "sex"),
            weights=weights,
            noise="heavy",
        )
        release = query.answer(table(rows), seeded(2))
        assert release.value.n_groups == (6 if weights[1] == 2 else 1)
        assert f"± {query.margin(release.value):.3g}" in release.sentence()
        again = query.value_from_json(query.value_to_json(release.value))
        assert again == release.value


def test_what_cannot_be_measured_is_told_before_anything() -> None:
    asked: dict[str, Any] = {"radius": 1, "max_crowd": 3, "epsilon": 1}
    with pytest.raises(InvalidParameter, match="must name a numeric column too"):
        OutlierCount(**asked, columns=("ward",)).check(DOMAIN)
    wide = Domain((Numeric("x", 0, 1e250),))
    with pytest.raises(InvalidParameter, match="weights must leave numbers"):
        OutlierCount(**asked, columns=("x",), weights=(1e99,)).check(wide)
    many = Domain((Numeric("x", 0, 1), Categorical("c", tuple(range(300)))))
    with pytest.raises(InvalidParameter, match="at most 200"):
        OutlierCount(**asked, columns=("x", "c")).check(many)
