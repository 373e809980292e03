"""The rule of heavy bins: thresholds and sizes of bins against slow twins, models of the data."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from privod.outliers.hashing.heavy import CloudModel, HashedCloud, HeavyOdds, bin_sizes


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_every_record_is_told_how_many_share_its_bin(keys: list[int]) -> None:
    shared = Counter(keys)
    assert bin_sizes(np.array(keys, np.uint64)).tolist() == [shared[key] for key in keys]


@given(st.integers(0, 2**32), st.integers(1, 60), st.floats(0, 1))
def test_the_threshold_is_the_strictest_that_finds_enough(
    seed: int, n_tables: int, find: float
) -> None:
    rng = np.random.default_rng(seed)
    odds = HeavyOdds(rng.random(30), np.arange(30) % 5 == 0)
    chosen = odds.threshold(n_tables, find)
    found = [
        float(binom.cdf(most, n_tables, odds.chances[::5]).mean()) for most in range(n_tables + 1)
    ]
    enough = [most for most, share in enumerate(found) if share >= find - 1e-12]
    assert chosen.most_heavy in (enough[0], *(most for most in enough if found[most] < find + 1e-9))
    suspected = binom.cdf(chosen.most_heavy, n_tables, odds.chances)
    assert chosen.found == pytest.approx(found[chosen.most_heavy])
    assert chosen.suspects == pytest.approx(suspected.mean())
    assert chosen.precision == pytest.approx(suspected[::5].sum() / suspected.sum())


def test_noise_is_added_to_the_counts_of_all_records_not_to_those_of_the_model() -> None:
    above, outlying = np.array([[3, -2, 0], [1, -5, 2]], np.int32), np.array([False, True, False])
    cloud = HashedCloud(above, outlying, scale=0.5)
    assert cloud.odds(0).chances.tolist() == [1, 0, 0.5]
    assert cloud.odds(4).chances == pytest.approx(norm.cdf((above - 0.5) / 2).mean(axis=0))


@pytest.mark.parametrize("widths", [(4,), (2, 3)])
def test_an_outlier_of_the_model_is_seldom_in_a_heavy_bin(widths: tuple[int, ...]) -> None:
    odds = CloudModel(3000, 30, widths).hashed(6 // len(widths)).odds(0)
    assert 0 < odds.outlying.sum() < 100
    assert odds.chances[odds.outlying].mean() < 0.2 < 0.5 < odds.chances[~odds.outlying].mean()
