"""Skellam shares: the drawn law is the promised one, and the promise is not below the truth."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ive
from scipy.stats import chisquare, poisson

from privod.errors import InvalidParameter
from privod.mechanisms.randomness import seeded
from privod.mechanisms.skellam import Poisson, SkellamShares, unit_shift_divergence


@pytest.mark.parametrize("mean", [Fraction(1, 3), Fraction(7, 2), Fraction(300)])
def test_poisson_draws_have_poisson_frequencies(mean: Fraction) -> None:
    n = 200_000
    drawn = Poisson(mean).draw(n, seeded(1))
    low, high = poisson.ppf([0.001, 0.999], float(mean)).astype(int)
    observed = np.bincount(drawn.clip(low, high) - low, minlength=high - low + 1)
    expected = poisson.pmf(np.arange(low, high + 1), float(mean))
    expected[0] = poisson.cdf(low, float(mean))
    expected[-1] = poisson.sf(high - 1, float(mean))
    assert chisquare(observed, n * expected / expected.sum()).pvalue > 1e-4


def test_shares_add_up_to_the_promised_variance() -> None:
    noise = SkellamShares(400, 3)
    total = sum(noise.draw_share(100_000, seeded(number)) for number in range(3))
    assert abs(np.mean(total)) < 5 * 20 / math.sqrt(100_000)
    assert np.var(total) == pytest.approx(400, rel=0.02)


def exact_delta(variance: int, shifts: int, epsilon: float) -> float:
    """The hockey-stick divergence of several unit shifts, from below, on a fine grid of losses."""
    reach = 60 + 12 * math.isqrt(variance)
    outcomes = np.arange(-reach, reach + 1)
    here, before = ive(np.abs(outcomes), variance), ive(np.abs(outcomes - 1), variance)
    seen = (here > 1e-280) & (before > 1e-280)
    grid = 1e-3
    losses = np.floor(np.log(here[seen] / before[seen]) / grid).astype(int)
    one: NDArray[np.float64] = np.zeros(int(np.ptp(losses)) + 1)
    np.add.at(one, losses - losses.min(), here[seen])
    several = one
    for _ in range(shifts - 1):
        several = np.convolve(several, one)
    loss = (np.arange(len(several)) + shifts * losses.min()) * grid
    return float((several * np.maximum(0, 1 - np.exp(epsilon - loss))).sum())


@settings(max_examples=20, deadline=None)
@given(
    variance=st.integers(5, 300),
    shifts=st.integers(1, 6),
    epsilon=st.floats(0.05, 3.0),
)
def test_the_promise_is_never_below_the_exact_loss(
    variance: int, shifts: int, epsilon: float
) -> None:
    promised = SkellamShares(variance, 1).delta(epsilon, shifts, 1)
    assert promised >= exact_delta(variance, shifts, epsilon) - 1e-12


def test_the_promise_is_not_far_above_the_exact_loss() -> None:
    assert SkellamShares(30, 1).delta(1, 4, 1) < 6 * exact_delta(30, 4, 1)


@pytest.mark.parametrize("variance", [10, 300, 5000])
@pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
def test_the_divergence_is_the_sum_over_outcomes(variance: int, order: float) -> None:
    outcomes = np.arange(-20 - 12 * math.isqrt(variance), 21 + 12 * math.isqrt(variance))
    here, before = ive(np.abs(outcomes), variance), ive(np.abs(outcomes - 1), variance)
    expected = math.log(float((before * (here / before) ** order).sum())) / (order - 1)
    found = unit_shift_divergence(variance, order)
    assert found >= expected * (1 - 1e-12)
    assert found == pytest.approx(expected, rel=1e-5)


def test_a_divergence_that_cannot_be_bounded_is_infinite_not_zero() -> None:
    assert unit_shift_divergence(1, 500.0) == math.inf


def test_for_loss_finds_the_least_noise() -> None:
    noise = SkellamShares.for_loss(1, "1e-6", unit_shifts=48, n_values=10_000, honest=2)
    assert noise.delta(1, 48, 10_000) <= 1e-6
    assert SkellamShares(noise.variance - 1, 2).delta(1, 48, 10_000) > 1e-6


@pytest.mark.parametrize(
    ("wrong", "parameter"),
    [
        (lambda: SkellamShares(0, 1), "variance"),
        (lambda: SkellamShares(5, 0), "honest"),
        (lambda: Poisson(Fraction(0)), "mean"),
        (lambda: Poisson(Fraction(10**6)), "mean"),
        (lambda: SkellamShares.for_loss("0.001", "1e-9", 10_000, 10, 2), "epsilon"),
    ],
)
def test_a_wrong_parameter_is_named(wrong: object, parameter: str) -> None:
    assert callable(wrong)
    with pytest.raises(InvalidParameter, match=parameter):
        wrong()
