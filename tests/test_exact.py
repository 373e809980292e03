"""Certified digits of real numbers, and uniform numbers revealed bit by bit."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from privod.mechanisms.exact import Enclosure, Uniform, exp_minus, powers, rational
from privod.mechanisms.randomness import seeded
from tests.reference.mechanisms import exp

nonnegative = st.fractions(min_value=0, max_value=200, max_denominator=10**12)


def holds(enclosure: Enclosure, truth: Fraction) -> bool:
    return enclosure.low <= truth * (1 << enclosure.precision) <= enclosure.high


@settings(deadline=None)
@given(nonnegative, st.integers(1, 300))
def test_the_digits_of_the_exponential_are_certified_and_tight(x: Fraction, bits: int) -> None:
    enclosure = exp_minus(x, bits)
    assert enclosure.precision == bits
    assert holds(enclosure, exp(-x))
    assert enclosure.high - enclosure.low <= 2


@settings(max_examples=25, deadline=None)
@given(st.fractions(min_value="1/1000", max_value=3, max_denominator=1000), st.integers(16, 200))
def test_the_digits_of_powers_are_certified_and_tight(x: Fraction, bits: int) -> None:
    for index, power in enumerate(powers(x, 40, bits)):
        assert holds(power, exp(-x * index))
        assert power.high - power.low <= 2


@settings(deadline=None)
@given(nonnegative, nonnegative, st.fractions(min_value="1/1000", max_value=5))
def test_arithmetic_encloses_the_true_result(x: Fraction, y: Fraction, z: Fraction) -> None:
    a, b, c = (rational(number, 40) for number in (x, y, z))
    assert holds(a + b, x + y)
    assert holds(a * b, x * y)
    assert holds(a / c, x / z)
    assert holds((a + b) - b, x)
    assert holds(a.times(7, 3), x * Fraction(7, 3))
    assert holds(a.rounded(8), x)


@settings(deadline=None)
@given(st.fractions(min_value=0, max_value=1), st.integers(0, 10**9))
def test_one_uniform_number_answers_all_comparisons_alike(bound: Fraction, seed: int) -> None:
    uniform = Uniform(seeded(seed))
    answer = uniform.is_below(lambda precision: rational(bound, precision))
    for step in range(11):
        other = Fraction(step, 10)
        below = uniform.is_below(partial(rational, other))
        assert below >= answer if other >= bound else below <= answer
