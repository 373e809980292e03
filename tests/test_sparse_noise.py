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
from tests.reference.mechanisms import exp, walk


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


@pytest.mark.parametrize(("avoiding", "count"), [((), 2), ((3,), 2), ((0, 4), 1), ((0, 1, 4), 2)])
def test_a_distinct_choice_makes_every_set_of_free_numbers_equally_likely(
    avoiding: tuple[int, ...], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rare, "SPARE", 3)  # a byte a draw, so that all tapes can be walked

    def draw(tape: Randomness) -> tuple[int, ...]:
        return tuple(distinct(count, 5, tape, avoiding=avoiding))

    sure, undecided = walk(draw, 16, step=8)
    free = [number for number in range(5) if number not in avoiding]
    assert set(sure) == set(combinations(free, count))
    assert len(set(sure.values())) == 1
    assert sum(sure.values()) + undecided == 1
    assert undecided < Fraction(1, 3)


class Counted(Randomness):
    """Seeded randomness that remembers what was asked of it."""

    seeded = True

    def __init__(self, seed: int) -> None:
        self._source = seeded(seed)
        self.requests: list[int] = []

    def bytes(self, n: int) -> bytes:
        self.requests.append(n)
        return self._source.bytes(n)


@pytest.mark.parametrize("free", [3, 4, 5, 8, 9, 500, 999])
def test_the_work_of_a_distinct_choice_does_not_tell_how_many_numbers_are_free(free: int) -> None:
    """Rejecting occupied cells one by one took ten times as long with one free cell less."""
    nearly_full, empty = Counted(free), Counted(free)
    drawn = distinct(3, 1000, nearly_full, avoiding=range(1000 - free))
    assert all(1000 - free <= number < 1000 for number in drawn)
    distinct(3, 1000, empty)
    assert nearly_full.requests == empty.requests == [10, 10, 10]  # 10 + SPARE bits each


@given(
    bound=st.sampled_from([1, 7, 60, 2**40, 10**30]),
    taken=st.sets(st.integers(0, 10**30), max_size=40),
    wanted=st.integers(0, 30),
    seed=st.integers(0, 10**6),
)
def test_a_distinct_choice_is_that_of_ranks_counted_one_by_one(
    bound: int, taken: set[int], wanted: int, seed: int
) -> None:
    avoiding = sorted({number % bound for number in taken})
    count = min(wanted, bound - len(avoiding))
    drawn = distinct(count, bound, seeded(seed), avoiding=avoiding)
    n_bits = bound.bit_length() + rare.SPARE
    ranks = rare._ranks(count, bound - len(avoiding), n_bits, seeded(seed))
    assert drawn == sorted(walked_to(rank, avoiding) for rank in ranks)
    assert len(set(drawn) - set(avoiding)) == count


def walked_to(rank: int, avoiding: list[int]) -> int:
    """The free number of this rank: move up by one at every occupied number on the way."""
    for taken in avoiding:
        if taken <= rank:
            rank += 1
    return rank


def test_a_distinct_choice_from_astronomically_many_avoids_and_never_repeats() -> None:
    drawn = distinct(1000, 10**30, seeded(6), avoiding=[5])
    assert len(set(drawn)) == 1000
    assert all(0 <= value < 10**30 for value in drawn)
    assert distinct(4, 5, seeded(7), avoiding=[2]) == [0, 1, 3, 4]
    with pytest.raises(InvalidParameter, match="count must lie between"):
        distinct(6, 5, secure())
    with pytest.raises(InvalidParameter, match="count must lie between 0 and the 2 that are free"):
        distinct(3, 5, secure(), avoiding=[0, 1, 4])
