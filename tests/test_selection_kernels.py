"""The compiled loops behind private choices: weights, coins and sums against slow twins."""

from __future__ import annotations

import subprocess
import sys
from decimal import Context, Decimal
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from privod.mechanisms.exact import exp_minus
from privod.mechanisms.kernels.choosing import add_up, flip, locate, nth, weight
from privod.mechanisms.randomness import Randomness, secure
from privod.mechanisms.selection import (
    COINS_PER_WORD,
    SPARE_WORDS,
    ExponentialMechanism,
    PermuteAndFlip,
    borders_of,
)
from privod.mechanisms.weighted_choice import EACH_ONE
from privod.mechanisms.weights import SUMMED, WEIGHT_BITS, tables_of
from tests.reference.mechanisms import exp, product_of_digits

Ints = NDArray[np.int64]
SCALES = st.fractions("1/1000000000", 2**40)


def weigh(gap: int, scale: Fraction) -> int:
    return int(weight(np.uint64(gap), tables_of(scale).digits))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**62), SCALES)
def test_weights_are_enclosed_at_every_gap_and_scale(gap: int, scale: Fraction) -> None:
    """Also next to where a digit more is looked up, and where a weight vanishes."""
    digits, slack = tables_of(scale)
    edges = [0, 1, 255, 256, 65_535, 65_536, int(40 * scale), int(62 * scale) + 1, 2**62, gap]
    for at in edges:
        known = exp_minus(at / scale, 200)
        low = weigh(at, scale)
        assert low == product_of_digits(at, digits.tolist())
        assert low << 200 - WEIGHT_BITS <= known.high
        assert known.low <= low + int(slack) << 200 - WEIGHT_BITS
    assert weigh(0, scale) == 1 << WEIGHT_BITS
    assert slack < 32


@pytest.mark.parametrize("gap", [16_881_968, 18_593_804, 17_317_909])
def test_weights_are_enclosed_where_every_rounding_goes_the_same_way(gap: int) -> None:
    """Gaps found by a search over 250,000: five units below, with four digits looked up."""
    scale = Fraction(2**26)
    known, low = exp_minus(gap / scale, 200), weigh(gap, scale)
    assert known.low > low + 5 << 200 - WEIGHT_BITS
    assert known.high <= low + int(tables_of(scale).slack) << 200 - WEIGHT_BITS


class Coins(Randomness):
    """The first bytes of coins, the words that go on with them, and then zeros, or ones.

    Of the coins that landed, it asks for the one after `rank` others, and keeps how many there are.
    """

    seeded = True

    def __init__(self, firsts: list[int], words: list[int], then: int, rank: int = 0) -> None:
        self._given = [bytes(firsts), np.array(words, "<u8").tobytes()]
        self._then, self._rank = then, rank

    def bytes(self, n: int) -> bytes:
        known = self._given.pop(0) if self._given else b""
        return known + bytes([self._then] * (n - len(known)))

    def below_hidden(self, bound: int, n_bits: int = 0) -> int:  # noqa: ARG002 - its signature
        self.n_landed = bound
        return self._rank


def landed(
    gaps: list[int], scale: Fraction, firsts: list[int], words: list[int], then: int
) -> set[int]:
    """Which coins land beside that of a best candidate, which stands at the end and is told too."""
    utilities = np.array([-gap for gap in [*gaps, 0]])
    places: list[int] = []
    n_landed = 1
    while len(places) < n_landed:
        coins = Coins([*firsts, 0], words, then, len(places))
        places.append(PermuteAndFlip(scale).choose(utilities, coins))
        n_landed = coins.n_landed
    assert places == sorted(set(places))
    return set(places)


