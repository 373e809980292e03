"""Bugs planted in the noise of the outlier count are caught; tests/contracts.py plays honestly."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from privod.audit import play
from privod.audit.outlier_count import games
from privod.data import Table
from privod.mechanisms import DiscreteLaplace, seeded
from privod.outliers.crowds.distance import crowds
from privod.privacy import Guarantee, Loss
from privod.queries.crowd_bounds import (
    GroupedCover,
    count_sensitivity,
    count_with_bound,
    local_bound,
)
from privod.queries.outlier_count import CountedOutliers, OutlierCount


class HalfTheNoise(OutlierCount):
    def _global_scale(self, *known: Any) -> Any:
        return super()._global_scale(*known) / 2


class ForgetsTheOtherRecords(OutlierCount):
    def _global_scale(self, *known: Any) -> Any:  # noqa: ARG002
        return 1 / Fraction(self.epsilon)


class ScalesToTheLocalSensitivity(OutlierCount):
    """The noise that every one of its kind asks for, on U_0 instead of the smooth bound."""

    def answer(self, table: Table, randomness: Any) -> Any:
        points = table.numbers(("x",))
        found = crowds(points, self.radius)
        covers = GroupedCover(points, self.radius, 100.0)
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
        cover = GroupedCover(points, 1.0, 100.0)
        most = count_sensitivity(self.max_crowd, 1, self.adjacency)
        count, rung = count_with_bound(
            points, 1.0, self.max_crowd, less, self.adjacency, cover, most
        )
        count += less.draw(less.staircase.value(rung), randomness)
        return self.release(CountedOutliers(count, 1), randomness)


@pytest.mark.parametrize("bug", [HalfTheNoise, ForgetsTheOtherRecords])
def test_the_audit_catches_bugs_planted_in_the_global_noise(bug: type[OutlierCount]) -> None:
    some = [game for game in games(bug) if game.query.noise == "global"]  # type: ignore[attr-defined]
    some = [game for game in some if len(game.left.domain.columns) == 1]
    assert len(some) == 2
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


class BuysTheRungForOneRung(OutlierCount):
    """Noise of the rung as if one change moved it by one, and a promise that does not know it."""

    def _rung_noise(self, smooth: Any) -> Any:  # noqa: ARG002
        return DiscreteLaplace.for_loss(self.margin_share * self.epsilon, 1)

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(self.epsilon, self.delta), self.adjacency)


class ForgetsTheCategories(OutlierCount):
    """Noise as if all records within the radius were of one category."""

    def _global_scale(self, *known: Any) -> Any:
        return super()._global_scale(known[0]) * Fraction(1, 2)


def test_the_audit_catches_a_rung_bought_too_cheaply() -> None:
    some = [game for game in games(BuysTheRungForOneRung) if game.query.noise == "laplace"]  # type: ignore[attr-defined]
    verdict = play(some[-1], 1200, seeded(7))
    assert not verdict.holds
    assert "rung" in verdict.event


def test_the_audit_catches_noise_that_forgets_the_categories() -> None:
    mixed = [game for game in games(ForgetsTheCategories) if len(game.left.domain.columns) == 2]
    assert len(mixed) == 1
    assert not play(mixed[0], 2500, seeded(8)).holds
