"""Discrete Laplace noise against its exact law: tables bit by bit, samples, OpenDP."""

from __future__ import annotations

# slow: left out by `make quick`
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
from privod.mechanisms import noise as noise_module
from privod.mechanisms.exact import Enclosure
from privod.mechanisms.inversion import InversionTable
from privod.mechanisms.noise import DiscreteLaplace, Geometric
from privod.mechanisms.randomness import Randomness, secure, seeded
from privod.privacy import Loss
from tests.reference.mechanisms import Tape, discrete_laplace, exp, probability, walk

AWKWARD = [Fraction(3), Fraction(10), Fraction(1, 7)]
SCALES = [
    *AWKWARD,
    Fraction(1, 1000),
    Fraction(1),
    Fraction(64),
    Fraction(1000, 7),
    Fraction(10**9),
]


def reference_thresholds(scale: Fraction, signed: bool) -> list[Fraction]:
    """The probabilities below each outcome of the lowest table, from 120-digit exponentials."""
    split = scale > noise_module.ONE_TABLE_SCALE
    size = noise_module.DIGIT if split else math.ceil(8 * scale)
    whole = 1 - exp(-size / scale) if split else Fraction(1)
    below = [(1 - exp(-j / scale)) / whole for j in range(1, size if split else size + 1)]
    if not signed:
        return below
    ratio = exp(-1 / scale)
    plain = 1 / (1 + ratio)
    return [t * plain for t in below] + [plain] + [plain + ratio * plain * t for t in below]


def tables(scale: Fraction) -> list[tuple[InversionTable, list[Fraction]]]:
    return [
        (noise_module._signed_table(scale), reference_thresholds(scale, signed=True)),
        (noise_module._unsigned_table(scale), reference_thresholds(scale, signed=False)),
    ]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_sixty_four_bits_of_every_threshold_are_right(scale: Fraction) -> None:
    for table, thresholds in tables(scale):
        floors = [int(floor) for floor in table._floors]
        assert len(floors) == len(thresholds) == len(table._codes) - 1
        for floor, threshold in zip(floors, thresholds, strict=True):
            assert floor <= threshold * 2**64 <= floor + 1


@pytest.mark.parametrize("scale", AWKWARD, ids=str)
def test_sixteen_bits_decide_only_where_no_threshold_is_near(scale: Fraction) -> None:
    for table, thresholds in tables(scale):
        cells = [threshold * 2**16 for threshold in thresholds]
        holding = Counter(math.floor(cell) for cell in cells)
        below = 0
        for prefix, code in enumerate(table._guide.tolist()):
            if holding[prefix]:
                assert code == np.iinfo(np.int16).min
                below += holding[prefix]
            else:
                assert code == table._codes[below]


