"""The cover: exact on the line, tight in the plane, and everywhere fit for smooth sensitivity."""

from __future__ import annotations

# slow: left out by `make quick`
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privod.outliers.crowds.cover import (
    CELL,
    HALVINGS,
    LATTICE,
    REACH,
    STEPS_PER_POINT,
    Cover,
    _Plane,
    cover,
)
from privod.outliers.crowds.distance import crowds
from privod.outliers.crowds.kernels.cover_bounds import (
    around_vertices,
    around_vertices_of_plane,
    largest_core,
    near_pairs,
)
from tests.reference.cover import cover as reference_cover

Floats = NDArray[np.float64]
EXTENT = 20.0


def smallest_ball(points: Floats) -> float:
    """The radius of the smallest disk or interval around the points, by trying all supports."""
    best = np.inf
    for size in (1, 2, 3):
        for support in itertools.combinations(points, min(size, len(points))):
            center = _center(np.array(support))
            if center is not None:
                best = min(best, float(np.sqrt(((points - center) ** 2).sum(1).max())))
    return best


def _center(support: Floats) -> Floats | None:
    if len(support) < 3:
        return np.asarray(support.mean(axis=0))
    matrix = 2 * (support[1:] - support[0])
    if support.shape[1] != 2 or abs(np.linalg.det(matrix)) < 1e-12:
        return None
    right = (support[1:] ** 2).sum(1) - (support[0] ** 2).sum()
    return np.asarray(np.linalg.solve(matrix, right))


def brute_cover(points: Floats, radius: float) -> int:
    for size in range(len(points), 0, -1):
        for subset in itertools.combinations(range(len(points)), size):
            if smallest_ball(points[list(subset)]) <= radius * (1 + 2.0**-21):
                return size
    return 0


coordinates = st.one_of(
    st.integers(-6, 6).map(float), st.floats(-6, 6, allow_nan=False).map(lambda x: round(x, 3))
)


def clouds(d: int, most: int) -> st.SearchStrategy[Floats]:
    rows = st.lists(st.tuples(*[coordinates] * d), min_size=1, max_size=most)
    return rows.map(lambda some: np.array(some, dtype=float))


@settings(max_examples=60, deadline=None)
@given(clouds(1, 7), st.sampled_from([0.5, 1.0, 2.5, 5.0]))
def test_on_the_line_the_cover_is_exact(points: Floats, radius: float) -> None:
    assert cover(points, radius, EXTENT) == brute_cover(points, radius)


@settings(max_examples=60, deadline=None)
@given(clouds(2, 7), st.sampled_from([0.5, 1.0, 2.5, 5.0]))
def test_in_the_plane_no_disk_holds_more_and_one_a_hundredth_larger_holds_as_many(
    points: Floats, radius: float
) -> None:
    found = cover(points, radius, EXTENT)
    assert brute_cover(points, radius) <= found <= brute_cover(points, 1.01 * radius)


@settings(max_examples=120, deadline=None)
@given(
    st.integers(1, 5).flatmap(lambda d: st.tuples(clouds(d, 25), st.tuples(*[coordinates] * d))),
    st.sampled_from([0.0, 0.5, 1.0, 2.5, 7.0]),
)
def test_it_bounds_every_ball_grows_with_points_and_by_at_most_one(
    case: tuple[Floats, tuple[float, ...]], radius: float
) -> None:
    points, extra = case
    before = cover(points, radius, EXTENT)
    assert before >= crowds(points, radius, at=np.vstack([points, points.mean(axis=0)])).max()
    assert before <= len(points)
    after = cover(np.vstack([points, extra]), radius, EXTENT)
    assert before <= after <= before + 1


@settings(max_examples=40, deadline=None)
@given(clouds(3, 30), st.floats(-6, 6), st.floats(-6, 6), st.floats(-6, 6))
def test_no_ball_anywhere_holds_more(points: Floats, x: float, y: float, z: float) -> None:
    center = np.array([[x, y, z]])
    assert crowds(points, 2.0, at=center)[0] <= cover(points, 2.0, EXTENT)


def compared(points: Floats, radius: float) -> int:
    """The cover where every pair is compared, too."""
    return Cover(points, radius, EXTENT, cores=True).of(np.ones(len(points), dtype=bool))


