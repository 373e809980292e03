"""Bugs planted in the noise of the outlier count are caught; tests/contracts.py plays honestly."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from privod.audit import play
from privod.audit.outlier_count import games
from privod.data import Table
from privod.mechanisms import seeded
from privod.outliers.crowds.cover import Cover
from privod.outliers.crowds.distance import crowds
from privod.queries.outlier_count import (
    CountedOutliers,
    OutlierCount,
    count_with_bound,
    local_bound,
)


class HalfTheNoise(OutlierCount):
    def _global_scale(self, dimensions: int, size: int | None = None) -> Any:
        return super()._global_scale(dimensions, size) / 2


class ForgetsTheOtherRecords(OutlierCount):
    def _global_scale(self, dimensions: int, size: int | None = None) -> Any:  # noqa: ARG002
        return 1 / Fraction(self.epsilon)


class ScalesToTheLocalSensitivity(OutlierCount):
    """The noise that every one of its kind asks for, on U_0 instead of the smooth bound."""

    def answer(self, table: Table, randomness: Any) -> Any:
        points = table.numbers(("x",))
        found = crowds(points, self.radius)
        covers = Cover(points, self.radius, 100.0)
        bound = local_bound(found, covers, self.max_crowd, 10**6, self.adjacency)(0)
        count = int((found <= self.max_crowd).sum())
        smooth = super()._smooth(self.noise)
        spread = {"gaussian": Fraction(1), "laplace": smooth.spread / 2}.get(
            self.noise, Fraction(1)
        )
        count += replace(smooth, spread=spread).draw(Fraction(bound), randomness)
        return self.release(CountedOutliers(count, 1), randomness)


class AddsLessNoiseThanClaimed(OutlierCount):
    """A smooth bound, and half of it as the scale."""

    def answer(self, table: Table, randomness: Any) -> Any:
        less = replace(super()._smooth(self.noise), spread=Fraction(1, 2))
        points = table.numbers(("x",))
        count, rung = count_with_bound(points, 1.0, self.max_crowd, less, self.adjacency, 100.0)
        count += less.draw(less.staircase.value(rung), randomness)
        return self.release(CountedOutliers(count, 1), randomness)


@pytest.mark.parametrize("bug", [HalfTheNoise, ForgetsTheOtherRecords])
def test_the_audit_catches_bugs_planted_in_the_global_noise(bug: type[OutlierCount]) -> None:
    some = [game for game in games(bug) if game.query.noise == "global"]  # type: ignore[attr-defined]
    assert not any(play(game, 2500, seeded(5)).holds for game in some)


@pytest.mark.parametrize("noise", ["heavy", "laplace", "gaussian"])
@pytest.mark.parametrize(
    ("bug", "place"), [(AddsLessNoiseThanClaimed, 0), (ScalesToTheLocalSensitivity, 2)]
)
def test_the_audit_catches_bugs_planted_in_every_smooth_noise(
    bug: type[OutlierCount], place: int, noise: str
) -> None:
    some = [game for game in games(bug) if game.query.noise == noise]  # type: ignore[attr-defined]
    assert len(some) == 3
    assert not play(some[place], 2500, seeded(5)).holds