@pytest.mark.parametrize("scale", AWKWARD, ids=str)
def test_a_tie_at_sixty_four_bits_is_settled_exactly(
    scale: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a word equal to a floor, the outcomes on both sides have exactly their shares."""
    for table, thresholds in tables(scale):
        monkeypatch.setattr(table, "_thresholds", cache(table._thresholds))
        for index in {0, len(thresholds) // 2, len(thresholds) - 1}:
            word = int(table._floors[index])
            sure, undecided = walk(settling(table, word), 112, step=8)
            share = thresholds[index] * 2**64 - word
            low = sure.get(int(table._codes[index]), Fraction(0))
            assert low <= share <= low + undecided
            assert sum(sure.values()) + undecided == 1
            assert undecided < Fraction(1, 10**30)


def settling(table: InversionTable, word: int) -> Callable[[Randomness], int]:
    """What becomes of a word that begins with these 64 bits."""
    prefix = np.array([word >> 48], dtype=np.uint16)
    rest = (word << 16) & (1 << 64) - 1
    first = int.from_bytes(rest.to_bytes(8, "little"), "big")  # `words` reads little-endian bytes
    return lambda tape: int(table._settle(prefix, After(first, 64, tape))[0])


class After(Tape):
    """A few given bits, then another source."""

    def __init__(self, value: int, length: int, then: Randomness) -> None:
        super().__init__(value, length)
        self._then = then

    def bits(self, k: int) -> int:
        return super().bits(k) if self._left else self._then.bits(k)


@pytest.mark.parametrize("scale", [Fraction(100), Fraction(1000, 7)], ids=str)
def test_digits_put_together_have_the_law_of_the_whole(scale: Fraction) -> None:
    signed = probabilities(reference_thresholds(scale, signed=True))
    for value in (0, -1, 1, 255, 256, -256, -257, 300, -1000):
        magnitude, complement = (value, 0) if value >= 0 else (~value, 1)
        high, low = divmod(magnitude, 256)
        ratio = exp(-256 / scale)
        together = signed[complement * 256 + low] * (1 - ratio) * ratio**high
        assert abs(together / discrete_laplace(value, scale) - 1) < Fraction(1, 10**100)


@pytest.mark.parametrize("scale", AWKWARD, ids=str)
def test_runs_put_together_have_the_law_of_the_whole(scale: Fraction) -> None:
    run = math.ceil(8 * scale)
    signed = probabilities(reference_thresholds(scale, signed=True))
    past = exp(-run / scale)
    first = signed[: run + 1]
    for value in range(3 * run):
        times, place = divmod(value, run)  # so many runs passed, then a fresh start
        fresh = exp(-place / scale) * (1 - exp(-1 / scale))
        expected = discrete_laplace(value, scale)
        together = first[place] if times == 0 else first[run] * past ** (times - 1) * fresh
        assert abs(together / expected - 1) < Fraction(1, 10**90)


def probabilities(thresholds: Sequence[Fraction]) -> list[Fraction]:
    edges = [Fraction(0), *thresholds, Fraction(1)]
    return [after - before for before, after in pairwise(edges)]


def chi_square(drawn: NDArray[np.int64], scale: Fraction) -> float:
    """The p-value of a sample binned so that every bin expects at least 20."""
    reach = 0
    while float(discrete_laplace(reach + 1, scale)) * drawn.size >= 20:
        reach += 1
    values = range(-reach, reach + 1)
    chances = np.array([float(discrete_laplace(value, scale)) for value in values])
    observed = np.array([np.count_nonzero(drawn == value) for value in values])
    rest = max(1 - chances.sum(), 0.0)
    if rest * drawn.size >= 5:
        chances = np.append(chances, rest)
        observed = np.append(observed, drawn.size - observed.sum())
    return float(stats.chisquare(observed, chances / chances.sum() * observed.sum()).pvalue)


@pytest.mark.parametrize("scale", [*AWKWARD, Fraction(1), Fraction(70)], ids=str)
def test_samples_follow_the_law(scale: Fraction) -> None:
    drawn = DiscreteLaplace(scale).draw(100_000, seeded(1))
    assert chi_square(drawn, scale) > 1e-6


@pytest.fixture
def short_runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tables so short that most draws run past them, which one in three thousand does otherwise."""
    built = (noise_module._signed_table, noise_module._unsigned_table)
    monkeypatch.setattr(noise_module, "RUN_PER_SCALE", Fraction(1, 3))
    for tables_of in built:
        tables_of.cache_clear()
    yield
    for tables_of in built:
        tables_of.cache_clear()


@pytest.mark.usefixtures("short_runs")
def test_draws_that_run_past_their_table_follow_the_law() -> None:
    scale = Fraction(17, 5)
    drawn = DiscreteLaplace(scale).draw(50_000, seeded(8))
    assert (np.abs(drawn) > noise_module._run(scale)).mean() > 0.4
    assert chi_square(drawn, scale) > 1e-6
    one_sided = Geometric(scale).draw(50_000, seeded(9))
    chances = np.array([float((1 - exp(-1 / scale)) * exp(-k / scale)) for k in range(20)])
    observed = np.bincount(one_sided, minlength=20)[:20]
    expected = chances / chances.sum() * observed.sum()
    assert stats.chisquare(observed, expected).pvalue > 1e-6


def test_a_threshold_at_the_edge_of_a_cell_is_kept_apart() -> None:
    """A law of dyadic shares: 1/4 at one edge, then 1/2 but for 2^-63 inside the next cell."""

    def thresholds(precision: int) -> list[Enclosure]:
        quarter, half = 1 << precision - 2, 1 << precision - 1
        late = half + (1 << precision - 63)
        return [Enclosure(cut, cut, precision) for cut in (quarter, half, late)]

    table = InversionTable(thresholds, np.arange(4, dtype=np.int16))
    assert [table._guide[cell] for cell in (0x3FFF, 0x4000, 0x4001, 0x8000, 0x8001)] == [
        0,
        np.iinfo(np.int16).min,
        1,
        np.iinfo(np.int16).min,
        3,
    ]
    for word, outcome in ((1 << 62, 1), (1 << 63, 2), ((1 << 63) + 1, 2), ((1 << 63) + 2, 3)):
        assert settling(table, word)(seeded(1)) == outcome
    assert settling(table, (1 << 62) - 1)(seeded(1)) == 0


def test_a_slightly_wrong_scale_is_noticed() -> None:
    drawn = DiscreteLaplace(Fraction(31, 10)).draw(100_000, seeded(1))
    assert chi_square(drawn, Fraction(3)) < 1e-6


@pytest.mark.parametrize("scale", [Fraction(10**4), Fraction(10**9), Fraction(2**40)], ids=str)
def test_large_scales_follow_the_law_in_every_part(scale: Fraction) -> None:
    drawn = DiscreteLaplace(scale).draw(50_000, seeded(2))
    uniform = np.exp(-np.abs(drawn.astype(float)) / float(scale))  # uniform but for a lattice
    assert stats.kstest(uniform, "uniform").pvalue > 1e-6
    assert stats.binomtest(int((drawn < 0).sum()), drawn.size).pvalue > 1e-6
    assert stats.chisquare(np.bincount(drawn & 255, minlength=256)).pvalue > 1e-6


def test_opendp_and_the_exact_law_and_our_sample_agree() -> None:
    import opendp.prelude as dp  # takes seconds, so only here

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    for scale in AWKWARD:
        measurement = space >> dp.m.then_laplace(scale=float(scale))
        theirs = np.array(measurement(np.zeros(20_000, dtype=np.int64)))
        ours = DiscreteLaplace(scale).draw(20_000, secure())
        assert chi_square(theirs, scale) > 1e-9  # nobody's draws are seeded here
        assert chi_square(ours, scale) > 1e-9
        values, counts = np.unique(np.concatenate([theirs, ours]), return_counts=True)
        common = values[counts >= 40]
        table = [[np.count_nonzero(sample == v) for v in common] for sample in (theirs, ours)]
        assert stats.chi2_contingency(table).pvalue > 1e-9
        assert measurement.map(1) == pytest.approx(float(DiscreteLaplace(scale).loss(1).epsilon))


def test_the_loss_follows_from_scale_and_sensitivity() -> None:
    assert DiscreteLaplace(Fraction(3)).loss(1) == Loss(Fraction(1, 3))
    assert DiscreteLaplace(Fraction(10)).loss(2) == Loss(Fraction(1, 5))
    assert DiscreteLaplace.for_loss("0.1", 2) == DiscreteLaplace(Fraction(20))
    assert DiscreteLaplace.for_loss("0.1", 2).loss(2) == Loss(Fraction(1, 10))


@pytest.mark.parametrize("scale", AWKWARD, ids=str)
def test_the_loss_is_reached_and_never_passed(scale: Fraction) -> None:
    worst = exp(1 / scale) * (1 + Fraction(1, 10**90))
    ratios = [
        discrete_laplace(value, scale) / discrete_laplace(value - 1, scale)
        for value in range(-40, 41)
    ]
    assert all(1 / worst <= ratio <= worst for ratio in ratios)
    assert max(ratios) * (1 + Fraction(1, 10**90)) >= exp(1 / scale)


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_probabilities_are_certified(scale: Fraction) -> None:
    for value in (0, 1, -1, 7):
        found = probability(DiscreteLaplace(scale), value)
        truth = discrete_laplace(value, scale) * 2**found.precision
        assert found.low <= truth <= found.high


@pytest.mark.parametrize("scale", [Fraction(1, 7), Fraction(3), Fraction(100)], ids=str)
def test_figures_for_humans_agree_with_the_law(scale: Fraction) -> None:
    noise = DiscreteLaplace(scale)
    law = {value: float(discrete_laplace(value, scale)) for value in range(-2000, 2001)}
    assert noise.deviation == pytest.approx(math.sqrt(sum(p * k * k for k, p in law.items())))
    for size in (0, 1, 5, 50):
        beyond = sum(p for k, p in law.items() if abs(k) > size)
        assert noise.tail(size) == pytest.approx(beyond, rel=1e-6, abs=1e-15)
    for threshold in (-4, 0, 1, 9):
        above = sum(p for k, p in law.items() if k >= threshold)
        assert noise.reaching(threshold) == pytest.approx(above, rel=1e-6)
    for confidence in (0.5, 0.95, 0.999):
        size = noise.quantile(confidence)
        assert noise.tail(size) <= 1 - confidence
        assert size == 0 or noise.tail(size - 1) > 1 - confidence
    assert noise.tail(-1) == 1


def test_figures_for_humans_survive_extreme_scales() -> None:
    assert DiscreteLaplace(Fraction(1, 10**6)).deviation == 0
    assert DiscreteLaplace(Fraction(2**40)).deviation == pytest.approx(2**40.5)
    assert DiscreteLaplace(Fraction(1, 10**6)).quantile(0.99) == 0


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(-(2**62), 2**62), max_size=50), st.integers(0, 1000))
def test_adding_noise_adds_what_the_same_seed_draws(counts: list[int], seed: int) -> None:
    noise = DiscreteLaplace(Fraction(5, 2))
    array = np.array(counts, dtype=np.int64)
    expected = array + noise.draw(array.shape, seeded(seed))
    assert np.array_equal(noise.add_to(array, seeded(seed)), expected)