@pytest.mark.parametrize("then", [0, 255])
@pytest.mark.parametrize("scale", [Fraction(3), Fraction(10), Fraction(1, 7), Fraction(10**5)])
def test_coins_land_exactly_below_their_probability(scale: Fraction, then: int) -> None:
    """At all words next to the probability, whose bits go on by zeros or by ones."""
    for gap in {max(1, int(many * scale)) for many in (Fraction(1, 3), 1, 2, 20, 40)}:
        low, chance = weigh(gap, scale), exp(-gap / scale)
        near = range(max(0, low - 3), low + int(tables_of(scale).slack) + 3)
        firsts = [known >> WEIGHT_BITS - 8 for known in near]
        words = [(known << 10) % 2**64 + (1023 if then else 0) for known in near]
        expected = {
            index
            for index, known in enumerate(near)
            if Fraction(known + (then == 255), 1 << WEIGHT_BITS) < chance
        }
        assert landed([gap] * len(near), scale, firsts, words, then) == {*expected, len(near)}


@settings(deadline=None, max_examples=40)
@given(st.lists(st.fractions(0, 45), min_size=1, max_size=8), SCALES, st.data())
def test_every_byte_and_word_gives_the_coin_that_all_bits_give(
    far: list[Fraction], scale: Fraction, data: st.DataObject
) -> None:
    """Bytes at random or at the probability's own; one word for all coins, next to one of them."""
    gaps = [int(many * scale) for many in far]
    chances = [exp(-gap / scale) for gap in gaps]
    own = [min(255, int(chance * 256)) for chance in chances]
    firsts = [min(255, max(0, byte + data.draw(st.sampled_from([-1, 0, 0, 0, 1])))) for byte in own]
    word = int(data.draw(st.sampled_from(chances)) * 2**72) % 2**64
    word = min(2**64 - 1, max(0, word + data.draw(st.integers(-3, 3))))
    expected = {
        index
        for index, (first, chance) in enumerate(zip(firsts, chances, strict=True))
        if Fraction((first << 64) + word, 1 << 72) < chance
    }
    words = [word] * (len(gaps) + SPARE_WORDS)
    assert landed(gaps, scale, firsts, words, then=0) == {*expected, len(gaps)}


