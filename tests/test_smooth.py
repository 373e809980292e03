"""Smooth noise: the stairs are smooth, the laws are exact, the losses are what the proofs say."""

from __future__ import annotations

# slow: left out by `make quick`
import math
import sys
import tracemalloc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteLaplace, seeded, smooth
from privod.mechanisms.noise import LARGEST_SCALE
from privod.mechanisms.smooth import (
    SmoothGaussian,
    SmoothHeavy,
    SmoothLaplace,
    SmoothNoise,
    discrete_gaussian,
    discrete_laplace,
    has_real_zero,
)
from privod.mechanisms.staircase import SMALLEST_GROWTH, Staircase
from privod.privacy import Loss
from tests.reference.mechanisms import probability

NOISES: list[SmoothNoise] = [
    SmoothLaplace.for_loss("0.5", "1e-6"),
    SmoothLaplace.for_loss(2, "0.01"),
    SmoothHeavy.for_loss("0.5"),
    SmoothHeavy.for_loss(3),
    SmoothGaussian.for_loss("0.9", "0.01"),
    SmoothGaussian.for_loss("0.1", "1e-6"),
]


def test_the_loss_is_the_one_asked_for() -> None:
    assert SmoothLaplace.for_loss("0.5", "1e-6").loss() == Loss("0.5", "1e-6")
    assert SmoothHeavy.for_loss("0.5").loss() == Loss("0.5")
    assert SmoothGaussian.for_loss("0.5", "0.01").loss() == Loss("0.5", "0.01")


def test_less_noise_is_charged_more_or_refused() -> None:
    honest = SmoothLaplace.for_loss(1, "1e-6")
    half = SmoothLaplace(honest.spread / 2, honest.growth, honest.delta).loss()
    assert Fraction(3, 2) <= half.epsilon < Fraction(8, 5)
    with pytest.raises(InvalidParameter, match="reach must be larger"):
        replace(honest, reach=honest.reach - Fraction(1, 100)).loss()
    heavy_noise = SmoothHeavy.for_loss(1)
    assert replace(heavy_noise, share=Fraction(1)).loss().epsilon > 1
    with pytest.raises(InvalidParameter, match="share must be larger"):
        replace(heavy_noise, share=heavy_noise.share - Fraction(1, 100)).loss()
    gaussian = SmoothGaussian.for_loss(1, "0.01")
    with pytest.raises(InvalidParameter):
        SmoothGaussian(gaussian.spread / 4, gaussian.growth, Fraction(1), gaussian.delta).loss()
    for epsilon in (21, 177, 10**9):
        with pytest.raises(InvalidParameter, match="epsilon must be 1/10000 to 20"):
            SmoothGaussian.for_loss(epsilon, "1e-6")


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
def test_rungs_of_adjacent_data_sets_differ_by_at_most_the_growth(noise: SmoothNoise) -> None:
    stairs = noise.staircase
    for rung in range(200):
        assert stairs.value(rung) < stairs.value(rung + 1)
        assert stairs.value(rung + stairs.per_edit) <= noise.growth * stairs.value(rung)


def test_threads_that_climb_the_same_stairs_read_the_same_values() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for tenths in range(5):
            stairs = Staircase(1 + Fraction(40 + tenths, 10_000))
            with ThreadPoolExecutor(4) as pool:
                climbed = list(pool.map(stairs.reaching, [1000] * 8))
            values = [stairs.value(rung) for rung in range(climbed[0] + 1)]
            assert len(set(climbed)) == 1
            assert all(low < high for low, high in pairwise(values))
            assert values[-2] < 1000 <= values[-1]
    finally:
        sys.setswitchinterval(interval)


def test_the_flattest_stairs_are_climbed_in_no_time_and_no_space() -> None:
    stairs = Staircase(1 + SMALLEST_GROWTH)
    tracemalloc.start()
    rung = stairs.reaching(2**40)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
    assert stairs.value(rung - 1) < 2**40 <= stairs.value(rung)
    for lower in (0, 1, 10**6, rung - 9):
        assert stairs.value(lower) < stairs.value(lower + 1)
        assert stairs.value(lower + stairs.per_edit) <= stairs.growth * stairs.value(lower)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(2, 60))
def test_the_smooth_rung_is_the_maximum_over_all_t(steps: list[int], growth: int) -> None:
    stairs = Staircase(1 + Fraction(1, growth))
    bounds = np.cumsum([1, *steps]).tolist()

    def bound(t: int) -> int:
        return int(bounds[min(t, len(bounds) - 1)])

    farthest = stairs.farthest(lambda t: min(bounds[-1], t + 1 + bounds[-1]))
    brute = max(stairs.reaching(bound(t)) - stairs.per_edit * t for t in range(4 * farthest))
    assert stairs.smooth(bound, farthest) == max(brute, 0)


