"""The distinguishing game: it lets honest questions pass and catches planted bugs."""

from __future__ import annotations

# slow: left out by `make quick`
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import betaincinv
from scipy.stats import binom

from privod.audit import fineness, games_of, play
from privod.audit.game import DOUBT, lower_bound
from privod.data import Table
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteLaplace, Randomness, seeded
from privod.privacy import Guarantee, Loss
from privod.query.catalog import QUERIES
from privod.query.query import Release
from privod.questions.histogram.audit import games
from privod.questions.histogram.query import Histogram, NoisyCounts

RUNS = 6000


@dataclass(frozen=True, kw_only=True)
class HalfTheNoise(Histogram):
    @property
    def count_noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.laplace_noise.scale / 2)

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(self.epsilon), self.adjacency)


@dataclass(frozen=True, kw_only=True)
class ForgetsEmptyCells(Histogram):
    def answer(self, table: Table, randomness: Randomness) -> Release[NoisyCounts]:
        release = super().answer(table, randomness)
        true = np.bincount(table.codes(self.columns)[:, 0], minlength=release.value.counts.size)
        counts = np.where(true == 0, 0, release.value.counts)
        return self.release(NoisyCounts(release.value.axes, counts), randomness)


@dataclass(frozen=True, kw_only=True)
class FloatSampler(Histogram):
    def answer(self, table: Table, randomness: Randomness) -> Release[NoisyCounts]:
        release = super().answer(table, randomness)
        true = np.bincount(table.codes(self.columns)[:, 0], minlength=release.value.counts.size)
        uniform = randomness.words(true.size) / 2.0**64
        noise = (
            np.sign(uniform - 0.5)
            * np.log1p(-2 * np.abs(uniform - 0.5))
            * -float(self.laplace_noise.scale)
        )
        noisy: np.ndarray = true + noise
        return self.release(NoisyCounts(release.value.axes, noisy), randomness)


@dataclass(frozen=True, kw_only=True)
class ForgetsTheSecondCell(Histogram):
    """Sensitivity 1 under Replace, where a record leaves one cell and enters another."""

    @property
    def count_noise(self) -> DiscreteLaplace:
        return DiscreteLaplace.for_loss(Fraction(self.epsilon), 1)

    def guarantee(self) -> Guarantee:
        return Guarantee(self.count_noise.loss(1), self.adjacency)


@pytest.mark.parametrize("place", [0, 1])
def test_the_honest_histogram_passes_and_over_half_of_its_loss_is_found(place: int) -> None:
    verdict = play(games()[place], RUNS, seeded(place))
    assert verdict.holds
    assert verdict.caught > 0.5
    assert "the promise holds" in verdict.sentence()


@pytest.mark.parametrize(
    ("kind", "place"),
    [(HalfTheNoise, 0), (ForgetsEmptyCells, 0), (FloatSampler, 0), (ForgetsTheSecondCell, 1)],
)
def test_planted_bugs_are_caught(kind: type[Histogram], place: int) -> None:
    verdict = play(games(kind)[place], RUNS, seeded(7))
    assert not verdict.holds
    assert "IS BROKEN" in verdict.sentence()


@pytest.mark.parametrize("name", QUERIES)
def test_every_question_of_the_catalog_has_a_game(name: str) -> None:
    assert games_of(name)


def test_a_lower_bound_is_wrong_no_oftener_than_it_says() -> None:
    """Over all pairs of hits, weighed by their exact probabilities."""
    runs, doubt, hits, oftenest = 14, 0.05, range(15), 0.0
    for delta, pairs in ((0.0, ((0.5, 0.2), (0.9, 0.45), (0.3, 0.3))), (0.2, ((0.6, 0.1),))):
        bounds = [[lower_bound(k, m, runs, doubt, delta) for m in hits] for k in hits]
        assert all(row == sorted(row, reverse=True) for row in bounds)
        for p, q in pairs:
            chances = np.outer(binom.pmf(hits, runs, p), binom.pmf(hits, runs, q))
            wrong = chances[np.array(bounds) > math.log((p - delta) / q)].sum()
            oftenest = max(oftenest, wrong)
    assert doubt / 10 < oftenest <= doubt


@pytest.mark.parametrize(
    ("likelier", "rarer", "runs", "delta"),
    [(560, 100, 1125, 0.0), (525, 47, 1125, 0.1), (60, 10, 75, 0.0), (900, 100, 15_000, 0.001)],
)
def test_hits_on_both_sides_together_prove_more_than_each_by_itself(
    likelier: int, rarer: int, runs: int, delta: float
) -> None:
    """An interval of half the doubt for each side [Clopper and Pearson 1934] proves less."""
    low = betaincinv(likelier, runs - likelier + 1, DOUBT / 2)
    high = betaincinv(rarer + 1, runs - rarer, 1 - DOUBT / 2)
    bound = lower_bound(likelier, rarer, runs, DOUBT, delta)
    assert (
        math.log((low - delta) / high) < bound < math.log((likelier / runs - delta) * runs / rarer)
    )


def test_fineness_counts_binary_places() -> None:
    assert fineness(3) == 0
    assert fineness(0.75) == 2
    assert fineness(0.1) == 55


def test_too_few_runs_are_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"runs must be at least 100, got 3\. Try 20000\."):
        play(games()[0], 3)
