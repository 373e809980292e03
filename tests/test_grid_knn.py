"""GridKnn: what it releases, under which promise, dense, sparse and lazy."""

from __future__ import annotations

# slow: left out by `make quick`
import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms import DiscreteLaplace, secure, seeded
from privod.mechanisms.noise import _run_thresholds
from privod.mechanisms.sparse import _cumulative
from privod.privacy import AddRemove, Guarantee, Loss, Replace
from privod.questions.grid_knn.query import GridKnn
from tests.reference.mechanisms import probability

PLANE = Domain((Numeric("x", 0, 4), Numeric("y", 0, 4)))


def plane(rows: list[tuple[float, float]]) -> Table:
    points = np.array(rows, dtype=np.float64).reshape(-1, 2)
    return Table(PLANE, {"x": points[:, 0], "y": points[:, 1]})


def test_the_promise_needs_no_data_and_replacing_takes_twice_the_noise() -> None:
    one = GridKnn(columns=("x", "y"), epsilon="0.1", cells_per_axis=4)
    other = GridKnn(columns=("x", "y"), epsilon="0.1", cells_per_axis=4, adjacency=Replace())
    assert one.guarantee() == Guarantee(Loss(Fraction(1, 10)), AddRemove())
    assert other.guarantee() == Guarantee(Loss(Fraction(1, 10)), Replace())
    assert one.count_noise == DiscreteLaplace(Fraction(10))
    assert other.count_noise == DiscreteLaplace(Fraction(20))


@pytest.mark.parametrize(("adjacency", "changed"), [(AddRemove(), 1), (Replace(), 2)])
def test_a_fiftieth_of_epsilon_buys_the_number_of_records_where_cells_are_dropped(
    adjacency: AddRemove | Replace, changed: int
) -> None:
    query = GridKnn(columns=("x", "y"), epsilon="0.1", drop_below=9, adjacency=adjacency)
    assert query.guarantee() == Guarantee(Loss(Fraction(1, 10)), adjacency)
    assert query.count_noise == DiscreteLaplace(Fraction(10 * changed * 50, 49))
    assert query.noise_of_total == DiscreteLaplace(Fraction(500))
    totals = [query.answer(plane([(1, 1)] * 900), seeded(run)).value.total for run in range(400)]
    errors = np.array(totals) - 900
    assert abs(errors.mean()) < 5 * query.noise_of_total.deviation / 20
    assert 0.8 < errors.std() / query.noise_of_total.deviation < 1.25


def test_rows_that_the_domain_drops_are_not_counted() -> None:
    query = GridKnn(columns=("x", "y"), epsilon=10**5, drop_below=1)
    rows = plane([(1.0, 1.0), (math.nan, 1.0), (2.0, 2.0)])
    assert query.answer(rows, seeded(0)).value.total == 2


def test_little_noise_leaves_the_counts_and_every_cell_is_there() -> None:
    query = GridKnn(columns=("x", "y"), epsilon=200, cells_per_axis=4)
    value = query.answer(plane([(0.5, 0.5), (0.6, 0.6), (3.9, 0)]), seeded(1)).value
    expected = np.zeros((4, 4), dtype=np.int64)
    expected[0, 0], expected[3, 0] = 2, 1
    assert value.counts.reshape(4, 4).tolist() == expected.tolist()
    assert value.cells is None
    assert [column.name for column in value.columns] == ["x", "y"]


def test_empty_cells_are_noisy_like_full_ones() -> None:
    query = GridKnn(columns=("x", "y"), epsilon=1, cells_per_axis=50)
    counts = query.answer(plane([]), seeded(2)).value.counts
    assert counts.min() < 0 < counts.max()
    assert abs(float(counts.std()) - query.count_noise.deviation) < 0.15


def test_a_sparse_grid_keeps_what_reaches_the_threshold_in_order() -> None:
    query = GridKnn(columns=("x", "y"), epsilon=1, cells_per_axis=30, drop_below=4)
    value = query.answer(plane([(1.0, 1.0)] * 50), seeded(3)).value
    assert value.cells is not None
    rows = value.cells.tolist()
    assert rows == sorted(rows)
    assert len({tuple(row) for row in rows}) == len(rows)
    assert value.counts.min() >= 4
    assert [7, 7] in rows
    assert (
        900 * query.count_noise.reaching(4) / 3
        < len(rows)
        < 900 * query.count_noise.reaching(4) * 3
    )


