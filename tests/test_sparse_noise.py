"""Rare events among astronomically many, against their exact laws."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from privod.errors import InvalidParameter
from privod.mechanisms import sparse as rare
from privod.mechanisms.noise import DiscreteLaplace
from privod.mechanisms.randomness import Randomness, secure, seeded
from privod.mechanisms.sparse import count_reaching, distinct
from tests.reference.mechanisms import Counted, exp, walk


def binomial_law(n: int, chance: Fraction) -> list[Fraction]:
    return [math.comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(n + 1)]


@pytest.mark.parametrize(("scale", "threshold"), [("3", 2), ("1/7", 1), ("10", 30), ("3", -1)])
def test_how_many_reach_a_threshold_is_exactly_binomial(scale: str, threshold: int) -> None:
    n, noise = 5, DiscreteLaplace(Fraction(scale))
    above = max(threshold, 1 - threshold)
    chance = exp(-above / noise.scale) / (1 + exp(-1 / noise.scale))
    law = binomial_law(n, chance if threshold > 0 else 1 - chance)
    sure, undecided = walk(lambda tape: count_reaching(noise, threshold, n, tape), 112, step=8)
    assert undecided < Fraction(1, 10**30)
    assert sum(sure.values()) + undecided == 1
    for count, probability in enumerate(law):
        low = sure.get(count, Fraction(0))
        assert low <= probability + Fraction(1, 10**100)
        assert probability <= low + undecided + Fraction(1, 10**100)


def test_how_many_reach_a_threshold_among_10_to_the_30_is_enclosed_exactly() -> None:
    """With an expected count of 2 the law is Poisson's but for 10^-29; the rest is certified."""
    noise, threshold, n = DiscreteLaplace(Fraction(1)), 68, 10**30
    mean = n * exp(-Fraction(threshold)) / (1 + exp(Fraction(-1)))
    known = rare._cumulative(noise.scale, threshold, n, 160)
    total, term = Fraction(0), exp(-mean)
    for k, enclosure in enumerate(known):
        total += term
        term = term * mean / (k + 1)
        assert enclosure.high - enclosure.low <= 2
        assert abs(enclosure.low - total * 2**160) < 2**160 / Fraction(10**27)


def test_counts_in_several_parts_have_the_right_mean_and_spread() -> None:
    noise, threshold, n, source = DiscreteLaplace(Fraction(1)), 20, 10**11, seeded(5)
    mean = n * noise.reaching(threshold)
    counts = [count_reaching(noise, threshold, n, source) for _ in range(200)]
    assert mean > 4 * rare.EXPECTED_PER_PART
    assert abs(np.mean(counts) - mean) < 6 * math.sqrt(mean / 200)
    spread = float(np.var(counts, ddof=1)) * 199 / mean
    assert 1e-6 < stats.chi2.cdf(spread, 199) < 1 - 1e-6


def test_nobody_reaches_anything_among_none() -> None:
    assert count_reaching(DiscreteLaplace(Fraction(1)), 5, 0, secure()) == 0
    assert count_reaching(DiscreteLaplace(Fraction(1)), -5, 0, secure()) == 0
    with pytest.raises(InvalidParameter, match="n must be at least 0"):
        count_reaching(DiscreteLaplace(Fraction(1)), 5, -1, secure())


@pytest.mark.parametrize(("bound", "count"), [(5, 2), (4, 1), (3, 2)])
def test_a_distinct_choice_makes_every_set_of_numbers_equally_likely(
    bound: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rare, "SPARE", 8 - bound.bit_length())  # a byte a draw: few tapes to walk

    def draw(tape: Randomness) -> tuple[int, ...]:
        return tuple(distinct(count, bound, tape))

    sure, undecided = walk(draw, 8 * count, step=8)
    assert set(sure) == set(combinations(range(bound), count))
    assert len(set(sure.values())) == 1
    assert sum(sure.values()) + undecided == 1
    assert undecided < Fraction(1, 3)


def test_a_distinct_choice_from_astronomically_many_never_repeats() -> None:
    source = Counted(6)
    drawn = distinct(1000, 10**30, source)
    assert drawn == sorted(set(drawn))
    assert len(drawn) == 1000
    assert all(0 <= value < 10**30 for value in drawn)
    assert set(source.requests) == {21}  # 100 + SPARE bits each
    assert distinct(5, 5, seeded(7)) == [0, 1, 2, 3, 4]
    with pytest.raises(InvalidParameter, match="count must lie between 0 and 5"):
        distinct(6, 5, secure())


@given(
    numbers=st.sets(st.integers(0, 10**20), max_size=30),
    taken=st.sets(st.integers(0, 10**20), max_size=30),
    cuts=st.lists(st.integers(0, 60), max_size=4),
)
def test_numbers_are_free_where_no_part_holds_them(
    numbers: set[int], taken: set[int], cuts: list[int]
) -> None:
    held = np.array(sorted(taken | set(list(numbers)[::2])), dtype=object)
    parts = np.split(held, sorted(cuts))
    wanted = sorted(numbers)
    assert rare.not_taken(wanted, parts).tolist() == [one not in held for one in wanted]