def test_each_coin_left_open_has_a_word_of_its_own() -> None:
    """Also where more coins than ever are open: a word more is drawn for each of them."""
    scale, n = Fraction(10), 40 * SPARE_WORDS
    first, edge = divmod(int(exp(Fraction(-7, 10)) * 2**72), 2**64)
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**64, n, dtype=np.uint64)
    expected = np.flatnonzero(words < edge)
    for rank in (0, 1, len(expected) // 2, len(expected) - 1):
        coins = Coins([first] * n + [0], words.tolist(), 0, rank)
        utilities = np.array([-7] * n + [0])
        assert PermuteAndFlip(scale).choose(utilities, coins) == expected[rank]
        assert coins.n_landed == len(expected) + 1


def open_bytes(gap: int, scale: Fraction) -> set[int]:
    """The first bytes that leave the coin of a gap open; all below them land, none above does."""
    firsts = np.frombuffer(bytes(range(256)), np.uint8)
    lands, counts, edges = np.empty(256, np.bool_), np.empty(1, np.int64), np.empty(256, np.int64)
    n = flip(np.full(256, -gap), 0, borders_of(scale), firsts, lands, counts, edges)
    assert set(np.flatnonzero(lands)) == set(range(edges[0]))
    assert counts[0] == edges[0]
    return set(edges[:n].tolist())


@settings(deadline=None, max_examples=60)
@given(st.fractions(0, 60), SCALES)
@example(Fraction(1, 2**40), Fraction(2**40))  # next to 1
@example(Fraction(0), Fraction(1, 10**9))
@example(Fraction(3), Fraction(2**40))
def test_one_byte_leaves_a_coin_open_whatever_its_probability(
    far: Fraction, scale: Fraction
) -> None:
    """More only if a border between bytes lies within what is not known of the probability."""
    for gap in (0, int(far * scale), int(far * scale) + 1, 2**62):
        known = exp_minus(gap / scale, 200)
        own = min(255, known.low >> 200 - 8), min(255, known.high >> 200 - 8)
        low, slack = weigh(gap, scale), int(tables_of(scale).slack)
        near = max(0, low - slack) >> WEIGHT_BITS - 8, low + 2 * slack >> WEIGHT_BITS - 8
        assert set(own) <= open_bytes(gap, scale) <= {min(255, byte) for byte in near}


def test_a_probability_at_a_border_between_bytes_leaves_two_open() -> None:
    """A scale that somebody might choose for it: e^(-1 / scale) is 1/2, but for 2^-70."""
    half = 1 / Fraction(Decimal(2).ln(Context(prec=40)))
    assert open_bytes(1, half.limit_denominator(2**40)) == {127, 128}
    assert open_bytes(1, Fraction(1_442_695_040, 10**9)) == {127}


def test_the_words_that_are_drawn_are_enough_for_all_coins_left_open() -> None:
    """Less than once in 2^115 times they are not, even if two bytes of 256 leave each coin open."""
    sizes = [*range(1, 20_000, 7), 10**5, 10**6, 10**8]
    tails = [stats.binom.logsf(n // COINS_PER_WORD + SPARE_WORDS, n, 2 / 256) for n in sizes]
    assert max(tails) < -115 * np.log(2)


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from([1, 2, SUMMED - 1, SUMMED, SUMMED + 1, 2500]),
    SCALES,
    st.integers(0, 57),
    st.integers(0, 2**32),
)
def test_sums_of_weights_are_exact_and_located_exactly(
    n: int, scale: Fraction, largest: int, seed: int
) -> None:
    """With and without multiplicities, of up to 2^50 each; also at the borders of candidates."""
    rng = np.random.default_rng(seed)
    utilities = rng.integers(0, int(largest * scale) + 1, n)
    best, digits = int(utilities.max()), tables_of(scale).digits
    tables = digits.tolist()
    lows = [product_of_digits(best - utility, tables) for utility in utilities.tolist()]
    for times in (EACH_ONE, rng.integers(1, 2**50, n)):
        masses = [low * many for low, many in zip(lows, times.tolist() or [1] * n, strict=True)]
        ends = list(accumulate(masses))
        sums = np.empty((-(-n // SUMMED), 2), np.uint64)
        high, low = map(int, add_up(utilities, best, digits, times, sums))
        assert (high << 64) + low == ends[-1]
        for number in rng.integers(0, n, 3).tolist():
            for place in {max(0, ends[number] - 1), ends[number]} - {ends[-1]}:
                words = np.uint64(place >> 64), np.uint64(place % 2**64)
                found, before, mass = locate(utilities, best, digits, times, sums, *words)
                assert (int(before[0]) << 64) + int(before[1]) == ends[found] - masses[found]
                assert (int(mass[0]) << 64) + int(mass[1]) == masses[found]
                assert ends[found] - masses[found] <= place < ends[found]


@pytest.mark.parametrize("share", [0.001, 0.5, 1.0])
def test_each_coin_that_landed_is_found_by_its_number(share: float) -> None:
    lands = np.random.default_rng(1).random(3 * SUMMED + 5) <= share
    lands[-1] = True
    starts = range(0, lands.size, SUMMED)
    counts = np.array([np.count_nonzero(lands[start : start + SUMMED]) for start in starts])
    places = np.flatnonzero(lands).tolist()
    assert [nth(lands, counts, rank) for rank in range(len(places))] == places


def test_utilities_of_any_memory_are_read_by_the_same_compiled_loops() -> None:
    """Compiling once more takes seconds, in the middle of an answer."""
    frozen = np.array([5, 0, 9])
    frozen.flags.writeable = False
    arrays = [frozen, np.arange(9)[::-3], np.array([3, 1], np.int8), np.array([1, 7], np.uint64)]

    def choose(utilities: Ints, sizes: Ints) -> None:
        PermuteAndFlip(Fraction(1)).choose(utilities, secure())
        ExponentialMechanism(Fraction(1)).choose(utilities, secure())
        ExponentialMechanism(Fraction(1)).choose_group(utilities, sizes, secure())

    choose(np.array([1, 2, 3]), np.array([1, 1, 1]))
    loops: tuple[Any, ...] = (flip, nth, add_up, locate)
    compiled = [len(loop.signatures) for loop in loops]
    for utilities in arrays:
        choose(utilities, utilities + 1)
    assert [len(loop.signatures) for loop in loops] == compiled


def test_noise_alone_does_not_load_the_compiler() -> None:
    code = "import sys, privod.mechanisms; sys.exit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