@settings(max_examples=150, deadline=None)
@given(
    st.integers(3, 6).flatmap(lambda d: st.tuples(clouds(d, 25), st.tuples(*[coordinates] * d))),
    st.sampled_from([0.0, 0.5, 1.0, 2.5, 4.0, 7.0]),
)
def test_comparing_pairs_is_tighter_and_still_grows_by_at_most_one(
    case: tuple[Floats, tuple[float, ...]], radius: float
) -> None:
    points, extra = case
    before = compared(points, radius)
    assert before <= cover(points, radius, EXTENT)
    assert before >= crowds(points, radius, at=np.vstack([points, points.mean(axis=0)])).max()
    middles = np.array([(one + two) / 2 for one, two in itertools.combinations(points, 2)])
    assert before >= crowds(points, radius, at=middles.reshape(-1, points.shape[1])).max(initial=0)
    assert before <= compared(np.vstack([points, extra]), radius) <= before + 1


def test_in_many_columns_comparing_pairs_is_several_times_tighter() -> None:
    points = np.random.default_rng(0).normal(size=(200, 30))
    radius = 3.0  # few pairs are within two of it, though all shadows are
    assert cover(points, radius, EXTENT) > 100
    assert compared(points, radius) < 20


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 12), st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_the_largest_core_is_that_of_trying_all_subsets(n: int, seed: int, enough: int) -> None:
    draw = np.random.default_rng(seed)
    near = np.triu(draw.random((n, n)) < 0.5, 1)
    near = near | near.T
    chosen = np.flatnonzero(draw.random(n) < 0.8)
    best = 0
    for size in range(1, len(chosen) + 1):
        for some in itertools.combinations(chosen.tolist(), size):
            best = max(best, int(near[np.ix_(some, some)].sum(axis=1).min()) + 1)
    assert largest_core(near, chosen, enough) == min(best, enough)


def test_pairs_at_exactly_the_reach_are_near() -> None:
    points = np.array([[0.0, 0.0, 0.0], [3.0, 0.0, 4.0], [0.0, 0.0, 5.0000001]])
    assert near_pairs(points, 5.0).tolist() == [
        [False, True, False],
        [True, False, True],
        [False, True, False],
    ]


def test_subsets_are_counted_by_themselves() -> None:
    points = np.array([[0.0], [1.0], [2.0], [9.0]])
    whole = Cover(points, 1.0, EXTENT)
    assert whole.of(np.array([True, True, True, True])) == 3
    assert whole.of(np.array([True, False, True, True])) == 2
    assert whole.of(np.zeros(4, dtype=bool)) == 0


def test_four_points_on_one_circle_fit_the_circle_and_no_smaller_one() -> None:
    square = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])
    assert cover(square, np.sqrt(2), EXTENT) == 4
    assert cover(square, 1.39, EXTENT) == 2


