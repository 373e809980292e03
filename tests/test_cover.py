"""The cover: exact in 1 and 2 dimensions, and everywhere fit for smooth sensitivity."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privod.outliers.crowds.cover import DISK, LATTICE, Cover, cover
from privod.outliers.crowds.distance import crowds
from privod.outliers.crowds.kernels.cover_bounds import around_vertices, around_vertices_of_plane
from privod.outliers.crowds.kernels.cover_disk import compare
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
@given(st.integers(1, 2).flatmap(lambda d: clouds(d, 7)), st.sampled_from([0.5, 1.0, 2.5, 5.0]))
def test_in_one_and_two_dimensions_the_cover_is_exact(points: Floats, radius: float) -> None:
    assert cover(points, radius, EXTENT) == brute_cover(points, radius)


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


def test_subsets_are_counted_by_themselves() -> None:
    points = np.array([[0.0], [1.0], [2.0], [9.0]])
    whole = Cover(points, 1.0, EXTENT)
    assert whole.of(np.array([True, True, True, True])) == 3
    assert whole.of(np.array([True, False, True, True])) == 2
    assert whole.of(np.zeros(4, dtype=bool)) == 0


def test_four_points_on_one_circle_fit_the_circle_and_no_smaller_one() -> None:
    square = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])
    assert cover(square, np.sqrt(2), EXTENT) == 4
    assert cover(square, 1.41, EXTENT) == 2


SEVENTEEN = [(8, 15), (15, 8), (17, 0), (0, 17)]
ON_ONE_CIRCLE = np.unique(
    [(x * a, y * b) for x, y in SEVENTEEN for a in (-1, 1) for b in (-1, 1)], axis=0
) * (DISK // 17)


def test_an_exact_tie_is_decided_by_exact_arithmetic() -> None:
    """8^2 + 15^2 = 17^2, and 17 divides the radius of the disk in steps of the lattice."""
    assert DISK % 17 == 0
    everybody = np.ones(12, dtype=bool)
    assert Cover(ON_ONE_CIRCLE, LATTICE, 1e9).of(everybody) == 12
    for place in range(12):
        moved = ON_ONE_CIRCLE.copy()
        moved[place] += np.sign(moved[place])
        assert Cover(moved, LATTICE, 1e9).of(everybody) == 11


near_ties = st.one_of(
    st.tuples(st.integers(-2 * DISK, 2 * DISK), st.integers(-2 * DISK, 2 * DISK)),
    st.tuples(st.integers(-4, 4), st.integers(-4, 4)).map(
        lambda place: (place[0] * LATTICE // 2, place[1] * LATTICE // 2)
    ),
    st.tuples(st.sampled_from(ON_ONE_CIRCLE.tolist()), st.integers(-1, 1), st.integers(-1, 1)).map(
        lambda case: (case[0][0] + case[1], case[0][1] + case[2])
    ),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(near_ties, min_size=1, max_size=14), st.integers(1, 15))
def test_disks_hold_what_exact_arithmetic_says(places: list[tuple[int, int]], enough: int) -> None:
    points = np.array(places, dtype=float)
    whole = Cover(points, LATTICE, 1e9)
    exact = reference_cover(places, DISK)
    assert whole.of(np.ones(len(places), dtype=bool)) == exact
    assert whole.of(np.ones(len(places), dtype=bool), enough) == min(exact, enough)


@given(st.tuples(*[st.integers(0, 2**47 - 1)] * 4))
def test_products_of_any_length_are_compared(numbers: tuple[int, int, int, int]) -> None:
    a, b, c, d = numbers
    gap = a * a * b - c * c * d
    assert compare(a, b, c, d) == (gap > 0) - (gap < 0)
    assert compare(a, b, a, b) == 0


@pytest.mark.parametrize("n", [50, 200, 1000])
def test_points_on_one_circle_are_no_trap(n: int) -> None:
    turns = np.arange(n) * 2 * np.pi / n
    points = np.column_stack([np.cos(turns), np.sin(turns)]) * (1 + 2.0**-20)
    assert n / 2 <= cover(points, 1.0, EXTENT) <= n
    assert cover(points * (1 + 2.0**-18), 1.0, EXTENT) < n
    assert cover(points / (1 + 2.0**-18), 1.0, EXTENT) == n


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
    assert searched <= found <= searched + 4


def test_a_random_crowd_in_the_plane_agrees_with_a_fine_search() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(400, 2))
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 201)] * 2), -1).reshape(-1, 2)
    found = int(crowds(points, 0.6, at=grid).max())
    exact = cover(points, 0.6, EXTENT)
    assert found <= exact <= found + 3


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