def test_adding_noise_to_keeps_the_shape_and_leaves_the_counts_alone() -> None:
    counts = np.arange(24, dtype=np.int32).reshape(2, 3, 4)[:, ::-1]
    before = counts.copy()
    noisy = DiscreteLaplace(Fraction(1)).add_to(counts, secure())
    assert noisy.shape == counts.shape
    assert noisy.dtype == np.int64
    assert np.array_equal(counts, before)
    assert DiscreteLaplace(Fraction(1)).draw((3, 0), secure()).shape == (3, 0)


def test_more_than_one_block_is_drawn_afresh() -> None:
    drawn = DiscreteLaplace(Fraction(1000)).draw(2 * noise_module.BLOCK, seeded(3))
    assert not np.array_equal(drawn[: noise_module.BLOCK], drawn[noise_module.BLOCK :])


def test_counts_that_are_not_integers_or_too_large_are_refused() -> None:
    noise = DiscreteLaplace(Fraction(1))
    for counts in (np.array([1.0]), np.array([True]), np.array(["1"]), np.array([None])):
        with pytest.raises(InvalidData, match="counts must be integers"):
            noise.add_to(counts, secure())
    for large in (np.array([2**62 + 1]), np.array([-(2**63)]), np.array([2**63], dtype=np.uint64)):
        with pytest.raises(InvalidData, match="within 2\\^62"):
            noise.add_to(large, secure())