SEVENTEEN = [(8, 15), (15, 8), (17, 0), (0, 17)]
ON_ONE_CIRCLE = np.unique(
    [(x * a, y * b) for x, y in SEVENTEEN for a in (-1, 1) for b in (-1, 1)], axis=0
) * (LATTICE // 17)

near_ties = st.one_of(
    st.tuples(st.integers(-2 * LATTICE, 2 * LATTICE), st.integers(-2 * LATTICE, 2 * LATTICE)),
    st.tuples(st.integers(-4, 4), st.integers(-4, 4)).map(
        lambda place: (place[0] * LATTICE // 2, place[1] * LATTICE // 2)
    ),
    st.tuples(st.sampled_from(ON_ONE_CIRCLE.tolist()), st.integers(-1, 1), st.integers(-1, 1)).map(
        lambda case: (case[0][0] + case[1], case[0][1] + case[2])
    ),
)


def best_center(places: list[tuple[int, int]]) -> int:
    """The slow twin: every center of the fixed lattice that reaches a point, one by one."""
    box = CELL >> HALVINGS
    points = np.array(places, dtype=np.int64)
    best = 0
    for x, y in places:  # a best center reaches some point
        rows = np.arange((x - REACH) // box, (x + REACH) // box + 1) * box + box // 2
        columns = np.arange((y - REACH) // box, (y + REACH) // box + 1) * box + box // 2
        held = np.zeros((len(rows), len(columns)), dtype=np.int64)
        for px, py in points:
            square = (rows[:, None] - px) ** 2 + (columns[None, :] - py) ** 2
            held += square <= REACH * REACH
        best = max(best, int(held.max()))
    return best


@settings(max_examples=40, deadline=None)
@given(st.lists(near_ties, min_size=1, max_size=10), st.integers(1, 11))
def test_the_best_center_is_that_of_trying_them_all(
    places: list[tuple[int, int]], enough: int
) -> None:
    whole = Cover(np.array(places, dtype=float), LATTICE, 1e9)
    everybody = np.ones(len(places), dtype=bool)
    found = whole.of(everybody)
    assert found == best_center(places)
    assert whole.of(everybody, enough) == min(found, enough)
    assert reference_cover(places, LATTICE) <= found <= reference_cover(places, REACH)


def circle(n: int) -> Floats:
    turns = np.arange(n) * 2 * np.pi / n
    return np.column_stack([np.cos(turns), np.sin(turns)])


@pytest.mark.parametrize("n", [50, 200, 1000])
def test_points_on_one_circle_are_no_trap(n: int) -> None:
    assert cover(circle(n), 1.0, EXTENT) == n
    assert 0.4 * n <= cover(circle(n) * 1.01, 1.0, EXTENT) < 0.6 * n  # an arc of 170 degrees


@pytest.mark.parametrize("size", [1.0, 1 + 2.0**-20, 1.003, 1.0055, 1.0056, 1.01, 1.1])
@pytest.mark.parametrize("n", [200, 1372])
def test_no_circle_of_crafted_points_takes_more_steps_than_its_points_allow(
    n: int, size: float
) -> None:
    """1,372 points on a circle took 93 seconds, others 0.007: all disks through two were tried."""
    for shift in (0.0, 0.3):
        plane = _Plane(circle(n) * size + shift, 1.0)
        _, steps = plane.counted_cover(np.ones(n, dtype=bool), enough=n)
        assert steps <= STEPS_PER_POINT * n


def test_an_even_spread_takes_no_more_steps_than_its_points_allow() -> None:
    """Where all places are alike no box is dropped early: the worst that we know."""
    side = np.arange(40) / 10
    points = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
    _, steps = _Plane(points, 1.0).counted_cover(np.ones(1600, dtype=bool), enough=1600)
    assert 100 * 1600 <= steps <= STEPS_PER_POINT * 1600  # so that the count counts something


@pytest.mark.parametrize("kind", ["normal", "even", "lattice", "copies"])
def test_large_crowds_in_the_plane_are_covered_by_what_a_fine_search_finds(kind: str) -> None:
    rng = np.random.default_rng(1)
    spread: dict[str, Floats] = {
        "normal": rng.normal(size=(20_000, 2)),
        "even": rng.random((20_000, 2)) * 6,
        "lattice": np.round(rng.random((20_000, 2)) * 60) / 10,
        "copies": rng.integers(0, 4, (20_000, 2)).astype(float),
    }
    points, chosen = spread[kind], rng.random(20_000) < 0.5
    found = Cover(points, 0.1, EXTENT).of(chosen)
    low, high = points.min(axis=0), points.max(axis=0)
    around = crowds(points[chosen], 0.1, at=points)
    busiest = points[np.argsort(-around)[:300], None]
    grid = np.stack(np.meshgrid(*[np.linspace(-0.1, 0.1, 41)] * 2), -1).reshape(-1, 2)
    places = np.clip((busiest + grid).reshape(-1, 2), low, high)
    searched = int(crowds(points[chosen], 0.1, at=places).max())
    wider = int(crowds(points[chosen], 0.1 * 1.01, at=places).max())
    assert searched <= found <= wider + 4


def test_a_random_crowd_in_the_plane_agrees_with_a_fine_search() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(400, 2))
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 201)] * 2), -1).reshape(-1, 2)
    found = int(crowds(points, 0.6, at=grid).max())
    wider = int(crowds(points, 0.606, at=grid).max())
    assert found <= cover(points, 0.6, EXTENT) <= wider + 3


@pytest.mark.parametrize("d", [1, 2, 3])
def test_radius_zero_counts_copies(d: int) -> None:
    points = np.array([[1.0] * d, [1.0] * d, [2.0] * d])
    assert cover(points, 0.0, EXTENT) == 2


@pytest.mark.parametrize("d", [2, 3, 4])
def test_vertices_count_the_points_within_the_radius_of_them(d: int) -> None:
    rng, spacing, radius, everybody = np.random.default_rng(d), 0.7, 1.0, 10**9
    steps = np.stack(np.meshgrid(*[np.arange(-9, 10)] * d, indexing="ij"), -1).reshape(-1, d)
    for _ in range(5):
        points = np.clip(rng.normal(size=(60, d)) * 2, -5, 5)
        gaps = ((points[:, None] - steps * spacing) ** 2).sum(axis=2)
        expected = int((gaps <= radius * radius).sum(axis=0).max())
        assert around_vertices(points, spacing, radius, everybody) == expected
        assert around_vertices(points, spacing, radius, 2) == 2
        if d == 2:
            found = around_vertices_of_plane(points, spacing, radius, 12, everybody)
            assert found == expected
