"""Noise in three shares: two that nobody else knows keep the guarantee of one draw, exactly."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import logsumexp

from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteGaussian, DiscreteLaplace, seeded
from privod.mechanisms.merged import MergedNoise
from privod.mechanisms.shared import SharedGaussian, doubled, halved

REACH = 250
ORDERS = (1.01, 1.5, 2.0, 4.0, 16.0)
Floats = NDArray[np.float64]


def law(sigma2: float) -> Floats:
    """The logarithm of the discrete Gaussian on -REACH .. REACH."""
    logs = -(np.arange(-REACH, REACH + 1.0) ** 2) / (2 * sigma2)
    return np.asarray(logs - logsumexp(logs))


def of_two(logs: Floats) -> Floats:
    """The logarithm of the law of two independent draws' sum, on the same places."""
    wide = np.pad(logs, REACH, constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(wide, len(logs))
    return np.asarray(logsumexp(windows + logs[::-1], axis=1))


def divergence(logs: Floats, shift: int, order: float) -> float:
    """The Renyi divergence of a law from itself, shifted."""
    one, other = logs[shift:], logs[: len(logs) - shift]
    return float(logsumexp(order * one + (1 - order) * other) / (order - 1))


@pytest.mark.parametrize("sigma2", [0.3, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("change", [1, 2, 3])
def test_two_shares_lose_what_one_draw_loses_and_one_share_twice_as_much(
    sigma2: float, change: int
) -> None:
    noise = SharedGaussian(Fraction(sigma2))
    share = law(float(noise.share.sigma2))
    two = of_two(share)
    for order in ORDERS:
        kept = order * float(noise.rho(change**2))
        assert divergence(two, 2 * change, order) <= kept * (1 + 1e-9)
        alone = order * float(noise.rho(change**2, known=2))
        assert divergence(share, 2 * change, order) <= alone * (1 + 1e-9)
        if sigma2 >= 1:  # tight: the guarantee promises no more than it must
            assert divergence(two, 2 * change, order) > 0.99 * kept
    assert noise.rho(change**2) == DiscreteGaussian(Fraction(sigma2)).rho(change**2)
    assert noise.rho(change**2, known=2) == 2 * noise.rho(change**2)


def test_without_doubling_small_noise_would_lose_more_than_it_says() -> None:
    """A planted bug: shares of half of the variance on the integers themselves."""
    share = law(0.3 / 2)
    two = of_two(share)
    kept = 1.01 * float(SharedGaussian(Fraction(3, 10)).rho(1))
    assert divergence(two, 1, 1.01) > 1.4 * kept


@given(st.lists(st.integers(-(2**60), 2**60)))
def test_halving_undoes_doubling_and_rounds_halves_to_even(values: list[int]) -> None:
    sums = np.array(values, np.int64)
    assert np.array_equal(halved(doubled(sums)), sums)
    for odd in (-1, 1):
        rounded = halved(doubled(sums) + odd)
        assert (rounded % 2 == 0).all()
        assert (np.abs(2 * rounded - doubled(sums) - odd) <= 1).all()


def test_the_noise_that_is_drawn_varies_as_the_release_says() -> None:
    sigma2 = Fraction(40)
    noise = SharedGaussian(sigma2)
    source = seeded(3)
    size = 40_000
    total = sum((noise.draw(size, source) for _ in range(3)), np.zeros(size, np.int64))
    said = MergedNoise.of_shares(DiscreteGaussian(sigma2))
    drawn = halved(total)
    assert abs(drawn.var() / said.deviation**2 - 1) < 0.05  # seven deviations
    assert abs(drawn.mean()) < 0.25
    assert abs(said.deviation**2 - 60.125) < 1e-6
    assert 0.94 < (np.abs(drawn) <= said.quantile(0.95)).mean() < 0.98
    assert said.gaussian == ((sigma2, 1),)  # a promise counts on no more


def test_noise_in_shares_survives_json_and_other_kinds_are_refused() -> None:
    said = MergedNoise.of_shares(DiscreteGaussian(Fraction(7, 3)))
    assert MergedNoise.from_json(said.to_json()) == said
    assert said.single is None
    assert (said + said).n_draws == 2
    with pytest.raises(InvalidParameter, match="gaussian"):
        MergedNoise.of_shares(DiscreteLaplace(Fraction(3)))