@pytest.mark.parametrize(("scale", "threshold"), [(Fraction(1), 1), (Fraction(5, 2), 3)])
def test_the_law_of_the_sparse_draw_is_the_law_of_adding_noise_to_all_and_dropping(
    scale: Fraction, threshold: int
) -> None:
    """Theorem 2, with the tables that the samplers draw from, for outcomes of three empty cells."""
    n_empty, precision = 3, 200
    one = Fraction(1 << precision)
    at_most = [Fraction(bound.low) / one for bound in _cumulative(scale, threshold, 3, precision)]
    counts = np.diff([Fraction(0), *at_most[:n_empty], Fraction(1)])
    below = [Fraction(bound.low) / one for bound in _run_thresholds(scale)(precision)]
    excesses = np.diff([Fraction(0), *below])
    noise = DiscreteLaplace(scale)
    exactly = {
        value: Fraction(probability(noise, value, precision).low) / one
        for value in range(-threshold - 400, threshold + 400)
    }
    dropped = sum(mass for value, mass in exactly.items() if value < threshold)
    for values in itertools.product([None, 0, 1, 4], repeat=n_empty):
        kept = [value for value in values if value is not None]
        add_to_all = dropped ** (n_empty - len(kept))
        sparse = counts[len(kept)] / math.comb(n_empty, len(kept))
        for value in kept:
            add_to_all *= exactly[threshold + value]
            sparse *= excesses[value]
        assert abs(sparse - add_to_all) < Fraction(1, 10**50)


def test_sparse_draws_follow_the_exact_law_on_a_small_grid() -> None:
    """Two full and two empty cells: which are kept, against the exact probabilities."""
    domain = Domain((Numeric("x", 0, 4),))
    table = Table(domain, {"x": np.array([0.5, 2.5, 2.5])})
    query = GridKnn(columns=("x",), epsilon=1, cells_per_axis=4, drop_below=2)
    stay = [query.count_noise.reaching(2 - count) for count in (1, 0, 2, 0)]
    randomness = seeded(4)
    runs = 4000
    seen = np.zeros(16)
    second = np.zeros(5)
    for _ in range(runs):
        value = query.answer(table, randomness).value
        assert value.cells is not None
        kept = value.cells[:, 0].tolist()
        seen[sum(1 << cell for cell in kept)] += 1
        if 1 in kept:  # an empty cell that passed: threshold plus a geometric
            second[min(int(value.counts[kept.index(1)]) - 2, 4)] += 1
    expected = [
        runs * np.prod([stay[c] if kept >> c & 1 else 1 - stay[c] for c in range(4)])
        for kept in range(16)
    ]
    assert chisquare(seen, expected).pvalue > 1e-4
    q = np.exp(-1.0)
    law = np.array([(1 - q) * q**extra for extra in range(4)] + [q**4]) * second.sum()
    assert chisquare(second, law).pvalue > 1e-4


def test_a_sparse_grid_looks_like_a_dense_one_that_was_filtered() -> None:
    rng = np.random.default_rng(5)
    table = plane([(float(x), float(y)) for x, y in rng.normal(2, 0.5, (400, 2))])
    dense = GridKnn(columns=("x", "y"), epsilon=1, cells_per_axis=12)
    sparse = GridKnn(columns=("x", "y"), epsilon=1, cells_per_axis=12, drop_below=3)
    randomness = seeded(6)
    runs = 300
    kept = np.zeros((2, 144))
    for _ in range(runs):
        kept[0] += dense.answer(table, randomness).value.counts >= 3
        value = sparse.answer(table, randomness).value
        assert value.cells is not None
        kept[1, value.cells[:, 0] * 12 + value.cells[:, 1]] += 1
    spread = np.sqrt((kept.sum(axis=0) + 1) * 2)
    deviations = (kept[0] - kept[1]) / spread
    assert np.abs(deviations).max() < 5
    assert 0.4 < np.square(deviations).mean() * 2 < 2.2


