"""Discrete Gaussian noise against its exact law: tables, samples, OpenDP; and its loss."""

from __future__ import annotations

# slow: left out by `make quick`
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms import DiscreteGaussian, DiscreteLaplace, gaussian, gaussian_loss
from privod.mechanisms.exact import exp_minus
from privod.mechanisms.gaussian import _Sampler
from privod.mechanisms.noise import BLOCK
from privod.mechanisms.randomness import secure, seeded
from privod.privacy import Loss
from tests.reference.mechanisms import discrete_gaussian, probability, walk
from tests.reference.mechanisms import exp as long_exp


def exp(exponent: Fraction) -> Fraction:
    """e^exponent to 120 digits; 0 where it is below 10^-800, or it would have millions of them."""
    return long_exp(exponent) if exponent > -2000 else Fraction(0)


AWKWARD = [Fraction(3), Fraction(10), Fraction(1, 7), Fraction(5000, 3)]
SIGMA2S = [*AWKWARD, Fraction(1, 10**6), Fraction(1000), Fraction(10**6), Fraction(2**80)]


def proposals(sampler: _Sampler, sigma2: Fraction) -> list[Fraction]:
    """What each outcome of the table must weigh, from 120-digit exponentials."""
    codes = range(sampler._n_blocks + 1)
    found = []
    for code in [*codes, *(~code for code in codes)]:
        edge = code * sampler._width if code >= 0 else ~code * sampler._width + 1
        weight = exp(-edge * edge / (2 * sigma2)) * sampler._width
        if code in (sampler._n_blocks, ~sampler._n_blocks):
            weight = weight / sampler._width / (1 - exp(-edge / sigma2))
        found.append(weight)
    return found


@pytest.mark.parametrize("sigma2", SIGMA2S, ids=str)
def test_sixty_four_bits_of_every_threshold_are_right(sigma2: Fraction) -> None:
    sampler = _Sampler(sigma2)
    weights = proposals(sampler, sigma2)
    total, below = sum(weights), Fraction(0)
    floors = [int(floor) for floor in sampler._table._floors]
    assert len(floors) == len(weights) - 1
    for floor, weight in zip(floors, weights, strict=False):
        below += weight
        assert floor <= below / total * 2**64 <= floor + 1


