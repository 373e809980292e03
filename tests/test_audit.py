"""The distinguishing game: it lets honest questions pass and catches planted bugs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from privod.audit import fineness, games_of, play
from privod.audit.histogram import games
from privod.data import Table
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteLaplace, Randomness, seeded
from privod.privacy import Guarantee, Loss
from privod.queries.catalog import QUERIES
from privod.queries.histogram import Histogram, NoisyCounts
from privod.queries.query import Release

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


def test_fineness_counts_binary_places() -> None:
    assert fineness(3) == 0
    assert fineness(0.75) == 2
    assert fineness(0.1) == 55


def test_too_few_runs_are_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"runs must be at least 100, got 3\. Try 20000\."):
        play(games()[0], 3)
