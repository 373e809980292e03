"""MergedNoise: the error bars of a merged count."""

from __future__ import annotations

# slow: left out by `make quick`
import json
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms import DiscreteLaplace, seeded
from privod.mechanisms.merged import MergedNoise, _tabulated
from tests.reference.mechanisms import probability

PLACES = range(-200, 201)


def summed(*scales: object) -> MergedNoise:
    parts = [MergedNoise.of(DiscreteLaplace(Fraction(str(scale)))) for scale in scales]
    return reduce(add, parts)


def test_one_draw_is_the_discrete_laplace_itself() -> None:
    noise, alone = summed(7), DiscreteLaplace(Fraction(7))
    assert noise.quantile(0.95) == alone.quantile(0.95)
    assert noise.deviation == alone.deviation
    assert noise.scale == 7


@pytest.mark.parametrize(
    "scales",
    [[5] * 20, [1, 1], [1, 100], [1000] * 3, ["1/10"] * 4, [2**40, 2**39], [2**40, 1], [3, 2, 1]],
)
def test_the_quantile_of_a_sum_is_that_of_its_draws(scales: list[object]) -> None:
    noise, randomness, n = summed(*scales), seeded(1), 20_000
    draws = [DiscreteLaplace(Fraction(str(scale))).draw(n, randomness) for scale in scales]
    total = np.sum(draws, axis=0)
    sizes = np.abs(total)
    margin = noise.quantile(0.95)
    assert (sizes <= margin).mean() > 0.944
    if margin > 0:
        assert (sizes <= 0.97 * margin - 1).mean() < 0.954
    assert noise.deviation == pytest.approx(total.std(), rel=0.05, abs=0.01)


def test_the_table_of_a_sum_is_the_convolution_of_its_parts() -> None:
    one, other = (
        [float(probability(DiscreteLaplace(Fraction(scale)), size).low) / 2**128 for size in PLACES]
        for scale in (4, 2)
    )
    step, law = _tabulated(summed(4, 2))
    middle = len(law) // 2
    assert step == 1
    both = np.convolve(one, other, mode="same")
    assert law[middle - 100 : middle + 101] == pytest.approx(both[100:301], abs=1e-12)


def test_sums_do_not_depend_on_their_order_and_keep_their_parts() -> None:
    assert summed(3, 1, 3) == summed(3, 3, 1) == summed(1) + summed(3, 3)
    assert summed(3, 1, 3).parts == ((Fraction(1), 1), (Fraction(3), 2))
    assert summed(3, 1, 3).n_draws == 3
    assert summed(3, 1, 3).least_scale == 1
    assert summed(3, 4).scale == 5


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=8))
def test_more_parts_never_look_more_certain(scales: list[int]) -> None:
    noise = summed(*scales)
    assert MergedNoise.from_json(json.loads(json.dumps(noise.to_json()))) == noise
    assert (noise + summed(5)).quantile(0.9) >= noise.quantile(0.9) * 0.99
    assert noise.quantile(0.5) <= noise.quantile(0.95)


@pytest.mark.parametrize(
    "wrong",
    [[], {}, None, "1", [["1"]], [["1", 0]], [["1", True]], [["1", 1.5]], [["2", 1], ["1", 1]],
     [["1", 1], ["1", 1]]],
)  # fmt: skip
def test_noise_that_nobody_wrote_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidData, match="ascending scales"):
        MergedNoise.from_json(wrong)


def test_wrong_scales_and_confidences_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="scale"):
        MergedNoise.from_json([["-1", 1]])
    with pytest.raises(InvalidParameter, match="confidence"):
        summed(1, 2).quantile(1)