@pytest.mark.parametrize("scale", [0, -1, "1e-10", 2**41])
def test_a_scale_out_of_range_is_refused(scale: object) -> None:
    with pytest.raises(InvalidParameter, match="scale must lie between"):
        DiscreteLaplace(scale)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="scale must lie between"):
        Geometric(scale)  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", [Fraction(1, 7), Fraction(3), Fraction(100), Fraction(50_000)])
def test_a_geometric_draw_reaches_a_level_as_often_as_it_should(scale: Fraction) -> None:
    n = 20_000
    for level in {0, 1, math.floor(scale), math.floor(3 * scale)}:
        chance = float(exp(-level / scale))
        reached = Geometric(scale).draw(n, seeded(level)) >= level
        assert stats.binomtest(int(reached.sum()), n, chance).pvalue > 1e-6


@pytest.mark.parametrize("threshold", [-5, 0, 1, 12])
def test_noise_that_reaches_a_threshold_has_the_conditional_law(threshold: int) -> None:
    scale, n = Fraction(3), 20_000
    noise = DiscreteLaplace(scale)
    drawn = noise.draw_reaching(threshold, n, seeded(4))
    assert drawn.min() == threshold
    for value in (threshold, threshold + 1, threshold + 6):
        chance = float(discrete_laplace(value, scale)) / noise.reaching(threshold)
        assert stats.binomtest(int((drawn == value).sum()), n, chance).pvalue > 1e-6
    with pytest.raises(InvalidParameter, match="threshold must lie within"):
        noise.draw_reaching(2**63, 1, secure())


def test_a_scale_so_small_that_noise_is_all_but_impossible_costs_no_precision() -> None:
    assert not DiscreteLaplace(Fraction(1, 10**9)).draw(1000, seeded(2)).any()
