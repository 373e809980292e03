"""The grid, its counts and its walk, against the slow twin in reference/grid.py."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privod.data import Numeric
from privod.errors import InvalidParameter
from privod.outliers.grid.folds import OccupiedCells
from privod.outliers.grid.grid import Grid, different
from tests.reference import grid as slow

Floats = NDArray[np.float64]


def unit_grid(n_axes: int, cells_per_axis: int) -> Grid:
    """A grid whose cells have side 1, so that places can be written in eighths of a cell."""
    columns = tuple(Numeric(f"x{axis}", 0, cells_per_axis) for axis in range(n_axes))
    return Grid(columns, cells_per_axis)


def slow_scores(
    grid: Grid,
    counts: dict[tuple[int, ...], int],
    points: Floats,
    n_neighbors: int,
    depth: Fraction | None,
) -> tuple[list[float], list[float], list[float]]:
    b = grid.cells_per_axis
    steps = grid.max_steps(depth)
    cells = map(tuple, grid.cells_of(points).tolist())
    scores = [slow.score(cell, b, counts, n_neighbors, steps) for cell in cells]
    return (
        [basic / b for basic, _, _ in scores],
        [weighted / b for _, weighted, _ in scores],
        [(basic + share) / b for basic, _, share in scores],
    )


@st.composite
def situations(
    draw: st.DrawFn,
) -> tuple[Grid, Floats, Floats, NDArray[np.int64], int, Fraction | None]:
    n_axes = draw(st.integers(1, 4))
    b = draw(st.integers(2, 6 if n_axes < 4 else 3))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    on_eighths = draw(st.booleans())  # borders and exact ties are then common

    def places(n: int) -> Floats:
        if on_eighths:
            return rng.integers(-8, 8 * b + 8, (n, n_axes)) / 8.0
        return rng.random((n, n_axes)) * 1.2 * b - 0.1 * b

    points = places(draw(st.integers(0, 40)))
    noise = rng.integers(-3, 4, b**n_axes) * draw(st.integers(0, 1))
    depth = draw(st.none() | st.fractions(0, 3, max_denominator=6))
    n_neighbors = draw(st.integers(1, 9))
    return unit_grid(n_axes, b), points, places(4), noise, n_neighbors, depth


@settings(max_examples=150, deadline=None)
@given(situations())
def test_counts_and_walks_equal_the_slow_twins(
    situation: tuple[Grid, Floats, Floats, NDArray[np.int64], int, Fraction | None],
) -> None:
    grid, points, asked, noise, n_neighbors, depth = situation
    ones = np.ones(grid.n_axes)
    occupied = slow.counts_of(points, 0 * ones, ones, grid.cells_per_axis)
    cells = list(itertools.product(range(grid.cells_per_axis), repeat=grid.n_axes))

    counts = grid.all_counts(points)
    assert counts.tolist() == [occupied.get(cell, 0) for cell in cells]
    some = grid.occupied_counts(points)
    assert list(map(tuple, some.cells.tolist())) == sorted(occupied)
    assert some.counts.tolist() == [occupied[cell] for cell in sorted(occupied)]

    noisy = counts + noise
    by_cell = dict(zip(cells, noisy.tolist(), strict=True))
    walked = grid.walk(noisy, grid.cells_of(asked), n_neighbors, depth)
    expected = slow_scores(grid, by_cell, asked, n_neighbors, depth)
    assert (walked.basic.tolist(), walked.weighted.tolist()) == expected[:2]
    assert walked.graded.tolist() == expected[2]

    walked = grid.walk_some(some, grid.cells_of(asked), n_neighbors, depth)
    expected = slow_scores(grid, occupied, asked, n_neighbors, depth)
    assert (walked.basic.tolist(), walked.weighted.tolist()) == expected[:2]
    assert walked.graded.tolist() == expected[2]


def test_a_walk_of_many_steps_in_six_dimensions_equals_the_slow_twin() -> None:
    grid = unit_grid(6, 4)
    rng = np.random.default_rng(3)
    noisy = rng.integers(-2, 3, grid.n_cells)
    cells = list(itertools.product(range(4), repeat=6))
    by_cell = dict(zip(cells, noisy.tolist(), strict=True))
    asked = np.vstack([rng.random((6, 6)) * 4, np.full((1, 6), 0.5), np.full((1, 6), 2.0)])
    walked = grid.walk(noisy, grid.cells_of(asked), 60)
    assert walked.weighted.tolist() == slow_scores(grid, by_cell, asked, 60, None)[1]
    assert walked.basic.tolist() == slow_scores(grid, by_cell, asked, 60, None)[0]


def test_many_ties_are_walked_in_order_of_index() -> None:
    grid = unit_grid(13, 2)
    middle = np.ones((1, 13), np.int32)  # the last cell
    flipped = [np.bitwise_count(8191 ^ index) for index in range(grid.n_cells)]
    tied = [index for index, flips in enumerate(flipped) if flips == 6]
    assert len(tied) > 1024
    counts = np.zeros(grid.n_cells, dtype=np.int64)
    counts[[tied[700], tied[-1]]] = 1, 5
    walked = grid.walk(counts - (np.arange(grid.n_cells) == tied[0]), middle, 1)
    assert walked.weighted[0] == 6 * 5 / 2  # -1, 1 and 5 in this order
    assert walked.graded[0] == (6 + 1 / 5) / 2
    assert grid.walk(counts, middle, 1).graded[0] == (6 + 1) / 2


@pytest.mark.parametrize(("n_axes", "cells_per_axis"), [(1, 400), (2, 40), (3, 12), (5, 5)])
def test_walks_that_never_end_and_walks_among_ties_equal_the_slow_twin(
    n_axes: int, cells_per_axis: int
) -> None:
    grid = unit_grid(n_axes, cells_per_axis)
    rng = np.random.default_rng(n_axes)
    noisy = rng.integers(-2, 3, grid.n_cells)
    cells = list(itertools.product(range(cells_per_axis), repeat=n_axes))
    centers = rng.integers(0, cells_per_axis, (2, n_axes)) + 0.5
    asked = np.vstack([centers, np.floor(centers), rng.random((2, n_axes)) * cells_per_axis])
    for counts in (noisy, -abs(noisy)):
        by_cell = dict(zip(cells, counts.tolist(), strict=True))
        for depth in (None, Fraction(1, 2)):
            walked = grid.walk(counts, grid.cells_of(asked), 30, depth)
            expected = slow_scores(grid, by_cell, asked, 30, depth)
            assert (walked.basic.tolist(), walked.weighted.tolist()) == expected[:2]
            assert walked.graded.tolist() == expected[2]


def test_thirty_columns_and_ten_to_the_thirty_cells_are_no_trouble() -> None:
    columns = tuple(Numeric(f"x{axis}", -1, 1) for axis in range(30))
    grid = Grid(columns, 10)
    rng = np.random.default_rng(1)
    points = np.repeat(rng.uniform(-1, 1, (40, 30)), 5, axis=0)
    some = grid.occupied_counts(points)
    assert grid.n_cells == 10**30
    assert sorted(some.counts.tolist()) == [5] * 40
    assert some.cells.tolist() == sorted(map(list, grid.cells_of(points[::5]).tolist()))
    scores = grid.walk_some(some, grid.cells_of(points[:7]), n_neighbors=5)
    assert scores.basic.tolist() == [0.0] * 7
    assert scores.graded.tolist() == [0.1] * 7


@pytest.mark.parametrize(("n_axes", "cells_per_axis"), [(3, 7), (62, 2), (64, 2), (30, 10)])
def test_cells_are_numbered_whatever_the_size_of_their_numbers(
    n_axes: int, cells_per_axis: int
) -> None:
    grid = unit_grid(n_axes, cells_per_axis)
    rng = np.random.default_rng(2)
    cells = rng.integers(0, cells_per_axis, (20, n_axes), dtype=np.int32)
    cells[0] = cells_per_axis - 1
    indices = grid.indices_of(cells)
    assert indices[0] == grid.n_cells - 1
    assert grid.cells_at(indices).tolist() == cells.tolist()
    assert grid.cells_at([]).shape == (0, n_axes)


def test_outside_the_range_is_clipped_to_the_outermost_cells() -> None:
    grid = Grid((Numeric("x", 0, 1), Numeric("y", -5, 5)), 4)
    far = np.array([[-1e300, 1e300], [1e300, -1e300], [1.0, 5.0], [0.0, -5.0]])
    assert grid.cells_of(far).tolist() == [[0, 3], [3, 0], [3, 3], [0, 0]]
    assert grid.all_counts(far).reshape(4, 4)[[0, 3, 3, 0], [3, 0, 3, 0]].tolist() == [1] * 4


@pytest.mark.parametrize("n_axes", [1, 2, 3, 7, 14])
def test_counting_several_rows_at_a_time_agrees_with_cells_one_by_one(n_axes: int) -> None:
    grid = unit_grid(n_axes, 2)
    rng = np.random.default_rng(n_axes)
    points = np.concatenate([rng.random((4099, n_axes)) * 3 - 0.5, np.full((1, n_axes), 1.0)])
    points[::7, 0] = -1e300
    points[::5, -1] = 1e300
    ids = grid.cells_of(points) @ (2 ** np.arange(n_axes)[::-1])
    assert grid.all_counts(points).tolist() == np.bincount(ids, minlength=2**n_axes).tolist()


def test_no_range_is_too_narrow() -> None:
    grid = Grid((Numeric("x", 0.0, 2.0**-500),), 3)
    points = np.array([[0.0], [2.0**-500]])
    assert grid.all_counts(points).sum() == 2
    assert np.isfinite(grid.walk(grid.all_counts(points), grid.cells_of(points), 1).basic).all()


def test_an_empty_reference_scores_everybody_alike_far() -> None:
    grid = unit_grid(2, 4)
    nothing = np.empty((0, 2))
    asked = grid.cells_of(np.array([[0.3, 0.4], [3.6, 3.7]]))
    dense = grid.walk(grid.all_counts(nothing), asked, 3)
    sparse = grid.walk_some(grid.occupied_counts(nothing), asked, 3)
    assert dense.basic.tolist() == sparse.basic.tolist() == [1.5, 1.5]


def test_big_tables_are_counted_by_several_threads_alike() -> None:
    grid = unit_grid(3, 5)
    points = np.random.default_rng(0).random((450_001, 3)) * 5
    cells = grid.cells_of(points).astype(np.int64)
    ids = (cells[:, 0] * 5 + cells[:, 1]) * 5 + cells[:, 2]
    assert grid.all_counts(points).tolist() == np.bincount(ids, minlength=125).tolist()
    some = grid.occupied_counts(points)
    assert some.counts.tolist() == np.bincount(ids, minlength=125).tolist()


def test_centers_and_overshoots_are_in_the_columns_own_units() -> None:
    grid = Grid((Numeric("x", 10, 20), Numeric("y", 0, 1)), 5)
    cells = np.array([[0, 0], [4, 2]], dtype=np.int32)
    np.testing.assert_allclose(grid.centers_of(cells), [[11, 0.1], [19, 0.5]])
    outside = np.array([[5.0, 0.5], [15.0, 0.5], [25.0, 3.0], [1e308, -1e308]])
    np.testing.assert_allclose(grid.overshoot(outside), [0.5, 0, 2.5, 2e6])


@settings(max_examples=60, deadline=None)
@given(situations())
def test_places_and_sums_equal_the_slow_twins(
    situation: tuple[Grid, Floats, Floats, NDArray[np.int64], int, Fraction | None],
) -> None:
    grid, points, *_ = situation
    ones = np.ones(grid.n_axes)
    b = grid.cells_per_axis
    expected = [slow.overshoot(point, 0 * ones, ones, b) for point in points]
    np.testing.assert_allclose(grid.overshoot(points), expected, atol=1e-12)


@pytest.mark.parametrize("cells_per_axis", [1, 0, -3, True, 2.5, 10**7])
def test_a_grid_needs_a_sensible_number_of_cells(cells_per_axis: int) -> None:
    with pytest.raises(InvalidParameter, match="cells_per_axis must be at "):
        Grid((Numeric("x", 0, 1),), cells_per_axis)


def test_weights_are_added_up_over_every_visited_cell() -> None:
    grid = unit_grid(1, 4)
    some = OccupiedCells(np.array([[0], [3]], dtype=np.int32), np.array([2, 4]))
    scores = grid.walk_some(some, np.array([[0]], np.int32), 5)
    assert scores.basic.tolist() == [0.75]
    assert scores.weighted.tolist() == [4 * 0.75]
    assert scores.graded.tolist() == [0.75 + 0.25 * 3 / 4]  # 3 of the last cell's 4 were needed


@given(st.integers(1, 3), st.lists(st.integers(0, 2), max_size=60), st.sampled_from([0, 10**6]))
def test_each_cell_is_listed_once_by_its_first_appearance(
    n_axes: int, numbers: list[int], far: int
) -> None:
    rows = np.array(numbers[: len(numbers) // n_axes * n_axes], np.int32).reshape(-1, n_axes) + far
    cells, places = different(rows.astype(np.int32))
    assert list(map(tuple, cells.tolist())) == list(dict.fromkeys(map(tuple, rows.tolist())))
    np.testing.assert_array_equal(cells[places], rows)


def test_occupied_cells_are_the_same_by_their_keys_and_of_all_counts() -> None:
    grid = unit_grid(3, 4)
    points = np.random.default_rng(0).uniform(-1, 5, (40, 3))
    listed, counted = grid.occupied_counts(points), grid.occupied_of(grid.all_counts(points))
    np.testing.assert_array_equal(listed.cells, counted.cells)
    np.testing.assert_array_equal(listed.counts, counted.counts)