@pytest.mark.parametrize("sigma2", [Fraction(5000, 3), Fraction(10**6), Fraction(2**80)], ids=str)
def test_sixteen_bits_accept_only_what_every_member_of_a_part_would(sigma2: Fraction) -> None:
    sampler = _Sampler(sigma2)
    parts = 1 << sampler._part_bits
    step = sampler._width // parts
    for code in (0, 1, -1, 17, -90, sampler._n_blocks - 1, -sampler._n_blocks):
        edge = sampler._edge(code)
        for part in {0, 1, parts // 2, parts - 1}:
            place = (code + sampler._n_blocks + 1) * parts + part
            first, last = part * step, (part + 1) * step - 1
            chances = [exp(-d * (2 * edge + d) / (2 * sigma2)) * 2**16 for d in (first, last)]
            sure, possible = int(sampler._sure[place]), int(sampler._possible[place])
            assert sure <= chances[1] <= chances[0] <= possible
            assert possible - sure <= 300


def test_a_block_and_its_complement_hold_every_integer_once() -> None:
    """What is proposed for every code and offset, and how far from 0 its block begins."""
    sampler = _Sampler(Fraction(10_000))
    seen: dict[int, int] = {}
    for code in range(-sampler._n_blocks, sampler._n_blocks):
        for offset in range(sampler._width):
            value = (code << sampler._shift) ^ offset
            value = value ^ (sampler._width - 1) if code < 0 else value
            assert abs(value) == sampler._edge(code) + offset
            assert seen.setdefault(value, code) == code
    reach = sampler._n_blocks * sampler._width
    assert sorted(seen) == list(range(-reach, reach))


@pytest.mark.parametrize("sigma2", [Fraction(5000, 3), Fraction(10**6)], ids=str)
def test_an_undecided_member_is_accepted_with_exactly_its_share(
    sigma2: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given 16 bits that the table leaves open, the rest of the coin is exact."""
    sampler = _Sampler(sigma2)
    monkeypatch.setattr(gaussian, "exp_minus", cache(exp_minus))
    for code, offset in ((3, 1), (-20, sampler._width - 1)):
        parts = sampler._part_bits
        place = ((code + sampler._n_blocks + 1) << parts) + (offset >> sampler._shift - parts)
        prefix = int(sampler._sure[place])
        assert prefix < sampler._possible[place]

        def accept(tape: object, prefix: int = prefix, code: int = code, off: int = offset) -> bool:
            monkeypatch.setattr(type(tape), "halfwords", lambda _s, _n: np.array([prefix], "u2"))
            offsets = np.array([off], dtype=np.int64)
            return bool(sampler._accept(np.array([code], np.int16), offsets, tape)[0])  # type: ignore[arg-type]

        sure, undecided = walk(accept, 112, step=8)
        edge = sampler._edge(code)
        chance = exp(-offset * (2 * edge + offset) / (2 * sigma2)) * 2**16 - prefix
        share = min(max(chance, Fraction(0)), Fraction(1))
        low = sure.get(True, Fraction(0))
        assert low <= share <= low + undecided
        assert undecided < Fraction(1, 10**25)


def test_proposing_and_accepting_give_the_law() -> None:
    """Blocks, members and coins put together, by exact numbers: proportional to the law."""
    sigma2 = Fraction(5000, 3)
    sampler = _Sampler(sigma2)
    weights = proposals(sampler, sigma2)
    law = discrete_gaussian(sigma2)
    ratios = set()
    for value in (0, 1, -1, 2, 31, -32, 100, -101, 240):
        magnitude = value if value >= 0 else -1 - value
        block, offset = divmod(magnitude, sampler._width)
        index = block if value >= 0 else block + sampler._n_blocks + 1
        edge = sampler._edge(block if value >= 0 else ~block)
        accepted = exp(-offset * (2 * edge + offset) / (2 * sigma2))
        ratios.add(weights[index] / sampler._width * accepted / law(value))
    first, *others = ratios
    assert all(abs(other / first - 1) < Fraction(1, 10**90) for other in others)


def chi_square(drawn: NDArray[np.int64], sigma2: Fraction) -> float:
    """The p-value of a sample binned so that every bin expects at least 20."""
    law, reach = discrete_gaussian(sigma2), 0
    while float(law(reach + 1)) * drawn.size >= 20:
        reach += 1
    values = range(-reach, reach + 1)
    chances = np.array([float(law(abs(value))) for value in values])
    observed = np.array([np.count_nonzero(drawn == value) for value in values])
    rest = max(1 - chances.sum(), 0.0)
    if rest * drawn.size >= 5:
        chances = np.append(chances, rest)
        observed = np.append(observed, drawn.size - observed.sum())
    if len(chances) == 1:
        return 1.0
    return float(stats.chisquare(observed, chances / chances.sum() * observed.sum()).pvalue)


@pytest.mark.parametrize("sigma2", [*AWKWARD, Fraction(1), Fraction(70)], ids=str)
def test_samples_follow_the_law(sigma2: Fraction) -> None:
    drawn = DiscreteGaussian(sigma2).draw(100_000, seeded(1))
    assert chi_square(drawn, sigma2) > 1e-6


def test_a_slightly_wrong_sigma_is_noticed() -> None:
    drawn = DiscreteGaussian(Fraction(31, 10)).draw(100_000, seeded(1))
    assert chi_square(drawn, Fraction(3)) < 1e-6


@pytest.mark.parametrize("sigma2", [Fraction(10**8), Fraction(10**18), Fraction(2**80)], ids=str)
def test_large_sigmas_follow_the_law_in_every_part(sigma2: Fraction) -> None:
    drawn = DiscreteGaussian(sigma2).draw(50_000, seeded(2))
    assert stats.kstest(drawn / math.sqrt(sigma2), "norm").pvalue > 1e-6
    assert stats.chisquare(np.bincount(drawn & 255, minlength=256)).pvalue > 1e-6


@pytest.fixture
def short_reach(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks that end so early that most draws lie beyond, which one in 10^8 does otherwise."""
    monkeypatch.setattr(gaussian, "REACH", Fraction(1, 3))
    gaussian._sampler.cache_clear()
    yield
    gaussian._sampler.cache_clear()


@pytest.mark.usefixtures("short_reach")
@pytest.mark.parametrize("sigma2", [Fraction(13, 2), Fraction(2000)], ids=str)
def test_draws_beyond_the_last_block_follow_the_law(sigma2: Fraction) -> None:
    drawn = DiscreteGaussian(sigma2).draw(3000, seeded(8))
    assert (np.abs(drawn) > 0.6 * math.sqrt(sigma2)).mean() > 0.4
    assert chi_square(drawn, sigma2) > 1e-6


def test_opendp_and_the_exact_law_and_our_sample_agree() -> None:
    import opendp.prelude as dp  # takes seconds, so only here

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    for sigma in (Fraction(3), Fraction(10), Fraction(1, 2)):
        measurement = space >> dp.m.then_gaussian(scale=float(sigma))
        theirs = np.array(measurement(np.zeros(20_000, dtype=np.int64)))
        ours = DiscreteGaussian(sigma**2).draw(20_000, secure())
        assert chi_square(theirs, sigma**2) > 1e-9  # nobody's draws are seeded here
        assert chi_square(ours, sigma**2) > 1e-9
        assert measurement.map(1.0) == pytest.approx(float(DiscreteGaussian(sigma**2).rho(1)))


@pytest.mark.parametrize("sigma2", [Fraction(1, 7), Fraction(3), Fraction(10_000)], ids=str)
def test_figures_for_humans_agree_with_the_law(sigma2: Fraction) -> None:
    noise, exactly = DiscreteGaussian(sigma2), discrete_gaussian(sigma2)
    reach = math.ceil(15 * math.sqrt(sigma2)) + 1
    half = {value: float(exactly(value)) for value in range(reach + 1)}
    law = {value: half[abs(value)] for value in range(-reach, reach + 1)}
    assert noise.deviation == pytest.approx(math.sqrt(sum(p * k * k for k, p in law.items())))
    for size in (0, 1, 5, 200):
        beyond = sum(p for k, p in law.items() if abs(k) > size)
        assert noise.tail(size) == pytest.approx(beyond, rel=1e-6, abs=1e-15)
    for confidence in (0.5, 0.95, 0.999):
        size = noise.quantile(confidence)
        assert noise.tail(size) <= 1 - confidence
        assert size == 0 or noise.tail(size - 1) > 1 - confidence
    assert noise.tail(-1) == 1
    assert DiscreteGaussian(Fraction(10**12)).quantile(0.95) == pytest.approx(1.959964e6, rel=1e-6)


@pytest.mark.parametrize("sigma2", AWKWARD, ids=str)
def test_probabilities_are_certified(sigma2: Fraction) -> None:
    noise, law = DiscreteGaussian(sigma2), discrete_gaussian(sigma2)
    for value in (0, 1, -1, 7):
        found = probability(noise, value)
        assert found.low <= law(value) * 2**found.precision <= found.high


def true_delta(sigma2: Fraction, epsilon: Fraction, shift: tuple[int, ...]) -> float:
    """The divergence itself: the sum of what P has more than e^epsilon Q, over all integers.

    The log-odds of a shift are linear in the sum of the shifted coordinates, so that is enough.
    """
    reach = math.ceil(14 * math.sqrt(sigma2)) + 2
    one = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * float(sigma2)))
    one /= one.sum()
    law = np.ones(1)
    for moved in shift:
        spread = np.zeros(2 * reach * abs(moved) + 1)
        spread[:: abs(moved)] = one
        law = np.convolve(law, spread)
    size = sum(moved * moved for moved in shift)
    shifted = np.concatenate([law, np.zeros(size)]), np.concatenate([np.zeros(size), law])
    return float(np.maximum(shifted[1] - math.exp(epsilon) * shifted[0], 0).sum())