def test_shifted_bounds_stand_one_edit_apart() -> None:
    stairs = Staircase(Fraction(11, 10))
    rungs = [
        stairs.smooth(lambda t, first=first: min(40, 3 + t + first), 400)  # type: ignore[misc]
        for first in range(10)
    ]
    assert all(0 <= b - a <= stairs.per_edit for a, b in pairwise(rungs))


def chi_square(counts: Counter[int], law: dict[int, float], total: int) -> float:
    return sum((counts[k] - total * p) ** 2 / (total * p) for k, p in law.items())


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(5, 2), Fraction(20)])
def test_heavy_noise_follows_its_law(scale: Fraction) -> None:
    noise, source, total = SmoothHeavy(scale, Fraction(11, 10)), seeded(11), 6000
    counts = Counter(noise.draw(Fraction(1), source) for _ in range(total))
    weights = {k: 1 / (1 + (k / float(scale)) ** 4) for k in range(-100_000, 100_001)}
    mass = sum(weights.values())
    law = {k: w / mass for k, w in weights.items() if abs(k) <= 2 * math.ceil(scale)}
    assert chi_square(counts, law, total) < len(law) + 6 * math.sqrt(2 * len(law))
    outside = sum(n for k, n in counts.items() if k not in law)
    assert abs(outside - total * (1 - sum(law.values()))) < 6 * math.sqrt(total)


def test_discrete_gaussian_noise_follows_its_law() -> None:
    variance, source, total = Fraction(25, 4), seeded(12), 6000
    counts = Counter(discrete_gaussian(variance, source) for _ in range(total))
    weights = {k: math.exp(-k * k / 12.5) for k in range(-40, 41)}
    law = {k: w / sum(weights.values()) for k, w in weights.items() if abs(k) <= 7}
    assert chi_square(counts, law, total) < len(law) + 6 * math.sqrt(2 * len(law))


@pytest.mark.parametrize("largest", [1, 3, 7])
def test_noise_past_the_largest_scale_of_a_table_follows_the_same_law(
    largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smooth, "LARGEST_SCALE", Fraction(largest))  # 2^40 would hide the digits
    scale, source, total = Fraction(15, 2), seeded(13), 6000
    counts = Counter(discrete_laplace(scale, source) for _ in range(total))
    exact = {k: probability(DiscreteLaplace(scale), k) for k in range(-20, 21)}
    law = {k: p.low / 2**p.precision for k, p in exact.items()}
    assert chi_square(counts, law, total) < len(law) + 6 * math.sqrt(2 * len(law))


def test_noise_is_drawn_at_every_scale_that_rows_can_ask_for() -> None:
    for power in (40, 41, 47, 48, 62, 100):
        scale = Fraction(2**power + 1)
        assert scale > LARGEST_SCALE
        sizes = [abs(discrete_laplace(scale, seeded(seed))) / scale for seed in range(400)]
        assert 0.7 < sum(sizes) / len(sizes) < 1.3
    for noise in NOISES:
        assert noise.draw(Fraction(2**100), seeded(14)) != noise.draw(Fraction(2**100), seeded(15))


def heavy(scale: float, reach: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    k = np.arange(-reach, reach + 1)
    weights = 1 / (1 + (k / scale) ** 4)
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_heavy_noise_loses_no_more_than_it_says(epsilon: float) -> None:
    noise = SmoothHeavy.for_loss(epsilon)
    for bound in (1, 5, 17):
        wide = heavy(float(noise.spread) * bound, 40_000)
        grown = heavy(float(noise.spread * noise.growth) * bound, 40_000)
        for shift in {1, bound}:
            moved = np.roll(grown, shift)[100:-100]
            worst = np.abs(np.log(wide[100:-100] / moved)).max()
            assert worst <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-6), (1.0, 0.01), (3.0, 1e-3)])
