"""Coins against their exact probabilities, found by walking all tapes of bits, not by sampling."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import pytest
from scipy import stats

from privod.errors import InvalidParameter
from privod.mechanisms import exact as reals
from privod.mechanisms.coins import bernoulli, bernoulli_exp, damped_logistic
from privod.mechanisms.randomness import Randomness, secure, seeded
from tests.reference.mechanisms import Tape, exp, walk

EXPONENTS = [Fraction(x) for x in ("1/1000", "1/7", "10/3", "48.354", "70")]


def bracket(coin: Callable[[Randomness], bool], longest: int) -> tuple[Fraction, Fraction]:
    """The probability of heads, enclosed by walking all tapes up to a length."""
    sure, undecided = walk(coin, longest, step=reals.REVEALED_AT_ONCE)
    low = sure.get(True, Fraction(0))
    assert low + sure.get(False, Fraction(0)) + undecided == 1
    return low, low + undecided


def assert_exact(coin: Callable[[Randomness], bool], probability: Fraction) -> None:
    """All tapes of 112 bits leave less than 10^-30 undecided, and the truth lies in that."""
    low, high = bracket(coin, 112)
    assert low <= probability <= high
    assert high - low < Fraction(1, 10**30)


@pytest.mark.parametrize("exponent", EXPONENTS, ids=str)
def test_the_exponential_coin_has_exactly_its_probability(exponent: Fraction) -> None:
    assert_exact(lambda tape: bernoulli_exp(exponent, tape), exp(-exponent))


@pytest.mark.parametrize("exponent", EXPONENTS, ids=str)
def test_the_logistic_coin_has_exactly_its_probability(exponent: Fraction) -> None:
    assert_exact(lambda tape: damped_logistic(Fraction(0), exponent, tape), 1 / (1 + exp(exponent)))


@pytest.mark.parametrize(
    ("epsilon", "edits"), [("1/10", 1), ("1/10", 7), ("1/2", 30), ("3", 16), ("1", 70)]
)
def test_the_label_coin_has_exactly_its_probability(epsilon: str, edits: int) -> None:
    loss = Fraction(epsilon)
    truth = exp(-loss * (edits - 1)) / (1 + exp(loss))
    assert_exact(lambda tape: damped_logistic(loss * (edits - 1), loss, tape), truth)


@pytest.mark.parametrize("chance", ["0", "1", "1/2", "1/3", "2/7", "999/1000", "1e-30"])
def test_the_rational_coin_has_exactly_its_probability(chance: str) -> None:
    assert_exact(lambda tape: bernoulli(Fraction(chance), tape), Fraction(chance))


def test_a_probability_far_below_any_float_is_exact_too() -> None:
    exponent, zeros = Fraction(800), 1152  # e^-800 is 0.0 in floats
    early = [walk(lambda tape: bernoulli_exp(exponent, tape), at, zeros=at) for at in (8, 800)]
    assert all(not sure for sure, _ in early)  # nothing but zeros: not decided yet
    sure, undecided = walk(lambda tape: bernoulli_exp(exponent, tape), 1304, step=8, zeros=zeros)
    assert sure[True] <= exp(-exponent) <= sure[True] + undecided
    assert undecided < exp(-exponent) / 10**40
    first_one = [Tape(1 << 8 * 80, 8 * zero_bytes + 648) for zero_bytes in range(64)]
    assert not any(bernoulli_exp(exponent, tape) for tape in first_one)


def test_certain_coins_ask_for_no_bits() -> None:
    assert bernoulli_exp(Fraction(0), Tape(0, 0))
    assert bernoulli(Fraction(1), Tape(0, 0))
    assert not bernoulli(Fraction(0), Tape(0, 0))


def test_a_hopeless_coin_fails_at_once_however_large_its_exponent() -> None:
    source = secure()
    assert not any(bernoulli_exp(Fraction(10**400), source) for _ in range(100))


def test_coins_land_as_often_as_they_should() -> None:
    source, n = seeded(1), 20_000
    heads = sum(damped_logistic(Fraction(0), Fraction(1, 3), source) for _ in range(n))
    assert stats.binomtest(heads, n, float(1 / (1 + exp(Fraction(1, 3))))).pvalue > 1e-6


@pytest.mark.parametrize("coin", [bernoulli_exp, partial(damped_logistic, Fraction(0))])
def test_a_negative_or_inexact_exponent_is_refused(coin: Callable[..., bool]) -> None:
    with pytest.raises(InvalidParameter, match="exponent must be at least 0"):
        coin(Fraction(-1), secure())
    with pytest.raises(InvalidParameter, match="exponent must be a fraction"):
        coin(0.5, secure())


def test_a_probability_outside_the_unit_interval_is_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"probability must lie in \[0, 1\]"):
        bernoulli(Fraction(3, 2), secure())


def test_the_law_does_not_depend_on_how_many_bits_are_revealed_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reals, "REVEALED_AT_ONCE", 1)
    assert_exact(lambda tape: bernoulli_exp(Fraction(1, 3), tape), exp(-Fraction(1, 3)))