@pytest.mark.parametrize("sigma2", [Fraction(1, 2), Fraction(3), Fraction(20), Fraction(900)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
def test_the_delta_of_one_count_is_the_divergence_itself(
    sigma2: Fraction, epsilon: Fraction
) -> None:
    claimed = float(DiscreteGaussian(sigma2).delta(epsilon, 1))
    assert claimed == pytest.approx(true_delta(sigma2, epsilon, (1,)), rel=1e-6, abs=1e-14)


@pytest.mark.parametrize("shift", [(1, 1), (1, -1, 1), (2,), (2, 1), (3, 1, 1)])
@pytest.mark.parametrize("sigma2", [Fraction(2), Fraction(7), Fraction(60)])
def test_the_delta_of_many_counts_is_never_below_the_divergence(
    sigma2: Fraction, shift: tuple[int, ...]
) -> None:
    size = sum(moved * moved for moved in shift)
    for epsilon in (Fraction(1, 5), Fraction(1), Fraction(3)):
        claimed = float(DiscreteGaussian(sigma2).delta(epsilon, size))
        truth = true_delta(sigma2, epsilon, shift)
        assert claimed >= truth * (1 - 1e-9) - 1e-15
        if sigma2 == 60 and truth > 1e-6:  # a fortieth of sigma2 is given up: at most e^0.35
            assert claimed <= 1.42 * truth


def test_sums_and_bounds_meet_where_one_takes_over_from_the_other() -> None:
    below, above = Fraction(4096), Fraction(4097)
    for epsilon in (Fraction(1, 20), Fraction(1, 10)):
        summed = float(gaussian_loss.delta(below, epsilon, Fraction(1)))
        bounded = float(gaussian_loss.delta(above, epsilon, Fraction(1)))
        assert bounded == pytest.approx(summed, rel=0.02)


@pytest.mark.parametrize("argument", ["-7", "-0.3", "0", "0.001", "1", "4.75", "12"])
def test_normal_tails_are_enclosed(argument: str) -> None:
    from decimal import Decimal, localcontext

    found = gaussian_loss.normal_tail(Fraction(argument))
    with localcontext() as context:
        context.prec = 100
        x = abs(Decimal(argument))
        term = total = x
        for n in range(1, 1200):
            term = term * x * x / (2 * n + 1)
            total += term
        pi = Decimal(
            "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899"
        )
        tail = Decimal("0.5") - (-x * x / 2).exp() / (2 * pi).sqrt() * total
        truth = Fraction(1 - tail if argument.startswith("-") else tail)
    slack = Fraction(1, 10**60)
    assert found.low <= (truth + slack) * 2**found.precision
    assert (truth - slack) * 2**found.precision <= found.high
    assert found.high - found.low <= 2


@settings(max_examples=25, deadline=None)
@given(
    st.fractions(Fraction(1, 50), 5), st.sampled_from(["1e-3", "1e-6", "1e-10"]), st.integers(1, 40)
)
def test_calibrated_noise_keeps_what_was_asked_for_and_hardly_more(
    epsilon: Fraction, delta: str, changed: int
) -> None:
    noise = DiscreteGaussian.for_loss(epsilon, delta, changed)
    assert noise.delta(epsilon, changed) <= Fraction(delta)
    if noise.sigma2 > 10:
        less = DiscreteGaussian(noise.sigma2 * Fraction(999, 1000))
        assert less.delta(epsilon, changed) > Fraction(delta)


def test_the_loss_is_rounded_up_and_what_was_asked_for() -> None:
    noise = DiscreteGaussian.for_loss("0.1", "1e-6", 3)
    assert noise.loss(3, "1e-6") == Loss("0.1", "1e-6")
    assert DiscreteGaussian(Fraction(50)).rho(1) == Fraction(1, 100)
    assert DiscreteGaussian.for_rho("0.01", 4) == DiscreteGaussian(Fraction(200))
    assert noise.loss(6, "1e-6").epsilon > Fraction("0.13")


def test_thirty_columns_are_less_noisy_than_with_laplace_noise_and_eight_are_not() -> None:
    ratios = {}
    for columns in (8, 30, 100):
        ours = DiscreteGaussian.for_loss(1, "1e-6", columns).deviation
        ratios[columns] = DiscreteLaplace.for_loss(1, columns).deviation / ours
    assert ratios[8] < 1 < 1.7 < ratios[30] < 3.1 < ratios[100]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(-(2**62), 2**62), max_size=50), st.integers(0, 1000))