def test_laplace_noise_loses_no_more_than_it_says(epsilon: float, delta: float) -> None:
    noise = SmoothLaplace.for_loss(epsilon, delta)
    k = np.arange(-60_000, 60_001)
    for bound in (1, 5, 17):
        laws = []
        for scale in (float(noise.spread) * bound, float(noise.spread * noise.growth) * bound):
            weights = np.exp(-np.abs(k) / scale)
            laws.append(weights / weights.sum())
        for one, other in (laws, laws[::-1]):
            excess = np.maximum(one - math.exp(epsilon) * np.roll(other, bound), 0).sum()
            assert excess <= delta


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-6), (0.5, 1e-9), (0.9, 0.01), (1.0, 1e-6), (3.0, 1e-3)]
)
def test_gaussian_noise_loses_no_more_than_it_says_and_a_seventh_of_it(
    epsilon: float, delta: float
) -> None:
    """The excess over e^epsilon when place and scale change at once, by summing both laws."""
    noise, worst = SmoothGaussian.for_loss(epsilon, delta), 0.0
    for bound in (1, 5):
        deviation = float(noise.spread) * bound
        k = np.arange(-int(12 * deviation), int(12 * deviation) + 1)
        laws = []
        for sigma in (deviation, deviation * float(noise.growth)):
            weights = np.exp(-(k**2) / (2 * sigma**2))
            laws.append(weights / weights.sum())
        for one, other in (laws, laws[::-1], (laws[0], laws[0])):
            excess = np.maximum(one - math.exp(epsilon) * np.roll(other, bound), 0).sum()
            worst = max(worst, float(excess))
    assert delta / 7 <= worst <= delta


def test_gaussian_noise_is_a_third_of_what_the_papers_theorem_asks_for() -> None:
    noise = SmoothGaussian.for_loss(1, "1e-6")
    papers_spread = 5 * math.sqrt(2 * math.log(2e6))
    papers_growth = 1 / (4 * (1 + math.log(2e6)))
    assert float(noise.spread) <= papers_spread / 3
    assert float(noise.growth) >= math.exp(1.5 * papers_growth)


@pytest.mark.parametrize("doubt", [0.01, 0.025, 0.05, 0.3])
@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
def test_margins_are_passed_as_rarely_as_they_say(noise: SmoothNoise, doubt: float) -> None:
    scale = float(noise.spread) * 100  # wide enough for rounding up to whole numbers to be little
    margin = math.ceil(noise.margin(100.0, doubt))
    k = np.arange(-int(60 * scale), int(60 * scale) + 1)
    if isinstance(noise, SmoothHeavy):
        weights = 1 / (1 + (k / scale) ** 4)
    elif isinstance(noise, SmoothLaplace):
        weights = np.exp(-np.abs(k) / scale)
    else:
        weights = np.exp(-(k**2) / (2 * scale**2))
    beyond = weights[np.abs(k) > margin].sum() / weights.sum()
    assert 0.8 * doubt <= beyond <= doubt


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
def test_heavy_noise_uses_nearly_all_of_its_epsilon(epsilon: float) -> None:
    """By brute force over both directions: never more, and no less than 97 % of it."""
    noise, bound = SmoothHeavy.for_loss(epsilon), 40
    one = heavy(float(noise.spread) * bound, 60_000)
    other = heavy(float(noise.spread * noise.growth) * bound, 60_000)
    worst = max(
        float(np.abs(np.log(one[200:-200] / np.roll(moved, shift)[200:-200])).max())
        for moved in (one, other)
        for shift in (0, bound // 2, bound)
    )
    assert 0.97 * epsilon <= worst <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-6), (1.0, 1e-6), (1.0, 0.01)])
def test_a_change_of_scale_uses_much_of_delta(epsilon: float, delta: float) -> None:
    """The excess at (growth - 1) reach: below delta, and above a fifth of it."""
    noise = SmoothLaplace.for_loss(epsilon, delta)
    k = np.arange(-200_000, 200_001)
    for bound in (1, 20):
        wide, narrow = (
            np.exp(-np.abs(k) / scale) * math.tanh(1 / (2 * scale))
            for scale in (float(noise.spread * noise.growth) * bound, float(noise.spread) * bound)
        )
        odds = math.exp(float((noise.growth - 1) * noise.reach))
        assert delta / 5 <= np.maximum(wide - odds * narrow, 0).sum() <= delta


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-9, 9), min_size=2, max_size=6).filter(lambda p: p[-1] != 0))
def test_real_zeros_are_found(coefficients: list[int]) -> None:
    roots = np.roots(coefficients[::-1])
    distance = min((abs(root.imag) for root in roots), default=math.inf)
    if 1e-9 < distance < 1e-3:
        return  # floats cannot tell
    found = has_real_zero([Fraction(value) for value in coefficients])
    assert found == bool(distance <= 1e-9)


@pytest.mark.parametrize("delta", [0, -1, "0.6", 1])
def test_a_delta_that_promises_nothing_is_refused(delta: object) -> None:
    with pytest.raises(InvalidParameter):
        SmoothLaplace.for_loss(1, delta)  # type: ignore[arg-type]


def test_a_growth_of_one_is_refused() -> None:
    with pytest.raises(InvalidParameter):
        Staircase(Fraction(1))