def test_ten_to_the_thirty_cells_are_released_and_score() -> None:
    domain = Domain(tuple(Numeric(f"x{axis}", 0, 1) for axis in range(30)))
    near = np.full((500, 30), 0.55)
    table = Table(domain, {f"x{axis}": near[:, axis] for axis in range(30)})
    query = GridKnn(columns=domain.names, epsilon=1, cells_per_axis=10)
    query.check(domain)
    value = query.answer(table, seeded(7)).value
    assert value.drop_below is not None
    assert value.drop_below > 60
    assert value.cells is not None
    assert [5] * 30 in value.cells.tolist()
    asked = np.vstack([np.full(30, 0.51), np.full(30, 0.95)])
    scores = value.walk(asked, n_neighbors=10)
    assert scores.basic[0] == 0 < scores.basic[1]


def test_the_number_of_cells_follows_from_public_guesses() -> None:
    six = Domain(tuple(Numeric(f"x{axis}", 0, 1) for axis in range(6)))
    query = GridKnn(columns=six.names, epsilon=1, expected_records=100_000)
    assert query.grid(six).cells_per_axis == 10  # (100000 / 10) ** (2 / 8)
    few = GridKnn(columns=six.names, epsilon="0.01", expected_records=10)
    assert few.grid(six).cells_per_axis == 2
    most = GridKnn(columns=six.names, epsilon=1, expected_records=10**400, drop_below=7)
    assert most.grid(six).cells_per_axis > 1000


def columns(count: int) -> tuple[str, ...]:
    return tuple(f"x{axis}" for axis in range(count))


@pytest.mark.parametrize(
    ("n_columns", "expected_records", "kept"),
    [
        (2, 100_000, "all"),  # 10^4 cells
        (4, 100_000, "all"),  # two cells to a record
        (6, 100_000, "some"),  # ten cells to a record
        (8, 100_000, "some"),
        (8, 1_000, "all"),  # seven cells to a record, but too few records for crowds
        (20, 1_000, "all"),
        (24, 1_000, "some"),  # more cells than can be held
    ],
)
def test_cells_are_dropped_where_there_are_many_more_of_them_than_of_many_records(
    n_columns: int, expected_records: int, kept: str
) -> None:
    query = GridKnn(columns=columns(n_columns), epsilon=1, expected_records=expected_records)
    assert query.threshold == (None if kept == "all" else query.automatic_threshold)
    assert replace(query, drop_below=None).threshold is None
    assert replace(query, drop_below=5).threshold == 5


@settings(max_examples=60, deadline=None)
@given(
    n_columns=st.integers(1, 40),
    epsilon=st.sampled_from(["0.001", "0.1", 1, 20]),
    expected_records=st.integers(1, 10**12),
)
def test_the_automatic_choices_never_refuse_themselves(
    n_columns: int, epsilon: object, expected_records: int
) -> None:
    domain = Domain(tuple(Numeric(f"x{axis}", 0, 1) for axis in range(n_columns)))
    GridKnn(
        columns=domain.names,
        epsilon=epsilon,  # type: ignore[arg-type]
        expected_records=expected_records,
    ).check(domain)


