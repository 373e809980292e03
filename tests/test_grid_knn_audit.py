"""The audit of GridKnn: it catches planted bugs and leaves the honest grid alone."""

from __future__ import annotations

# slow: left out by `make quick`
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from privod.audit import replay_case
from privod.data import Table
from privod.mechanisms import DiscreteLaplace, Randomness
from privod.privacy import Guarantee, Loss
from privod.query.query import Release
from privod.questions.grid_knn.audit import worst_cases
from privod.questions.grid_knn.query import GridKnn
from privod.questions.grid_knn.release import NoisyGrid


class _EmptyCellsWithoutNoise(GridKnn):
    """A planted bug: what is empty is released as an exact zero."""

    def answer(self, table: Table, randomness: Randomness) -> Release[NoisyGrid]:
        release = super().answer(table, randomness)
        empty = self.grid(table.domain).all_counts(table.numbers(self.columns)) == 0
        value = replace(release.value, counts=np.where(empty, 0, release.value.counts))
        return replace(release, value=value)


class _NoiseDrawnTwice(GridKnn):
    """A planted bug: cells are noisy anew when asked for again; one asks twice."""

    def answer(self, table: Table, randomness: Randomness) -> Release[NoisyGrid]:
        first = super().answer(table, randomness)
        second = super().answer(table, randomness)
        counts = np.minimum(first.value.counts, second.value.counts)
        return replace(first, value=replace(first.value, counts=counts))


class _ScaleOfThePaper(GridKnn):
    """A planted bug: scale 1 / epsilon under Replace, as the paper has it."""

    @property
    def count_noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(1 / Fraction(self.epsilon))

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(Fraction(self.epsilon)), self.adjacency)


class _TotalInTheClear(GridKnn):
    """A planted bug: the number of records is released as it is."""

    def answer(self, table: Table, randomness: Randomness) -> Release[NoisyGrid]:
        release = super().answer(table, randomness)
        records = release.value.records
        assert records is not None
        exactly = replace(release.value, records=replace(records, count=len(table)))
        return replace(release, value=exactly)


class _TotalForFree(GridKnn):
    """A planted bug: the number of records has the noise of a count, and nobody pays for it."""

    @property
    def noise_of_total(self) -> DiscreteLaplace:
        return self._noise_of_kept

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(Fraction(self.epsilon)), self.adjacency)


@pytest.mark.parametrize(
    ("bug", "place"),
    [
        (_EmptyCellsWithoutNoise, 0),
        (_NoiseDrawnTwice, 0),
        (_ScaleOfThePaper, 1),
        (_TotalInTheClear, 2),
        (_TotalForFree, 2),
    ],
)
def test_the_audit_catches_planted_bugs(bug: type[GridKnn], place: int) -> None:
    verdict = replay_case(worst_cases(bug)[place])
    assert not verdict.holds, verdict.sentence()


@pytest.mark.parametrize("place", range(3))
def test_the_audit_does_not_catch_the_honest_grid(place: int) -> None:
    verdict = replay_case(worst_cases()[place])
    assert verdict.holds, verdict.sentence()
    assert verdict.share > 0.3  # and it does look where it hurts
