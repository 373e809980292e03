"""The most public points in one ball: never too few, exact in the plane, always quick."""

from __future__ import annotations

# slow: left out by `make quick`
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privod.outliers.crowds import public_cover
from privod.outliers.crowds.public_cover import MOST_BOXES, MOST_LOOKS, SLACK, most_in_one_ball
from tests.reference import cover as reference

STEPS = 2**40  # to the unit: the twin takes whole numbers

lattice = st.tuples(st.integers(0, 5), st.integers(0, 5))
anywhere = st.tuples(st.floats(0, 5), st.floats(0, 5))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.one_of(lattice, anywhere), min_size=1, max_size=25),
    st.sampled_from([0.3, 0.5, 1.0, math.sqrt(2), 2.5]),
)
def test_in_the_plane_it_is_the_cover(points: list[tuple[float, float]], radius: float) -> None:
    found = most_in_one_ball(np.array(points, dtype=float), radius)
    places = [(round(x * STEPS), round(y * STEPS)) for x, y in points]
    least, most = (round(radius * STEPS * slack) for slack in (1 - 2 * SLACK, 1 + 8 * SLACK))
    assert reference.cover(places, least) <= found <= reference.cover(places, most)


@pytest.mark.parametrize("few", [0, 64])
@pytest.mark.parametrize("looks", [0, 300, 3000])
@pytest.mark.parametrize("large", [1, 3, 256])
@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_it_is_never_too_few_wherever_the_search_stops(
    d: int, looks: int, large: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(public_cover, "FEW", few)
    monkeypatch.setattr(public_cover, "MOST_LOOKS", looks)
    monkeypatch.setattr(public_cover, "LARGE_CROWD", large)
    monkeypatch.setattr(public_cover, "MOST_PAIRS", 0 if large < 256 else 1e9)
    rng = np.random.default_rng(d)
    for _ in range(5):
        points = rng.normal(size=(60, d))
        bound = most_in_one_ball(points, 1.0)
        centers = np.vstack([points, rng.normal(size=(3000, d))])
        gaps = ((centers[:, None, :] - points[None, :, :]) ** 2).sum(axis=2)
        assert bound >= int((gaps <= 1).sum(axis=1).max())


def test_points_at_one_place_and_points_that_floats_hardly_tell_apart() -> None:
    assert most_in_one_ball(np.eye(6) * 100, 3.0) == 1
    assert most_in_one_ball(np.empty((0, 2)), 1.0) == 0
    assert most_in_one_ball(np.zeros((1, 2)), 0.0) == 1
    assert most_in_one_ball(np.repeat(np.eye(3), [2, 5, 3], axis=0), 0.0) == 5
    close = np.array([[0.0], [1e-170], [2e-170], [1.0]])
    assert most_in_one_ball(close, 1e-200) == 3  # their squared differences are 0 as floats
    wide = np.array([[-1.7e308], [1.7e308], [1.7e308]])
    assert most_in_one_ball(wide, 1e150) == 2
    next_door = np.array([[1.0], [np.nextafter(1.0, 2.0)], [2.0]])
    assert most_in_one_ball(next_door, 1e-17) == 1
    assert most_in_one_ball(next_door, 1e-15) == 2


def around(n: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    angles = np.arange(n) * 2 * math.pi / n
    return np.stack([np.cos(angles), np.sin(angles)], axis=1) * (1 + SLACK)


@pytest.mark.parametrize(
    ("points", "radius"),
    [
        (np.random.default_rng(0).random((20_000, 2)), 0.3),
        (np.random.default_rng(0).random((100_000, 2)), 0.3),
        (np.random.default_rng(0).normal(size=(30_000, 10)), 0.9),
        (np.random.default_rng(0).normal(size=(1_500, 200)), 9.0),
        (around(20_000), 1.0),
        (np.stack(np.meshgrid(np.arange(150.0), np.arange(150.0)), -1).reshape(-1, 2), 5.0),
    ],
    ids=["crowded", "many", "ten columns", "two hundred", "circle", "lattice"],
)
def test_no_points_take_long(
    points: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    radius: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the numbers compared while boxes are halved; without a limit some are a thousand times."""
    gaps, compared = public_cover._gaps, []

    def counting(some: Any, low: Any, high: Any) -> Any:
        compared.append(some.size)
        return gaps(some, low, high)

    monkeypatch.setattr(public_cover, "_gaps", counting)
    assert most_in_one_ball(points, radius) >= 1
    assert len(compared) <= 2 * (MOST_BOXES + 2)
    assert sum(compared) <= 2 * (MOST_LOOKS + 2 * points.size)


def test_few_points_are_counted_like_many(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(11)
    points = [rng.normal(size=(n, d)) for n in (2, 17, 64) for d in (1, 3, 8)]
    few = [most_in_one_ball(some, 1.0) for some in points]
    monkeypatch.setattr(public_cover, "FEW", 0)
    assert few == [most_in_one_ball(some, 1.0) for some in points]