def test_noise_is_what_the_same_seed_draws(counts: list[int], seed: int) -> None:
    noise = DiscreteGaussian(Fraction(5, 2))
    array = np.array(counts, dtype=np.int64)
    expected = array + noise.draw(array.shape, seeded(seed))
    assert np.array_equal(noise.add_to(array, seeded(seed)), expected)


def test_shapes_are_kept_and_blocks_are_drawn_afresh() -> None:
    counts = np.arange(24, dtype=np.int32).reshape(2, 3, 4)[:, ::-1]
    before = counts.copy()
    noisy = DiscreteGaussian(Fraction(1)).add_to(counts, secure())
    assert noisy.shape == counts.shape
    assert noisy.dtype == np.int64
    assert np.array_equal(counts, before)
    assert DiscreteGaussian(Fraction(1)).draw((3, 0), secure()).shape == (3, 0)
    drawn = DiscreteGaussian(Fraction(10**6)).draw(2 * BLOCK, seeded(3))
    assert not np.array_equal(drawn[:BLOCK], drawn[BLOCK:])
    assert all(a != b for a, b in pairwise(np.split(drawn, 4)[0][:8]))


def test_what_cannot_be_drawn_or_promised_is_refused() -> None:
    for sigma2 in (0, -1, "1e-7", 2**81):
        with pytest.raises(InvalidParameter, match="sigma2 must lie between"):
            DiscreteGaussian(sigma2)  # type: ignore[arg-type]
    noise = DiscreteGaussian(Fraction(1))
    with pytest.raises(InvalidData, match="counts must be integers"):
        noise.add_to(np.array([1.0]), secure())
    with pytest.raises(InvalidData, match="within 2\\^62"):
        noise.add_to(np.array([2**62 + 1]), secure())
    with pytest.raises(InvalidParameter, match="delta must be below 1"):
        DiscreteGaussian.for_loss(1, 1, 1)
    with pytest.raises(InvalidParameter, match="delta must be greater than 0"):
        DiscreteGaussian.for_loss(1, 0, 1)
    with pytest.raises(InvalidParameter, match="epsilon must be at most 500"):
        DiscreteGaussian.for_loss(501, "1e-6", 1)
    with pytest.raises(InvalidParameter, match="confidence"):
        noise.quantile(1)
