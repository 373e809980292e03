"""Bugs planted in the noise of the outlier count are caught; tests/contracts.py plays honestly."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from privod.audit import play
from privod.data import Table
from privod.mechanisms import DiscreteLaplace, seeded
from privod.outliers.crowds.distance import crowds
from privod.privacy import Guarantee, Loss
from privod.query.crowd_bounds import GroupedCover, local_bound
from privod.questions.outlier_count.audit import games
from privod.questions.outlier_count.query import NOISES, CountedOutliers, OutlierCount


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


class QuarterOfTheNoise(OutlierCount):
    """The smooth bound is right and so is the promise; a quarter of the bound is drawn with."""

    def _smooth(self, kind: str) -> Any:
        honest = super()._smooth(kind)

        class Cut(type(honest)):  # type: ignore[misc]
            def draw(self, bound: Fraction, randomness: Any) -> int:
                return int(super().draw(bound / 4, randomness))

        return Cut(**{name: getattr(honest, name) for name in honest.__dataclass_fields__})


@pytest.mark.parametrize("bug", [HalfTheNoise, ForgetsTheOtherRecords])
def test_the_audit_catches_bugs_planted_in_the_global_noise(bug: type[OutlierCount]) -> None:
    some = [game for game in games(bug) if game.query.noise == "global"]  # type: ignore[attr-defined]
    some = [game for game in some if len(game.left.domain.columns) == 1]
    assert len(some) == 2
    assert not any(play(game, 2500, seeded(5)).holds for game in some)


# Runs after which a quarter is caught by two deviations and a half or more of what the games catch;
# Gaussian noise is made for a delta besides, so that a quarter of it breaks the promise by less.
@pytest.mark.parametrize(
    ("noise", "place", "runs"),
    [
        ("heavy", 0, 1500),
        ("heavy", 1, 1500),
        ("laplace", 0, 1500),
        ("laplace", 1, 1500),
        ("gaussian", 0, 4000),
        ("gaussian", 1, 4000),
    ],
)
def test_the_audit_catches_a_quarter_of_every_smooth_noise(
    noise: str, place: int, runs: int
) -> None:
    some = [game for game in games(QuarterOfTheNoise) if game.query.noise == noise]  # type: ignore[attr-defined]
    assert len(some) == 3
    verdict = play(some[place], runs, seeded(5))
    assert verdict.claimed == games()[NOISES.index(noise) - 1].query.guarantee().loss
    assert not verdict.holds


@pytest.mark.parametrize("noise", ["heavy", "laplace", "gaussian"])
def test_the_audit_catches_smooth_noise_that_follows_the_local_sensitivity(noise: str) -> None:
    some = [game for game in games(ScalesToTheLocalSensitivity) if game.query.noise == noise]  # type: ignore[attr-defined]
    assert not play(some[2], 2500, seeded(5)).holds


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
