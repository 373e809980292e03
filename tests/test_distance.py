"""Crowds are exact: every count equals the brute-force twin's, ties included."""

from __future__ import annotations

# slow: left out by `make quick`
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privod.errors import InvalidData
from privod.outliers.crowds.distance import ALONE_BELOW_POINTS, CrowdIndex, crowds
from tests.reference import crowds as reference

Floats = NDArray[np.float64]


def _points(kind: str, n: int, d: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    if kind == "uniform":
        return rng.random((n, d))
    if kind == "clustered":
        return np.asarray(
            rng.normal(size=(5, d))[rng.integers(5, size=n)] * 5 + rng.normal(size=(n, d))
        )
    if kind == "heavy":
        return rng.standard_t(1, (n, d))
    if kind == "lattice":
        return rng.integers(0, 4, (n, d)).astype(float)
    return np.repeat(rng.random((1, d)), n, axis=0)  # all the same record


def _radius(points: Floats, share: float) -> float:
    gaps = np.sqrt(((points[:40, None] - points[None]) ** 2).sum(-1))
    return float(np.quantile(gaps, share))


KINDS = ["uniform", "clustered", "heavy", "lattice", "same"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("n", "d"), [(1500, 1), (1800, 2), (1500, 3), (1300, 6), (500, 32), (200, 200)]
)
def test_crowds_equal_the_brute_force_twin(kind: str, n: int, d: int) -> None:
    points = _points(kind, n, d, n + d)
    others = np.vstack([_points(kind, 300, d, 7), points[:50]])
    index = CrowdIndex(points)
    for share in (0.001, 0.05, 0.7):
        radius = _radius(points, share)
        truth = reference.crowds(points, radius)
        np.testing.assert_array_equal(index.crowds(radius), truth)
        for cap in (1, 20, n):
            np.testing.assert_array_equal(index.crowds(radius, cap=cap), np.minimum(truth, cap))
        elsewhere = reference.crowds(points, radius, others)
        np.testing.assert_array_equal(index.crowds(radius, at=others), elsewhere)
        for cap in (1, 3):
            np.testing.assert_array_equal(
                index.crowds(radius, at=others, cap=cap), np.minimum(elsewhere, cap)
            )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "d"), [(1000, 1), (1000, 3), (900, 6), (500, 32)])
def test_stopping_at_a_cap_is_counting_and_cutting(
    kind: str, n: int, d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = _points(kind, n, d, n + d)
    others = _points(kind, 200, d, 7)
    for limit in ("LARGE_CAP", "LARGE_CAP_ELSEWHERE"):  # no cap is too large to stop at
        monkeypatch.setattr(f"privod.outliers.crowds.distance.{limit}", 0)
    for share in (0.001, 0.05, 0.7):
        radius = _radius(points, share)
        truth = reference.crowds(points, radius)
        elsewhere = reference.crowds(points, radius, others)
        for cap in (1, 9, 100, n):
            np.testing.assert_array_equal(crowds(points, radius, cap=cap), np.minimum(truth, cap))
            np.testing.assert_array_equal(
                crowds(points, radius, at=others, cap=cap), np.minimum(elsewhere, cap)
            )


def test_ties_at_exactly_the_radius_count() -> None:
    points = np.array([[0.0, 0.0], [3.0, 4.0], [3.0, np.nextafter(4.0, 5.0)], [-5.0, 0.0]])
    assert crowds(points, 5.0).tolist() == [3, 3, 2, 2]


@pytest.mark.parametrize("d", [2, 6])
def test_a_lattice_full_of_ties_is_decided_by_the_float64_sum(d: int) -> None:
    points: Floats = np.random.default_rng(3).integers(0, 5, (3000, d)) * np.float64(0.1)  # inexact
    for radius in (0.1, 0.2, 0.1 * np.sqrt(2), 0.30000000000000004, 0.3):
        np.testing.assert_array_equal(crowds(points, radius), reference.crowds(points, radius))


@pytest.mark.parametrize("radius", [0.0, 5e-324, 1e-200, 1e-160, 1e150, 1e200])
def test_radii_whose_squares_round_away_follow_the_predicate_too(radius: float) -> None:
    rng = np.random.default_rng(5)
    points = np.vstack([rng.random((150, 2)) * radius, rng.random((50, 2)), np.zeros((20, 2))])
    with np.errstate(over="ignore"):
        truth = reference.crowds(points, radius)
    np.testing.assert_array_equal(crowds(points, radius), truth)


def test_coordinates_far_from_the_origin_lose_nothing() -> None:
    rng = np.random.default_rng(6)
    points = 1e9 + rng.random((2000, 4))
    np.testing.assert_array_equal(crowds(points, 0.4), reference.crowds(points, 0.4))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 400),
    st.integers(1, 7),
    st.integers(0, 2**32 - 1),
    st.sampled_from(KINDS),
    st.floats(0, 3),
    st.integers(1, 50),
)
def test_no_small_table_is_counted_wrongly(
    n: int, d: int, seed: int, kind: str, radius: float, cap: int
) -> None:
    points = _points(kind, n, d, seed)
    truth = reference.crowds(points, radius)
    np.testing.assert_array_equal(crowds(points, radius), truth)
    np.testing.assert_array_equal(crowds(points, radius, cap=cap), np.minimum(truth, cap))