def test_two_hundred_million_expected_records_in_six_columns_can_be_asked_for() -> None:
    six = Domain(tuple(Numeric(f"x{axis}", 0, 1) for axis in range(6)))
    query = GridKnn(columns=six.names, epsilon=1, expected_records=2 * 10**8)
    query.check(six)
    assert query.automatic_threshold >= 11


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.floats(allow_nan=True), st.floats(allow_nan=True)), min_size=0, max_size=30
    ),
    drop_below=st.none() | st.integers(1, 5),
)
def test_no_rows_make_it_fail(rows: list[tuple[float, float]], drop_below: int | None) -> None:
    query = GridKnn(columns=("x", "y"), epsilon=1, cells_per_axis=3, drop_below=drop_below)
    value = query.answer(plane(rows), secure()).value
    assert np.isfinite(value.walk(np.array([[1.0, 1.0]])).graded).all()
    assert "costs nothing more" in query.sentence(value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": 0}, "epsilon must be greater than 0, got 0"),
        ({"epsilon": float("inf")}, "epsilon must be finite"),
        ({"epsilon": float("nan")}, "epsilon must be finite"),
        (
            {"epsilon": 10**12},
            "epsilon must lie between 9.1e-13 and 1e.09, got 1000000000000.0. Try 1.",
        ),
        ({"epsilon": "1e-50"}, "epsilon must lie between 9.1e-13 and 1e.09, got 1e-50. Try 1."),
        ({"epsilon": Fraction(1, 7**300)}, "epsilon must lie between .*, got [0-9.]+e-254. Try 1."),
        ({"epsilon": 7**400}, "epsilon must be below 1.8e308"),
        ({"cells_per_axis": 1}, "cells_per_axis must be at least 2, got 1. Try 10."),
        ({"cells_per_axis": 2.5}, "cells_per_axis must be a whole number"),
        ({"drop_below": 0}, "drop_below must be at least 1"),
        ({"cells_per_axis": 10**4000}, "cells_per_axis must be at most 1000000"),
        ({"drop_below": "all"}, "drop_below must be a whole number, \"auto\" or None, got 'all'"),
        ({"epsilon": "1e-11", "drop_below": 3}, "nor may the fiftieth of it that counts all"),
        ({"expected_records": 0}, "expected_records must be at least 1"),
        ({"columns": ()}, "columns must name a column"),
    ],
)
def test_wrong_parameters_are_refused_before_any_data(
    wrong: dict[str, object], message: str
) -> None:
    right: dict[str, object] = {"columns": ("x",), "epsilon": 1}
    with pytest.raises(InvalidParameter, match=message.replace("(", r"\(")):
        GridKnn(**{**right, **wrong})  # type: ignore[arg-type]


def test_what_does_not_fit_the_domain_is_refused_before_any_data() -> None:
    with pytest.raises(InvalidParameter, match="columns must be numeric columns"):
        GridKnn(columns=("z",), epsilon=1).check(PLANE)
    wide = Domain(tuple(Numeric(f"x{axis}", 0, 1) for axis in range(30)))
    with pytest.raises(InvalidParameter, match="drop_below must let about"):
        GridKnn(columns=wide.names, epsilon=1, cells_per_axis=10, drop_below=5).check(wide)
    with pytest.raises(InvalidParameter, match="drop_below must drop some of more than 10000000"):
        GridKnn(columns=wide.names, epsilon=1, drop_below=None).check(wide)


def test_noise_that_adds_up_past_64_bits_is_refused_since_nobody_could_read_the_release() -> None:
    dense = GridKnn(columns=("x", "y"), epsilon="1e-12", cells_per_axis=3000, drop_below=None)
    wide = Domain(tuple(Numeric(f"x{axis}", 0, 1) for axis in range(200)))
    sparse = GridKnn(columns=wide.names, epsilon="5e-11", expected_records=10**9)
    for query, domain in ((dense, PLANE), (sparse, wide)):
        with pytest.raises(InvalidParameter, match="epsilon must be larger for so many cells"):
            query.check(domain)
        replace(query, epsilon="1e-9").check(domain)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[1.0, np.nan]], "finite"),
        ([[1.0, np.inf]], "finite"),
        ([[1.0]], "2 columns"),
        ([1.0, 2.0], "2 columns"),
        ([["a", "b"]], "numbers"),
    ],
)
def test_points_that_cannot_be_scored_are_refused(points: object, message: str) -> None:
    value = (
        GridKnn(columns=("x", "y"), epsilon=1, cells_per_axis=4).answer(plane([]), secure()).value
    )
    with pytest.raises(InvalidData, match=message):
        value.walk(points)  # type: ignore[arg-type]


def test_scoring_parameters_are_refused_with_their_rule() -> None:
    value = (
        GridKnn(columns=("x", "y"), epsilon=1, cells_per_axis=4).answer(plane([]), secure()).value
    )
    with pytest.raises(InvalidParameter, match="n_neighbors must be at least 1"):
        value.walk([[1.0, 1.0]], n_neighbors=0)
    with pytest.raises(InvalidParameter, match="n_neighbors must be at most"):
        value.walk([[1.0, 1.0]], n_neighbors=10**30)
    with pytest.raises(InvalidParameter, match="n_neighbors must be at most"):
        value.scorer(n_neighbors=10**30)
    with pytest.raises(InvalidParameter, match="max_depth must be at least 0"):
        value.walk([[1.0, 1.0]], max_depth=-1)
    with pytest.raises(InvalidParameter, match="target_fraction must lie between 0 and 1"):
        value.threshold(1.5)