@pytest.mark.parametrize("n", [6000, 3 * ALONE_BELOW_POINTS])
def test_three_threads_count_like_one(n: int) -> None:
    points = _points("heavy", n, 3, 8)
    radius = _radius(points, 0.05)
    one, three = CrowdIndex(points, threads=1), CrowdIndex(points, threads=3)
    np.testing.assert_array_equal(one.crowds(radius), three.crowds(radius))
    np.testing.assert_array_equal(one.crowds(radius, cap=9), three.crowds(radius, cap=9))


@pytest.mark.parametrize("d", [1, 3])
def test_coordinates_at_the_end_of_the_floats_are_decided_exactly(d: int) -> None:
    rng = np.random.default_rng(4)
    ends = rng.choice([-1.7e308, -1e200, 1e39, 0.0, 1.0, 1e60, 1e200, 1.7e308], (600, d))
    with np.errstate(over="ignore"):
        truth = reference.crowds(ends, 2.0)
    np.testing.assert_array_equal(crowds(ends, 2.0), truth)
    np.testing.assert_array_equal(crowds(ends, 2.0, cap=4), np.minimum(truth, 4))


def test_threads_with_other_radii_do_not_disturb_each_other() -> None:
    points = _points("uniform", 3000, 3, 5)
    index = CrowdIndex(points, threads=1)
    radii = [0.05, 0.1, 0.2, 0.3] * 10
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(index.crowds, radii))
    for radius, counts in zip(radii, found, strict=True):
        np.testing.assert_array_equal(counts, crowds(points, radius))


def test_any_columns_may_be_chosen() -> None:
    points = _points("uniform", 500, 9, 9)
    chosen = points[:, [7, 0, 3]]
    np.testing.assert_array_equal(crowds(chosen, 0.2), reference.crowds(chosen.copy(), 0.2))


def test_an_empty_table_has_no_crowds() -> None:
    empty = np.empty((0, 3))
    assert crowds(empty, 1.0).shape == (0,)
    assert crowds(empty, 1.0, at=np.zeros((2, 3))).tolist() == [0, 0]


def test_bad_input_is_refused_without_showing_rows() -> None:
    with pytest.raises(InvalidData, match="finite"):
        crowds(np.array([[np.nan]]), 1.0)
    with pytest.raises(InvalidData, match="columns like the index"):
        crowds(np.zeros((3, 2)), 1.0, at=np.zeros((3, 1)))
    assert "0.5" not in repr(CrowdIndex(np.full((3, 2), 0.5)))
